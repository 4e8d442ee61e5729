# shellcheck shell=bash
# Settings that differ from one cluster to the next. The job scripts read this file; you edit no other file.

# If a job script is started with bash, it needs an allocation, such as that of salloc.
case $0 in
*.sbatch)
    if [ -z "${SLURM_JOB_ID:-}" ] || ! command -v srun >/dev/null; then
        here='run-step4' # the step of chain and sweep
        case ${0##*/} in
        doctor* | check*) here=${0##*/} here=${here%.sbatch} ;;
        step[1-9]*) here=${0##*/} here=run-${here%%[-.]*} ;;
        esac
        echo "error: $0 is a job script of Slurm: sbatch $0 on a cluster, or make $here on this machine" >&2
        exit 2
    fi
    # A shell that srun has started is a step of the job. The shell of salloc is a step with a number above those of srun.
    [ "${SLURM_STEP_ID:-4294967290}" -ge 4294967290 ] ||
        echo "note: srun started this shell. If $0 waits for resources now, leave the shell, and use salloc" >&2
    ;;
esac
[ -n "${BASH_VERSION:-}" ] || { echo "error: $0 needs bash: bash $0" >&2 && exit 2; } # up to here, this is sh

# The modules that you built the programs with. `module avail` lists their names:
# module load cuda nccl

# The network interface between the nodes; `ip -br address` on a node lists them. If it is not set, NCCL chooses one:
# export NCCL_SOCKET_IFNAME=ib0

# If sbatch or bash is called in a job, the script inherits where the cores of that job are, and srun fails. After
# sbatch --export=NONE, which some sites make the default, srun would not pass on MASTER_ADDR and other variables.
[ -z "${SLURM_CPU_BIND_LIST:-}" ] || unset "${!SLURM_CPU_BIND@}"
unset SLURM_EXPORT_ENV

# A job that has its nodes for itself has all their GPUs, and srun would use only as many as the job asked for. All nodes
# must have equally many.
[ -z "${SLURM_GPUS_ON_NODE:-}" ] || export SLURM_GPUS_PER_NODE=$SLURM_GPUS_ON_NODE

# A task has one thread per core, and at least one. If the task is a launcher, its ranks share the cores.
: "${SLURM_CPUS_PER_TASK:=1}"
threads=$((SLURM_CPUS_PER_TASK / ${ranks_per_task:-1}))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))}

# A secret that only the ranks of this job know, so that no other program joins them (SECURITY.md).
export MASTER_TOKEN=${MASTER_TOKEN:-$(od -An -N 16 -t x8 /dev/urandom | tr -d ' ')}

# CONTAINER=containers/tutorial.sif sbatch ... runs the programs in that image. --nv adds the driver of the node.
run=()
# shellcheck disable=SC2034 # the job scripts use it
[ -z "${CONTAINER:-}" ] || run=("$(command -v apptainer || echo singularity)" exec --nv "$CONTAINER")
