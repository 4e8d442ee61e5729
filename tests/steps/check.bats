#!/usr/bin/env bats
# Tests of the checker of ordering (CPU_DEVICE_CHECK=1) with the steps. It finds nothing in them, and it finds planted
# mistakes, with the places of both operations. cpu_device/tests/test_check.c has all kinds of mistakes.
# shellcheck disable=SC2086 # options are lists of words
load ../helpers
load every_step
more_options=(--hidden "33,20,9" --batch 60 --log-every 3)

adjust() {
    export CPU_DEVICE_CHECK=1
    gpt="$gpt --batch 24"
}

# The checker must find nothing in an epoch with a snapshot, and in a second epoch from this snapshot.
@test "the checker finds nothing in the steps with any option" {
    while read -r step more; do
        [[ $more == *"--stages 2"* || $more == *"--tensor 2"* ]] && ranks=4 || ranks=3
        rm -rf snapshot*
        for epochs in 1 2; do
            train $step $ranks $more --snapshot snapshot --epochs $epochs
            refute grep CPU_DEVICE_CHECK err
        done
        grep -q '^resumed .* 1 epoch ' out
    done <<END
1 --data blank:480 --model cnn
2
2 --overlap 0 --optimizer adam
3
4
5
5 --overlap 0 --optimizer adam
5 --prefetch 0 --dropout 0.2
5 --data blank:480 --model cnn
7 --optimizer adam --save full
7 --strategy grad --overlap 0
7 --strategy none --prefetch 0
7 --accumulate 2 --clip 0.5 --recompute 1 --unit-bytes 3000 --dropout 0.2
7 --precision bf16 --strategy grad --accumulate 2 --clip 0.5 --recompute 1 --unit-bytes 3000
7 --data blank:480 --model resnet --depth 8 --width 8 --precision bf16 --accumulate 2 --recompute 1
7 $gpt --precision bf16 --recompute 1
8
8 --pipeline gpipe --micro-batches 4 --overlap 0 --optimizer adam
8 --hidden 33,20,15,12,9 --dropout 0.2
8 --stages 2 --micro-batches 4 --batch 120
9 --hidden 33,20,15
9 --tensor 2 --hidden 32,20,16 --pipeline gpipe --overlap 0 --optimizer adam
9 --tensor 2 --stages 2 --hidden 32,20,16 --dropout 0.2
9 --tensor 2 --stages 1 $gpt --sequence 1 --dropout 0.2
9 --tensor 2 --stages 2 $gpt --sequence 1 --pipeline gpipe
END
    nodes 2 2 "$(program_of 7)" --strategy hybrid --accumulate 2 --batch 120 --clip 0.5 --epochs 2
    grep -q 'hybrid: units: 4, shards per unit: 2, replicas: 2' out
    refute grep CPU_DEVICE_CHECK err.0 err.1
}

# found STEP SUMMARY OPERATION PATTERN...: the run of two ranks must end with the summary and a line for each operation. The
# source line of the operation must match the pattern.
found() {
    local i next operation pattern place source
    program=./program refute train $1 2 --max-steps 20
    grep -qE "CPU_DEVICE_CHECK: .*$2" err || { cat err && return 1; }
    for ((i = 3; i < $#; i += 2)); do
        operation=${!i} next=$((i + 1))
        pattern=${!next}
        place=$(sed -nE "s/.*${operation}[^(]* at ([a-z0-9_]+\/[a-z]+\.[ch]:[0-9]+) .*/\1/p" err | head -n 1)
        [ -n "$place" ] || { echo "no place of $operation" && cat err && return 1; }
        source=changed/${place%:*}
        [ -e "$source" ] || source=$root/${place%:*} # a module of an earlier step
        # A call may take several lines.
        sed -n "$((${place#*:} - 2)),$((${place#*:} + 2))p" "$source" | grep -qF "$pattern" ||
            { echo "$place is not $pattern" && cat err && return 1; }
    done
}

@test "the checker finds an all-reduce that does not wait for the gradients (step 2)" {
    changed ./program 2 debug.4
    found 2 "$(text_of UNORDERED) t->gradients \(cudaMalloc at " \
        "sum_rows writes bytes" "layer_backward(" "ncclAllReduce reads bytes" "ncclAllReduce(t->gradients"
}

@test "the checker finds a result that the host reads before its copy is complete (step 3)" {
    changed ./program 3 train.c '/^static struct stats read_stats/,/^}/{/(cudaStreamSynchronize|wait_for)\(t->stream\)/d}'
    found 3 "host code at [a-z0-9_]+/train.c:.* touches pinned memory while an operation may still use it:" \
        "host code" "sums->" "cudaMemcpyAsync, queued" "cudaMemcpyAsync(sums"
}

@test "the checker finds ranks that use two communicators in different orders (step 7)" {
    changed ./program 7 train.c '/^static void check_replicas/,/^}/s/^    COLLECTIVE/    for (int i = 0; i < 2; i++)\
        COLLECTIVE(t->stream, ncclAllReduce(t->fsdp.gradients, t->fsdp.gradients, 1, ncclFloat, ncclSum,\
                                            (t->rank + i) % 2 ? t->comm : t->fsdp.group_comm, t->stream));\
&/'
    found 7 "the ranks use two communicators in different orders" \
        "rank 0 is in AllReduce .count 1, float, sum." "ncclAllReduce(t->fsdp.gradients, t->fsdp.gradients, 1" \
        "rank 1 is in AllReduce .count 1, float, sum." "ncclAllReduce(t->fsdp.gradients, t->fsdp.gradients, 1"
}
