// Checks whether this job can run train. The ranks meet and add numbers like train. Rank 0 prints a
// table of all ranks, and compares it with what the launcher has told them. tools/doctor.sh checks
// a single machine.
#include "02_multigpu_fork/nccl_check.h"
#include "02_multigpu_fork/share_gpus.h"
#include "03_multigpu_launcher/environment.h"
#include "04_multinode/addresses.h"
#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/watchdog.h"
#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/say.h"
#include "common/device/device.h"
#include <limits.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    long timeout;
    const char *token_file;
} opt;

static const struct option_spec options[] = {
    {"timeout", OPTION_INT, &opt.timeout, "30", 1, 1e6,
     "seconds to wait for the ranks and for a collective"},
    {"token-file", OPTION_TEXT, &opt.token_file, NULL, 0, 0,
     "file with the secret that all ranks share"},
    {0},
};

static const struct option_table tables[] = {{.options = options}, {0}};

struct row {
    int rank, world, local_rank, nccl;
    char host[HOST_NAME_MAX + 1], gpu[272], bus[32], address[64];
};

static int failures;

__attribute__((format(printf, 2, 3))) static void judge(int right, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%s  ", right ? "PASS" : "FAIL");
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    failures += !right;
}

// Writes this host's address on the network that leads to rank 0. Connecting a UDP socket chooses
// the network, and sends nothing.
static void find_address(char *text, size_t size) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    const char *why, *host = getenv("MASTER_ADDR");
    snprintf(text, size, "-");
    struct addrinfo *list = host ? find_addresses(host, getenv("MASTER_PORT"), &why) : NULL;
    int s = list ? socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (s >= 0 && !connect(s, list->ai_addr, list->ai_addrlen) &&
        !getsockname(s, (struct sockaddr *)&address, &bytes))
        getnameinfo((struct sockaddr *)&address, bytes, text, size, NULL, 0, NI_NUMERICHOST);
    close(s);
    if (list)
        freeaddrinfo(list);
}

static struct row describe(const struct place *p, int device) {
    struct row r = {.rank = p->rank, .world = p->world, .local_rank = p->local_rank};
    struct cudaDeviceProp properties;
    strcpy(r.host, host_name());
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    CUDA_CHECK(cudaDeviceGetPCIBusId(r.bus, sizeof r.bus, device));
    snprintf(r.gpu, sizeof r.gpu, "%d: %s", device, properties.name);
    NCCL_CHECK(ncclGetVersion(&r.nccl));
    find_address(r.address, sizeof r.address);
    return r;
}

static void check(const struct row *rows, int world, double sum) {
    int ranks = 0, locals = 0, gpus = 0, versions = 0, hosts = 0;
    printf("%4s  %-16s %10s  %-16s %-14s %s\n", "rank", "host", "local rank", "address", "bus",
           "GPU");
    for (int i = 0; i < world; i++) {
        const struct row *r = &rows[i];
        int before = 0, shared = 0;
        for (int j = 0; j < i; j++)
            if (!strcmp(rows[j].host, r->host)) {
                before++;
                shared |= !strcmp(rows[j].bus, r->bus);
            }
        ranks += r->rank == i && r->world == world;
        locals += r->local_rank == before;
        gpus += !shared;
        versions += r->nccl == rows[0].nccl;
        hosts += !before;
        printf("%4d  %-16s %10d  %-16s %-14s %s\n", r->rank, r->host, r->local_rank, r->address,
               r->bus, r->gpu);
    }
    judge(ranks == world, "the launcher's variables are right (ranks: %d, hosts: %d)", world,
          hosts);
    judge(locals == world, "the local ranks of each host are 0, 1, 2 ...%s",
          locals == world
              ? ""
              : ": number the ranks host by host, such as with srun --distribution=block");
    if (gpus == world || !gpus_are_shared())
        judge(gpus == world, "each rank has a GPU of its own%s",
              gpus == world ? "" : ": start as many ranks as there are GPUs, or set SHARE_GPUS=1");
    else
        judge(1, "%d ranks share %d GPU%s, as SHARE_GPUS=1 asks", world, gpus, PLURAL(gpus));
    judge(versions == world, "all ranks have NCCL %d.%d.%d%s", rows[0].nccl / 10000,
          rows[0].nccl / 100 % 100, rows[0].nccl % 100,
          versions == world ? "" : ": load the same module on all nodes");
    judge(sum == world * (world + 1.) / 2, "the sum of 1 to %d over all ranks is %g", world, sum);
}

// Sets rows to those of all ranks. Returns the sum of the numbers 1, 2, ... of all ranks.
static double gather_rows(const struct place *p, ncclUniqueId id, const struct row *row,
                          struct row *rows) {
    ncclComm_t comm;
    cudaStream_t stream;
    double *sum, total = p->rank + 1;
    char *mine, *all; // rows on the device
    CUDA_CHECK(cudaStreamCreate(&stream));
    start_watchdog(opt.timeout, opt.timeout);
    COLLECTIVE(stream, ncclCommInitRank(&comm, p->world, id, p->rank));
    watch_comm(comm);
    CUDA_CHECK(cudaMalloc((void **)&sum, sizeof *sum));
    CUDA_CHECK(cudaMalloc((void **)&mine, sizeof *row));
    CUDA_CHECK(cudaMalloc((void **)&all, p->world * sizeof *row));
    CUDA_CHECK(cudaMemcpyAsync(sum, &total, sizeof total, cudaMemcpyHostToDevice, stream));
    CUDA_CHECK(cudaMemcpyAsync(mine, row, sizeof *row, cudaMemcpyHostToDevice, stream));
    COLLECTIVE(stream, ncclAllReduce(sum, sum, 1, ncclDouble, ncclSum, comm, stream));
    COLLECTIVE(stream, ncclAllGather(mine, all, sizeof *row, ncclChar, comm, stream));
    CUDA_CHECK(cudaMemcpyAsync(&total, sum, sizeof total, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaMemcpyAsync(rows, all, p->world * sizeof *row, cudaMemcpyDeviceToHost, stream));
    wait_for(stream);
    return total;
}

int main(int argc, char **argv) {
    struct place p = find_place(); // first, so that each error line names the rank
    options_parse(tables, "Checks that the ranks of a job can meet and sum.", argc, argv);
    int device = choose_device(&p);
    ncclUniqueId id = {0};
    CUDA_CHECK(cudaSetDevice(device));
    if (p.rank == 0)
        NCCL_CHECK(ncclGetUniqueId(&id));
    meet_by_tcp(&p, &id, opt.token_file, opt.timeout);
    struct row row = describe(&p, device), *rows = calloc(p.world, sizeof row);
    if (!rows)
        fail("out of memory");
    double sum = gather_rows(&p, id, &row, rows);
    if (p.rank == 0) {
        printf("launcher  %s\n", p.launcher);
        check(rows, p.world, sum);
    }
    end_watchdog();
    return failures > 0;
}
