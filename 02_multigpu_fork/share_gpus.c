#include "02_multigpu_fork/share_gpus.h"
#include "02_multigpu_fork/nccl_check.h"
#include "common/base/minmax.h"
#include "common/base/say.h"
#include "common/device/device.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// NCCL's kernels wait for those of the other ranks, so the kernels of all ranks that share a GPU
// must fit on it at the same time. Each takes at most NCCL_MAX_CTAS blocks of threads; by default,
// those of more than two ranks may be too many, and then NCCL waits forever.
enum { BLOCKS = 16 };

// The service for which NVIDIA's driver looks in this folder lets kernels of several processes run
// at the same time.
static int mps_is_on(void) {
    char path[PATH_MAX];
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    snprintf(path, sizeof path, "%s/control", folder ? folder : "/tmp/nvidia-mps");
    return !access(path, F_OK);
}

int gpus_are_shared(void) {
    const char *asked = getenv("SHARE_GPUS");
    if (getenv("SHARE_GPU"))
        fail("SHARE_GPU: the name of this variable is SHARE_GPUS");
    if (asked && strcmp(asked, "0") && strcmp(asked, "1"))
        fail("SHARE_GPUS=%s: want 1 or 0", asked);
    return asked && !strcmp(asked, "1");
}

const char *more_devices(int wanted) {
    static char text[80];
    if (!strcmp(device_kind(), "the CPU device"))
        snprintf(text, sizeof text, "; set CPU_DEVICES=%d to simulate %d GPUs", wanted, wanted);
    return text;
}

int share_gpus(int rank, int ranks, int gpus) {
    const char *way = "NCCL_MULTI_RANK_GPU_ENABLE=1";
    int version, most = (ranks + gpus - 1) / gpus; // most: ranks of one GPU
    char blocks[16];
    if (most < 2)
        return rank;
    snprintf(blocks, sizeof blocks, "%zu", max_size(BLOCKS / most, 1));
    setenv("NCCL_MAX_CTAS", blocks, 0);
    NCCL_CHECK(ncclGetVersion(&version));
    if (version >= NCCL_VERSION(2, 30, 0)) {
        setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    } else { // each rank pretends to be a host of its own, and sends its data through a socket
        char host[HOST_NAME_MAX + 32];
        way = "NCCL before 2.30 uses NCCL_HOSTID and sockets";
        snprintf(host, sizeof host, "%s-%d", host_name(), rank);
        setenv("NCCL_HOSTID", host, 0);
        setenv("NCCL_NET", "Socket", 0);
        setenv("NCCL_IB_DISABLE", "1", 0);
    }
    if (rank == 0)
        say("sharing   %d ranks share %d GPU%s: %s, NCCL_MAX_CTAS=%s\n", ranks, gpus, PLURAL(gpus),
            way, getenv("NCCL_MAX_CTAS"));
    if (rank == 0 && strcmp(device_kind(), "the CPU device") && !mps_is_on())
        say("note      MPS is off, so the ranks take turns on a GPU, and each collective waits for "
            "a turn: tools/mps.sh before the command starts MPS for this run\n");
    return rank % gpus;
}

const char *nccl_reason(void) {
    static char reason[2048];
    const char *nccl = ncclGetLastError(NULL);
    int same = strstr(nccl, "Duplicate GPU") || strstr(nccl, "using the same GPU");
    snprintf(reason, sizeof reason, "%s%s", nccl,
             same ? "; SHARE_GPUS=1 lets ranks share a GPU" : "");
    return reason;
}
