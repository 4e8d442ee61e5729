#!/bin/sh
# on_small_node.sh PROGRAM [OPTION...]: a rank on one of several simulated nodes, which have 2 ranks and 2 devices each.
first=$((RANK / 2 * 2))
export CUDA_VISIBLE_DEVICES=$first,$((first + 1)) LOCAL_RANK=$((RANK % 2)) LOCAL_WORLD_SIZE=2
exec "$@"
