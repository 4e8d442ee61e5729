// The place of this process among the ranks. A launcher, such as torchrun or srun, sets it in
// environment variables.
#pragma once
#include "01_single_gpu/launchers.h"

struct place {
    const char *launcher; // for the banner: the launcher that has set the variables
    int rank, world;      // number of this rank, and number of all ranks
    int local_rank;       // number of this rank among the ranks on its node
    int local_world;      // number of ranks on this node, 0: unknown
    char run[256];        // name of the run, from the launcher; may be empty
};

// Reads the variables. Without a launcher, this process is the only rank. With a launcher, error
// lines name the rank from now on. Missing or contradictory variables end the program (wrong
// usage).
struct place find_place(void);

// Returns the port at which rank 0 may listen: MASTER_PORT, or the next port if torchrun itself
// listens at MASTER_PORT, for PyTorch's TCPStore.
int rank0_port(void);

// Returns the number of this rank's GPU: the only GPU if the rank sees only one, else the GPU with
// the number of its local rank. If there is no such GPU, the program ends, unless SHARE_GPUS=1 lets
// ranks share a GPU (02_multigpu_fork/share_gpus.h).
int choose_device(const struct place *p);
