#!/usr/bin/env bats
# Tests of step 4's trainer: no rank waits forever for a dead, stuck or late rank, or prints or saves anything after it has
# given up.
load ../helpers
load every_step

more_options=(--hidden "8,8" --epochs 3 --log-every 100)
compiler=compile_watched

adjust() {
    four=$(program_of 4) watched=$(watched 4)
}

in_step() { # STEP: how a line about any collective ends
    echo " \(step $1, collective [0-9]+, nccl[A-Za-z]+ at .*train\.c:[0-9]+\)$"
}

# valid_snapshot EPOCHS: s must hold this number of epochs, and lead to the bits of an undisturbed run.
valid_snapshot() {
    local resumed
    cp s copy
    train 4 3 --log-every 1 --snapshot copy
    resumed=$(sed -n 's/^resumed   copy: \([0-9]*\) epochs\? and 0 .*/\1/p' out)
    [ "$resumed" = "$1" ] || { echo "wanted $1 epochs, got $resumed" && return 1; }
    cmp right copy
}

@test "when a rank is killed, the others name their collective and end within seconds" {
    train 4 3 --log-every 1 --snapshot right
    # With --log-every 1, a step has four all-reduces, and an epoch of five steps two more at its end.
    while read -r rank place epochs steps in; do
        rm -f s
        KILL_AT="$rank ${place/:/ } 9" start_ranks 3 "$watched" --log-every 1 --snapshot s
        others=$(seq 0 2 | grep -v "$rank" | xargs)
        # shellcheck disable=SC2086 # words
        ranks_end 5 1 $others
        ranks_end 1 137 "$rank"
        for other in $others; do
            rank_says "$other" ".*rank $rank \(pid ${pids[rank]} on $(hostname)\) has ended.*$(in_step "$in")"
        done
        [ "$(grep -c '^epoch.*step' out.0)" = "$steps" ]
        [ ! -s out.1 ]
        valid_snapshot "$epochs"
    done <<'END'
2 gather_batch:2 0 1 2
0 ncclAllReduce:12 0 2 3
2 ncclAllReduce:21 0 5 5
1 ncclAllReduce:31 1 7 8
END
    rm -f s
    # A rank is killed before all ranks have joined.
    KILL_AT="1 cudaSetDevice 1 9" start_ranks 3 "$watched" --join-timeout 1
    ranks_end 4 1 0 2
    ranks_end 1 137 1
    # A rank is killed while the ranks compare their options and data.
    KILL_AT="2 ncclAllGather 1 9" start_ranks 3 "$watched"
    ranks_end 5 1 0 1
    for other in 0 1; do
        rank_says $other "rank 2 \(pid ${pids[2]} on $(hostname)\) has ended while rank [01] was in AllGather .* at .*agree\.c:[0-9]+\)$"
    done
}

# late SIGNAL PROGRAM OPTION...: rank 1 of 3 gets a signal in its third step, in which the gradients are summed by the
# ninth all-reduce, or without overlap, by the fifth.
late() {
    local nth=9
    [[ $* != *"--overlap 0"* ]] || nth=5
    rm -f s
    KILL_AT="1 ncclAllReduce $nth $1" start_ranks 3 "$2" --log-every 1 --step-timeout 1 --snapshot s "${@:3}"
}

gives_up_after() { # SECONDS RANK...
    local rank
    for rank in "${@:2}"; do
        rank_says "$rank" "$(text_of NOT_ENDED) $1 s \(--step-timeout\): .*$(in_step '[0-9]+')"
    done
}

@test "when a rank is stuck, the others end after --step-timeout" {
    train 4 3 --log-every 1 --snapshot right
    for more in "" "--overlap 0"; do
        # shellcheck disable=SC2086 # words
        late 19 "$watched" $more
        ranks_end 3 1 0 2
        gives_up_after 1 0 2
        [ "$(grep -c '^epoch.*step' out.0)" = 2 ]
        valid_snapshot 0
        kill -CONT "${pids[1]}"
        ranks_end 5 1 1
        rank_says 1 ".*$(in_step 3)"
    done
}

# bats test_tags=gpu
@test "when a rank stops, the watchdog of another one ends the job" {
    start "$launch" --nproc-per-node 2 --shutdown-timeout 3 "$four" "${options[@]}" --epochs 100000 --step-timeout 5
    until_true 60 grep -q '^epoch 1/.*accuracy' out
    find_ranks 2
    kill -STOP "${ranks[1]}"
    ends 1
    ! grep -q cudaErrorLaunchTimeout err || skip "a display uses this GPU, and its driver ended the kernel that waited"
    grep -q -- --step-timeout err
}

@test "after the watchdog has given up, the process prints and saves nothing" {
    changed ./program 4 watchdog.c 's/^( *)_exit\(1\);/\1sleep(1);\n&/'
    late 19 ./program
    for rank in 0 2; do # they have given up and are about to end, when rank 1 continues
        until_true 10 grep -q '^error' "err.$rank"
    done
    kill -CONT "${pids[1]}"
    ranks_end 5 1 0 2
    gives_up_after 1 0 2
    [ "$(grep -c '^epoch.*step' out.0)" = 2 ]
}

@test "the watchdog also ends an NCCL call that does not return" {
    # The first call, in which all ranks join, has its own time limit.
    changed ./program 4 train.c '1s,^,#include <signal.h>\n,;/^static void join/,/^}/s/^( *)COLLECTIVE/\1if (t->rank == 1)\n\1    raise(SIGSTOP);\n&/'
    start_ranks 3 ./program --join-timeout 2
    ranks_end 6 1 0 2
    for rank in 0 2; do
        rank_says $rank ".*has not ended for 2 s \(--join-timeout; NCCL opens ports .*\): .*$(in_step 0)"
    done
    rank_says 0 ".*; waited [12] s: of 3 ranks, these are missing: 1 .*"
    end_ranks
    changed ./program 4 train.c 's/^( *)COLLECTIVE\(t->comm_stream,/\1if (t->progress.step == 2)\n\1    COLLECTIVE(t->comm_stream, sleep(60) ? ncclSuccess : ncclSuccess);\n&/'
    start_ranks 2 ./program --log-every 1 --step-timeout 1
    ranks_end 5 1 0 1
    for rank in 0 1; do
        rank_says $rank "$(text_of NOT_ENDED) 1 s .* \(step 3, collective [0-9]+, sleep at "
    done
}

# Rank 1 stops before the first all-reduce. Rank 0 queues it, and then loads its next kernel, which waits for all work of the
# device. Meanwhile, the watchdog's thread waits in cudaEventQuery.
@test "the watchdog also ends a rank whose calls of CUDA do not return" {
    CPU_DEVICE_CHAOS=1 KILL_AT="1 ncclAllReduce 1 19" start_ranks 2 "$watched" --step-timeout 1
    ranks_end 5 1 0
    rank_says 0 "a call of CUDA does not return: a rank is stuck, or the network is down$"
}

@test "the watchdog also ends a rank whose exit never ends" {
    changed ./program 4 train.c '1s,^,#include <stdlib.h>\n#include <unistd.h>\nstatic void wait_forever(void) { for (;;) pause(); }\n,;s/^( *)stop_on_signals.*/&\n\1atexit(wait_forever);\n\1fail("a mistake");/'
    start_ranks 1 ./program
    ranks_end 15 1 0
    rank_says 0 "a mistake$"
}

# Rank 1 of 2 gets the signal when all work before the all-reduce of this layer is done. Rank 0 continues until its queues are
# full, and then waits in some call.
@test "a rank far ahead of a dead or stuck rank also ends in time" {
    changed ./program 4 train.c '1s,^,#include <signal.h>\n#include <stdlib.h>\n,;s/^( *)t->dx = swap;/&\n\1if (getenv("STEP") \&\& t->rank == 1 \&\& i == atoi(getenv("LAYER")) \&\&\n\1    t->progress.step + 1 == atol(getenv("STEP"))) {\n\1    cudaDeviceSynchronize();\n\1    raise(atoi(getenv("SIGNAL")));\n\1}/'
    options+=(--epochs 100000 --batch 4 --log-every 100000)
    export STEP=20 LAYER SIGNAL
    # shellcheck disable=SC2086 # words
    while read -r LAYER more; do
        SIGNAL=9 start_ranks 2 ./program $more
        ranks_end 5 1 0
        rank_says 0 ".*rank 1 \(pid ${pids[1]} on $(hostname)\) has ended.*$(in_step 20)"
        ranks_end 1 137 1
        SIGNAL=19 start_ranks 2 ./program $more --step-timeout 1
        ranks_end 6 1 0
        rank_says 0 "$(text_of NOT_ENDED) 1 s .*$(in_step "[0-9]+")"
        end_ranks
    done <<'END'
0 --overlap 0
2 --overlap 1
END
}

@test "neither time between collectives nor a long save counts for --step-timeout" {
    train 4 2 --log-every 1 --snapshot right
    # All ranks do something else for a long time. Then one rank is late, but within the limit. The save comes later.
    long='s/^( *)forward\(t, &t->train.*/&\n\1if (steps_done(t) == 2)\n\1    usleep(t->rank ? 3500000 : 2900000);/
        s/^( *)if \(snapshot_save.*/\1usleep(t->progress.epochs == 1 ? 4000000 : 0);\n&/'
    changed ./program 4 train.c "$long"
    start_ranks 2 ./program --log-every 1 --step-timeout 2.5 --snapshot s
    ranks_end 10 0 0 1
    cmp right s
}
