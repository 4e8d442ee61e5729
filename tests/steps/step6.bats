#!/usr/bin/env bats
# Tests of step 6 on the CPU device: the sums, the byte counts, the table, and the start and end of its ranks.
load ../helpers
programs=(06_allreduce_demo/allreduce)
export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=8 OMP_NUM_THREADS=1
unset CPU_DEVICE_CHAOS

demo() {
    timeout "$(patience 60)" "$build/06_allreduce_demo/allreduce" "$@"
}

# correct COMMAND...: a run with --check-only must end with 0, write nothing to stderr, print its whole table, and count no
# wrong element.
correct() {
    run --separate-stderr "$@"
    if [ "$status" != 0 ] || [ -n "$stderr" ]; then
        echo "status $status: $* $stderr" && return 1
    fi
    grep -q '^sendrecv ' <<<"${lines[-1]}"
    [ "$(grep -c '^   wanted: .* #wrong 0$' <<<"$output")" = 1 ]
    awk '/^   (allreduce|gather\+bcast|ring|rs\+ag) / { rows++; bad += $2 != 0 }
        / float / { rows++; bad += $7 != 0 || $8 + 0 != 0 }
        END { exit bad || rows < 12 }' <<<"$output"
}

# bats test_tags=gpu
@test "1, 2, 3, 4 and 8 ranks sum to 0, 1, 3, 6 and 28" {
    for pair in 1:0 2:1 3:3 4:6 8:28; do
        ranks=${pair%:*} sum=${pair#*:}
        correct demo --check-only --nproc "$ranks"
        grep -qF "= $sum everywhere" <<<"$output"
        wanted=$(seq 0 $((ranks - 1)) | sed "s/.*/   rank &: before &, after $sum/")
        [ "$(grep '^   rank' <<<"$output")" = "$wanted" ]
    done
}

@test "--check-only prints the same output with random delays, and no times" {
    correct demo --check-only --nproc 4 --count 1003 --factor 64
    first=$(sed 1d <<<"$output") # without the device, which names its variables
    CPU_DEVICE_CHAOS=1 correct demo --check-only --nproc 4 --count 1003 --factor 64
    [ "$(sed 1d <<<"$output")" = "$first" ]
    run ! grep -E '[0-9][.][0-9]|time' < <(sed 1d <<<"$first")
}

@test "the counted bytes match the formulas" {
    correct demo --check-only --nproc 3 --count 7 --min-bytes 4 --max-bytes 5000 --factor 3 # no multiple of the ranks
    correct demo --check-only --nproc 4 --count 1000
    grep -qE '^   gather\+bcast +0 +12000 +12000 +4000 +4000$' <<<"$output"
    grep -qE '^   ring +0 +6000 +6000 +6000 +6000$' <<<"$output"
    grep -qE '^   rs\+ag +0 +6000 +6000 +6000 +6000$' <<<"$output"
}

@test "the table and the CSV file have the same sizes, units and bandwidths" {
    run --separate-stderr demo --nproc 4 --count 100 --op all --min-bytes 8 --max-bytes 2K \
        --factor 16 --iters 3 --warmup 1 --csv table.csv
    [ "$status" = 0 ]
    [ -z "$stderr" ]
    # 8, 128 and 2048 bytes; 8 are too few for a float on each of 4 ranks.
    for op in allreduce gather+bcast ring rs+ag broadcast sendrecv; do
        [ "$(grep -F "$op " <<<"$output" | grep float | awk '{ print $2, $3 }' | xargs)" = "8 2 128 32 2048 512" ]
    done
    for op in allgather reducescatter; do
        [ "$(grep "^$op .*float" <<<"$output" | awk '{ print $2, $3 }' | xargs)" = "128 8 2048 128" ]
    done
    [ "$(head -1 table.csv)" = op,size,count,place,us,algbw,busbw,wrong ]
    [ "$(wc -l <table.csv)" = $((1 + 5 * 6 + 2 * 4 + 3)) ]
    # algbw = size / time, busbw = algbw times the factor of the operation.
    awk -F, 'NR > 1 {
        factor = $1 == "broadcast" || $1 == "sendrecv" ? 1 : $1 == "allgather" || $1 == "reducescatter" ? 0.75 : 1.5
        alg = $2 / $5 / 1000
        if (NF != 8 || $8 != 0 || $5 <= 0) exit 1
        if ((alg - $6)^2 > 1e-8 + (0.01 * alg)^2 || ($6 * factor - $7)^2 > 1e-7) exit 1
    }' table.csv
}

@test "wrong options are refused in one line" {
    while IFS='|' read -r text more; do
        # shellcheck disable=SC2086 # words
        fails 2 "$text" demo $more
    done <<'END'
--nproc 0: want a number from 1|--nproc 0
--nproc 9 is more than there are GPUs (8); set CPU_DEVICES=9 to|--nproc 9
--op sum: want one of: allreduce, gather+bcast, ring,|--op sum
--min-bytes 8K is more than --max-bytes 4K|--min-bytes 8K --max-bytes 4K
--factor 1: want a number from 2|--factor 1
END
    for size in 3 8KK nan; do
        fails 2 "--min-bytes $size: want bytes" demo --min-bytes $size
    done
}

# as_rank RANK PORT: starts one of two ranks with the variables of a launcher.
as_rank() {
    RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$2 demo --check-only --count 1003 --factor 64 "${@:3}"
}

@test "ranks that a launcher starts meet each other, and at the next port if torchrun has its own store" {
    for store in False True; do
        export TORCHELASTIC_USE_AGENT_STORE=$store
        port=$(free_port)
        as_rank 1 "$port" >out1 2>err1 3>&- &
        other=$!
        correct as_rank 0 "$port"
        wait $other
        grep -qF "= 1 everywhere" <<<"$output"
        [ ! -s out1 ]
        [ ! -s err1 ]
    done
    # A rank that waits in vain names the port.
    fails 1 "rank 1 of 2 $(text_of NEVER_ARRIVED) at 127.0.0.1, port $((port + 1))" as_rank 0 "$port" --join-timeout 1
}

# Step 3 has the tests of its environment.c.
@test "a missing variable of a launcher is named, and --nproc beside them is refused" {
    export RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1
    fails 2 "MASTER_PORT is not" demo
    MASTER_PORT=2000 fails 2 "--nproc 2: RANK is set" demo --nproc 2
}
