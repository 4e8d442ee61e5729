#!/usr/bin/env bats
# Tests of the launcher on one node: the variables of the ranks, their output, and the end of a run. Most ranks are a few
# lines of shell.
load ../helpers

setup_file() {
    need_train {03_multigpu_launcher,04_multinode}/launch
    mkdir "$BATS_FILE_TMPDIR/cuda"
    cc -shared -fPIC -o "$BATS_FILE_TMPDIR/cuda/libcuda.so.1" -x c - <<'END'
#include <stdlib.h>
int cuInit(unsigned flags) {
    return flags;
}
int cuDeviceGetCount(int *count) {
    *count = atoi(getenv("CUDA_COUNT"));
    return 0;
}
END
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" "$BATS_TEST_TMPDIR/tmp" && cd "$BATS_TEST_TMPDIR/work" || return
    export OMP_NUM_THREADS=1 TMPDIR=$BATS_TEST_TMPDIR/tmp LC_ALL=C
    launch=${TRAIN%/01_single_gpu/train}/03_multigpu_launcher/launch
    nodes=${launch/03_multigpu_launcher/04_multinode}
    mkfifo go
    exec {go}<>go
}

# Each test must leave no file. Ends the processes that a failed test has left.
teardown() {
    [ -z "${BATS_TEST_COMPLETED:-}" ] || [ -z "$(ls -A "$TMPDIR")" ] || { ls -A "$TMPDIR" && return 1; }
    [ -z "${pid:-}" ] || kill -9 -- "-$pid" 2>/dev/null || true
    for left in $(pgrep 'sleep|sh|yes|launch|cat'); do
        [ "$left" = $$ ] || [ "$(readlink "/proc/$left/cwd")" != "$BATS_TEST_TMPDIR/work" ] ||
            [[ $(tr '\0' ' ' <"/proc/$left/cmdline") == *bats* ]] || kill -9 "$left" || true
    done
}

job() { # CODE COMMAND...
    start "${@:2}"
    ends "$1"
}

lines() { # COUNT FILE...
    [ "$(cat "${@:2}" 2>/dev/null | wc -l)" = "$1" ]
}

# go COUNT: lets this many ranks continue that wait with "read <go".
go() {
    yes | head -n "$1" >&"$go"
}

@test "the launcher sets torchrun's variables and changes no others" {
    env -i PATH="$PATH" 'ODD=a b
c' RANK=x MASTER_ADDR=y OMP_NUM_THREADS=7 "$launch" --nproc-per-node 3 --max-restarts 2 --run-id name --log-dir log env -0
    for rank in 0 1 2; do
        tr '\0\n' '\n_' <log/name/attempt_0/rank_$rank.stdout | sort >got
        number=$(sed -n 's/^MASTER_PORT=//p' got)
        [ "$number" -ge 1024 ]
        sort <<END | diff - got
GROUP_RANK=0
GROUP_WORLD_SIZE=1
LOCAL_RANK=$rank
LOCAL_WORLD_SIZE=3
MASTER_ADDR=127.0.0.1
MASTER_PORT=$number
ODD=a b_c
OMP_NUM_THREADS=7
PATH=$PATH
RANK=$rank
ROLE_NAME=default
ROLE_RANK=$rank
ROLE_WORLD_SIZE=3
TORCHELASTIC_MAX_RESTARTS=2
TORCHELASTIC_RESTART_COUNT=0
TORCHELASTIC_RUN_ID=name
TORCHELASTIC_USE_AGENT_STORE=False
WORLD_SIZE=3
END
    done
}

@test "with several ranks, OMP_NUM_THREADS defaults to 1, and one line says so" {
    show='echo "${OMP_NUM_THREADS-none}"; exit $((TORCHELASTIC_RESTART_COUNT < 1))'
    job 0 env -u OMP_NUM_THREADS "$launch" --nproc-per-node 3 --max-restarts 1 sh -c "$show"
    [ "$(sort -u out)" = 1 ]
    [ "$(grep -c OMP_NUM_THREADS err)" = 1 ]
    job 0 env -u OMP_NUM_THREADS "$launch" sh -c "${show%;*}"
    [ "$(cat out err)" = none ]
}

@test "ranks have an empty stdin" {
    echo text | timeout "$(patience 20)" "$launch" --tee cat >out
    [ ! -s out ]
}

@test "--nproc-per-node counts GPUs, or cores if there are none" {
    export LD_LIBRARY_PATH=$BATS_FILE_TMPDIR/cuda
    cores=$(env -u OMP_NUM_THREADS nproc)
    while read -r gpus word ranks; do
        CUDA_COUNT=$gpus job 0 "$launch" --nproc-per-node "$word" sh -c 'echo $WORLD_SIZE'
        [ "$(uniq -c out | awk '{ print $1, $2 }')" = "$ranks $ranks" ]
    done <<END
3 gpu 3
3 cpu $cores
0 auto $cores
END
    CUDA_COUNT=0 fails 2 "--nproc-per-node gpu" "$launch" --nproc-per-node gpu true
}

@test "each rank and attempt has its own log files, and a second run overwrites none" {
    for _ in 1 2; do
        job 0 "$launch" --nproc-per-node 2 --max-restarts 1 --log-dir a/new/log --run-id name sh -c \
            'echo $RANK; echo $TORCHELASTIC_RESTART_COUNT >&2; exit $((TORCHELASTIC_RESTART_COUNT < 1))'
        [ ! -s out ]
        for rank in 0 1; do
            echo $rank >>wanted.$rank.stdout
            echo 1 >>wanted.$rank.stderr
            cmp wanted.$rank.stdout a/new/log/name/attempt_1/rank_$rank.stdout
            cmp wanted.$rank.stderr a/new/log/name/attempt_1/rank_$rank.stderr
        done
        [ "$(find a -type f | wc -l)" = 8 ]
    done
}

# tee_is FILE OUT: the lines of each of two ranks in OUT must be those of the file.
tee_is() {
    for rank in 0 1; do
        sed -n "s/^\[$rank\] //p" "$2" | cmp - "$1"
    done
    lines $((2 * $(wc -l <"$1"))) "$2"
}

@test "--tee prints whole lines that begin with the rank, and --tee and --log-dir keep all bytes" {
    { seq 5000 && tr 'a-m' '\000-\012' <"$launch" | head -c 400000 && echo; } >bytes
    awk 'length > 8000 { exit 1 }' bytes || skip "the program has long lines"
    for i in {1..200}; do echo "$i${i}words"; done | cat bytes - >wanted
    job 0 "$launch" --nproc-per-node 2 --tee --log-dir log --run-id r bash -c \
        'cat bytes; for i in {1..200}; do for piece in $i $i "words\n"; do printf "$piece"; done; done; printf end; cat bytes >&2'
    tee_is bytes err
    cmp bytes log/r/attempt_0/rank_1.stderr
    { cat wanted && printf end; } | cmp - log/r/attempt_0/rank_1.stdout
    echo end >>wanted # --tee ends an unfinished last line
    tee_is wanted out
}

@test "the summary names the exit code or the signal, and shows the last 20 lines of the rank's stderr once" {
    while IFS='|' read -r how command; do
        for option in "" "--tee"; do
            # shellcheck disable=SC2086 # a word or none
            job 1 "$launch" --nproc-per-node 2 $option --log-dir log --shutdown-timeout 20 sh -c '[ $RANK = 1 ] || exec sleep 1000
                ulimit -c 0; seq -f "%01000g" 21 >&2; printf unfinished >&2; '"$command"
            grep -q "^launch: rank 1 (pid [0-9]* on $(uname -n)) $(text_of FAILED_FIRST) 0: $how$" err
            [ "$(grep -c '^\(\[1\] \)\?[0u]' err)" = $((20 + 2 * (${#option} > 0))) ]
        done
    done <<'END'
exit code 255|exit 255
signal 11, Segmentation fault|kill -SEGV $$
END
}

@test "when a rank fails, the others get time to clean up and are then killed" {
    rank=': >ready.$RANK
        if [ $RANK = 1 ]; then until [ -e ready.0 ] && [ -e ready.2 ]; do sleep 0.01; done; exit 3; fi'
    job 1 "$launch" --nproc-per-node 3 --shutdown-timeout 1000 bash -c \
        'trap "sleep 0.3; touch cleaned.\$RANK; exit" TERM;'"$rank;"'while :; do sleep 1000 & wait; done'
    [ "$(echo cleaned.*)" = "cleaned.0 cleaned.2" ]
    rm ready.*
    job 1 "$launch" --nproc-per-node 3 --shutdown-timeout 0.5 bash -c 'trap "" TERM;'"$rank;"'while :; do sleep 1000; done'
}

@test "all ranks restart after all have ended, up to --max-restarts" {
    rank='trap "" TERM; last=$((TORCHELASTIC_RESTART_COUNT - 1))
        for old in $(cat pids.$last.* 2>/dev/null); do ! kill -0 $old || touch overlap; done
        echo $$ >pids.$TORCHELASTIC_RESTART_COUNT.$RANK
        if [ $RANK = 2 ]; then until [ $(cat pids.$TORCHELASTIC_RESTART_COUNT.* | wc -l) = 3 ]; do sleep 0.01; done
        exit 4; fi; sleep 1000 & wait; sleep 1000'
    job 1 "$launch" --nproc-per-node 3 --max-restarts 2 --shutdown-timeout 0.1 sh -c "$rank" 2>/dev/null
    [ "$(echo pids.*)" = "pids.0.0 pids.0.1 pids.0.2 pids.1.0 pids.1.1 pids.1.2 pids.2.0 pids.2.1 pids.2.2" ]
    [ ! -e overlap ]
    [ "$(grep -c "rank 2 (pid .* $(text_of FAILED_FIRST) [012]: exit code 4" err)" = 3 ]
    [ "$(grep -o 'restart . of .' err)" = "$(printf 'restart 1 of 2\nrestart 2 of 2')" ]
    job 1 "$launch" --nproc-per-node 2 --max-restarts 2 sh -c 'exit 2'
    drop_pids err
    grep -q "$(text_of FAILED_FIRST) 0: exit code 2$" err
    [ "$(tail -n 1 err)" = "launch: exit code 2 means wrong usage, which no restart cures: the run ends" ]
}

# Starts ranks that record their signals. At HUP, INT and TERM, each rank ends with the code that has its number.
catch='for s in TERM INT HUP; do trap "echo $s >>got.$RANK; exit ${codes:RANK:1}" $s; done
    for s in USR1 USR2; do trap "echo $s >>got.$RANK" $s; done
    : >ready.$RANK; while :; do sleep 1000 & wait; done'

start_catching() { # CODES
    rm -f ready.* got.*
    codes=$1 start "${@:2}" "$launch" --nproc-per-node 2 --max-restarts 3 bash -c "$catch"
    until_true 20 test -e ready.0 -a -e ready.1
}

both_got() { # SIGNAL
    grep -qx "$1" got.0 2>/dev/null && grep -qx "$1" got.1 2>/dev/null
}

@test "signals are passed on to the ranks once, and HUP, INT and TERM end the run without a restart" {
    for signal in HUP:129 INT:130 TERM:143; do
        for to in "" -; do # the launcher, or its process group
            start_catching 00
            for user in USR1 USR2; do
                kill -$user -- "$to$pid"
                until_true 20 both_got $user
            done
            kill -"${signal%:*}" -- "$to$pid"
            ends 0
            [ ! -s err ]
            printf '%s\n' USR1 USR2 "${signal%:*}" | cmp - got.0
            cmp got.0 got.1
        done
        start_catching 01 # one rank fails
        kill -"${signal%:*}" "$pid"
        ends "${signal#*:}"
        [ ! -s err ]
    done
}

# Sends SIGTERM again, until it is a second request.
ended_by_second_request() {
    kill -TERM "$pid" 2>/dev/null || true
    has_ended "$pid"
}

@test "signals that follow at once are one request, and a second request ends the launcher and its ranks" {
    rank='for s in TERM INT HUP; do trap "echo $s >>got.$RANK" $s; done
        : >ready.$RANK; while :; do sleep 1000 & wait; done'
    more=()
    for program in "$launch" "$nodes"; do
        rm -f ready.* got.*
        start "$program" "${more[@]}" --nproc-per-node 2 bash -c "$rank"
        until_true 20 test -e ready.0 -a -e ready.1
        kill -TERM "$pid"
        kill -INT "$pid"
        until_true 20 test -s got.0 -a -s got.1
        until_true 20 ended_by_second_request
        ends 143
        [ "$(cat got.* | wc -l)" = 2 ] # the first of both that the launcher reads
        [ "$(wc -l <err)" = 1 ]
        grep -q "^error ($(hostname)): $(text_of SECOND_SIGNAL) before it had saved" err
        more=(--master-port "$(free_port)") # only step 4 has this option
    done
}

@test "a killed launcher leaves no process behind" {
    printf '%s\n' '#!/bin/sh' "trap '' TERM" "touch ready.\$RANK" 'exec sleep 1000' >rank
    chmod +x rank
    for options in "" "--tee" "--log-dir log"; do
        # shellcheck disable=SC2086
        start "$launch" --nproc-per-node 3 $options ./rank
        until_true 20 test -e ready.0 -a -e ready.1 -a -e ready.2
        kill -9 "$pid"
        ends 137
        rm ready.*
    done
}

family='#!/bin/sh
sleep 1000 & (trap "" TERM; sleep 1000) &'

@test "child processes of a rank end with the rank" {
    echo "$family exit 0" >rank
    chmod +x rank
    for options in "" "--tee" "--log-dir log"; do
        # shellcheck disable=SC2086
        job 0 "$launch" --nproc-per-node 2 $options ./rank
        [ ! -s err ]
    done
}

# refused CODE TEXT ARGUMENT...: the launcher must print one line, and start no rank and write no file.
refused() {
    fails "$1" "$2" timeout "$(patience 20)" "$launch" "${@:3}" touch started
    [ -z "$output" ]
    [ "$(ls)" = go ] || { ls && return 1; }
}

@test "wrong options are refused in one line" {
    while IFS='|' read -r text options; do
        # shellcheck disable=SC2086 # words
        refused 2 "$text" $options
    done <<'END'
--nproc-per-node GPU|--nproc-per-node GPU
--max-restarts -1|--max-restarts -1
--shutdown-timeout nan|--shutdown-timeout nan
--run-id a/b|--run-id a/b
--log-dir needs a value|--log-dir=
--tee takes no value|--tee=1
unknown option --nproc, but there is --nproc-per-node|--nproc 2
--nnodes: this launcher starts ranks on one node; 04_multinode/launch does so on several|--nproc-per-node 2 --nnodes 2
END
    "$launch" sh -c 'true' --nnodes 2 2>/dev/null # of the program
    fails 2 "no program to run" "$launch" --tee
    for option in "--nproc-per-node 2" --log_dir=x; do
        # shellcheck disable=SC2086 # words
        job 1 "$launch" sh -c 'exit 2' sh $option --other
        [ "$(grep -c "^launch: sh got ${option%% *}; options of the launcher come before the program$" err)" = 1 ]
    done
}

@test "missing addresses, folders and programs are named in one line" {
    touch "$BATS_TEST_TMPDIR/file"
    refused 1 "--log-dir: cannot write $BATS_TEST_TMPDIR/file/" --log-dir "$BATS_TEST_TMPDIR/file"
    touch plain
    fails 1 "$(text_of CANNOT_RUN) ./nowhere: No such file" timeout "$(patience 20)" "$launch" --nproc-per-node 3 ./nowhere
    fails 1 "$(text_of CANNOT_RUN) 04_none/train: it is not built: make step4 builds it" "$launch" 04_none/train
    fails 1 "$(text_of CANNOT_RUN) plain: No such file or directory in PATH; a program of this folder begins with ./" "$launch" plain
    fails 1 "$(text_of CANNOT_RUN) ./plain: Permission denied" timeout "$(patience 20)" "$launch" ./plain
}

# The launcher of step 4 extends this one. More tests of it are in launch_nodes.bats, which needs root.

@test "wrong options of step 4's launcher and a used port are refused in one line" {
    launch=$nodes
    refused 2 "--master-port 65536" --master-port 65536
    refused 2 "--node-rank 2" --nnodes 2 --node-rank 2
    refused 1 "--master-addr is not an address of this node" --master-addr 192.0.2.1
    start "$nodes" --master-port "$(free_port)" sh -c 'echo $MASTER_PORT; read x <go'
    until_true 20 lines 1 out
    fails 1 "cannot use port $(cat out) of 127.0.0.1: Address already in use; choose another with --master-port" \
        timeout "$(patience 20)" "$nodes" --master-port "$(cat out)" true
    go 1
    ends 0
}

@test "a launcher that waits for other nodes names them, the address and the remaining time" {
    port=$(free_port)
    while read -r node missing; do # node 2 also waits for node 0
        run timeout "$(patience 20)" "$nodes" --nnodes 3 --node-rank "$node" --master-addr 127.0.0.1 --master-port "$port" --join-timeout 6 true
        grep -qxE "launch: waiting for $missing at 127\.0\.0\.1, port $port, which only this host can reach, for at most 1 s more \(--join-timeout\)" <<<"${lines[0]}"
    done <<'END'
0 node 1, node 2
2 node 0
END
}
