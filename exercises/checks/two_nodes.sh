#!/usr/bin/env bash
# two_nodes.sh block|cyclic PROGRAM [OPTION...]: starts 4 ranks as srun does on 2 nodes with 2 GPUs each. With block, ranks
# 0 and 1 are on the first node; with cyclic, neighbouring ranks are on different nodes. Both nodes are this machine: the
# ranks of a node see only its GPUs. If a rank fails, this script kills the others, as srun --kill-on-bad-exit does.
set -u
order=$1
shift
exec 3>&2 2>/dev/null # the shell's lines about killed ranks would hide what the ranks say
export CPU_DEVICES=4 SLURM_JOB_ID=$$ SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE='2(x2)'
for rank in 0 1 2 3; do
    [ "$order" = cyclic ] && node=$((rank % 2)) || node=$((rank / 2))
    [ "$order" = cyclic ] && local_rank=$((rank / 2)) || local_rank=$((rank % 2))
    SLURM_PROCID=$rank SLURM_LOCALID=$local_rank CUDA_VISIBLE_DEVICES=$((2 * node)),$((2 * node + 1)) "$@" 2>&3 &
    ranks+=($!)
done
trap 'kill -KILL "${ranks[@]}" 2>/dev/null; wait' EXIT
trap 'exit 143' TERM INT
for rank in 0 1 2 3; do
    wait -n || exit
done
