#include "03_multigpu_launcher/agree.h"
#include "02_multigpu_fork/nccl_check.h"
#include "common/device/device.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct plan {
    char host[64], text[PLAN_SIZE];
};

void describe_run(char *plan, size_t size, const struct dataset *train, const struct dataset *test,
                  const struct progress *progress, const char *snapshot,
                  const struct option_table *tables) {
    size_t used = data_describe("training", train, plan, size);
    used += data_describe("test", test, plan + used, size - used);
    long process = snapshot ? snapshot_locked_by(snapshot, 5) : 0;
    if (process)
        used += snprintf(plan + used, size - used, "--snapshot locked by process %ld, ", process);
    else if (snapshot)
        used += snprintf(plan + used, size - used, "--snapshot not locked, ");
    used += snprintf(plan + used, size - used, "completed epochs: %ld, steps of the next: %ld, ",
                     (long)progress->epochs, (long)progress->step);
    options_list(tables, plan + used, size - used);
}

// Copies the plan of the rank root to all ranks.
static ncclResult_t share(struct plan *plan, void *buffer, int root, ncclComm_t comm,
                          cudaStream_t stream) {
    CUDA_CHECK(cudaMemcpyAsync(buffer, plan, sizeof *plan, cudaMemcpyHostToDevice, stream));
    ncclResult_t result = ncclBroadcast(buffer, buffer, sizeof *plan, ncclChar, root, comm, stream);
    CUDA_CHECK(cudaMemcpyAsync(plan, buffer, sizeof *plan, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    return result;
}

// Sets *number to the smallest one of all ranks.
static ncclResult_t find_smallest(int *number, void *buffer, ncclComm_t comm, cudaStream_t stream) {
    CUDA_CHECK(cudaMemcpyAsync(buffer, number, sizeof *number, cudaMemcpyHostToDevice, stream));
    ncclResult_t result = ncclAllReduce(buffer, buffer, 1, ncclInt, ncclMin, comm, stream);
    CUDA_CHECK(cudaMemcpyAsync(number, buffer, sizeof *number, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    return result;
}

// Returns the position of the first part that differs.
static size_t find_difference(const char *a, const char *b) {
    size_t part = 0;
    for (size_t k = 0; a[k] && a[k] == b[k]; k++)
        if (k > 0 && a[k - 1] == ',' && a[k] == ' ')
            part = k + 1;
    return part;
}

static int part_length(const char *part) {
    const char *end = strstr(part, ", ");
    return end ? end - part : (int)strlen(part);
}

ncclResult_t agree(const char *plan, ncclComm_t comm, cudaStream_t stream) {
    struct plan mine = {.host = ""}, first;
    int rank, world;
    void *buffer;
    ncclResult_t result;
    NCCL_CHECK(ncclCommUserRank(comm, &rank));
    NCCL_CHECK(ncclCommCount(comm, &world));
    gethostname(mine.host, sizeof mine.host - 1);
    snprintf(mine.text, sizeof mine.text, "%s", plan);
    first = mine;
    CUDA_CHECK(cudaMalloc(&buffer, sizeof first));
    if ((result = share(&first, buffer, 0, comm, stream)))
        return result;
    int differs = strcmp(mine.text, first.text) ? rank : world; // after find_smallest: this rank
    if ((result = find_smallest(&differs, buffer, comm, stream)))
        return result;
    if (differs < world && device_computes()) { // otherwise, it has copied nothing, either
        if ((result = share(&mine, buffer, differs, comm, stream)))
            return result;
        size_t part = find_difference(mine.text, first.text);
        const char *other = mine.text + part, *wanted = first.text + part;
        fail("rank %d on %s has \"%.*s\", rank 0 has \"%.*s\": do all ranks have the same options "
             "and data, and see the same --snapshot folder?",
             differs, mine.host, part_length(other), other, part_length(wanted), wanted);
    }
    CUDA_CHECK(cudaFree(buffer));
    return ncclSuccess;
}
