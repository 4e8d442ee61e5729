#!/usr/bin/env bats
# Tests of the rendezvous of step 4's ranks over TCP: in any order, among strangers that send anything or nothing, and with
# errors. They use the loopback interface of this host; the tests in tests/cluster use several nodes.
load ../helpers
load every_step

prepare() {
    command -v ss >/dev/null || skip "what is connected is asked of the program ss, of iproute2"
    compile "$stranger" -w "$BATS_TEST_DIRNAME/rendezvous/stranger.c"
    timeout "$(patience 60)" "$(program_of 2)" "${options[@]}" --nproc 3 --snapshot "$right"
}

adjust() {
    four=$(program_of 4)
    stranger=$BATS_FILE_TMPDIR/stranger
    right=$BATS_FILE_TMPDIR/right # the snapshot of three undisturbed ranks
    options=(--data "$tiny" --hidden "8,8" --batch 120 --epochs 1)
    export CPU_DEVICES=8 TORCHELASTIC_RUN_ID=only-ours MASTER_ADDR=127.0.0.1
    export MASTER_PORT=$((10000 + $$ * 7 % 20000)) # below those that the kernel gives to anybody
    world=3
    next_port
}

# Prints the addresses at which a program listens at the port, as the kernel writes them.
listeners() {
    awk -v port=":$(printf %04X "$MASTER_PORT")" '$4 == "0A" && substr($2, length($2) - 4) == port { print $2 }' \
        /proc/net/tcp /proc/net/tcp6
}

# Two rendezvous of a test do not use the same port, because connections of the first may still be open.
next_port() {
    MASTER_PORT=$((MASTER_PORT + 1))
    while [ -n "$(listeners)" ]; do
        MASTER_PORT=$((MASTER_PORT + 1))
    done
}

# rank RANK OPTION...: starts this rank.
rank() {
    RANK=$1 WORLD_SIZE=$world LOCAL_RANK=$1 "${program:-$four}" "${options[@]}" "${@:2}" >"out.$1" 2>"err.$1" 3>&- &
    pids[$1]=$!
}

# ranks "RANK..." OPTION...
ranks() {
    local rank
    for rank in $1; do
        rank "$rank" "${@:2}"
    done
}

# one_line RANK TEXT: the rank must have written exactly this one line to stderr.
one_line() {
    if [ "$(wc -l <"err.$1")" != 1 ] || ! grep -qF -- "$2" "err.$1"; then
        echo "wanted one line of rank $1 with: $2" && cat "err.$1" && return 1
    fi
}

each_one_line() { # TEXT RANK...
    local rank
    for rank in "${@:2}"; do
        one_line "$rank" "$1" || return
    done
}

# refused TEXT RANK...: these ranks must end soon, with code 1 and one line with the text. The next run gets another port.
refused() {
    ranks_end 20 1 "${@:2}" && each_one_line "$@" && next_port
}

silent() { # RANK...
    local rank
    for rank; do
        [ ! -s "err.$rank" ] || { cat "err.$rank" && return 1; }
    done
}

listening() {
    [ -n "$(listeners)" ]
}

# heard COUNT: rank 0 must have received a message on this number of connections.
heard() {
    [ "$(ss -tniOH state established "sport = :$MASTER_PORT" | grep -c '^0 .*bytes_received:')" = "$1" ]
}

# The three ranks must have trained correctly, and the rendezvous must have left no files. The next run gets another port.
trained() {
    ranks_end 20 0 0 1 2
    silent 1 2
    cmp "$right" s
    [ "$(echo s*)" = s ]
    [ -z "$(listeners)" ]
    rm s
}

@test "ranks meet in any order, have the bits of step 2, and rank 0 listens at one address only" {
    for one in 1 2 0; do # seconds apart, so they try to connect many times
        rank "$one" --snapshot s
        sleep 0.5
    done
    trained
    silent 0
    for at in "127.0.0.2 0200007F" "::1 00000000000000000000000001000000"; do
        MASTER_ADDR=${at% *}
        ranks 0 --snapshot s
        until_true 20 listening
        [[ $(listeners) =~ ^${at#* }:[0-9A-F]{4}$ ]]
        ranks "2 1" --snapshot s
        trained
        silent 0
    done
}

# meet_stranger CLIENT...: starts stranger.c, and waits until it has connected.
meet_stranger() {
    RANK=1 WORLD_SIZE=$world LOCAL_RANK=0 "$stranger" record "$@" >told 2>&1 3>&- &
    pids[99]=$!
    until_true 20 grep -q '^connected' told
}

# among CLIENT...: these strangers connect first. Then the ranks must meet and train correctly.
among() {
    rank 0 --snapshot s
    until_true 20 listening
    meet_stranger "$@"
    [ -z "${note:-}" ] || until_true 20 grep -qF -- "$note" err.0
    ranks "1 2" --snapshot s
    trained
    ranks_end 20 0 99
    run ! grep -v '^note (.*, rank 0): refused 127.0.0.1: ' err.0
    run ! grep -aF only-ours record # the name of the run, without which no stranger may join
}

@test "other programs are refused with a note, and the rendezvous continues" {
    for case in "20xrandom: not a rank, or one of another version of this program (others are not shown)" \
        "close: it left after 0 bytes" "rank=4294967295: it says that it is rank 4294967295 of 3" "token=x: it has another token"; do
        note=${case#*: } among "${case%%: *}"
        [ "$(wc -l <err.0)" -le 5 ]
    done
    # A stranger that speaks the protocol gets the reason.
    note="others are not shown" among version=1 world=4 run=-y rank=0 rank=3 token=x
    [ "$(grep -vcE 'connected|no answer' told)" = 6 ]
    grep -qx 'world=4: it expects 4 ranks, but this run has 3' told
    # Only text reaches the terminal.
    note="it belongs to run ?[31m?" among $'run=\e[31m\n'
    # Silent, incomplete and very slow connections are refused soon.
    for case in silent half loris; do
        note="it sent no HELLO" among $case
    done
    # Rank 0 does not refuse a rank whose HELLO comes a moment after its connection.
    note="it says that it is rank 0 of 3" among late
}

@test "a duplicate of a rank is refused, and the first one stays" {
    ranks "0 1" --snapshot s
    until_true 20 heard 1
    meet_stranger rank=1
    ranks_end 20 0 99
    grep -qx 'rank=1: rank 1 has already come, from 127.0.0.1' told
    rank 2 --snapshot s
    trained
    grep -q 'refused 127.0.0.1: rank 1 has already come, from 127.0.0.1' err.0
}

@test "a rank that has been killed may come again" {
    ranks "0 1" --snapshot s
    until_true 20 heard 1
    kill -9 "${pids[1]}"
    ranks_end 20 137 1
    ranks 2 --snapshot s # with it, all have come, but one is dead
    until_true 20 heard 1
    ranks 1 --snapshot s
    trained
    silent 0
}

@test "when ranks are missing, all other ranks name them" {
    limit=$(patience 1) # a busy machine needs seconds to start the ranks
    world=8
    ranks "0 1 3 4 6 7" --join-timeout "$limit"
    refused "waited $limit s: ranks 2 and 5 of 8 $(text_of NEVER_ARRIVED)" 0 1 3 4 6 7
    each_one_line ": rank 0 on $(hostname): waited $limit s" 1 3 4 6 7
    # Strangers are not counted.
    world=3
    ranks 0 --join-timeout "$limit"
    until_true 20 listening
    meet_stranger 5xsilent half random
    ranks_end 20 1 0
    grep -qE "^error \(.*, rank 0\): waited $limit s: ranks 1 and 2 of 3 $(text_of NEVER_ARRIVED) at 127.0.0.1, port $MASTER_PORT, which only this host can reach \(--join-timeout\): set MASTER_ADDR" err.0
    ranks_end 20 0 99
    # Without rank 0, another rank gives up.
    next_port
    rank 1 --join-timeout 1
    refused "waited 1 s (--join-timeout) for rank 0 at MASTER_ADDR=127.0.0.1, MASTER_PORT=$MASTER_PORT: Connection refused" 1
}

@test "a second rank 0 at the same port ends, and the first one stays" {
    rank 0 --snapshot s
    until_true 20 listening
    pids[9]=${pids[0]}
    mv err.0 err.9
    rank 0 --join-timeout 2
    ranks_end 20 1 0
    one_line 0 "rank 0 cannot listen at MASTER_ADDR=127.0.0.1, MASTER_PORT=$MASTER_PORT: Address already in use"
    pids[0]=${pids[9]}
    ranks "1 2" --snapshot s
    trained
}

# in_own_folders OPTION...: starts each rank in its own folder.
in_own_folders() {
    mkdir -p r{0,1,2}
    for one in 0 1 2; do
        cd r$one || return
        rank $one "$@"
        cd ..
        until_true 10 test -e r$one/err.$one # the shell that becomes the rank makes it, after the other
        mv r$one/out.$one r$one/err.$one .
    done
}

@test "a snapshot folder that only some ranks see is refused" {
    sees=": rank 1 on $(hostname) has \"--snapshot not locked\", rank 0 has \"--snapshot locked by process "
    in_own_folders --snapshot s
    refused "$sees${pids[0]}\": do all ranks have the same options and data, and see the same --snapshot folder?" 0 1 2
    [ -z "$(find . -name 's*')" ]
}

@test "a token keeps strangers out, and no stranger receives it" {
    echo "sesame 4711" >token
    chmod 600 token
    # The address of a service, which leads to this host: with a token, rank 0 listens at all addresses.
    MASTER_ADDR=192.0.2.1 rank 0 --token-file token --snapshot s
    until_true 20 listening
    meet_stranger random half silent rank=1 rank=2 token=x "token=sesame 471" "token=sesame 4711 " world=7
    until_true 20 grep -q "it has another token (MASTER_TOKEN or --token-file)" err.0
    rank 1 --token-file token --snapshot s
    MASTER_TOKEN="sesame 4711" rank 2 --snapshot s
    trained
    ranks_end 20 0 99
    [ "$(grep -c ': it has another token' told)" = 6 ]
    [ -s record ]
    run ! grep -a sesame record
    [ -z "$(LC_ALL=C tr -d '\0-\37[:print:]' <record)" ] # nor other bytes of rank 0's memory
    run ! grep sesame err.0
    # A rank with another token, or without one.
    rank 0 --token-file token --join-timeout "$(patience 2)"
    MASTER_TOKEN=guess rank 1
    rank 2
    ranks_end 20 1 0 1 2
    each_one_line ": it has another token (MASTER_TOKEN or --token-file)" 1 2
}

# wrong CODE TEXT VARIABLE=VALUE... OPTION...: a rank of two must end with this code and this one line.
wrong() {
    local variables=()
    while [[ ${3-} == *=* ]]; do
        variables+=("$3")
        set -- "$1" "$2" "${@:4}"
    done
    fails "$1" "$2" env RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 "${variables[@]}" timeout "$(patience 20)" "$four" "${options[@]}" \
        --join-timeout 1 "${@:3}"
}

@test "a token file that others can read and impossible tokens and addresses are refused in one line" {
    echo sesame >token
    chmod 604 token
    wrong 1 "--token-file token must be a plain file that only this user can read: chmod 600" --token-file token
    seq -f %064g 1 >token
    chmod 600 token
    wrong 1 "token: a token has 1 to 63 characters in one line" --token-file token
    wrong 1 "--token-file none" --token-file none
    wrong 1 "MASTER_TOKEN: a token has 1 to 63 characters" MASTER_TOKEN=
    (unset MASTER_ADDR && wrong 2 "MASTER_ADDR is not set")
    wrong 2 "MASTER_PORT=65535 in the environment" MASTER_PORT=65535
    wrong 1 "MASTER_ADDR=300.1.1.1" MASTER_ADDR=300.1.1.1
    # A network for documentation only.
    wrong 1 "rank 0 cannot listen at MASTER_ADDR=192.0.2.1, MASTER_PORT=$MASTER_PORT: Cannot assign requested address: it must be an address of this host" \
        MASTER_ADDR=192.0.2.1 RANK=0
}

# All ranks of a job ask at the same time.
@test "a rank asks the name server seldom, until it knows MASTER_ADDR, and then never again" {
    cc -shared -fPIC -o names.so "$BATS_TEST_DIRNAME/rendezvous/names.c" -ldl
    export MASTER_ADDR=rank0.example LD_PRELOAD=$PWD/names.so
    wrong 1 "waited 1 s (--join-timeout) for an address of MASTER_ADDR=rank0.example: Name or service not known; is the name right?"
    [ "$(wc -c <asked)" -le 4 ]
    wrong 2 "MASTER_ADDR=rank0:29500: want a host without its port" MASTER_ADDR=rank0:29500
    rm asked
    ranks "0 1 2" --snapshot s
    until_true 20 eval '[ "$(wc -c <asked)" -ge 4 ]'
    touch known
    ranks_end 20 0 0 1 2
    cmp "$right" s
    rm asked
    wrong 1 "no program listens there"
    [ "$(wc -c <asked)" = 1 ]
}

# Address randomisation is off, because sanitizers fail with some kernels' setting.
# bats test_tags=test-all
@test "AddressSanitizer and UBSan find nothing in the rendezvous" {
    build_sanitized address,undefined build/asan/04_multinode/train
    echo "sesame" >token
    chmod 600 token
    printf '#!/bin/sh\nexec setarch -R "%s" "$@"\n' "$folder/04_multinode/train" >rank
    chmod +x rank
    program=./rank
    options+=(--token-file token)
    MASTER_TOKEN=sesame among 250xsilent random half loris close world=7 token=x
    ranks "0 2" --join-timeout 2
    refused "$(text_of NEVER_ARRIVED)" 0 2
}
