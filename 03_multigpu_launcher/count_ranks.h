#pragma once

// Returns the number of ranks on this node for a value of --nproc-per-node: a number, gpu (one rank
// per GPU), cpu (one rank per core), or auto (like gpu if there is a GPU, else like cpu). Other
// values end the program (wrong usage).
int count_ranks(const char *text);
