// The tests of test_layers.c with so little room for patches that convolutions compute a batch in
// several parts, of some images or of one, and so little room for attention that it computes some
// heads or one at a time. The functions of these sources take the place of those in the library.
#include "zoo/layers/kinds.h"
#define patch_workspace() ((size_t)6000)
#include "zoo/layers/convolution.c"
#define ATTENTION_WORKSPACE ((size_t)3000)
#include "zoo/layers/attention.c"

#include "tests/unit/test_layers.c"
