// Reads the place of this process among the ranks, which a launcher such as torchrun or srun tells
// it in environment variables.
#pragma once

struct place {
    const char *launcher;        // whose variables were read, for the banner
    int rank, world, local_rank; // local_rank: number among the ranks on this node
    int local_world;             // number of ranks on this node, 0: unknown
    char run[256];               // the launcher's name of this run; may be empty
};

// Without a launcher, this is the only rank. With one, error lines name the rank from now on.
// Missing and contradictory variables end the program (wrong usage).
struct place find_place(void);

// Returns the number in a variable that find_place, or the caller, needs. If it is not set, or is
// not a number from min to max, the program ends (wrong usage).
int number_from_environment(const char *name, int min, int max);

// Returns the port at which rank 0 may listen: MASTER_PORT, or the next one under torchrun, which
// listens at MASTER_PORT itself, with a store for PyTorch.
int rank0_port(void);

// Returns the number of this rank's GPU: if the rank sees only one, that one, else the one with the
// number of its local rank. If there is none, the program ends.
int choose_device(const struct place *p);
