#!/usr/bin/env bats
# Tests of the launchers of several nodes. All of them run on this host.
load ../helpers

setup_file() {
    need_train 04_multinode/launch
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    unset NCCL_COMM_ID NCCL_HOSTID CPU_DEVICE_CHAOS SLOW
    export OMP_NUM_THREADS=1
    set_build
    launch=$build/04_multinode/launch
    make_rank
    program=()
    declare -gA launchers=() ports=()
}

# Ends the launchers that a failed test has left, and so their ranks.
teardown() {
    [ ${#launchers[@]} = 0 ] || { kill -9 "${launchers[@]}" && wait; } 2>/dev/null || true
}

# Each rank runs the commands that a test sends it. It writes to the folder of the run, which all nodes see: its
# environment, its signals, and in the file overlap any rank of another attempt that still runs.
make_rank() {
    cat >rank <<'END'
#!/bin/bash
cd "$1" || exit
attempt=$TORCHELASTIC_RESTART_COUNT
shopt -s nullglob
for file in started.*; do
    IFS=. read -r _ earlier rank <<<"$file"
    # This folder is empty once a process has ended, even if its parent has not read the exit code.
    [ "$earlier" -lt "$attempt" ] && read -r -d '' word <"/proc/$(<"$file")/cmdline" && [ -n "$word" ] &&
        echo "rank $RANK of attempt $attempt beside $rank of $earlier" >>overlap
done 2>/dev/null
in=in.$attempt.$RANK
mkfifo "$in" || echo "rank $RANK of attempt $attempt twice" >>overlap
exec {in}<>"$in"
trap 'echo USR1 >>"signals.$RANK"' USR1
[ -z "$SLOW" ] || trap 'sleep $SLOW; exit 1' TERM
env | grep -E '^(.*RANK|.*WORLD_SIZE|MASTER_.*|TORCHELASTIC_.*)=' | sort >"env.$attempt.$RANK"
read -r pid _ </proc/self/stat # a container has its own process numbers
echo "$pid" >"starting.$attempt.$RANK"
mv "starting.$attempt.$RANK" "started.$attempt.$RANK"
# A signal that comes just before bash begins to read has no effect until the read ends, so each read is short. Its time may
# be up within a line.
until [ $SECONDS -gt 1000 ]; do
    if read -r -t 0.5 -u "$in" rest; then
        eval "$command$rest"
        command=
    else
        command+=$rest
    fi
done
exit 9
END
    chmod +x rank
}

# within SECONDS COMMAND...: waits until the command succeeds, and prints what the launchers have said if it does not.
within() {
    until_true "$@" 2>/dev/null || { tail -n +1 ./*/err.* ./*/overlap 2>/dev/null && return 1; }
}

# begin RUN NODE [OPTION...]: starts a launcher of the run, which has its own folder and port. The run has two nodes of two
# ranks, unless the options differ.
begin() {
    # If the tests run in the background, SIGINT is ignored, and the launcher would go on ignoring it.
    local command=(env --default-signal=INT "$launch" --nnodes 2 --nproc-per-node 2 --node-rank "$2")
    mkdir -p "$1"
    ports[$1]=${ports[$1]:-$(free_port)}
    command+=(--master-port "${ports[$1]}" "${@:3}")
    if [ ${#program[@]} -gt 0 ]; then
        command+=("${program[@]}")
    else
        command+=("$PWD/rank" "$PWD/$1")
    fi
    "${command[@]}" >"$1/out.$2" 2>"$1/err.$2" 3>&- &
    launchers[$1.$2]=$!
}

# at RUN: how the launchers print the address.
at() {
    echo "at 127\.0\.0\.1, port ${ports[$1]}, which only this host can reach"
}

begin_both() { # RUN [OPTION...]
    begin "$1" 0 "${@:2}"
    begin "$1" 1 "${@:2}"
}

is_gone() { # PID
    [ ! -e "/proc/$1" ]
}

# ends RUN NODE CODE [SECONDS]
ends() {
    local code=0
    within "${4:-5}" is_gone "${launchers[$1.$2]}"
    wait "${launchers[$1.$2]}" || code=$?
    [ $code = "$3" ] && return
    echo "the launcher of node $2 of run $1 ended with $code"
    tail -n +1 "$1"/err.*
    return 1
}

# both_end RUN CODE0 CODE1: the launchers of both nodes must end with these codes.
both_end() {
    ends "$1" 0 "$2" && ends "$1" 1 "$3"
}

# The ranks 0 to COUNT - 1 must have started.
started() { # RUN ATTEMPT [COUNT]
    local rank
    for ((rank = 0; rank < ${3:-4}; rank++)); do
        [ -e "$1/started.$2.$rank" ] || return 1
    done
}

# The processes of these ranks must have ended.
ended() { # RUN ATTEMPT RANK...
    local rank pid
    for rank in "${@:3}"; do
        read -r pid <"$1/started.$2.$rank"
        is_gone "$pid" || return 1
    done
}

tell() { # RUN ATTEMPT RANK COMMAND
    echo "$4" 1<>"$1/in.$2.$3"
}

# finish RUN ATTEMPT [COUNT]: lets all ranks end. Both launchers must end with 0, and no attempt may have too many ranks.
finish() {
    local rank
    within 5 started "$@"
    for ((rank = 0; rank < ${3:-4}; rank++)); do
        tell "$1" "$2" $rank "exit 0"
    done
    both_end "$1" 0 0
    sound "$@"
}

# This must be the last attempt. In each attempt, all ranks must have its number, and no rank may start too early.
sound() { # RUN ATTEMPT [COUNT]
    [ ! -e "$1/overlap" ] || { cat "$1/overlap" && return 1; }
    [ "$(sed -n 's/^TORCHELASTIC_RESTART_COUNT=//p' "$1"/env.* | sort -n | uniq -c | awk '{ print $2 ":" $1 }' | xargs)" = \
        "$(seq -f "%g:${3:-4}" -s ' ' 0 "$2")" ]
}

# said RUN NODE LINE...: the launcher must have printed exactly these lines (patterns of grep -E).
said() {
    local lines
    cp "$1/err.$2" said
    drop_pids said
    mapfile -t lines <said
    if [ ${#lines[@]} = $(($# - 2)) ]; then
        for ((i = 0; i < ${#lines[@]}; i++)); do
            grep -qxE "(launch|error \([^)]+\)): ${*:i+3:1}" <<<"${lines[i]}" || break
        done
        [ $i -lt ${#lines[@]} ] || return 0
    fi
    printf '%s\n' "wanted of node $2:" "${@:3}" "said:" "${lines[@]}"
    return 1
}

# both_silent RUN...
both_silent() {
    local run
    for run; do
        said "$run" 0 && said "$run" 1 || return
    done
}

# told RUN NODES ADDRESS LINE...: checks the environments of two ranks on each of the nodes, in attempt 0.
told() {
    local rank world=$((2 * $2))
    for ((rank = 0; rank < world; rank++)); do
        diff <(printf '%s\n' RANK=$rank LOCAL_RANK=$((rank % 2)) WORLD_SIZE=$world LOCAL_WORLD_SIZE=2 \
            GROUP_RANK=$((rank / 2)) GROUP_WORLD_SIZE="$2" ROLE_RANK=$rank ROLE_WORLD_SIZE=$world MASTER_ADDR="$3" \
            MASTER_PORT="${ports[$1]}" TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_USE_AGENT_STORE=False "${@:4}" | sort) \
            "$1/env.0.$rank" || return
    done
}

@test "launchers start in any order, with an IPv6 address, and ranks get their variables" {
    three() { begin run "$1" --nnodes 3 --max-restarts 7 --run-id "my run" --master-addr ::1; }
    three 2
    three 1
    sleep 2 # seconds apart
    three 0
    within 5 started run 0 6
    told run 3 ::1 "TORCHELASTIC_RUN_ID=my run" TORCHELASTIC_MAX_RESTARTS=7
    for rank in 0 1 2 3 4; do
        tell run 0 $rank "exit 0"
    done
    within 5 ended run 0 0 1 2 3 4
    # A node whose ranks have ended waits for the others.
    for node in 0 1 2; do
        run ! is_gone "${launchers[run.$node]}"
    done
    tell run 0 5 "exit 0"
    for node in 0 1 2; do
        ends run $node 0
        said run $node
    done
}

first() { # RANK ATTEMPT HOW
    echo "rank $1 \(pid [0-9]+ on [^ ]+\) $(text_of FAILED_FIRST) $2: $3"
}

again() { # RESTART OF
    echo "starting all ranks again: restart $1 of $2"
}

@test "when a rank fails on any node, the ranks of all nodes restart together, up to --max-restarts" {
    export SLOW=0.7
    begin_both run --max-restarts 5
    begin_both last --max-restarts 1
    within 5 started run 0
    kill -9 "$(cat run/started.0.2)"
    within 5 started run 1
    # A node whose ranks have ended starts again with the others.
    tell run 1 2 "exit 0"
    tell run 1 3 "exit 0"
    within 5 ended run 1 2 3
    tell run 1 1 "exit 6"
    finish run 2
    said run 0 "$(again 1 5)" "$(first 1 1 "exit code 6")" "$(again 2 5)"
    said run 1 "$(first 2 0 "signal 9, Killed")"

    within 5 started last 0
    tell last 0 1 "exit 8"
    within 5 started last 1
    tell last 1 3 'echo oh no >&2; exit 9'
    both_end last 1 1
    sound last 1
    said last 0 "$(first 1 0 "exit code 8")" "$(again 1 1)"
    sed -i 's/^oh no/launch: &/' last/err.1
    said last 1 "oh no" "$(first 3 1 "exit code 9")"
}

@test "a killed launcher is noticed within 10 seconds, and a new one joins the next attempt" {
    export SLOW=0.5
    begin_both gone
    begin_both headless
    begin_both anew --max-restarts 2
    for run in gone headless anew; do
        within 5 started $run 0
    done
    kill -9 "${launchers[gone.1]}" "${launchers[headless.0]}" "${launchers[anew.1]}"
    begin anew 1 --max-restarts 2
    all_ended() {
        ended gone 0 0 1 2 3 && ended headless 0 0 1 2 3 && ended anew 0 0 1 2 3
    }
    within 10 all_ended
    ends gone 0 1
    said gone 0 "node 1 is lost: its launcher is silent"
    ends headless 1 1
    said headless 1 "node 0 has not answered $(at headless), for [0-9]+ s \(--join-timeout\)"
    finish anew 1
    said anew 0 "node 1 is lost: its launcher is silent" "starting all ranks again: restart 1 of 2"
}

# While the file cut is there, no message arrives.
@test "a disconnected node ends its ranks, as the others do, and joins again later" {
    main=launch changed ./connected 4 nodes.c 's/^void send_message\(void\) \{$/&\n    if (!access("cut", F_OK))\n        return;/'
    launch=$PWD/connected
    export SLOW=0.5
    begin_both back --max-restarts 1
    within 5 started back 0
    touch cut
    within 15 ended back 0 0 1 2 3
    run ! started back 1 1
    rm cut
    finish back 1
    said back 0 "node 1 is lost: its launcher is silent" "starting all ranks again: restart 1 of 1"
}

@test "SIGTERM to any launcher ends the run on all nodes; SIGUSR1 goes to the ranks of one node" {
    for run in zero one; do
        begin_both $run --max-restarts 3
    done
    begin_both user
    for run in zero one user; do
        within 10 started $run 0
    done
    has() { [ "$(find "$1" -name "$2" | wc -l)" = "$3" ]; }
    kill "${launchers[zero.0]}" "${launchers[one.1]}"
    kill -USR1 "${launchers[user.1]}"
    both_end zero 143 1
    both_end one 1 143
    said zero 1 "node 0 on [^ ]+ ends the run: its launcher got SIGTERM"
    said one 0 "node 1 on [^ ]+ ends the run: its launcher got SIGTERM"
    said zero 0
    said one 1
    for run in zero one; do
        sound $run 0
        ended $run 0 0 1 2 3
    done
    within 5 has user "signals.*" 2
    finish user 0
    [ "$(cd user && echo signals.*)" = "signals.2 signals.3" ]
}

@test "a launcher whose options differ from node 0's names the difference, and node 0 gives up" {
    limit=$(patience 2) # a busy machine needs seconds to start the other launcher
    for run in nproc other; do
        begin $run 0 --run-id $run --join-timeout "$limit"
    done
    begin nproc 1 --run-id nproc --nproc-per-node 3
    begin other 1 --run-id another
    while IFS='|' read -r run line refused; do
        ends "$run" 1 1
        said "$run" 1 "$line"
        ends "$run" 0 1 $((limit + 5))
        said "$run" 0 "the launcher of node 1 at 127\.0\.0\.1 $refused" \
            "node 1 of 2 has not joined $(at "$run"), within $limit s \(--join-timeout\)"
        run ! started "$run" 0 1
    done <<'END'
nproc|node 1 has other options than node 0: --nnodes 2 --nproc-per-node 2 --max-restarts 0|has other options than this one: --nnodes 2 --nproc-per-node 3 --max-restarts 0
other|node 1 does not belong to the run of node 0: .* the same --run-id, or all without; .*|does not belong to this run \(--run-id\)
END
}

@test "wrong addresses, ports, node ranks and programs end the launcher with one line, and disturb no other run" {
    begin_both good --max-restarts 1
    within 5 started good 0
    begin nobody 1 --join-timeout 2
    # Without --run-id, this address would be refused. A router stands between node 1 and node 0.
    begin service 0 --master-addr 192.0.2.1 --run-id 4711
    begin service 1 --run-id 4711
    program=(./none)
    begin noprogram 1 --max-restarts 2
    program=()
    begin noprogram 0 --max-restarts 2
    while IFS='|' read -r run node line; do
        ends "$run" "$node" 1
        said "$run" "$node" "$line"
    done <<END
noprogram|1|$(text_of CANNOT_RUN) ./none: No such file or directory
noprogram|0|node 1 is lost: its launcher has ended
nobody|1|node 0 has not answered $(at nobody), for [2-5] s \(--join-timeout\)
END
    # A stranger sends random packets of several sizes.
    for size in 1 240 4000; do
        head -c 200000 /dev/urandom | dd "bs=$size" iflag=fullblock status=none >"/dev/udp/127.0.0.1/${ports[good]}"
    done
    finish good 0
    finish service 0
    both_silent good service
}

@test "a run survives the loss of a third of all packets" {
    main=launch changed ./lossy 4 nodes.c 's/^void send_message\(void\) \{$/&\n    if (random() % 3 == 0)\n        return;/'
    launch=$PWD/lossy
    begin_both run --max-restarts 1
    within 10 started run 0
    tell run 0 3 "exit 3"
    within 10 started run 1
    for rank in 0 1 2 3; do
        tell run 1 $rank "exit 0"
    done
    # The last message of node 1 may be lost. Then its silence has the same effect.
    ends run 1 0
    ends run 0 0 15
    sound run 1
}
