# shellcheck shell=bash disable=SC2034 # the job scripts use the variables
# What differs from one PBS cluster to the next: modules, interface and container in slurm/site.sh, mpirun here.

# A job script that is started with bash needs a job, such as that of qsub -I.
if [ -z "${PBS_NODEFILE:-}" ]; then
    here=${0##*/} here=run-${here:0:5}
    echo "error: $0 is a job script of PBS: qsub $0 on a cluster, or make $here on this machine" >&2
    exit 2
fi
. slurm/site.sh

# The file names each node mpiprocs times.
nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
ranks_per_node=$(grep -cFx "$(head -n 1 "$PBS_NODEFILE")" "$PBS_NODEFILE")

# PBS sets variables on the first node only, and Open MPI hands on those that -x names.
exports=(-x MASTER_ADDR -x MASTER_PORT)
for name in $(compgen -e); do
    case $name in
    MASTER_TOKEN | NCCL_* | OMP_* | CPU_DEVICE* | LD_LIBRARY_PATH) exports+=(-x "$name") ;;
    esac
done

# Open MPI: a process per GPU, and a launcher per node. It would start one per core where the file names a node but
# once. Bound, all threads of a process would share a core.
mpirun=(mpirun --hostfile "$PBS_NODEFILE" --bind-to none "${exports[@]}")
per_gpu=("${mpirun[@]}" --map-by "ppr:$ranks_per_node:node")
per_node=("${mpirun[@]}" --map-by ppr:1:node)

# Cray's PALS, which hands on all variables:
# per_gpu=(mpiexec -n $((nodes * ranks_per_node)) --ppn "$ranks_per_node" --cpu-bind none)
# per_node=(mpiexec -n "$nodes" --ppn 1 --cpu-bind none)

# MPICH and Intel MPI, which do too:
# per_gpu=(mpiexec -f "$PBS_NODEFILE" -n $((nodes * ranks_per_node)) -ppn "$ranks_per_node")
# per_node=(mpiexec -f "$PBS_NODEFILE" -n "$nodes" -ppn 1)
