#!/usr/bin/env bats
# Tests of step 5's trainer: any number of ranks has the loss curve of step 1, a rank's memory and traffic match the
# formulas, and wrong options are refused. Copies of its sources with one planted mistake must fail.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    need_train 03_multigpu_launcher/launch 04_multinode/train 05_fsdp/train
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

# by_hand RANKS OPTION...: starts ranks without a launcher, which would end all ranks when one fails. The last rank also
# gets the options in odd. Sets codes to the exit codes.
by_hand() {
    local rank pids=() port more
    port=$(free_port)
    codes=()
    for ((rank = 0; rank < $1; rank++)); do
        more=()
        [ "$rank" != $(($1 - 1)) ] || read -ra more <<<"${odd:-}"
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            timeout 20 "$five" "${options[@]}" --join-timeout 10 "${@:2}" "${more[@]}" \
            >"out.$rank" 2>"err.$rank" 3>&- &
        pids[rank]=$!
    done
    for rank in "${!pids[@]}"; do
        codes[rank]=0
        wait "${pids[rank]}" || codes[rank]=$?
    done
}

# one_line RANK CODE PATTERN: the rank must have ended with this code and written exactly one such line to stderr.
one_line() {
    if [ "${codes[$1]}" != "$2" ] || [ "$(wc -l <"err.$1")" != 1 ] || ! grep -qE -- "$3" "err.$1"; then
        echo "rank $1 ended with ${codes[$1]}; wanted $2 and one line with: $3" && cat "err.$1" && return 1
    fi
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

@test "the test detects a missing layer, a wrong piece and wrong samples" {
    for change in 'fsdp.c:s/i < f->model->count; i\+\+/i < f->model->count - 1; i++/' \
        'fsdp.c:s/(size_t begin = f->rank \* f->pieces\[i\]\.count)/\1 * 0/' \
        'train.c:s/(opt\.batch \+ )slice/\10/'; do
        changed ./program 5 "${change%%:*}" "${change#*:}"
        refute learns ./program
    done
}

@test "prefetch, overlap and random delays change no bit" {
    options+=(--max-steps 8)
    for ranks in 3 4; do
        saved right $ranks "$five"
        for more in "--prefetch 0" "--overlap 0"; do
            # shellcheck disable=SC2086 # words
            saved got $ranks "$five" $more
            cmp right got
        done
        for seed in 1 2; do
            CPU_DEVICE_CHAOS=$seed saved got $ranks "$five"
            cmp right got
        done
    done
    options+=(--seed 3)
    saved got 4 "$five"
    run ! cmp -s right got
}

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

@test "any number of ranks can share any number of test images" {
    mkdir few
    cp "$tiny"/train-* few
    for count in 1 2 7 50; do
        { idx_header "$count" 2 4 && seq -f %07g "$count"; } >few/t10k-images-idx3-ubyte
        { idx_header "$count" && seq "$count" | sed 's/.*\(.\)/\1/' | tr -d '\n' | tr 0-9 '\000-\011'; } \
            >few/t10k-labels-idx1-ubyte
        "$TRAIN" "${options[@]}" --data few --lr 0.01 --csv right >/dev/null
        for ranks in 2 3 4; do
            train $ranks "$five" --data few --lr 0.01 --csv csv
            same_curve right csv
        done
    done
}

# near STEPS BAND CSV CSV: both files must have this number of steps, and losses that differ by at most BAND.
near() {
    paste -d, "$3" "$4" | awk -F, -v wanted="$1" -v band="$2" 'NR > 1 && $2 != "" {
            steps++
            wrong += $1 != $9 || ($2 - $10) ^ 2 > band ^ 2
        }
        END { exit wrong || steps != wanted }'
}

@test "a model that is too large for step 4 trains on four ranks" {
    export CPU_DEVICE_MEMORY=10M
    large=(--hidden "1000,1000" --optimizer adam --epochs 1)
    run ! train 4 "$build/04_multinode/train" "${large[@]}"
    grep -qE '^error \(.*, rank [0-3]\): .*out of device memory: asked for 8.2 MB of optimizer, 2.3 MB of 10.5 MB ' err
    train 4 "$five" "${large[@]}" --csv csv
    unset CPU_DEVICE_MEMORY
    "$build/04_multinode/train" "${options[@]}" "${large[@]}" --csv right
    near 5 0.001 right csv
}

@test "each rank refuses a wrong option in one line" {
    while IFS='|' read -r more text; do
        read -ra wrong <<<"$more"
        by_hand 3 "${wrong[@]}"
        for rank in 0 1 2; do
            one_line $rank 2 "^error \\(.*, rank $rank\\): .*$text.*--help lists the options$"
        done
    done <<'END'
--batch 121|--batch 121 is not divisible by 3 ranks; 120 and 123 are;
--prefetch 2|--prefetch 2: want a number from 0 to 1
--strategy full|--strategy
END
}

@test "ranks with different options do not start, and all name the rank that differs" {
    odd="--prefetch 0" by_hand 3 --prefetch 1
    for rank in 0 1 2; do
        one_line $rank 1 "rank 2 on [^ ]+ has \"--prefetch 0\", rank 0 has \"--prefetch 1\": do all"
    done
    # These options may differ between ranks.
    "$TRAIN" "${options[@]}" --csv right
    odd="--overlap 0" by_hand 3 --csv csv
    [ "${codes[*]}" = "0 0 0" ]
    same_curve right csv
}
