// mpi_allreduce: the all-reduce of the MPI that runs it, such as Open MPI's, for comparison.
#include "bench/allreduce.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static float *new_buffer(size_t count) {
    return aligned_alloc(4096, (count * sizeof(float) + 4095) / 4096 * 4096);
}

static void copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

static void sum(float *buffer, size_t count, int times) {
    for (int i = 0; i < times; i++)
        MPI_Allreduce(MPI_IN_PLACE, buffer, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv); // whose errors end the program
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    measure(&(struct all_reduce){new_buffer, copy, sum}, rank, ranks);
    MPI_Finalize();
    return 0;
}
