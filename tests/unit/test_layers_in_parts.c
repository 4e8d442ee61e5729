// The tests of test_layers.c with a workspace for so few patches that convolutions compute a
// batch in several parts, of some images or of one. The functions of this convolution.c take the
// place of those in the library.
#include "common/layers/layers.h"
#define CONV_WORKSPACE ((size_t)6000)
#include "common/layers/convolution.c"

#include "tests/unit/test_layers.c"
