#!/usr/bin/env bats
# Tests of the checker of ordering (CPU_DEVICE_CHECK=1) with the steps. It finds nothing in them, and it finds planted
# mistakes, with the places of both operations. cpu_device/tests/test_check.c has all kinds of mistakes.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    tiny_data "$BATS_FILE_TMPDIR/tiny"
    seq 9000 | head -c 4000 >"$BATS_FILE_TMPDIR/text"
    need_train 02_multigpu_fork/train {03_multigpu_launcher,04_multinode}/{launch,train} 05_fsdp/train \
        07_large_models/train 08_pipeline/train 09_tensor/train
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    set_build
    unset_job
    launch=$build/03_multigpu_launcher/launch
    options=(--data "$BATS_FILE_TMPDIR/tiny" --hidden "33,20,9" --batch 60 --log-every 3)
    export CPU_DEVICE_CHECK=1 CPU_DEVICES=4 NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
}

# start_step STEP RANKS PROGRAM OPTION...: the time limit only ends a run that hangs.
start_step() {
    case $1 in
    2) timeout "$(patience 60)" "$3" "${options[@]}" --nproc "$2" "${@:4}" ;;
    *) timeout "$(patience 60)" "$launch" --nproc-per-node "$2" "$3" "${options[@]}" "${@:4}" ;;
    esac >out 2>err
}

# clean STEP RANKS PROGRAM OPTION...: the checker must find nothing in two epochs with a snapshot, and in a third epoch
# from this snapshot.
clean() {
    local epochs
    rm -rf snapshot*
    for epochs in 2 3; do
        start_step "$@" --snapshot snapshot --epochs $epochs || { cat out err && return 1; }
        run ! grep CPU_DEVICE_CHECK err
    done
    grep -q '^resumed .* 2 epochs' out
}

@test "the checker finds nothing in the steps with any option" {
    local step ranks more gpt="--data text:$BATS_FILE_TMPDIR/text --model gpt --layers 1 --width 16 --heads 2 --context 16 --batch 24"
    while read -r step more; do
        [[ $more == *"--stages 2"* || $more == *"--tensor 2"* ]] && ranks=4 || ranks=3
        # shellcheck disable=SC2086 # a list of words
        clean "${step:1:1}" $ranks "$build/$step/train" $more
    done <<END
02_multigpu_fork
02_multigpu_fork --overlap 0 --optimizer adam
03_multigpu_launcher
04_multinode
05_fsdp
05_fsdp --overlap 0 --optimizer adam
05_fsdp --prefetch 0 --dropout 0.2
07_large_models --optimizer adam --save full
07_large_models --strategy grad --overlap 0
07_large_models --strategy none --prefetch 0
07_large_models --accumulate 2 --clip 0.5 --recompute 1 --unit-bytes 3000 --dropout 0.2
07_large_models --precision bf16 --strategy grad --accumulate 2 --clip 0.5 --recompute 1 --unit-bytes 3000
08_pipeline
08_pipeline --pipeline gpipe --micro-batches 4 --overlap 0 --optimizer adam
08_pipeline --hidden 33,20,15,12,9 --dropout 0.2
08_pipeline --stages 2 --micro-batches 4 --batch 120
09_tensor --hidden 33,20,15
09_tensor --tensor 2 --hidden 32,20,16 --pipeline gpipe --overlap 0 --optimizer adam
09_tensor --tensor 2 --stages 2 --hidden 32,20,16 --dropout 0.2
09_tensor --tensor 2 --stages 1 $gpt --sequence 1 --dropout 0.2
09_tensor --tensor 2 --stages 2 $gpt --sequence 1 --pipeline gpipe
END
}

@test "the checker finds nothing in step 7 with hybrid sharding on two nodes" {
    local port node jobs=()
    port=$(free_port)
    for node in 0 1; do
        NCCL_HOSTID=node$node timeout "$(patience 60)" "$build/04_multinode/launch" --nnodes 2 --node-rank $node --nproc-per-node 2 \
            --master-port "$port" \
            "$build/07_large_models/train" "${options[@]}" --strategy hybrid --accumulate 2 --batch 120 --clip 0.5 \
            --epochs 2 --snapshot snapshot >out.$node 2>err.$node 3>&- &
        jobs+=($!)
    done
    for node in 0 1; do
        wait "${jobs[node]}" || { cat out.$node err.$node && return 1; }
        run ! grep CPU_DEVICE_CHECK err.$node
    done
    grep -q 'hybrid: units: 4, shards per unit: 2, replicas: 2' out.0
    grep -q '^epoch 2/2 ' out.0
}

@test "the checker changes no loss" {
    start_step 2 2 "$build/02_multigpu_fork/train" --epochs 2 --csv checked
    CPU_DEVICE_CHECK=0 start_step 2 2 "$build/02_multigpu_fork/train" --epochs 2 --csv unchecked
    diff <(cut -d, -f1-6 checked) <(cut -d, -f1-6 unchecked)
}

# found STEP SUMMARY OPERATION PATTERN...: the run of two ranks (or $ranks) must end with the summary and a line for each operation. The source line
# of the operation must match the pattern.
found() {
    local i next operation pattern place source
    run ! start_step "$1" "${ranks:-2}" ./program --max-steps 20
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

@test "the checker finds a gather into a buffer that is still in use (step 5)" {
    changed ./program 5 fsdp.c '/void start_gather/,/^}/{/comm_waits/d}'
    found 5 "$(text_of UNORDERED) f->buffers\[[01]\] \(cudaMalloc at " \
        "matrix product reads bytes" "layer_forward(" "ncclAllGather writes bytes" "ncclAllGather(f->parameters"
}

@test "the checker finds an update that does not wait for the scatter (step 7)" {
    changed ./program 7 units.c '/void units_finish/,/^}/{/cudaStreamWaitEvent/d}'
    found 7 "$(text_of UNORDERED) f->gradients \(cudaMalloc at " \
        "ncclAllReduce writes bytes" "ncclAllReduce(sums" "sgd_step reads bytes" "optimizer_step("
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

@test "the checker finds sums over parts that do not wait for the transfers of the pipeline (step 9)" {
    local ranks=4
    options+=(--hidden "32,20,16" --tensor 2 --stages 2)
    changed ./program 9 tensor.c '/^static void sum\(/,/^}/{/wait_for_others/d}'
    found 9 "nothing orders two collectives of different communicators" \
        "ncclSend" "ncclSend(" "ncclAllReduce" "ncclAllReduce(values, values"
}
