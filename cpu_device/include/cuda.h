// What programs of the runtime API take from the header of NVIDIA's driver API: its version, and
// its names of handles. The functions of the driver API are not supported.
#pragma once

#define CUDA_VERSION 13000

typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
