#!/usr/bin/env bash
# doctor.sh: checks whether this machine and this job can run the course. It prints a line with PASS, WARN or FAIL for
# each check, with a fix, and then the steps that can run here, and on which device. It exits with 1 if a check fails.
# It changes nothing, and waits at most a few seconds for each answer.
#
# The table at the end has rows WORD | CHECK | TEST | TEXT | CURE. Of each check, the first row whose test succeeds is
# printed. The code above the table finds the facts that the rows name. To add a check, add its rows here, and to
# tests/tools/doctor.bats a row for each thing that stops a user.
# shellcheck disable=SC2034,SC2317,SC2329 # the table uses the variables and functions
set -u
shopt -s extglob
cd "$(dirname "$0")/.." || exit
. tools/begin.sh
cc=${CC:-cc}
cuda=/usr/local/cuda
nvidia=/proc/driver/nvidia
infiniband=/sys/class/infiniband
net=/sys/class/net
host=$(uname -n)

has() { command -v "$1" >/dev/null; }

# ask NAME COMMAND...: keeps what the command prints in a file of this name, and succeeds if the command does. A driver or a
# name server may never answer: then timeout ends the command, and late NAME succeeds.
ask() {
    timeout -k 1 5 "${@:2}" >"$work/$1" 2>&1 </dev/null
    echo $? >"$work/$1.code"
    [ "$(cat "$work/$1.code")" = 0 ]
}

late() { [[ $(cat "$work/$1.code") =~ ^(124|137)$ ]]; }

declare -A verdict=() count=([PASS]=0 [WARN]=0 [FAIL]=0) colour=([PASS]='' [WARN]='' [FAIL]='')
plain=''
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ] && [ -z "${NO_COLOR:-}" ]; then
    colour=([PASS]=$'\e[32m' [WARN]=$'\e[33m' [FAIL]=$'\e[31m') plain=$'\e[0m'
elif [ ! -t 1 ]; then # all lines are written at once, because other nodes may write to the same file
    exec 3>&1 >"$work/table"
    trap 'cat "$work/table" >&3; rm -rf "$work"' EXIT
fi

# Reads rows of a table. A row that ends with a backslash continues in the next line. The word "skip" prints nothing,
# and "note" prints a line without a word.
print_table() {
    local row word check test text cure separator=$'\37'
    # shellcheck disable=SC2162 # without -r, because of the backslashes
    while read row <&4; do
        [[ $row == *' | '* ]] || continue
        IFS=$separator read -r word check test text cure <<<"${row// | /$separator}"
        check=${check%%*( )} text=${text%%*( )}
        if [ -n "${verdict[$check]:-}" ] || ! eval "$test"; then
            continue
        fi
        eval "word=${word%%*( )} text=\"$text\" cure=\"$cure\""
        verdict[$check]=$word
        case $word in
        skip) ;;
        note) printf '  %-13s  %s\n' "$check" "$text" ;;
        *)
            count[$word]=$((count[$word] + 1))
            printf '%s  %-13s  %s\n' "${colour[$word]}$word$plain" "$check" "$text${cure:+; $cure}"
            ;;
        esac
    done
}

# Tests for the table.

otherwise() { true; }

failed() { # CHECK...: one of these checks has failed
    local check
    for check; do
        [ "${verdict[$check]:-}" != FAIL ] || return 0
    done
    return 1
}

below() { # A B: both are known, and A is a lower number or version than B ("unlimited" is above all)
    [ -n "$1" ] && [ -n "$2" ] && [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

reachable() { # ADDRESS: other nodes can reach it, unlike 127.0.1.1, to which Debian maps the host's own name
    [[ -n $1 && $1 != 127.* && $1 != ::1 ]]
}

# Texts for the table.

first_line() { "$@" | head -n 1; }

megabytes() { [ "$1" -ge 1024 ] && echo "$(($1 / 1024)) MB" || echo "$1 kB"; }

numbers() { # prints the numbers of the steps, each once
    tr ' ' '\n' | grep . | sort -u | paste -sd' '
}

gpu_error() { grep -m 1 . "$work/gpus"; }

# The job.

in_job='' nodes=1 scheduler='' container=''
if [ -n "${SLURM_JOB_ID:-}" ]; then
    in_job="Slurm job $SLURM_JOB_ID" nodes=${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}
elif [ -n "${PBS_JOBID:-}" ]; then
    in_job="PBS job $PBS_JOBID"
    [ ! -r "${PBS_NODEFILE:-}" ] || nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
fi
echo "$host${in_job:+, $in_job}:"
if has sbatch; then
    scheduler=Slurm
elif has qsub; then
    scheduler=PBS
fi
if [ -n "${APPTAINER_CONTAINER:-${SINGULARITY_CONTAINER:-}}" ]; then
    container=${APPTAINER_CONTAINER:-$SINGULARITY_CONTAINER}
elif [ -n "${CH_RUNNING:-}" ]; then
    container='charliecloud'
elif [ -e /.dockerenv ] || [ -e /run/.containerenv ]; then
    container='docker or podman'
fi

gpus=0
if has nvidia-smi; then
    ! ask gpus nvidia-smi --query-gpu=name,memory.total,driver_version,compute_cap --format=csv,noheader ||
        gpus=$(grep -c , "$work/gpus")
fi

# The steps that are built for each device, and a program that cannot start, with the reason.
built_cpu='' built_gpu='' broken=''
for program in 0*/{train,allreduce}; do
    [ -x "$program" ] || continue
    libraries=$(ldd "$program" 2>&1)
    [[ $libraries != *'not found'* ]] ||
        broken="$program: $(grep -m 1 'not found' <<<"$libraries" | sed 's/^[[:space:]]*//; s/ (.*)//')"
    [[ $libraries != *libcudart* ]] || built_gpu+=" ${program:1:1}"
    [[ $libraries = *libcudart* && ! -x $(readlink -f "$program").cpu ]] || built_cpu+=" ${program:1:1}"
done
built=${built_gpu:+for GPUs: step$built_gpu}${built_gpu:+${built_cpu:+; }}
built+=${built_cpu:+for the CPU device: step$built_cpu}

# The words of some rows depend on the machine. Compute nodes often have no compiler, and GPUs need no BLAS.
build_word=WARN blas_word=WARN
[ -n "$built" ] || build_word=FAIL
[ "$gpus" != 0 ] || blas_word=$build_word

# Tools and libraries for building.

compiler=''
printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' >"$work/probe.c"
if compiler_error=$(timeout 10 "$cc" "$work/probe.c" -o "$work/probe" 2>&1); then
    compiler=$(first_line "$cc" --version)
fi
compiler_error=${compiler_error%%$'\n'*}

nvcc='' nvcc_version='' least=''
for candidate in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} "$(command -v nvcc)" $cuda/bin/nvcc; do
    [ -n "$nvcc" ] || [ ! -x "$candidate" ] || nvcc=$candidate
done
if [ -n "$nvcc" ]; then
    nvcc_version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    least=$(timeout 5 "$nvcc" --list-gpu-arch | sed -n 's/^compute_\(.*\)\(.\)$/\1.\2/p' | sort -V | head -n 1)
fi

# find_libraries DEVICE: sets the flags for linking and for NCCL as make does. If a library is missing, it sets problem
# and cures.
declare -A flags=([cpu]='' [gpu]='') problem=([cpu]='not checked, because there is no compiler') cures=([cpu]='')
nccl_flags=''
find_libraries() {
    if CC=$cc NVCC=$nvcc timeout 60 tools/find_libs.sh "$1" >"$work/libs" 2>"$work/log"; then
        flags[$1]=$(sed -n 's/^LIB_FLAGS := //p' "$work/libs")
        nccl_flags=$(sed -n 's/^NCCL_FLAGS := //p' "$work/libs")
    elif [ $? = 124 ]; then
        problem[$1]="tools/find_libs.sh has not ended after 60 s"
        cures[$1]="try it again when this machine is less busy"
    else
        problem[$1]=$(sed -n '1s/error: \(.*\)\. Any one of these fixes it:/\1/p' "$work/log")
        cures[$1]=$(sed -n '2s/^  - //p' "$work/log")$(sed -n '3s/^  - /, or /p' "$work/log")
    fi
}
[ -z "$compiler" ] || find_libraries cpu
[ -z "$compiler" ] || [ -z "$nvcc" ] || find_libraries gpu

oldest_nccl=2.18.5 # that the steps can use
nccl='' nccl_loaded='' # the versions of the header and of the library
if [ -n "${flags[gpu]}" ] && [ -n "$nccl_flags" ]; then
    cat >"$work/nccl.c" <<'PROGRAM'
#include <nccl.h>
#include <stdio.h>
int main(void) {
    int v = 0;
    ncclGetVersion(&v);
    printf("%d.%d.%d %d.%d.%d\n", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, v / 10000, v / 100 % 100, v % 100);
}
PROGRAM
    # shellcheck disable=SC2086 # flags are several words
    timeout 10 "$cc" "$work/nccl.c" -o "$work/nccl" ${flags[gpu]} $nccl_flags 2>"$work/log" &&
        timeout 5 "$work/nccl" >"$work/versions" 2>"$work/log" && read -r nccl nccl_loaded <"$work/versions"
fi
nccl_word=WARN # a newer library has all functions of the header
! below "$nccl_loaded" "$nccl" || nccl_word=FAIL

# The GPUs.

driver='' newest='' models='' oldest='' visible=$gpus # newest: the latest CUDA that the driver supports
if [ "$gpus" != 0 ]; then
    driver=$(awk -F', ' '{ print $3; exit }' "$work/gpus")
    newest=$(ask smi nvidia-smi && sed -n 's/.*CUDA[A-Z ]* Version *: *\([0-9.]*\).*/\1/p' "$work/smi")
    models=$(awk -F', ' '!n[$1 ", " $2]++ { m[++k] = $1 ", " $2 }
        END { for (i = 1; i <= k; i++) printf "%s%d x %s", (i > 1 ? "; " : ""), n[m[i]], m[i] }' "$work/gpus")
    oldest=$(awk -F', ' '{ print $4 }' "$work/gpus" | sort -V | head -n 1)
    if [ "${CUDA_VISIBLE_DEVICES+set}" ]; then
        visible=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -cvxE -e '|-1|NoDevFiles')
        if [ "$visible" -lt "$gpus" ]; then
            models+=", of which CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES shows $visible"
        else
            visible=$gpus
        fi
    fi
fi

# The node.

usable=$(env -u OMP_NUM_THREADS nproc) cores=$(env -u OMP_NUM_THREADS nproc --all) # nproc reads that variable
locked=$(ulimit -l) adapters=$(cd $infiniband 2>/dev/null && echo *)
shm_word=WARN
shm_cure='delete old files (ls -l /dev/shm lists them), or as root: mount -o remount,size=1g /dev/shm'
[ -z "$container" ] || shm_cure='start the container with --shm-size=1g or --ipc=host (docker, podman)'
read -r shm_size shm_free < <(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $2, $4 }')
if probe=$(mktemp /dev/shm/doctor.XXXXXX 2>/dev/null); then
    rm "$probe"
else
    shm_free=0
fi
shm_size=${shm_size:-0} shm_free=${shm_free:-0}
[ "$visible" -lt 2 ] || ! below "$shm_free" 32768 || shm_word=FAIL

# The network.

# The interfaces that are up, and the one that NCCL uses: the first one named ib..., or else the first one that is neither a
# loopback nor virtual.
names=$(for name in "$net"/*/; do # bonding_masters is a plain file there
    [ "$(cat "$name/operstate")" = down ] || echo "$(cat "$name/ifindex") $(basename "$name")"
done | sort -n | cut -d' ' -f2 | paste -sd' ')
name=$(tr ' ' '\n' <<<"$names" | awk '{ rank = /^ib/ ? 1 : !/^(lo|docker|virbr)/ ? 2 : !/^lo/ ? 3 : 4 } !best || rank < best { best = rank; name = $1 } END { print name }')
taken="of the interfaces $names, NCCL uses $name"

# The address at which the ranks of other nodes look for rank 0. Without MASTER_ADDR, a job script takes the host name.
find_address() { # late, because a name server may take seconds
    address=$(ask master getent ahosts "$master" && awk '{ print $1; exit }' "$work/master")
    true
}
master=${MASTER_ADDR:-$host} address_word=WARN
[ "$nodes" = 1 ] || address_word=FAIL

# The steps that can run.

steps=$(for folder_of_step in 0[1-9]_*/; do echo "${folder_of_step:1:1}"; done | numbers)
wide="steps $(tr ' ' '\n' <<<"$steps" | grep '[4-9]' | numbers)"
cpu_steps=$(echo "${flags[cpu]:+$steps }$built_cpu" | numbers)
can_use_nccl=$nccl
! below "$nccl" $oldest_nccl || can_use_nccl=''
gpu_steps=$(echo "${flags[gpu]:+1 }${can_use_nccl:+$steps }$built_gpu" | numbers)

print_table 4<<'END'
# Building

$build_word  | C compiler    | ! has "$cc" | $cc not found | tools/deps.sh run, or load your site's compiler module
$build_word  | C compiler    | [ -z "$compiler" ] \
    | $cc cannot compile a program of two lines: $compiler_error | load its module again (apt: libc6-dev)
PASS         | C compiler    | otherwise | $compiler
$build_word  | make          | ! has make | not found | install make (apt, dnf or conda: make)
PASS         | make          | otherwise | $(first_line make --version)
$blas_word   | BLAS          | [ -z "${flags[cpu]}" ] | ${problem[cpu]} | ${cures[cpu]}
PASS         | BLAS          | [[ ${flags[cpu]} = *dnnl* ]] | oneDNN found, and zlib
PASS         | BLAS          | [[ ${flags[cpu]} = *openblas* ]] | OpenBLAS found, and zlib
WARN         | BLAS          | [[ ${flags[cpu]} = *REFERENCE_BLAS* ]] \
    | only the reference BLAS found, which is several times slower \
    | tools/deps.sh run installs a faster one; or load the module of OpenBLAS, or set OPENBLAS_HOME
PASS         | BLAS          | otherwise | another BLAS found: ${flags[cpu]}
FAIL         | nvcc          | [ "$nvcc" ] && [ "$compiler" ] && [ -z "${flags[gpu]}" ] \
    | $nvcc is $nvcc_version, but: ${problem[gpu]} | ${cures[gpu]}
PASS         | nvcc          | [ "$nvcc" ] | $nvcc_version, $nvcc
PASS         | nvcc          | [ "$gpus" = 0 ] && [ -z "$in_job$scheduler${MODULESHOME:-}" ] \
    | none, and no GPU: make builds for the CPU device
WARN         | nvcc          | otherwise | not found: make builds for the CPU device \
    | to build for GPUs, load your site's CUDA module, or set CUDA_HOME
skip         | NCCL          | [ -z "${flags[gpu]}" ]
WARN         | NCCL          | [ -z "$nccl_flags" ] | not found: only step 1 can be built for GPUs \
    | load your site's NCCL module or set NCCL_HOME (apt: libnccl-dev, conda: nccl)
WARN         | NCCL          | [ -z "$nccl" ] && ! "$work/probe" >/dev/null 2>&1 | not checked: programs in ${work%/*} do not run (noexec) \
    | set TMPDIR to another folder
FAIL         | NCCL          | [ -z "$nccl" ] | a program that uses it does not run: $(tail -n 1 "$work/log") \
    | load the modules again, and check which other folders LD_LIBRARY_PATH holds
FAIL         | NCCL          | below "$nccl" $oldest_nccl \
    | the header is $nccl, and the steps need $oldest_nccl or later \
    | load a later NCCL module, or set NCCL_HOME to the folder of a later NCCL
PASS         | NCCL          | [ "$nccl" = "$nccl_loaded" ] | header and library $nccl
$nccl_word   | NCCL          | otherwise | the header is $nccl, but programs load the library $nccl_loaded \
    | load only one NCCL module, and remove others from LD_LIBRARY_PATH
FAIL         | programs      | [ "$broken" ] | $broken \
    | load the modules that it was built with (in jobs: slurm/site.sh), or build it again
PASS         | programs      | [ -z "$built" ] | none is built yet: run make step1
PASS         | programs      | otherwise | $built

# GPUs. If one of these checks fails, the programs can still run on the CPU device.

FAIL         | driver        | ! has nvidia-smi && [ -e $nvidia ] && [ "$container" ] \
    | loaded on this node, but not in this container ($container) \
    | start it with --nv (apptainer) or --gpus all (docker)
FAIL         | driver        | ! has nvidia-smi && [ -e $nvidia ] | loaded, but nvidia-smi is not found \
    | add it to PATH, or install the driver's tools
WARN         | driver        | ! has nvidia-smi && [ "$scheduler" ] && [ -z "$in_job" ] \
    | none here: programs can use the CPU device only | check compute nodes: sbatch slurm/doctor.sbatch
PASS         | driver        | ! has nvidia-smi | none: programs run on the CPU device
FAIL         | driver        | [ "$gpus" = 0 ] && late gpus | nvidia-smi does not answer \
    | use another node, and tell the administrators
FAIL         | driver        | [ "$gpus" = 0 ] && [ "$in_job" ] | $(gpu_error) | ask for GPUs, such as --gpus-per-node=2
FAIL         | driver        | [ "$gpus" = 0 ] | $(gpu_error) | reboot, or install a driver that matches the kernel
FAIL         | driver        | below "${newest%%.*}" "${nvcc_version%%.*}" \
    | version $driver supports CUDA $newest and older, but nvcc is $nvcc_version \
    | load a CUDA module of ${newest%%.*}.x, run make clean, and build again
PASS         | driver        | otherwise | $driver${newest:+, for CUDA up to $newest}
skip         | GPUs          | [ "$gpus" = 0 ]
FAIL         | GPUs          | [ "$visible" = 0 ] | $models \
    | unset CUDA_VISIBLE_DEVICES, or ask for GPUs: --gpus-per-node=2
FAIL         | GPUs          | below "$oldest" "$least" \
    | $models: a GPU of compute capability $oldest, but nvcc $nvcc_version builds for $least and later \
    | load an older CUDA module, run make clean, and build again
PASS         | GPUs          | otherwise | $models

# The node and its network

WARN         | cores         | [ "$usable" = 1 ] && [ "$cores" != 1 ] | only 1 of $cores can be used \
    | ask for --cpus-per-task=4 (Slurm) or ncpus=8 (PBS)
PASS         | cores         | otherwise | $usable of $cores can be used
$shm_word    | /dev/shm      | below "$shm_free" 262144 \
    | $(megabytes "$shm_free") free of $(megabytes "$shm_size"), which may be too little for NCCL | $shm_cure
PASS         | /dev/shm      | otherwise | $(megabytes "$shm_free") free of $(megabytes "$shm_size")
WARN         | locked memory | [ "$adapters" ] && below "$locked" 1048576 \
    | at most $(megabytes "$locked"), which is too little for InfiniBand ($adapters) \
    | run ulimit -l unlimited before sbatch; if that is refused, ask the administrators (memlock)
PASS         | locked memory | [ "$adapters" ] | enough for InfiniBand ($adapters)
FAIL         | network       | [ -z "$names" ] | no interface is up \
    | start at least the loopback interface: ip link set lo up
PASS         | network       | [ "${NCCL_SOCKET_IFNAME:-}" ] | of the interfaces $names, NCCL uses that of NCCL_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME
FAIL         | network       | [ "$name" = lo ] && [ "$nodes" -gt 1 ] | $taken, which does not connect the nodes \
    | name an interface that does: export NCCL_SOCKET_IFNAME=... (slurm/site.sh)
PASS         | network       | [ "$name" = lo ] | $taken, which is enough for one node
WARN         | network       | [[ $name = @(docker|virbr|veth|br-|tun|wg)* ]] | $taken, which looks virtual \
    | if ranks do not meet: export NCCL_SOCKET_IFNAME=... (slurm/site.sh)
PASS         | network       | otherwise | $taken
skip         | MASTER_ADDR   | [ -z "$in_job$scheduler${MASTER_ADDR:-}" ] || ! find_address
PASS         | MASTER_ADDR   | reachable "$address" | $master is $address
$address_word | MASTER_ADDR   | [ "$address" ] | $master is $address here, which no other node can reach \
    | on several nodes, set MASTER_ADDR to an address of the network above
$address_word | MASTER_ADDR   | otherwise | no address is known for $master \
    | on several nodes, set MASTER_ADDR to an address of the network above

# The job and the data

PASS         | job           | [[ $in_job = Slurm* ]] \
    | $in_job, nodes: $nodes; here: ${SLURM_CPUS_ON_NODE:-?} cores, ${SLURM_GPUS_ON_NODE:-0} GPUs
PASS         | job           | [ "$in_job" ] && [ -r "${PBS_NODEFILE:-}" ] \
    | $in_job, nodes: $nodes, ranks: $(wc -l <"$PBS_NODEFILE")
PASS         | job           | [ "$in_job" ] && [ "${MASTER_ADDR:-}" ] | $in_job
FAIL         | job           | [ "$in_job" ] | $in_job, but PBS_NODEFILE=${PBS_NODEFILE:-} cannot be read \
    | run the doctor on the first node of the job, where its script runs
PASS         | job           | [ "$scheduler" = Slurm ] \
    | none; Slurm is installed: sbatch slurm/doctor.sbatch checks compute nodes
PASS         | job           | [ "$scheduler" = PBS ] | none; PBS is installed: qsub pbs/doctor.pbs checks compute nodes
PASS         | job           | otherwise | none, and neither Slurm nor PBS: programs run on this machine
PASS         | container     | otherwise | ${container:-none}
WARN         | data          | ! compgen -G "data/*/*" >/dev/null | no data \
    | run make data, which draws digits where there is no internet
PASS         | data          | otherwise | $(cd data && echo *)
END

echo
echo "${count[PASS]} PASS, ${count[WARN]} WARN, ${count[FAIL]} FAIL. What can run here:"
print_table 4<<'END'
note         | GPU           | failed driver GPUs \
    | nothing, until you fix the problem shown above for nvcc, driver or GPUs
note         | GPU           | [ "$gpus" -gt 0 ] && [ -z "$gpu_steps" ] \
    | nothing, until you fix the problem shown above for nvcc, driver or GPUs
note         | GPU           | [ "$visible" = 1 ] | steps $gpu_steps, with up to 1 rank on this node
note         | GPU           | [ "$visible" -gt 1 ] | steps $gpu_steps, with up to $visible ranks on this node
note         | GPU           | otherwise \
    | nothing, because there is no GPU${gpu_steps:+; steps $gpu_steps can be built for nodes with GPUs}
note         | CPU device    | [ "$cpu_steps" ] | steps $cpu_steps
note         | CPU device    | otherwise | nothing, until you install a compiler, and oneDNN or OpenBLAS
note         | several nodes | [ -z "$cpu_steps$gpu_steps" ] | nothing, as no step can be built
note         | several nodes | failed network MASTER_ADDR \
    | nothing, until you fix the problem shown above for the network
note         | several nodes | [ "$nodes" -gt 1 ] | $wide, on the $nodes nodes of this job
note         | several nodes | [ "$in_job" ] | $wide, in a job with more than one node
note         | several nodes | [ "$scheduler" = Slurm ] | $wide: sbatch slurm/step4.sbatch
note         | several nodes | [ "$scheduler" = PBS ] | $wide: the scripts in pbs/
note         | several nodes | otherwise | $wide, with a launcher on each: see 03_multigpu_launcher/launch --help
END
[ "${count[FAIL]}" = 0 ]
