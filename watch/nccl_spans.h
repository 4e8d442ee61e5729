// Makes each collective, send and receive of the program a span of the profile. No call says so:
// NCCL defines every function twice, ncclAllReduce as a weak symbol and pncclAllReduce as the same
// function. So nccl_spans.c defines ncclAllReduce itself, begins a span, calls pncclAllReduce, and
// ends the span. Tools for MPI do the same.
#pragma once
#include <nccl.h>
