#!/usr/bin/env bats
# Tests of tools/on_paper.py: rows that were also computed by hand.
load ../helpers
needs=(python3)

paper() {
    python3 -B "$root/tools/on_paper.py" "$@"
}

# near A B: they differ by at most 0.1 per cent.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(b + 0 && (a - b) ^ 2 <= (0.001 * b) ^ 2) }' || { echo "$1 should be near $2" && return 1; }
}

# of EXPRESSION: its value; it may use the functions of both files. run is Llama 3 405B on 8192 GPUs, guess its estimate.
of() {
    PYTHONPATH=$root/tools python3 -B -c "import sys; sys.dont_write_bytecode = True
from on_paper import *
_, model, run, _ = next(p for p in PUBLISHED if p[2].gpus == 8192)
guess = estimate(model, run, f.gpus()['h100'])
print($1)"
}

@test "the states of a model are its parameters times the bytes of ZeRO" {
    # 8,030,261,248 parameters of 16 bytes, or of 4 + 12 / 64, 2 + 14 / 64 and 16 / 64 bytes; HSDP shards over 8 GPUs.
    paper ways >table
    for row in 'DDP 128 GB, no' 'ZeRO-1 33.6 GB, 0 %' 'ZeRO-2 17.8 GB, 0 %' 'FSDP (ZeRO-3) 2.01 GB, 0 %' 'HSDP 16.1 GB, 0 %' \
        'TP 8, PP 8 2.01 GB, 27 %'; do
        awk -F' *\\| *' -v wanted="$row" '$2 " " $5 == wanted { found = 1 } END { exit !found }' table || { echo "no $row" && return 1; }
    done
}

@test "a published row is what one computes by hand" {
    # 98304 tokens of 6 P + 12 L d T FLOPs at the fitted rate, and the update of 1/8 of the parameters at 2970 GB/s.
    near "$(paper published | awk -F' *\\| *' '$2 == "MPT 7B" { print $6 }')" "$(awk 'BEGIN {
        flops = 98304 * (6 * 6658859008 + 12 * 32 * 4096 * 2048)
        seconds = flops / (8 * 459.5e12) + 28 * 6658859008 / 8 / 2970e9
        printf "%.0f", flops / seconds / 8e12 }')"
}

@test "tensor parallelism and the bubble are what one computes by hand" {
    # 2048 sequences on 64 replicas: 32 micro-batches. 126 / 16 layers, 4 all-reduces of 2 x 8192 x 16384 bytes on 8 GPUs.
    [ "$(of 'run.micro_batches(), run.data_ranks(), run.shards()')" = '32 64 64' ]
    near "$(of guess.tensor)" "$(awk 'BEGIN { print 32 * 126 / 16 * 4 * 2 * (7 * 3.4e-6 + 7 / 8 * 2 * 8192 * 16384 / 371e9) }')"
    near "$(of 'guess.bubble / (guess.computing + guess.tensor)')" "$(awk 'BEGIN { print 15 / (32 * 8) }')"
    near "$(of 'f.mfu(guess.flops, guess.step(), 8192, 989e12)')" "$(of 'rate_of(guess, 8192) / 989')"
    near "$(of 'rate_of(guess, 8192)')" "$(of 'guess.flops / guess.step() / 8192 / 1e12')"
}
