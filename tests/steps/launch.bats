#!/usr/bin/env bats
# Tests of the launcher on one node: the variables of the ranks, their output, and the end of a run. Most ranks are a few
# lines of shell.
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # ranks expand their lines; bats and helpers.bash set variables
load ../helpers

setup_file() {
    need_train {03_multigpu_launcher,04_multinode}/launch
    mkdir "$BATS_FILE_TMPDIR/cuda"
    cc -shared -fPIC -o "$BATS_FILE_TMPDIR/cuda/libcuda.so.1" -x c - <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned flags) {
    FILE *log = fopen("called", "a");
    fprintf(log, "%d\n", getpid());
    fclose(log);
    return flags + (getenv("CUDA_FAILS") ? 100 : 0);
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
    job 0 env OMP_NUM_THREADS=4 "$launch" --nproc-per-node 2 sh -c "${show%;*}"
    [ "$(sort -u out err)" = 4 ]
}

@test "ranks have an empty stdin, and closed descriptors of the caller do no harm" {
    echo text | timeout "$(patience 20)" "$launch" --tee cat >out
    [ ! -s out ]
    timeout "$(patience 20)" "$launch" --log-dir log --run-id a --tee sh -c 'echo out; echo err >&2' <&- >&- 2>&-
    [ "$(cat log/a/attempt_0/rank_0.stdout)" = out ]
    [ "$(cat log/a/attempt_0/rank_0.stderr)" = err ]
}

@test "--nproc-per-node counts GPUs in a child process, or cores if there are none" {
    export LD_LIBRARY_PATH=$BATS_FILE_TMPDIR/cuda
    cores=$(env -u OMP_NUM_THREADS nproc)
    while read -r gpus word ranks calls variable; do
        rm -f called
        # shellcheck disable=SC2086 # one variable or none
        job 0 env "CUDA_COUNT=$gpus" $variable "$launch" --nproc-per-node "$word" sh -c 'echo $WORLD_SIZE'
        [ "$(uniq -c out | awk '{ print $1, $2 }')" = "$ranks $ranks" ]
        lines "$calls" called
        run ! grep -qx "$pid" called
    done <<END
3 gpu 3 1
3 4 4 0
3 cpu $cores 0
0 auto $cores 1
3 auto $cores 1 CUDA_FAILS=1
END
    CUDA_COUNT=0 fails 2 "--nproc-per-node gpu" "$launch" --nproc-per-node gpu true
}

@test "simultaneous launchers get different ports" {
    rm -f alive && mkfifo alive
    for _ in {1..10}; do
        "$launch" sh -c 'echo $MASTER_PORT >>ports; read x <go' >>out 2>>err 3>&- 9>alive {go}>&- &
        pid=$!
    done
    exec {alive}<alive
    until_true 20 lines 10 ports
    [ "$(sort -u ports | wc -l)" = 10 ]
    go 10
    ends 0
    [ ! -s err ]
}

@test "each rank and attempt has its own log files, and a second run overwrites none" {
    head -c 300000 "$launch" >bytes
    for _ in 1 2; do
        job 0 "$launch" --nproc-per-node 3 --max-restarts 1 --log-dir a/new/log --run-id name --shutdown-timeout 20 sh -c \
            'trap : TERM; cat bytes; echo $RANK; exec >&2; echo $TORCHELASTIC_RESTART_COUNT; cat bytes
            echo >>begun.$TORCHELASTIC_RESTART_COUNT; until [ $(wc -l <begun.$TORCHELASTIC_RESTART_COUNT) = 3 ]; do sleep 0.01; done
            exit $((TORCHELASTIC_RESTART_COUNT < 1))'
        [ ! -s out ]
        rm begun.*
        for rank in 0 1 2; do
            { cat bytes && echo $rank; } >>wanted.$rank.stdout
            { echo 1 && cat bytes; } >>wanted.$rank.stderr
            cmp wanted.$rank.stdout a/new/log/name/attempt_1/rank_$rank.stdout
            cmp wanted.$rank.stderr a/new/log/name/attempt_1/rank_$rank.stderr
            grep -qax 0 a/new/log/name/attempt_0/rank_$rank.stderr
        done
        [ "$(find a -type f | wc -l)" = 12 ]
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

# The summary in err must name the rank, its pid and how it failed, and then show its last lines, as in the file.
summary() { # RANK PID HOW FILE
    sed -n 1p err | grep -qx "launch: rank $1 (pid $2 on $(uname -n)) $(text_of FAILED_FIRST) 0: $3"
    if [ -s "$4" ]; then
        tail -n +3 err | cmp - "$4"
    else
        lines 1 err
    fi
}

@test "the summary shows the last 20 lines of the rank's stderr" {
    for count in 0 20 21; do
        { seq -f "%01000g" $count && printf unfinished; } >written
        { tail -n 20 written && echo; } >wanted
        job 1 "$launch" --nproc-per-node 2 --log-dir log --shutdown-timeout 20 \
            sh -c 'if [ $RANK = 0 ]; then echo other >&2; sleep 1000; fi; echo $$ >rank; cat written >&2; exit 3'
        summary 1 "$(cat rank)" "exit code 3" wanted
    done
}

@test "the summary names the exit code or the signal" {
    for how in "exit 255:exit code 255" 'kill -9 $$:signal 9, Killed' 'kill -SEGV $$:signal 11, Segmentation fault'; do
        job 1 "$launch" --log-dir log sh -c 'ulimit -c 0; echo $$ >rank; '"${how%:*}"
        summary 0 "$(cat rank)" "${how#*:}" /dev/null
    done
}

@test "a rank that a signal killed is named, also if the launcher finds another rank ended with it" {
    for killed in 0 1; do
        rm -f pid.*
        start "$launch" --nproc-per-node 2 sh -c 'echo $$ >new.$RANK; mv new.$RANK pid.$RANK; read x <go; exit 1'
        until_true 20 test -e pid.0 -a -e pid.1
        kill -STOP "$pid"
        until_true 20 stopped "$pid"
        kill -9 "$(cat pid.$killed)"
        until_true 20 has_ended "$(cat pid.$killed)"
        go 1
        until_true 20 has_ended "$(cat pid.$((1 - killed)))"
        kill -CONT "$pid"
        ends 1
        summary $killed "$(cat pid.$killed)" "signal 9, Killed" /dev/null
    done
}

@test "a stopped rank is killed without delay, and a rank that ignores SIGTERM is named" {
    job 1 "$launch" --nproc-per-node 2 --shutdown-timeout 1000 sh -c 'echo $$ >new.$RANK; mv new.$RANK pid.$RANK
        [ $RANK = 0 ] || kill -STOP $$
        until [ -e pid.1 ] && grep -q "^State:.T" /proc/$(cat pid.1)/status; do sleep 0.01; done; exit 3'
    grep -qx "launch: rank 1 (pid $(cat pid.1)) is stopped, so SIGKILL ends it" err
    rm pid.*
    job 1 "$launch" --nproc-per-node 3 --shutdown-timeout 3 sh -c 'trap "" TERM; echo $$ >new.$RANK; mv new.$RANK pid.$RANK
        for rank in 0 1 2; do until [ -e pid.$rank ]; do sleep 0.01; done; done
        [ $RANK != 1 ] || exit 3; while :; do sleep 1; done'
    grep -qx "launch: rank 0 (pid $(cat pid.0)) and others have not ended 2 s after the signal; SIGKILL follows in 1 s (--shutdown-timeout)" all_err
    lines 3 all_err
}

@test "the stderr of a rank is shown once" {
    for option in "" "--tee" "--log-dir log" "--log-dir log --tee"; do
        # shellcheck disable=SC2086 # words
        job 1 "$launch" --nproc-per-node 2 $option sh -c '[ $RANK = 0 ] || exit 0; echo cause >&2; exit 3'
        [ "$(grep -c cause err)" = 1 ]
    done
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

@test "signals that the caller ignores stay ignored" {
    for signal in HUP INT; do
        start_catching 00 env --ignore-signal=$signal
        kill -$signal "$pid"
        kill -USR1 "$pid"
        until_true 20 both_got USR1
        kill -TERM "$pid"
        ends 0
        run ! grep -x $signal got.0
    done
}

@test "signals arrive even if nobody reads the output" {
    mkfifo screen
    exec {screen}<>screen
    start bash -c 'exec "$@" >screen' - "$launch" --tee --shutdown-timeout 0.1 sh -c 'touch ready; exec yes'
    until_true 20 test -e ready
    kill -TERM "$pid"
    limit=5 ends 143
    exec {screen}>&-
}

family='#!/bin/sh
sleep 1000 & (trap "" TERM; sleep 1000) &'

@test "a killed launcher leaves no process behind" {
    echo "$family touch ready.\$RANK; wait" >rank
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

@test "child processes of a rank end with the rank" {
    echo "$family exit 0" >rank
    chmod +x rank
    for options in "" "--tee" "--log-dir log"; do
        # shellcheck disable=SC2086
        job 0 "$launch" --nproc-per-node 2 $options ./rank
        [ ! -s err ]
    done
}

@test "the launcher loads no CUDA library" {
    run ! grep -vE '^[[:space:]]*(linux-vdso|/lib.*/ld-linux|lib(c|m|dl|pthread)\.so)' <(ldd "$launch")
}

@test "many ranks, ranks that end early and ranks that close their output work" {
    job 0 "$launch" --tee --nproc-per-node 3 sh -c '[ $RANK = 0 ] || exit 0; exec >&- 2>&-; sleep 0.5'
    [ ! -s out ]
    job 0 "$launch" --nproc-per-node 64 --tee /bin/true
    [ ! -s err ]
}

@test "ranks continue when nobody reads their output any more" {
    for stream in 1 2; do
        rm -f done.*
        job 0 bash -c 'set -o pipefail; { "$@" 3>&2 2>&1 1>&3 || touch failed; } '"$([ $stream = 2 ] || echo '3>&1 1>&2 2>&3')"' | head -n 1' - \
            "$launch" --nproc-per-node 2 --tee bash -c "seq 200000 >&$stream; touch done.\$RANK"
        [ "$(echo done.*)" = "done.0 done.1" ]
        [ ! -e failed ]
    done
}

# refused CODE TEXT ARGUMENT...: the launcher must print one line, and start no rank and write no file.
refused() {
    fails "$1" "$2" timeout "$(patience 20)" "$launch" "${@:3}" touch started
    [ -z "$output" ]
    [ "$(ls)" = go ] || { ls && return 1; }
}

@test "wrong options are refused in one line" {
    while read -r option values; do
        for value in $values; do
            refused 2 "--$option" --"$option" "$value"
        done
        refused 2 "--$option needs a value" --"$option"=
    done <<'END'
nproc-per-node 0 GPU
max-restarts -1
shutdown-timeout nan
run-id a/b ..
log-dir
END
    refused 2 "--tee takes no value" --tee=1
    refused 2 "unknown option --nproc, but there is --nproc-per-node" --nproc 2
    for option in --nnodes --rdzv_id; do
        refused 2 "$option: this launcher starts ranks on one node; 04_multinode/launch does so on several" \
            --nproc-per-node 2 --tee --run-id=a $option 2
        "$launch" sh -c 'true' $option 2>/dev/null # of the program
    done
    fails 2 "--run-id needs a value" "$launch" --run-id
    fails 2 "no program to run" "$launch" --tee
}

@test "missing addresses, folders and programs are named in one line" {
    touch "$BATS_TEST_TMPDIR/file"
    refused 1 "--log-dir: cannot write $BATS_TEST_TMPDIR/file/" --log-dir "$BATS_TEST_TMPDIR/file"
    touch plain
    fails 1 "$(text_of CANNOT_RUN) ./nowhere: No such file" timeout "$(patience 20)" "$launch" --nproc-per-node 3 ./nowhere
    fails 1 "$(text_of CANNOT_RUN) 04_none/train: it is not built: make step4 builds it" "$launch" 04_none/train
    fails 1 "$(text_of CANNOT_RUN) ./plain: Permission denied" timeout "$(patience 20)" "$launch" ./plain
}

# The launcher of step 4 extends this one. More tests of it are in launch_nodes.bats, which needs root.

@test "wrong options of step 4's launcher are refused in one line" {
    launch=$nodes
    refused 2 "--master-port 65536" --master-port 65536
    refused 2 "--node-rank 2" --nnodes 2 --node-rank 2
    refused 1 "waited 1 s (--join-timeout) for an address of --master-addr a..b" --master-addr a..b --join-timeout 1
    refused 1 "--master-addr is not an address of this node" --master-addr 192.0.2.1
}

@test "a used port is refused, and the message names --master-port" {
    start "$nodes" --master-port "$(free_port)" sh -c 'echo $MASTER_PORT; read x <go'
    until_true 20 lines 1 out
    fails 1 "cannot use port $(cat out) of 127.0.0.1: Address already in use; choose another with --master-port" \
        timeout "$(patience 20)" "$nodes" --master-port "$(cat out)" true
    go 1
    ends 0
    [ "$("$nodes" --master-port "$(cat out)" sh -c 'echo $MASTER_PORT')" = "$(cat out)" ]
}

@test "a launcher that waits for other nodes names them, the address and the remaining time" {
    local port at
    port=$(free_port)
    at="at 127\.0\.0\.1, port $port, which only this host can reach"
    wait_as() {
        timeout "$(patience 20)" "$nodes" --nnodes 3 --master-addr 127.0.0.1 --master-port "$port" --join-timeout 6 "$@" true 2>&1
    }
    wait_as --node-rank 1 >one &
    run wait_as
    wait
    grep -qxE "launch: waiting for node 2 $at, for at most 1 s more \(--join-timeout\)" <<<"${lines[0]}"
    head -n 1 one | grep -qxE "launch: node 0 has answered $at; it waits for other nodes"
    [ ${#lines[@]} = 2 ]
    run wait_as --node-rank 1
    grep -qxE "launch: waiting for node 0 $at, for at most 1 s more \(--join-timeout\)" <<<"${lines[0]}"
}
