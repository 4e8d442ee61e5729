#!/usr/bin/env bash
# cluster.sh SCRIPT [ARGUMENT...]: runs a job script as sbatch would on a cluster of three nodes, each with two modelled H100
# GPUs, and prints the output of the job. All nodes are this machine, so their names are its loopback addresses. Ranks of
# different nodes use TCP. The third node has a slow GPU. Of the lines #SBATCH, --nodes, --nodelist and --ntasks-per-node count.
# The snapshot is removed, because no other job has its name.
set -u
script=$1
# option NAME: its value in the script.
option() {
    sed -n "s/^#SBATCH --$1=//p" "$script" | tail -n 1
}
all=(127.0.0.1 127.0.0.2 127.0.0.3)
list=$(option nodelist)
IFS=, read -ra nodes <<<"${list:-${all[*]:0:$(option nodes)}}"
IFS=' ' read -ra nodes <<<"${nodes[*]}"
[ -n "$list" ] || [ "$(option nodes)" -le ${#all[@]} ] ||
    { echo "sbatch: error: $script wants $(option nodes) nodes, and this cluster has ${#all[@]}" >&2 && exit 1; }
for node in "${nodes[@]}"; do
    [[ " ${all[*]} " == *" $node "* ]] || { echo "sbatch: error: Invalid node name specified: $node" >&2 && exit 1; }
done

scontrol() { # show hostnames LIST
    tr ' ' '\n' <<<"$3"
}

# Starts the tasks of each node. If one fails, the others end, as with --kill-on-bad-exit.
srun() {
    local node task number=0 code=0 pids=()
    while [[ $1 == --* ]]; do
        shift
    done
    for node in $SLURM_JOB_NODELIST; do
        for ((task = 0; task < SLURM_NTASKS_PER_NODE; task++)); do
            SLURM_NODEID=$number SLURM_LOCALID=$task SLURM_PROCID=${#pids[@]} NCCL_HOSTID=$node \
                CUDA_VISIBLE_DEVICES=$((2 * (${node##*.} - 1))),$((2 * (${node##*.} - 1) + 1)) "$@" &
            pids+=($!)
        done
        number=$((number + 1))
    done
    trap 'kill "${pids[@]}" 2>/dev/null' TERM INT
    for node in "${pids[@]}"; do
        wait -n || { code=$? && kill "${pids[@]}" 2>/dev/null; }
    done
    return "$code"
}

export -f scontrol srun
export CPU_DEVICES=6 CPU_DEVICE_TOPOLOGY=3x2 CPU_DEVICE_SLOW=5:3 CPU_DEVICE_MODEL=${CPU_DEVICE_MODEL:-h100}
export SLURM_JOB_ID=$$ SLURM_JOB_NAME SLURM_JOB_NODELIST="${nodes[*]}" SLURM_JOB_NUM_NODES=${#nodes[@]} \
    SLURM_GPUS_ON_NODE=2 SLURM_CPUS_PER_TASK=2 SLURM_NTASKS_PER_NODE SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE
SLURM_NTASKS_PER_NODE=$(option ntasks-per-node)
SLURM_STEP_NUM_TASKS=$((${#nodes[@]} * SLURM_NTASKS_PER_NODE))
SLURM_STEP_TASKS_PER_NODE="$SLURM_NTASKS_PER_NODE(x${#nodes[@]})"
SLURM_JOB_NAME=$(option job-name)
trap 'kill $!' TERM INT
bash "$@" &
wait $!
code=$?
wait # a signal ends only the first wait
rm -f "$SLURM_JOB_NAME.$SLURM_JOB_ID.bin"
exit $code
