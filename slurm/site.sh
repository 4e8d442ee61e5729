# shellcheck shell=bash
# Settings that differ from one cluster to the next. The job scripts read this file; you edit no other file.

# If a job script is started with bash, it needs an allocation, such as that of salloc.
case $0 in
*.sbatch)
    if [ -z "${SLURM_JOB_ID:-}" ] || ! command -v srun >/dev/null; then
        here='run-step4' # the step of chain and sweep
        case ${0##*/} in
        doctor* | check*) here=${0##*/} here=${here%.sbatch} ;;
        step[1-9]*) here=${0##*/} here=run-${here:0:5} ;;
        esac
        echo "error: $0 is a job script of Slurm: sbatch $0 on a cluster, or make $here on this machine" >&2
        exit 2
    fi
    ;;
esac

# The modules that you built the programs with. `module avail` lists their names:
# module load cuda nccl

# The network interface between the nodes; `ip -br address` on a node lists them. If it is not set, NCCL chooses one:
# export NCCL_SOCKET_IFNAME=ib0

# A task has one thread per core. If the task is a launcher, its ranks share the cores.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((${SLURM_CPUS_PER_TASK:-1} / ${ranks_per_task:-1}))}

# CONTAINER=containers/tutorial.sif sbatch ... runs the programs in that image. --nv adds the driver of the node.
run=()
# shellcheck disable=SC2034 # the job scripts use it
[ -z "${CONTAINER:-}" ] || run=(apptainer exec --nv "$CONTAINER")
