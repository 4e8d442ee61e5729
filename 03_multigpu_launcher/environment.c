#include "03_multigpu_launcher/environment.h"
#include "02_multigpu_fork/share_gpus.h"
#include "common/base/minmax.h"
#include "common/base/options.h"
#include "common/device/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place find_place(void) {
    struct place p = {
        .launcher = "none, so this is the only rank; 03_multigpu_launcher/launch starts several",
        .world = 1,
        .local_world = 1};
    const struct launcher *l = find_launcher();
    if (l) {
        p.launcher = l->name;
        p.world = number_from_environment(l->world, 1, 1000000);
        p.rank = number_from_environment(l->rank, 0, p.world - 1);
        p.local_rank = number_from_environment(l->local_rank, 0, p.rank);
        const char *local_world = getenv(l->local_world);
        p.local_world = local_world ? atoi(local_world) : 0; // Slurm: 2(x3) is 2 on each of 3 nodes
        snprintf(error_name, sizeof error_name, "rank %d", p.rank);
    }
    for (int i = 0; i < 3 && l && l->run[i]; i++) {
        const char *name = getenv(l->run[i]);
        if (name) // a long name differs from others at its end rather than at its beginning
            snprintf(p.run + strlen(p.run), 80, "-%s",
                     strlen(name) > 70 ? name + strlen(name) - 70 : name);
    }
    return p;
}

int rank0_port(void) {
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    return number_from_environment("MASTER_PORT", 1, 65534) + (agent && !strcmp(agent, "True"));
}

int choose_device(const struct place *p) {
    int devices;
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    int ranks = max_size(p->local_world, p->local_rank + 1);
    if (gpus_are_shared())
        return share_gpus(p->local_rank, ranks, devices);
    if (devices > 1 && p->local_rank >= devices)
        fail("there is no GPU for local rank %d, only %d in all%s; SHARE_GPUS=1 lets ranks share a "
             "GPU",
             p->local_rank, devices, more_devices(ranks));
    return devices == 1 ? 0 : p->local_rank;
}
