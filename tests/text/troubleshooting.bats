#!/usr/bin/env bats
# Tests of docs/troubleshooting.md, and of what other guides say about messages: those of the course are in its sources, and
# those of NCCL, CUDA and Slurm in their libraries. The commands below provoke the messages that are marked as tested.
load ../helpers

setup_file() {
    cd "$root" || return
    programs=(01_single_gpu/train 02_multigpu_fork/train {03_multigpu_launcher,04_multinode}/{train,launch}
        06_allreduce_demo/allreduce 08_pipeline/train 09_tensor/train)
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

message_of() { # ROW
    local row=${1#*\`}
    echo "${row%%\`*}"
}

# Each line: a message that is marked as tested, then a command that provokes it. Each command has a port of its own, :PORT.
provoked() {
    local pair="WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1"
    local alone="$pair MASTER_ADDR=127.0.0.1 MASTER_PORT=:PORT" two='03_multigpu_launcher/launch --nproc-per-node 2'
    cat <<END
unknown option @ 01_single_gpu/train --epoch 3
fetches the images @ 01_single_gpu/train --data nothing
$(text_of TRUNCATED) @ cp -rL data cut; truncate -s 9 cut/mnist/train-images*; 01_single_gpu/train --data cut/mnist
images, and the data are a text @ 01_single_gpu/train --data text
so that the held-out tenth @ seq 300 >numbers; 01_single_gpu/train --data text:numbers --context 300
the training set has only @ 01_single_gpu/train --batch 6400
$(text_of NOT_FINITE) @ 01_single_gpu/train --lr 1000 --hidden 64,64,64,64
$(text_of OUT_OF_MEMORY) @ CPU_DEVICE_MEMORY=1M 01_single_gpu/train --hidden 4096,4096
hides all GPUs @ CUDA_VISIBLE_DEVICES= 01_single_gpu/train
$(text_of CANNOT_WRITE) @ 01_single_gpu/train --snapshot no/folder
$(text_of OTHER_RUN) @ 01_single_gpu/train --snapshot s --epochs 1000000 >log & until [ -s s.lock ]; do sleep 0.1; done; 01_single_gpu/train --snapshot s; code=\$?; kill \$!; exit \$code
is no snapshot, or a truncated one @ echo nothing >s; 01_single_gpu/train --snapshot s
with sgd, not @ 01_single_gpu/train --snapshot s >log; 01_single_gpu/train --snapshot s --hidden 16
$(text_of TRAINED_WITH) @ 01_single_gpu/train --snapshot s >log; 01_single_gpu/train --snapshot s --seed 2
and the data here has @ 01_single_gpu/train --snapshot s --data blank:640 >log; 01_single_gpu/train --snapshot s --data blank:700
is wanted @ $two 08_pipeline/train --snapshot s >log; cp s.*0of2 s.*1of2; 01_single_gpu/train --snapshot s
this file has other columns @ 01_single_gpu/train --csv a --snapshot s >log; 01_single_gpu/train --csv a --snapshot s --profile --epochs 2
is more than there are GPUs @ 02_multigpu_fork/train --nproc 3
$(text_of INDIVISIBLE) @ 02_multigpu_fork/train --nproc 2 --batch 61
cannot be divided into groups of @ $two 09_tensor/train --tensor 3
has no pairs of dense layers @ $two 09_tensor/train --model resnet --data shapes
and each stage needs one @ ${two%2}3 08_pipeline/train --stages 3 --hidden 8
there is no GPU for local rank @ RANK=2 WORLD_SIZE=3 LOCAL_RANK=2 LOCAL_WORLD_SIZE=3 03_multigpu_launcher/train
Duplicate GPU detected @ $two env LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 03_multigpu_launcher/train
RANK is set, so a launcher @ RANK=0 06_allreduce_demo/allreduce --nproc 2
would not work together @ RANK=0 $pair 01_single_gpu/train
is not set, but other variables @ RANK=0 03_multigpu_launcher/train
does not tell all numbers of a rank @ ALPS_APP_PE=0 03_multigpu_launcher/train
in the environment: want a number @ RANK=2 $pair 03_multigpu_launcher/train
$(text_of CANNOT_RUN) @ $two 04_multinode/nothing
$(text_of FAILED_FIRST) @ $two sh -c 'exit 3'
exit code 2 means wrong usage @ $two --max-restarts 1 03_multigpu_launcher/train --epoch 3
$(text_of CALLS_DIFFER) @ $two sh -c 'exec 06_allreduce_demo/allreduce --check-only --count 1\$RANK'
so no rank knows where rank 0 listens @ RANK=0 $pair 04_multinode/train
rank 0 cannot listen @ RANK=0 ${alone/127.0.0.1/192.0.2.1} 04_multinode/train --join-timeout 1
(--join-timeout) for rank 0 @ RANK=1 $alone 04_multinode/train --join-timeout 1
$(text_of NEVER_ARRIVED) @ RANK=0 $alone 04_multinode/train --join-timeout 1
which only this host can reach @ RANK=0 $alone 04_multinode/train --join-timeout 1
node 0 has not answered @ 04_multinode/launch --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port :PORT --join-timeout 1 true
do all ranks have the same options @ $two sh -c 'exec 04_multinode/train --hidden 1\$RANK'
--snapshot not locked @ $two sh -c 'mkdir \$RANK; exec 04_multinode/train --snapshot \$RANK/s'
that only this user can read @ echo word >word; chmod 644 word; RANK=0 $alone 04_multinode/train --token-file word
of those that NCCL_SOCKET_IFNAME allows @ NCCL_SOCKET_IFNAME=ib 06_allreduce_demo/allreduce --nproc 2 --check-only
with 'ulimit -f unlimited' @ ulimit -f 100; 02_multigpu_fork/train --nproc 2
or a file such as @ CPU_DEVICE_MODEL=x100 01_single_gpu/train
END
}

# provoke MESSAGE COMMAND: the command must fail with this message.
provoke() {
    local folder command=${2//:PORT/$(free_port)}
    folder=$(mktemp -d "$BATS_TEST_TMPDIR/XXXXXX")
    cd "$folder" || return
    ln -s "$BATS_FILE_TMPDIR"/{0*,data} .
    ! timeout "$(patience 60)" bash -c "$command" >out 2>&1 </dev/null || { echo "succeeded: $command" && return 1; }
    grep -qF -- "$1" out || { echo "$command does not print: $1" && cat out && return 1; }
}

@test "each message that is marked as tested is printed by a command" {
    count=0
    provoked | sed 's/ @ .*//' | sort >listed
    for heading in Build "One GPU" "Several ranks" "Several nodes" "The CPU device"; do
        rows "$heading" | grep '| yes |$' | while IFS= read -r line; do message_of "$line"; done
    done | sort | diff listed -
    while IFS= read -r line; do # most commands wait, so several run at the same time
        provoke "${line%% @ *}" "${line#* @ }" >"$BATS_TEST_TMPDIR/failed.$count" &
        count=$((count + 1))
        ((count % 6)) || wait
    done < <(provoked)
    wait
    [ $count -gt 0 ]
    cat "$BATS_TEST_TMPDIR"/failed.*
    [ -z "$(cat "$BATS_TEST_TMPDIR"/failed.*)" ]
}

# lacking TEXT HEADING...: prints the messages of these tables that the text does not have.
lacking() {
    local heading row message
    for heading in "${@:2}"; do
        rows "$heading" | grep '^| \(<!-- = [^|]* -->\)\{0,1\}`' | while IFS= read -r row; do
            message=$(message_of "$row")
            case $message in
            FAIL*) message="${message/  / | } |" ;;
            cc\ *) message="\$$message" ;;
            *\ 640\ images) message=${message/640 images/@ @} ;;
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
