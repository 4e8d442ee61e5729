#!/usr/bin/env bash
# doctor.sh: checks whether this machine and this job can run the course. It prints a line with PASS, WARN or FAIL for
# each check, with a fix, and then the steps that can run here, and on which device. It exits with 1 if a check fails.
# It changes nothing, and waits at most a few seconds for each answer.
set -u
cd "$(dirname "$0")/.." || exit
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
cuda=/usr/local/cuda
nvidia=/proc/driver/nvidia
infiniband=/sys/class/infiniband
host=$(uname -n)

has() { command -v "$1" >/dev/null; }

# later NAME COMMAND...: runs the command in the background, because a driver or a name server may never answer.
later() {
    {
        timeout -k 1 5 "${@:2}"
        echo $? >"$work/$1.code"
    } >"$work/$1" 2>"$work/$1.error" </dev/null &
}

answered() { # NAME: succeeds if the command has ended in time, and without an error
    local tries
    for ((tries = 0; tries < 60; tries++)); do
        [ -s "$work/$1.code" ] && break
        sleep 0.1
    done
    [ "$(cat "$work/$1.code" 2>/dev/null)" = 0 ]
}

silent() { # NAME: succeeds if timeout has ended the command (124 or 137), or should have
    [[ $(cat "$work/$1.code" 2>/dev/null) =~ ^(124|137)?$ ]]
}

declare -A count=([PASS]=0 [WARN]=0 [FAIL]=0) colour=([PASS]='' [WARN]='' [FAIL]='')
columns=10000 plain=''
if [ -t 1 ]; then
    columns=$(stty size 2>/dev/null </dev/tty | cut -d' ' -f2)
    [ "${columns:-0}" -ge 60 ] || columns=80
    if [ "${TERM:-dumb}" != dumb ] && [ -z "${NO_COLOR:-}" ]; then
        colour=([PASS]=$'\e[32m' [WARN]=$'\e[33m' [FAIL]=$'\e[31m') plain=$'\e[0m'
    fi
else # all lines are written at once, because other nodes may write to the same file
    exec 3>&1 >"$work/table"
    trap 'cat "$work/table" >&3; rm -rf "$work"' EXIT
fi

row() { # FIRST SECOND TEXT: prints a line; on a narrow terminal, the text continues below in the same column
    local first=$1 second=$2 line
    while IFS= read -r line; do
        printf '%s  %-13s  %s\n' "$first" "$second" "$line"
        first='    ' second=''
    done < <(fold -s -w $((columns - 22)) <<<"$3")
}

say() { # WORD CHECK FINDING [CURE]
    count[$1]=$((count[$1] + 1))
    row "${colour[$1]}$1$plain" "$2" "$3${4:+; $4}"
}

# Facts that several checks need.

in_job='' nodes=1 scheduler='' container=''
if [ -n "${SLURM_JOB_ID:-}" ]; then
    in_job="Slurm job $SLURM_JOB_ID" nodes=${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}
elif [ -n "${PBS_JOBID:-}" ]; then
    in_job="PBS job $PBS_JOBID"
    [ ! -r "${PBS_NODEFILE:-}" ] || nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
fi
# sbatch may be installed on a machine that belongs to no cluster.
no_controller=''
if has sbatch; then
    later controller scontrol ping
    if answered controller && grep -q 'is UP' "$work/controller"; then
        scheduler=Slurm
    else
        no_controller=$(silent controller || cat "$work/controller" "$work/controller.error" | tail -n 1)
        no_controller=${no_controller:-scontrol ping does not answer}
    fi
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
echo "$host${in_job:+, $in_job}:"

later host getent ahosts "$host"
[ -z "${MASTER_ADDR:-}" ] || later master getent ahosts "$MASTER_ADDR"
gpus=0 gpus_fit=yes
if has nvidia-smi; then
    later smi nvidia-smi
    later gpus nvidia-smi --query-gpu=name,memory.total,driver_version,compute_cap --format=csv,noheader
    later topology nvidia-smi topo -m
    ! answered gpus || gpus=$(grep -c , "$work/gpus")
fi

# The steps that are built for each device, and a program that cannot start, with the reason.
built_cpu='' built_gpu='' gpu_only='' broken=''
for program in 0*/{train,launch,allreduce}; do
    if [ -L "$program" ] && [ ! -e "$program" ]; then
        broken="$program is a link to a missing file"
    elif [ -x "$program" ]; then
        libraries=$(ldd "$program" 2>&1)
        [[ $libraries != *'not found'* ]] ||
            broken="$program: $(grep -m 1 'not found' <<<"$libraries" | sed 's/^[[:space:]]*//; s/ (.*)//')"
        case $program$libraries in
        */launch*) ;;
        *libcudart*)
            built_gpu+=" ${program:1:1}"
            if [ -x "$(readlink -f "$program").cpu" ]; then # this version runs if there is no GPU
                built_cpu+=" ${program:1:1}"
            else
                gpu_only+=" ${program:1:1}"
            fi
            ;;
        *) built_cpu+=" ${program:1:1}" ;;
        esac
    fi
done

# Tools and libraries for building.
compiler='' nvcc='' nvcc_version='' cpu_flags='' gpu_flags='' nccl=''

check_compiler() {
    local word=FAIL log
    [ -z "$built_cpu$built_gpu" ] || word=WARN # compute nodes often have no compiler
    printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' >"$work/probe.c"
    if ! has "$cc"; then
        say $word 'C compiler' "$cc not found" "tools/deps.sh run, or load your site's compiler module"
    elif ! log=$(timeout 10 "$cc" "$work/probe.c" -o "$work/probe" 2>&1); then
        say $word 'C compiler' "$cc cannot compile a program of two lines: ${log%%$'\n'*}" \
            'load its module again (apt: libc6-dev)'
    else
        compiler=$("$cc" --version | head -n 1)
        say PASS 'C compiler' "$compiler"
    fi
    if has make; then
        say PASS make "$(make --version | head -n 1)"
    else
        say $word make 'not found' 'install make (apt, dnf or conda: make)'
    fi
}

# find_libraries DEVICE: sets LIB_FLAGS and NCCL_FLAGS as make does, or problem and cures if a library is missing.
find_libraries() {
    LIB_FLAGS='' NCCL_FLAGS='' problem='not checked, because there is no compiler' cures=''
    [ -n "$compiler" ] || return
    if CC=$cc NVCC=$nvcc timeout 10 tools/find_libs.sh "$1" >"$work/libs" 2>"$work/log"; then
        LIB_FLAGS=$(sed -n 's/^LIB_FLAGS := //p' "$work/libs")
        NCCL_FLAGS=$(sed -n 's/^NCCL_FLAGS := //p' "$work/libs")
    else
        problem=$(sed -n '1s/error: \(.*\)\. Any one of these fixes it:/\1/p' "$work/log")
        cures=$(sed -n '2s/^  - //p' "$work/log")$(sed -n '3s/^  - /, or /p' "$work/log")
    fi
}

check_blas() {
    local word=FAIL
    find_libraries cpu
    [ -z "$built_cpu$built_gpu" ] && [ "$gpus" = 0 ] || word=WARN
    case $LIB_FLAGS in
    '') say $word BLAS "$problem" "$cures" ;;
    *dnnl*) say PASS BLAS 'oneDNN found, and zlib' ;;
    *openblas*) say PASS BLAS 'OpenBLAS found, and zlib' ;;
    *REFERENCE_BLAS*)
        say WARN BLAS 'only the reference BLAS found, which is several times slower' \
            'tools/deps.sh run installs a faster one; or load the module of OpenBLAS, or set OPENBLAS_HOME'
        ;;
    *) say PASS BLAS "another BLAS found: $LIB_FLAGS" ;;
    esac
    cpu_flags=$LIB_FLAGS
}

check_nvcc() {
    local candidate
    for candidate in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} "$(command -v nvcc)" $cuda/bin/nvcc; do
        [ -n "$nvcc" ] || [ ! -x "$candidate" ] || nvcc=$candidate
    done
    if [ -n "$nvcc" ]; then
        nvcc_version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
        find_libraries gpu
        gpu_flags=$LIB_FLAGS
        if [ -n "$compiler" ] && [ -z "$gpu_flags" ]; then
            say FAIL nvcc "$nvcc is $nvcc_version, but: $problem" "$cures"
        else
            say PASS nvcc "$nvcc_version, $nvcc"
        fi
    elif [ "$gpus" = 0 ] && [ -z "$in_job$scheduler${MODULESHOME:-}" ]; then
        say PASS nvcc 'none, and no GPU: make builds for the CPU device'
    else
        say WARN nvcc 'not found: make builds for the CPU device' \
            "to build for GPUs, load your site's CUDA module, or set CUDA_HOME"
    fi
}

check_nccl() {
    local header library loaded
    [ -n "$gpu_flags" ] || return
    if [ -z "$NCCL_FLAGS" ]; then
        say WARN NCCL 'not found: only step 1 can be built for GPUs' \
            "load your site's NCCL module or set NCCL_HOME (apt: libnccl-dev, conda: nccl)"
        return
    fi
    cat >"$work/nccl.c" <<'PROGRAM'
#include <nccl.h>
#include <stdio.h>
int main(void) {
    int v = 0;
    ncclGetVersion(&v);
    printf("%d %d.%d.%d %d %d.%d.%d\n", NCCL_VERSION_CODE, NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, v, v / 10000,
           v / 100 % 100, v % 100);
}
PROGRAM
    # shellcheck disable=SC2086 # flags are several words
    if ! timeout 10 "$cc" "$work/nccl.c" -o "$work/nccl" $gpu_flags $NCCL_FLAGS 2>"$work/log" ||
        ! nccl=$(timeout 5 "$work/nccl" 2>"$work/log"); then
        nccl=''
        say FAIL NCCL "a program that uses it does not run: $(tail -n 1 "$work/log")" \
            'load the modules again, and check which other folders LD_LIBRARY_PATH holds'
        return
    fi
    read -r header nccl library loaded <<<"$nccl"
    if [ "$header" -lt 21805 ]; then
        say FAIL NCCL "the header is $nccl, and the steps need 2.18.5 or later" \
            'load a later NCCL module, or set NCCL_HOME to the folder of a later NCCL'
        nccl=''
    elif [ "$header" = "$library" ]; then
        say PASS NCCL "header and library $nccl"
    else # a newer library has all functions of the header
        say "$([ "$header" -lt "$library" ] && echo WARN || echo FAIL)" NCCL \
            "the header is $nccl, but programs load the library $loaded" \
            'load only one NCCL module, and remove others from LD_LIBRARY_PATH'
    fi
}

check_programs() {
    case $broken in
    *"missing file") say WARN programs "$broken" "make step${broken:1:1}" ;;
    ?*)
        say FAIL programs "$broken" 'load the modules that it was built with (in jobs: slurm/site.sh), or build it again'
        ;;
    *)
        if [ -z "$built_cpu$built_gpu" ]; then
            say PASS programs 'none is built yet: run make step1'
        elif [ -n "$gpu_only" ] && [ "$gpus" = 0 ]; then
            say "$([ -n "$in_job" ] && echo FAIL || echo WARN)" programs \
                "built for GPUs, but there is no GPU here: step$gpu_only" "make DEVICE=cpu step${gpu_only: -1}"
        else
            say PASS programs \
                "${built_gpu:+for GPUs: step$built_gpu}${built_gpu:+${built_cpu:+; }}${built_cpu:+for the CPU device: step$built_cpu}"
        fi
        ;;
    esac
}

# GPUs. If one of these checks fails, the programs can still run on the CPU device.

gpu_fault() { # CHECK FINDING CURE
    gpus_fit=''
    say FAIL "$@"
}

check_driver() {
    local driver newest why
    if ! has nvidia-smi; then
        if [ -e $nvidia ] && [ -n "$container" ]; then
            gpu_fault driver "loaded on this node, but not in this container ($container)" \
                'start it with --nv (apptainer) or --gpus all (docker)'
        elif [ -e $nvidia ]; then
            gpu_fault driver 'loaded, but nvidia-smi is not found' "add it to PATH, or install the driver's tools"
        elif [ "${SLURM_GPUS_ON_NODE:-0}" != 0 ]; then
            say WARN driver "none, but Slurm gave this job $SLURM_GPUS_ON_NODE GPUs: programs can use the CPU device only" \
                'to use GPUs, try another partition'
        elif [ -n "$scheduler" ] && [ -z "$in_job" ]; then
            say WARN driver 'none here: programs can use the CPU device only' 'check compute nodes: sbatch slurm/doctor.sbatch'
        else
            say PASS driver 'none: programs run on the CPU device'
        fi
    elif [ "$gpus" = 0 ]; then
        why=$(cat "$work/gpus" "$work/gpus.error" | grep -m 1 .)
        if silent gpus; then
            gpu_fault driver 'nvidia-smi does not answer' 'use another node, and tell the administrators'
        elif [ -n "$in_job" ]; then
            gpu_fault driver "$why" 'ask for GPUs, such as --gpus-per-node=2'
        else
            gpu_fault driver "$why" 'reboot, or install a driver that matches the kernel'
        fi
    else
        driver=$(awk -F', ' '{ print $3; exit }' "$work/gpus")
        newest=$(answered smi && sed -n 's/.*CUDA[A-Z ]* Version *: *\([0-9.]*\).*/\1/p' "$work/smi")
        if [ -n "$newest" ] && [ -n "$nvcc_version" ] && [ "${newest%%.*}" -lt "${nvcc_version%%.*}" ]; then
            gpu_fault driver "version $driver supports CUDA $newest and older, but nvcc is $nvcc_version" \
                "load a CUDA module of ${newest%%.*}.x, run make clean, and build again"
        else
            say PASS driver "$driver${newest:+, for CUDA up to $newest}"
        fi
    fi
}

check_gpus() {
    local models visible oldest least
    [ "$gpus" -gt 0 ] || return
    models=$(awk -F', ' '!n[$1 ", " $2]++ { m[++k] = $1 ", " $2 }
        END { for (i = 1; i <= k; i++) printf "%s%d x %s", (i > 1 ? "; " : ""), n[m[i]], m[i] }' "$work/gpus")
    oldest=$(awk -F', ' '{ print $4 * 10 }' "$work/gpus" | sort -n | head -n 1)
    least=$([ -z "$nvcc" ] || timeout 5 "$nvcc" --list-gpu-arch | sed -n 's/^compute_//p' | sort -n | head -n 1)
    if [ "${CUDA_VISIBLE_DEVICES+set}" ]; then
        visible=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -cvxE -e '|-1|NoDevFiles')
        if [ "$visible" -lt "$gpus" ]; then
            gpus=$visible
            models+=", of which CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES shows $gpus"
        fi
    fi
    if [ "$gpus" = 0 ]; then
        gpu_fault GPUs "$models" 'unset CUDA_VISIBLE_DEVICES, or ask for GPUs: --gpus-per-node=2'
    elif [ "$oldest" -lt "${least:-0}" ]; then
        gpu_fault GPUs "$models: a GPU of compute capability ${oldest%?}.${oldest: -1}, but nvcc $nvcc_version builds for ${least%?}.${least: -1} and later" \
            'load an older CUDA module, run make clean, and build again'
    else
        say PASS GPUs "$models"
    fi
}

check_links() { # counts each pair of GPUs once: the part of the matrix above the diagonal
    [ "$gpus" -gt 1 ] && answered topology || return
    say PASS 'GPU links' "$(sed $'s/\e\\[[0-9;]*m//g' "$work/topology" | awk '
        $1 ~ /^GPU[0-9]+$/ && $2 !~ /^GPU/ { matrix[n++] = $0 }
        END {
            for (i = 0; i < n; i++) {
                split(matrix[i], link, " ")
                for (j = i + 1; j < n; j++) {
                    kind = link[j + 2]
                    if (kind ~ /^NV/) kind = "NVLink, " kind
                    if (kind ~ /^(PIX|PXB)$/) kind = "PCIe switches, " kind
                    if (kind ~ /^(PHB|NODE)$/) kind = "PCIe and one CPU, " kind
                    if (kind == "SYS") kind = "PCIe and both CPUs, the slowest, SYS"
                    if (!pairs[kind]++) kinds[++k] = kind
                }
            }
            for (i = 1; i <= k; i++)
                printf "%s%s: %s", (i > 1 ? "; " : ""), (k == 1 ? "all" : pairs[kinds[i]] " pairs"), kinds[i]
        }')"
}

# The node.

check_cores() {
    local usable all
    usable=$(env -u OMP_NUM_THREADS nproc) all=$(env -u OMP_NUM_THREADS nproc --all) # nproc reads that variable
    if [ "$usable" = 1 ] && [ "$all" != 1 ]; then
        say WARN cores "only 1 of $all can be used" 'ask for --cpus-per-task=4 (Slurm) or ncpus=8 (PBS)'
    else
        say PASS cores "$usable of $all can be used"
    fi
}

megabytes() { [ "$1" -ge 1024 ] && echo "$(($1 / 1024)) MB" || echo "$1 kB"; }

check_shm() {
    local size=0 free=0 word=WARN probe
    local cure='delete old files (ls -l /dev/shm lists them), or as root: mount -o remount,size=1g /dev/shm'
    read -r size free < <(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $2, $4 }')
    if probe=$(mktemp /dev/shm/doctor.XXXXXX 2>/dev/null); then
        rm "$probe"
    else
        free=0
    fi
    if [ "$free" -ge 262144 ]; then
        say PASS /dev/shm "$(megabytes "$free") free of $(megabytes "$size")"
        return
    fi
    [ "$free" -ge 32768 ] || [ "$gpus" -lt 2 ] || word=FAIL
    [ -z "$container" ] || cure='start the container with --shm-size=1g or --ipc=host (docker, podman)'
    say $word /dev/shm "$(megabytes "$free") free of $(megabytes "$size"), which may be too little for NCCL" "$cure"
}

check_limits() {
    local locked files adapters
    locked=$(ulimit -l) files=$(ulimit -n) adapters=$(cd $infiniband 2>/dev/null && echo *)
    if [ "$locked" = unlimited ]; then
        say PASS 'locked memory' 'no limit'
    elif [ -n "$adapters" ] && [ "$locked" -lt 1048576 ]; then
        say WARN 'locked memory' "at most $(megabytes "$locked"), which is too little for InfiniBand ($adapters)" \
            'run ulimit -l unlimited before sbatch; if that is refused, ask the administrators (memlock)'
    else
        say PASS 'locked memory' "at most $(megabytes "$locked")${adapters:+, with InfiniBand}"
    fi
    if [ "$files" != unlimited ] && [ "$files" -lt 1024 ]; then
        say WARN 'open files' "at most $files, which may be too few for many ranks" 'ulimit -n 4096'
    else
        say PASS 'open files' "at most $files"
    fi
}

# The network.
own='' nodes_meet=yes

net_fault() { # CHECK FINDING CURE
    nodes_meet=''
    say FAIL "$@"
}

# Prints the interfaces with their addresses, in the order in which NCCL sees them. Without the program ip, the
# addresses are unknown.
find_interfaces() {
    local name address
    if has ip; then
        { ip -o -4 address show up && ip -o -6 address show up scope global; } | awk '{ print $2, $4 }'
    else
        grep -H . /sys/class/net/*/ifindex | sort -t: -k2n | sed 's|/ifindex.*||; s|.*/||'
    fi | while read -r name address; do
        [ "$(cat "/sys/class/net/$name/operstate" 2>/dev/null)" = down ] || echo "$name ${address%/*}"
    done | awk '!seen[$1]++'
}

# first_of LIST: prints the first interface that NCCL would choose with this value of NCCL_SOCKET_IFNAME. The list holds
# prefixes of names. After =, it holds whole names. After ^, it holds the names to avoid.
first_of() {
    local name address list word except exact found
    while read -r name address; do
        list=$1 except='' exact='' found=''
        [[ $list != ^* ]] || { except=yes && list=${list#^}; }
        [[ $list != =* ]] || { exact=yes && list=${list#=}; }
        for word in ${list//,/ }; do
            [[ $name != "$word" && ($exact || $name != "$word"*) ]] || found=yes
        done
        [ "$found" = "$except" ] || { echo "$name $address" && return; }
    done <<<"$interfaces"
}

check_network() {
    local interfaces names list name='' taken
    interfaces=$(find_interfaces)
    names=$(cut -d' ' -f1 <<<"$interfaces" | paste -sd' ')
    for list in ${NCCL_SOCKET_IFNAME:-ib ^docker,lo,virbr docker lo virbr}; do
        [ -n "$name" ] || read -r name own < <(first_of "$list")
    done
    taken="of the interfaces $names, NCCL uses $name${own:+, $own}"
    case $name in
    '')
        if [ -z "$names" ]; then
            net_fault network 'no interface has an address' 'start at least the loopback interface: ip link set lo up'
        else
            net_fault network "NCCL_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME names none of the interfaces $names" \
                'unset it, or name an interface that connects the nodes (slurm/site.sh)'
        fi
        ;;
    lo)
        if [ "$nodes" -gt 1 ]; then
            net_fault network "$taken, which does not connect the nodes" \
                'name an interface that does: export NCCL_SOCKET_IFNAME=... (slurm/site.sh)'
        else
            say PASS network "$taken, which is enough for one node"
        fi
        ;;
    docker* | virbr* | veth* | br-* | tun* | wg*)
        say WARN network "$taken, which looks virtual" \
            'if ranks do not meet: export NCCL_SOCKET_IFNAME=... (slurm/site.sh)'
        ;;
    *) say PASS network "$taken" ;;
    esac
}

# check_name CHECK NAME ANSWER: checks the address of a name. Debian maps the host's own name to 127.0.1.1, which no
# other node can reach.
check_name() {
    local say='say WARN' finding="no address is known for $2" address
    [ "$nodes" = 1 ] || say=net_fault
    [ "$1" != 'host name' ] || [ -z "${MASTER_ADDR:-}" ] || say='say WARN' # the ranks do not need the host name then
    if answered "$3"; then
        address=$(awk '{ print $1; exit }' "$work/$3")
        if [[ $address != 127.* && $address != ::1 ]]; then
            say PASS "$1" "$2 is $address"
            return
        fi
        finding="$2 is $address here, which no other node can reach"
    fi
    address=${own/#127.*/} # without a network, NCCL uses lo, whose address no other node can reach either
    $say "$1" "$finding" "on several nodes, set MASTER_ADDR=${address:-ADDRESS}"
}

# The job, and the data.

check_job() {
    case $in_job in
    Slurm*)
        say PASS job "$in_job, nodes: $nodes; here: ${SLURM_CPUS_ON_NODE:-?} cores, ${SLURM_GPUS_ON_NODE:-0} GPUs"
        ;;
    PBS*)
        if [ -r "${PBS_NODEFILE:-}" ]; then
            say PASS job "$in_job, nodes: $nodes, ranks: $(wc -l <"$PBS_NODEFILE")"
        else
            say FAIL job "$in_job, but PBS_NODEFILE=${PBS_NODEFILE:-} cannot be read" \
                'run the doctor on the first node of the job, where its script runs'
        fi
        ;;
    *)
        case $scheduler in
        Slurm) say PASS job 'none; Slurm is installed: sbatch slurm/doctor.sbatch checks compute nodes' ;;
        PBS) say PASS job 'none; PBS is installed: pbs/README.md lists the job scripts' ;;
        *)
            if [ -n "$no_controller" ]; then
                say WARN job "none; sbatch is installed, but no Slurm controller answers: $no_controller" \
                    'run programs on this machine: make run-step4'
            else
                say PASS job 'none, and neither Slurm nor PBS: programs run on this machine'
            fi
            ;;
        esac
        ;;
    esac
    say PASS container "${container:-none}"
}

check_data() {
    local folder file wrong='' files packed
    for folder in data/mnist data/fashion-mnist data/cifar10 data/mnist; do # the last one if none has images
        files=("$folder"/{train,t10k}-{images-idx3,labels-idx1}-ubyte) packed=.gz
        [ $folder != data/cifar10 ] || files=("$folder"/{data_batch_{1..5},test_batch}.bin) packed=''
        if [ -e "${files[0]}" ] || [ -e "${files[0]}.gz" ]; then
            break
        fi
    done
    if [ ! -d $folder ]; then
        say WARN data "no $folder" 'run make data on a machine with internet, or train with --data synthetic'
        return
    fi
    for file in "${files[@]}"; do
        if [ -e "$file.gz" ]; then
            gzip -tq "$file.gz" || wrong="$file.gz is damaged"
        elif [ ! -e "$file" ]; then
            wrong="$file$packed is missing"
        fi
    done 2>/dev/null
    if [ -n "$wrong" ]; then
        say FAIL data "$wrong" "run make data SET=${folder#data/} on a machine with internet"
    else
        say PASS data "$folder is complete"
    fi
}

check_compiler
check_blas
check_nvcc
check_nccl
check_programs
check_driver
check_gpus
check_links
check_cores
check_shm
check_limits
check_network
check_name 'host name' "$host" host
[ -z "${MASTER_ADDR:-}" ] || check_name MASTER_ADDR "$MASTER_ADDR" master
check_job
check_data

numbers() { # prints the numbers of the steps, each once
    tr ' ' '\n' | grep . | sort -u | paste -sd' '
}
steps=$(for folder in 0[1-9]_*/; do echo "${folder:1:1}"; done | numbers)
cpu_steps=$(echo "${cpu_flags:+$steps }$built_cpu" | numbers)
cpu_steps=${cpu_steps:+steps $cpu_steps}
gpu_steps=$(echo "${gpu_flags:+1 }${nccl:+$steps }$built_gpu" | numbers)
wide="steps $(tr ' ' '\n' <<<"$steps" | grep '[4-9]' | numbers)"

echo
echo "${count[PASS]} PASS, ${count[WARN]} WARN, ${count[FAIL]} FAIL. What can run here:"
if [ -z "$gpus_fit" ] || { [ "$gpus" -gt 0 ] && [ -z "$gpu_steps" ]; }; then
    row '' GPU 'nothing, until you fix the problem shown above for nvcc, driver or GPUs'
elif [ "$gpus" -gt 0 ]; then
    row '' GPU "steps $gpu_steps, with up to $gpus rank$([ "$gpus" = 1 ] || echo s) on this node"
else
    row '' GPU "nothing, because there is no GPU${gpu_steps:+; steps $gpu_steps can be built for nodes with GPUs}"
fi
row '' 'CPU device' "${cpu_steps:-nothing, until you install a compiler, and oneDNN or OpenBLAS}"
if [ -z "$nodes_meet" ]; then
    row '' 'several nodes' 'nothing, until you fix the problem shown above for the network'
elif [ "$nodes" -gt 1 ]; then
    row '' 'several nodes' "$wide, on the $nodes nodes of this job"
elif [ -n "$in_job" ]; then
    row '' 'several nodes' "$wide, in a job with more than one node"
elif [ "$scheduler" = Slurm ]; then
    row '' 'several nodes' "$wide: sbatch slurm/step4.sbatch"
elif [ "$scheduler" = PBS ]; then
    row '' 'several nodes' "$wide: the scripts in pbs/"
else
    row '' 'several nodes' "$wide, with a launcher on each: see 03_multigpu_launcher/launch --help"
fi
[ "${count[FAIL]}" = 0 ]
