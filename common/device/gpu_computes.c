#include "common/device/device.h"

int device_computes(void) {
    return 1;
}
