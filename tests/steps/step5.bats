#!/usr/bin/env bats
# Tests of step 5's trainer: any number of ranks has the loss curve of step 1, and a rank's memory and traffic match the
# formulas. Copies of its sources with one planted mistake must fail.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    need_train 03_multigpu_launcher/launch 05_fsdp/train
    tiny_data "$BATS_FILE_TMPDIR/tiny"
    set_variables
    # step 5 with step5/count.c
    compile "$BATS_FILE_TMPDIR/counted" -Wl,--wrap=nccl{AllGather,ReduceScatter,AllReduce} \
        -Wl,--wrap={optimizer_step,report_epoch} "$root/tests/steps/step5/count.c" "$build/05_fsdp/train.o" \
        "$build"/cpu_device/*.o
}

set_variables() {
    unset_job
    unset NCCL_HOSTID CPU_DEVICE_CHAOS CPU_DEVICE_MEMORY
    export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=4 OMP_NUM_THREADS=1
    tiny=$BATS_FILE_TMPDIR/tiny
    set_build
    five=$build/05_fsdp/train
    launch=$build/03_multigpu_launcher/launch
    # No layer of this model divides into 4 pieces.
    options=(--data "$tiny" --hidden "6,14,22,10" --batch 120 --epochs 3 --seed 2 --log-every 1)
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" "$BATS_TEST_TMPDIR/meet" && cd "$BATS_TEST_TMPDIR/work" || return
    set_variables
    export TMPDIR=$BATS_TEST_TMPDIR/meet
}

# train RANKS PROGRAM OPTION...: the time limit only ends a run that hangs.
train() {
    timeout 60 "$launch" --nproc-per-node "$1" "$2" "${options[@]}" "${@:3}" >out 2>err || { cat err && return 1; }
}

# saved FILE RANKS PROGRAM OPTION...: writes the final parameters and optimizer states to one file. Step 1 loads the
# shards, has nothing left to do, and saves the file.
saved() {
    rm -f "$1"*
    train "$2" "$3" --snapshot "$1" "${@:4}" || return
    "$TRAIN" "${options[@]}" --snapshot "$1" >one
    grep -q 'nothing is left to do' one
}

# learns PROGRAM: any number of ranks must have the loss curve of step 1. In the second model, a layer has 3 parameters.
# Adam divides numbers near zero by each other, so with a large rate, rounding errors would cause large updates.
learns() {
    local ranks prefetch overlap hidden same
    while read -r ranks prefetch overlap hidden same; do
        read -ra same <<<"--hidden $hidden --optimizer $same"
        "$TRAIN" "${options[@]}" "${same[@]}" --csv right >/dev/null
        train "$ranks" "$1" "${same[@]}" --csv csv --prefetch "$prefetch" --overlap "$overlap" || return
        same_curve right csv || { echo "in: $ranks ${same[*]}" && return 1; }
    done <<'END'
1 1 1 6,14,22,10 adam --lr 0.0001 --weight-decay 0.1
2 0 1 21,2,1,9 sgd --lr 0.01
3 1 0 21,2,1,9 adamw --lr 0.0001 --weight-decay 10
3 0 1 6,14,22,10 adam --lr 0.0001
4 1 1 6,14,22,10 adamw --lr 0.0001 --weight-decay 10
4 0 0 21,2,1,9 sgd --lr 0.01
END
}

@test "any number of ranks has the loss curve of step 1" {
    learns "$five"
}

# bats test_tags=test-all
@test "the test detects a missing layer, a wrong piece and wrong samples" {
    for change in 'fsdp.c:s/i < f->model->count; i\+\+/i < f->model->count - 1; i++/' \
        'fsdp.c:s/(size_t begin = f->rank \* f->pieces\[i\]\.count)/\1 * 0/' \
        'train.c:s/(opt\.batch \+ )slice/\10/'; do
        changed ./program 5 "${change%%:*}" "${change#*:}"
        refute learns ./program
    done
}

# bats test_tags=test-all
@test "random delays reveal a missing wait" {
    saved right 3 "$five"
    for change in '/fsdp_gather\(struct/,/^}/s/cudaStreamWaitEvent\(.*\)\);/cudaSuccess);/' \
        '/ start_gather/,/^}/s/ comm_waits\(f\)/ (void)0/' '/ fsdp_scatter/,/^}/s/ comm_waits\(f\)/ (void)0/'; do
        changed ./program 5 fsdp.c "$change"
        found=0
        for seed in {1..20}; do
            if ! CPU_DEVICE_CHAOS=$seed saved got 3 ./program || ! cmp right got; then
                found=1
                break
            fi
        done
        [ $found = 1 ]
    done
}

# allocated KIND FLOATS: the banner must show this size, in KB or bytes.
allocated() {
    local wanted
    wanted=$(awk -v bytes=$((4 * $2)) 'BEGIN { if (bytes < 1000) print bytes " B"; else printf "%.1f KB\n", bytes / 1000 }')
    grep -qE "^memory .* $1 $wanted(,|$)" out || { grep '^memory' out && echo "wanted $1 $wanted" && return 1; }
}

@test "a rank stores 1/N of the model and two whole layers, as the banner says" {
    # 822 parameters in layers of 54, 98, 330, 230 and 110.
    while read -r ranks count even odd; do
        train "$ranks" "$five" --epochs 1 --optimizer adam
        grep -qx "sharding  each rank keeps $count of 822 parameters" out
        allocated parameters "$count"
        allocated gradients "$count"
        allocated optimizer $((2 * count))
        allocated gathered $((even + odd))
    done <<'END'
1 822 330 230
2 411 330 230
3 275 330 231
4 208 332 232
END
}

@test "each training step gathers all parameters twice and scatters the gradients once" {
    export COUNT_LOG=$PWD/log
    while read -r ranks count; do
        rm -f log
        train "$ranks" "$BATS_FILE_TMPDIR/counted" --max-steps 8
        [ "$(sort log | uniq -c | xargs)" = "$((8 * ranks)) $((3 * 4 * count * (ranks - 1)))" ]
    done <<'END'
3 275
4 208
END
}

