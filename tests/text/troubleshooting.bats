#!/usr/bin/env bats
# Tests of docs/troubleshooting.md, and of what other guides say about messages: those of the course are in its sources, and
# those of NCCL, CUDA and Slurm in their libraries. The commands below provoke messages that no other test does.
load ../helpers

setup_file() {
    cd "$root" || return
    programs=({01_single_gpu,02_multigpu_fork,03_multigpu_launcher}/train 03_multigpu_launcher/launch 06_allreduce_demo/allreduce)
    cd "$BATS_FILE_TMPDIR" || return
    tiny_data data/mnist
    # The trainers are small and fast, unless an option asks for more.
    small_programs '--hidden 8 --batch 60 --epochs 1 "$@"' "${programs[@]}"
}

setup() {
    page=$root/docs/troubleshooting.md
    cd "$BATS_FILE_TMPDIR" || return
    export NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 CPU_DEVICES=2
}

# rows HEADING: prints the rows of the table below this heading, without its first two lines.
rows() {
    sed -n "/^## $1\$/,/^## /p" "$page" | grep '^|' | tail -n +3
}

# Each line: a message of the page, then a command that must fail with it.
@test "commands print messages of the page" {
    local message command
    while IFS='@' read -r message command; do
        grep -qF "\`${message% }\`" "$page" || { echo "the page does not have: $message" && return 1; }
        mkdir -p "$BATS_TEST_TMPDIR/run" && cd "$BATS_TEST_TMPDIR/run"
        ln -s "$BATS_FILE_TMPDIR"/{0*,data} .
        refute timeout "$(patience 60)" bash -c "$command" >out 2>&1 </dev/null
        grep -qF -- "${message% }" out || { echo "$command does not print: $message" && cat out && return 1; }
        cd .. && rm -r run
    done <<END
fetches the images @ 01_single_gpu/train --data nothing
$(text_of TRUNCATED) @ cp -rL data cut; truncate -s 9 cut/mnist/train-images*; 01_single_gpu/train --data cut/mnist
hides all GPUs @ CUDA_VISIBLE_DEVICES= 01_single_gpu/train
is no snapshot, or a truncated one @ echo nothing >s; 01_single_gpu/train --snapshot s
this file has other columns @ 01_single_gpu/train --csv a --snapshot s >log; 01_single_gpu/train --csv a --snapshot s --profile --epochs 2
does not tell all numbers of a rank @ ALPS_APP_PE=0 03_multigpu_launcher/train
$(text_of CALLS_DIFFER) @ 03_multigpu_launcher/launch --nproc-per-node 2 sh -c 'exec 06_allreduce_demo/allreduce --check-only --count 1\$RANK'
of those that NCCL_SOCKET_IFNAME allows @ NCCL_SOCKET_IFNAME=ib 06_allreduce_demo/allreduce --nproc 2 --check-only
with 'ulimit -f unlimited' @ ulimit -f 100; 02_multigpu_fork/train --nproc 2
or a file such as @ CPU_DEVICE_MODEL=x100 01_single_gpu/train
END
}

# lacking TEXT HEADING...: prints the messages of these tables that the text does not have.
lacking() {
    local heading row message
    for heading in "${@:2}"; do
        rows "$heading" | grep '^| \(<!-- = [^|]* -->\)\{0,1\}`' | while IFS= read -r row; do
            message=${row#*\`}
            message=${message%%\`*}
            case $message in
            FAIL*) message="${message/  / | } |" ;;
            cc\ *) message="\$$message" ;;
            *) message=${message/with sgd/with @} ;;
            esac
            grep -aqF -- "$message" "$1" || echo "$message"
        done
    done
}

@test "the sources have each message of the course" {
    (cd "$root" && cat 0*/{*,*/*}.c {common/*,zoo,zoo/*,watch}/*.c cpu_device/src/*.c tools/*.sh Makefile tools/*.mk) |
        sed 's/%[.0-9*]*l\{0,1\}[a-z]/@/g; s/  *|/ |/g' | tr '\n' ' ' | sed 's/" *"//g' >sources
    run lacking sources Build "One GPU" "Several ranks" "Several nodes" "The CPU device"
    [ -z "$output" ] || { echo "no program prints: $output" && return 1; }
}

@test "the guides for instructors and attendees explain messages that exist" {
    cd "$root"
    text=$(cat 0*/{*,*/*}.c {common/*,zoo,zoo/*,watch}/*.c tools/*.sh exercises/*.{sh,bash} Makefile | sed 's/%[.0-9*]*l\{0,1\}[a-z]/@/g')
    while IFS= read -r message; do
        case $message in
        FAIL* | WARN*) grep -qE "^(${message%%  *}|\\\$\w+) +\| ${message##*  } +\|" tools/doctor.sh ;;
        *) grep -qF -- "$(sed -E 's/exercise [0-9.]+ has/exercise $number has/; s/^cc /$cc /' <<<"$message")" <<<"$text" ;;
        esac || { echo "no program prints: $message" && return 1; }
    done < <(sed -n '/^| \(what attendees see\|line\) |/,/^$/p' docs/{instructor,attendee}.md | grep -oE '^\| `[^`]*`' | cut -d'`' -f2 |
        tee "$BATS_TEST_TMPDIR/messages")
    [ -s "$BATS_TEST_TMPDIR/messages" ]
}

# has FILE HEADING...: the library has each message of these tables. Skips the test without this library.
has() {
    [ -e "$1" ] || skip "$2 is not installed"
    run lacking "$1" "$2"
    [ -z "$output" ] || { echo "$1 does not have: $output" && return 1; }
}

@test "NCCL has each message of its table" {
    has "$(find /usr/local/cuda*/ /usr/lib/ -name 'libnccl.so.2*' 2>/dev/null | head -n 1)" NCCL
}

@test "CUDA has each message of its table" {
    has "$(find /usr/local/cuda*/ -name 'libcudart.so.13*' 2>/dev/null | head -n 1)" CUDA
}

@test "Slurm has each message of its table" {
    has "$(find /usr/lib/ -name 'libslurm.so.3*' 2>/dev/null | head -n 1)" Slurm
}

@test "NCCL has each variable and each line of the log that docs/nccl.md explains" {
    count=0
    library=$(find /usr/local/cuda*/ /usr/lib/ -name 'libnccl.so.2*' 2>/dev/null | head -n 1)
    [ -n "$library" ] || skip "NCCL is not installed"
    has() {
        grep -aqF -- "$1" "$library" || { echo "$library does not have: $1" && return 1; }
        count=$((count + 1))
    }
    while IFS= read -r name; do
        [ "$name" != NCCL_MULTI_RANK_GPU_ENABLE ] || has "NCCL version 2.3" >/dev/null || continue # since NCCL 2.30
        has "$name" >/dev/null || has "${name#NCCL_}" # most are stored without the prefix
    done < <(grep -oE 'NCCL_[A-Z0-9_]+' "$root/docs/nccl.md" | sort -u)
    while IFS= read -r line; do # the values are left out
        has "$line"
    done < <(sed -n '/^| in a line of the log/,/^$/p' "$root/docs/nccl.md" | grep -oE '^\| `[^`]*`' | cut -d'`' -f2 |
        sed -E 's/^NCCL_[A-Z0-9_]* //; s/ (IB|Socket|1)$//; s|NET/.*|NET/|; s/Algo RING proto SIMPLE/Algo %s proto %s/')
    [ $count -gt 0 ]
}
