#include "03_multigpu_launcher/agree.h"
#include "02_multigpu_fork/nccl_check.h"
#include "common/base/say.h"
#include "common/data/data.h"
#include "common/device/device.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan {
    char host[HOST_NAME_MAX + 1], text[PLAN_SIZE];
};

void describe_run(char *plan, size_t size, const struct progress *progress, const char *snapshot) {
    long process = snapshot ? snapshot_locked_by(snapshot, 5) : 0;
    snprintf(plan, size, "%s", data_contents);
    if (process)
        add_text(plan, size, "--snapshot locked by process %ld, ", process);
    else if (snapshot)
        add_text(plan, size, "--snapshot not locked, ");
    add_text(plan, size, "completed epochs: %ld, steps of the next: %ld, ", (long)progress->epochs,
             (long)progress->step);
    options_list(plan, size);
}

static void refuse_plan(const struct plan *plans, int rank) {
    size_t part = options_difference(plans[rank].text, plans[0].text);
    fail("rank %d on %s has \"%.*s\", rank 0 has \"%.*s\": do all ranks have the same options "
         "and data, and see the same --snapshot folder?",
         rank, plans[rank].host, OPTION_PART(plans[rank].text + part),
         OPTION_PART(plans[0].text + part));
}

ncclResult_t agree(const char *plan, ncclComm_t comm, cudaStream_t stream) {
    int rank, world;
    NCCL_CHECK(ncclCommUserRank(comm, &rank));
    NCCL_CHECK(ncclCommCount(comm, &world));
    size_t bytes = world * sizeof(struct plan);
    struct plan *plans = calloc(world, sizeof *plans), *buffer;
    if (!plans)
        fail("no memory for %zu bytes", bytes);
    strcpy(plans[rank].host, host_name());
    snprintf(plans[rank].text, sizeof plans->text, "%s", plan);
    CUDA_CHECK(cudaMalloc((void **)&buffer, bytes));
    CUDA_CHECK(cudaMemcpyAsync(buffer, plans, bytes, cudaMemcpyHostToDevice, stream));
    ncclResult_t result =
        ncclAllGather(buffer + rank, buffer, sizeof *plans, ncclChar, comm, stream);
    CUDA_CHECK(cudaMemcpyAsync(plans, buffer, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    // A device that does not compute has copied nothing.
    for (int other = 1; !result && device_computes() && other < world; other++)
        if (strcmp(plans[other].text, plans[0].text))
            refuse_plan(plans, other);
    CUDA_CHECK(cudaFree(buffer));
    free(plans);
    return result;
}
