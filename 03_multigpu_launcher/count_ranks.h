#pragma once

// Returns how many ranks this node gets for the value of --nproc-per-node: a number, gpu (one per
// GPU), cpu (one per core), or auto (gpu, or cpu where there is no GPU). Other values end the
// program (wrong usage).
int count_ranks(const char *text);
