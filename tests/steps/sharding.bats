#!/usr/bin/env bats
# Tests of the trainers of steps 5 and 7: with every strategy and option, they have the loss curve of step 1, and their
# memory and traffic are what they print.
# shellcheck disable=SC2086 # options are lists of words
load ../helpers
load every_step
# No unit of this model divides into 4 shards.
more_options=(--hidden "6,14,22,10" --epochs 3 --seed 2)

prepare() {
    export seven
    seven=$(program_of 7)
}

# saved FILE STEP RANKS OPTION...: writes the final parameters and optimizer states to one file. Step 1 loads the shards of
# step 5, has nothing left to do, and saves the file.
saved() {
    rm -f "$1"*
    if [ "$2" = 7 ]; then
        train 7 "$3" --save full --snapshot "$1" "${@:4}"
    else
        train "$2" "$3" --snapshot "$1" "${@:4}" && program='' train 1 1 --snapshot "$1"
    fi
}

# The columns are ranks, strategy, prefetch, overlap, recompute, accumulate, unit-bytes, optimizer, clip and hidden. Every
# pair of values of two columns is in some row. Units of 1400 bytes have one or several layers, and a unit of a million
# bytes has all layers. In the second model, a layer has 3 parameters.
runs="\
1 full 0 1 0 2 1400    adam  0    21,2,1,9
1 grad 0 0 1 5 0       adamw 0.03 21,2,1,9
1 grad 1 1 1 1 1000000 adamw 0    21,2,1,9
1 none 1 1 1 2 0       sgd   0.03 6,14,22,10
2 full 1 1 0 1 1000000 sgd   0.03 6,14,22,10
2 grad 1 0 0 5 1400    adam  0    21,2,1,9
2 none 0 0 1 2 0       adamw 0    21,2,1,9
3 full 0 0 0 1 0       adamw 0    21,2,1,9
3 grad 1 1 1 2 1400    sgd   0.03 6,14,22,10
3 none 0 0 1 2 1000000 sgd   0.03 21,2,1,9
3 none 1 0 0 5 1000000 adam  0.03 21,2,1,9
4 full 0 1 1 5 1000000 sgd   0    6,14,22,10
4 full 1 0 1 2 0       adam  0    6,14,22,10
4 grad 0 1 1 5 1400    adamw 0.03 6,14,22,10
4 none 1 0 0 1 1400    adam  0    21,2,1,9"

# Adam divides numbers near zero by each other, so with a large rate, rounding errors would cause large updates.
declare -A rates=([sgd]="--lr 0.01" [adam]="--lr 0.0001 --weight-decay 0.1"
    [adamw]="--lr 0.0001 --weight-decay 10")

# Only rounding may differ: sums of some hundred floats in another order differ by at most 1e-6 of their size, and same_curve
# allows ten times as much. The losses change by more than that in every training step.
# bats test_tags=gpu
@test "any number of ranks has the loss curve of step 1, with every strategy and pair of options" {
    while read -r ranks strategy prefetch overlap recompute accumulate unit_bytes optimizer clip hidden; do
        right=right.$optimizer.$clip.$hidden
        same="--hidden $hidden --optimizer $optimizer ${rates[$optimizer]}"
        if [ ! -e "$right" ]; then # step 1 has no --clip
            [ "$clip" = 0 ] && alone="1 1" || alone="7 1 --strategy none --clip $clip"
            train $alone $same --csv "$right"
        fi
        train 7 $ranks $same --csv csv --clip "$clip" --strategy "$strategy" --prefetch "$prefetch" \
            --overlap "$overlap" --recompute "$recompute" --accumulate "$accumulate" --unit-bytes "$unit_bytes"
        same_curve "$right" csv || { echo "$ranks ranks, $strategy, $unit_bytes bytes, $optimizer" && return 1; }
    done <<<"$(on_gpu && grep '^4' <<<"$runs" || echo "$runs")"
}

@test "strategy, prefetch, overlap and recomputation change no bit" {
    options+=(--max-steps 8)
    while read -r ranks more; do
        saved right 7 $ranks $more
        for other in "--prefetch 0" "--strategy grad --prefetch 0 --overlap 0 --recompute 1"; do
            saved got 7 $ranks $more $other
            cmp right got
        done
    done <<'END'
2 --unit-bytes 1400
3 --precision bf16 --unit-bytes 1400 --hidden 21,2,1,9 --dropout 0.2
4 --optimizer adamw --weight-decay 1 --accumulate 2 --unit-bytes 1400
4 --clip 0.03
END
}

floats() {
    tail -c +1257 "$1" | head -c $((4 * 822)) | od -An -v -w4 -tf4
}

@test "--clip shortens long gradients to its limit, and leaves short ones unchanged" {
    # Without momentum, an update is the rate times the gradient, whose norm is above 0.01. With bfloat16, old values in a
    # buffer must not become a part of the norm.
    while read -r ranks more; do
        for steps in 4 5; do
            saved $steps 7 $ranks --lr 1 --momentum 0 --clip 0.01 --max-steps $steps --strategy $more
        done
        paste <(floats 4) <(floats 5) | awk '{ sum += ($1 - $2) ^ 2 }
            END { length_of_step = sqrt(sum); print length_of_step
                exit NR != 822 || (length_of_step - 0.01) ^ 2 > (1e-3 * 0.01) ^ 2 }'
    done <<'END'
1 none
3 full
4 grad --precision bf16
END
    # A factor of 1 changes no bit. The header holds --clip.
    saved never 7 3
    saved got 7 3 --clip 1000
    cmp <(floats never) <(floats got)
    saved got 7 3 --clip 0.01
    run ! cmp -s <(floats never) <(floats got)
}

@test "--strategy hybrid shards within nodes; on one node it is full, with one rank per node none" {
    train 1 1 --lr 0.01 --csv right
    for more in "" "--unit-bytes 1400 --recompute 1 --prefetch 0" "--accumulate 5"; do
        nodes 2 2 "$seven" --strategy hybrid --lr 0.01 --csv csv $more
        same_curve right csv
    done
    saved alone 7 1 --clip 0.01 --csv right
    nodes 2 2 "$seven" --strategy hybrid --clip 0.01 --csv csv
    same_curve right csv
    for shape in "1 4 full" "4 1 none"; do
        read -r count ranks strategy <<<"$shape"
        rm -f got
        nodes "$count" "$ranks" "$seven" --strategy hybrid --save full --snapshot got
        saved right 7 4 --strategy "$strategy"
        cmp right got
    done
}

@test "replicas that differ end the run" {
    changed ./program 7 train.c 's/^( *)optimizer_step.*/\1if (t->rank == 3 \&\& steps_done(t) == 7)\
\1    CUDA_CHECK(cudaMemsetAsync(t->fsdp.parameters + t->fsdp.count - 3, 1, 1, t->stream));\
&/'
    run ! nodes 2 2 ./program --strategy hybrid --epochs 3
    grep -qE '^error \(.*, rank [13]\): epoch 2: '"$(text_of REPLICAS_DIFFER)\$" err.*
    grep -q '^epoch 1/3 .*accuracy' out
    run ! grep '^epoch 2/3 .*accuracy' out
    # With --strategy full, no other rank stores these parameters, so the mistake stays unnoticed.
    program=./program train 7 4 --strategy full
}

@test "--strategy hybrid needs the size of the nodes, and ranks numbered node by node" {
    cat >placed <<'END'
#!/bin/bash
read -ra places <<<"$PLACES"
IFS=: read -r LOCAL_RANK LOCAL_WORLD_SIZE <<<"${places[RANK]}"
[ -n "$LOCAL_WORLD_SIZE" ] || unset LOCAL_WORLD_SIZE
export NCCL_HOSTID=$RANK # or NCCL would refuse two ranks with the same local rank
exec "$seven" --strategy hybrid --join-timeout 1 "$@"
END
    chmod +x placed
    PLACES="0 1" start_ranks 2 ./placed # not every launcher tells the number of ranks on a node
    ranks_end 20 2 0 1
    rank_says 1 "--strategy hybrid: the launcher does not say how many ranks this node has "
    PLACES="0:2 0:2 1:2 1:2" start_ranks 4 ./placed
    ranks_end 20 2 1 2
    ranks_end 20 1 0 3
    rank_says 1 "--strategy hybrid: every node needs the same number of ranks, with consecutive numbers;"
}

@test "a rank's memory and traffic are those of the formulas" {
    while IFS='|' read -r counts more; do
        for strategy in full grad none; do
            for ranks in $counts; do
                train 7 $ranks --epochs 1 --strategy $strategy $more
                costs_agree
            done
        done
    done <<'END'
1 3|
4|--accumulate 5 --optimizer adam --unit-bytes 1400 --recompute 1
3|--precision bf16 --accumulate 2 --hidden 21,2,1,9
2|--unit-bytes 1000000 --clip 1 --optimizer adamw
END
    train 7 4 --max-steps 7 # ends within an epoch
    costs_agree
    nodes 2 2 "$seven" --strategy hybrid --accumulate 2 --unit-bytes 1400
    grep -q '^costs of a rank .* N = 2 .*, R = 2 ' out
    costs_agree
}

images_train() {
    train 7 "$1" --data synthetic --hidden 48,32 --batch 600 --epochs 1 --max-steps 20 "${@:2}"
}

# bats test_tags=gpu
@test "bfloat16 has the loss curve of float except for rounding, on any number of ranks" {
    images_train 1 --csv float
    awk -F, 'NR == 2 { exit !($2 > 2.2) }' float
    awk -F, 'NR == 21 { exit !($2 < 0.1) }' float
    images_train 1 --precision bf16 --csv right ||
        { grep -q 'this GPU has no products of bfloat16 matrices' err && skip "this GPU has no bfloat16"; }
    # Two neighbouring bfloat16 numbers differ by up to 2^-7, and rounding errs by at most half of that. So the loss should
    # change by less than 2^-8 of its value for an untrained model, ln 10.
    near 20 0.009 float right
    run ! near 20 0.00001 float right
    # A different order of additions changes the rounding of fewer than one weight in a thousand.
    for more in 2 4 "3 --strategy none --accumulate 2"; do
        images_train $more --precision bf16 --csv got
        near 20 0.0005 right got
    done
}

# 822 parameters in layers of 54, 98, 330, 230 and 110. Four ranks keep 208 each, because layers are padded. The optimizer has
# two states.
@test "a rank of step 5 stores 1/N of the model and two whole layers, as the banner says" {
    train 5 4 --epochs 1 --optimizer adam
    grep -qx "sharding  each rank keeps 208 of 822 parameters" out
    grep -q "^memory .* parameters 832 B, gradients 832 B, optimizer 1.7 KB, .*gathered 2.3 KB" out
}
