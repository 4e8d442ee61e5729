// A checksum of an array in device memory, to compare copies of it.
#pragma once
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// Returns the CRC-32 of the array's bytes, after the work that is queued on the stream. It copies
// the array piece by piece, because the host may not have room for all of it.
uint32_t device_checksum(const float *values, size_t count, cudaStream_t stream);
