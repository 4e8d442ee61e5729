# shellcheck shell=bash
# Settings that differ from one cluster to the next. The job scripts read this file; you edit no other file.

# A job script that is started with bash needs an allocation, such as salloc's.
case $0 in
*.sbatch)
    if [ -z "${SLURM_JOB_ID:-}" ] || ! command -v srun >/dev/null; then
        here='run-step4' # the step of chain and sweep
        case ${0##*/} in
        doctor*) here=doctor ;;
        step[1-9]*) here=${0##*/} here=run-${here:0:5} ;;
        esac
        echo "error: $0 is a job script of Slurm: sbatch $0 on a cluster, or make $here on this machine" >&2
        exit 2
    fi
    ;;
esac

# The modules that the programs were built with, by the names that `module avail` shows here:
# module load cuda nccl

# The network interface between the nodes, from `ip -br address` on one of them. Unset, NCCL chooses:
# export NCCL_SOCKET_IFNAME=ib0

# Threads of a task: as many as it has cores. A launcher's task shares them among its ranks.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((${SLURM_CPUS_PER_TASK:-1} / ${ranks_per_task:-1}))}

# CONTAINER=containers/tutorial.sif sbatch ... runs the programs in that image. --nv: with the node's driver.
run=()
# shellcheck disable=SC2034 # the job scripts use it
[ -z "${CONTAINER:-}" ] || run=(apptainer exec --nv "$CONTAINER")
