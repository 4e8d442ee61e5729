// Include this file after those of common/: cmocka's macro fail() would break the function in
// common/base/error.h.
#pragma once
#include "cpu_device/tests/test.h"
