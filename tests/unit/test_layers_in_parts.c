// The tests of test_layers.c with so little room for patches that convolutions compute a batch in
// several parts, of some images or of one. The functions of this source take the place of those in
// the library.
#include "zoo/layers/kinds.h"
#define patch_workspace() ((size_t)6000)
#include "zoo/layers/convolution.c"

#include "tests/unit/test_layers.c"
