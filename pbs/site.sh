# shellcheck shell=bash disable=SC2034 # the job scripts use the variables
# Settings that differ from one PBS cluster to the next. slurm/site.sh holds modules, network interface and container.
# This file holds the command that starts processes.

# If a job script is started with bash, it needs a job, such as that of qsub -I.
if [ -z "${PBS_NODEFILE:-}" ]; then
    here=${0##*/} here=${here%.pbs}
    [ "$here" = doctor ] || here=run-${here%%-*}
    echo "error: $0 is a job script of PBS: qsub $0 on a cluster, or make $here on this machine" >&2
    exit 2
fi
. slurm/site.sh

# PBS writes the name of each node mpiprocs times into this file.
nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
ranks_per_node=$(grep -cFx "$(head -n 1 "$PBS_NODEFILE")" "$PBS_NODEFILE")

# The jobs of an array run at the same time, and differ in their index only: 12[3].server becomes 123.
job_number=${PBS_JOBID%%.*} job_number=${job_number//[!0-9]/}

# Rank 0 runs on the first node. Each job has its own port, below the range that the system assigns by itself.
MASTER_ADDR=$(head -n 1 "$PBS_NODEFILE")
MASTER_PORT=$((20000 + job_number % 10000))
export MASTER_ADDR MASTER_PORT

read -ra args <<<"${ARGS:-}" # the options of the program, as qsub passes no arguments

# PBS sets variables on the first node only. Open MPI passes on the variables that -x names.
exports=(-x MASTER_ADDR -x MASTER_PORT)
for name in $(compgen -e); do
    case $name in
    MASTER_TOKEN | NCCL_* | FI_* | OMP_* | CPU_DEVICE* | LD_LIBRARY_PATH) exports+=(-x "$name") ;;
    esac
done

# Open MPI: one process per GPU, or one launcher per node. Without ppr, it would start one process per core if the file
# names a node only once. Without --bind-to none, all threads of a process would share one core.
mpirun=(mpirun --hostfile "$PBS_NODEFILE" --bind-to none "${exports[@]}")
per_gpu=("${mpirun[@]}" --map-by "ppr:$ranks_per_node:node")
per_node=("${mpirun[@]}" --map-by ppr:1:node)

# Cray's PALS, which passes on all variables:
# per_gpu=(mpiexec -n $((nodes * ranks_per_node)) --ppn "$ranks_per_node" --cpu-bind none)
# per_node=(mpiexec -n "$nodes" --ppn 1 --cpu-bind none)

# MPICH and Intel MPI, which also pass on all variables:
# per_gpu=(mpiexec -f "$PBS_NODEFILE" -n $((nodes * ranks_per_node)) -ppn "$ranks_per_node")
# per_node=(mpiexec -f "$PBS_NODEFILE" -n "$nodes" -ppn 1)
