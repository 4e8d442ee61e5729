# shellcheck shell=bash disable=SC2034,SC2154 # check.bash sets and reads variables
# What the checks share that compare modelled times. These depend on the calls of a program and on nothing else, so every
# machine shows the same ones. Only the CPU device has the modelled clock, so a machine with GPUs uses it, too.
device=cpu
build=${BUILD:-build/cpu}
launcher=$build/03_multigpu_launcher/launch

# as_fast RANKS OPTION...: on modelled GPUs, 20 training steps take at most a tenth longer than in the step.
as_fast() {
    local mine right count=$1
    make -s DEVICE=cpu BUILD="$build" "$build/$main" >"$SCRATCH/build" 2>&1 || wrong "the step $main does not compile"
    set -- "$@" --data synthetic --log-every 100
    export CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0
    must_run "$@" --trace "$SCRATCH/mine.json"
    program=$build/$main must_run "$@" --trace "$SCRATCH/right.json"
    unset CPU_DEVICE_MODEL CPU_DEVICE_COMPUTE
    phases mine >"$SCRATCH/mine.phases"
    phases right >"$SCRATCH/right.phases"
    mine=$(sed -n '1s/.* //p' "$SCRATCH/mine.phases")
    right=$(sed -n '1s/.* //p' "$SCRATCH/right.phases")
    awk -v mine="$mine" -v right="$right" 'BEGIN { exit !(mine <= 1.1 * right) }' ||
        wrong "on $count GPUs (modelled h100), a training step takes $mine ms; in the step, it takes $right ms" \
            "$(untouched || differences)"
    ok "on $count GPUs (modelled h100), a training step takes $mine ms; in the step, it takes $right ms"
}

# Of the traces of all ranks: first a line "all: a training step takes MS", then lines such as "rank 0: copies take MS", in
# milliseconds of one of the 20 training steps.
phases() { # mine|right
    sed -nE 's/^\{"ph":"X","name":"([^":]*)[^"]*","cat":"([a-z]*)","pid":([0-9]*),"tid":[0-9]*,"ts":([0-9.]*),"dur":([0-9.]*).*/\3 \4 \5 \2 \1/p' \
        "$SCRATCH/$1".*.json | sort -k1,1n -k2,2n | awk -v steps=20 '
        $4 == "host" || $4 == "wait" { next }
        { rank = $1; begin = $2; end = $2 + $3 }
        rank != last { last = rank; ends = 0; started = 0; updates = 0 }
        $5 == "gather_batch" && !started { started = 1; if (!(0 in first) || begin < first[0]) first[0] = begin }
        !started || updates == steps { next }
        $5 == "optimizer_step" { updates++; if (end > finish) finish = end }
        $4 == "copy" { copies[rank] += $3 }
        $4 == "collective" { n = ++sums[rank]; from[rank, n] = begin; to[rank, n] = end }
        $4 == "kernel" || $4 == "product" {
            computing[rank] += $3
            n = ++spans[rank]; busy_from[rank, n] = begin; busy_to[rank, n] = end
        }
        END {
            printf "all: a training step takes %.2f\n", (finish - first[0]) / steps / 1000
            for (rank = 0; rank in computing; rank++) {
                shown = 0
                for (i = 1; i <= sums[rank]; i++) {
                    shown += to[rank, i] - from[rank, i]
                    for (n = 1; n <= spans[rank]; n++) {
                        low = from[rank, i] > busy_from[rank, n] ? from[rank, i] : busy_from[rank, n]
                        high = to[rank, i] < busy_to[rank, n] ? to[rank, i] : busy_to[rank, n]
                        if (low < high) shown -= high - low
                    }
                }
                printf "rank %d: kernels take %.2f\n", rank, computing[rank] / steps / 1000
                printf "rank %d: copies take %.2f\n", rank, copies[rank] / steps / 1000
                printf "rank %d: nothing is computed during sums for %.2f\n", rank, shown / steps / 1000
            }
        }'
}

# The phases that take longer than in the step, each with its ranks.
differences() {
    paste -d'|' "$SCRATCH/mine.phases" "$SCRATCH/right.phases" | sed 1d | awk -F'[:|]' '{
        n = split($2, mine, " "); split($4, right, " "); sub(/.* /, "", $1)
        if (mine[n] <= right[n] + 0.01) next
        line = $2 " ms; in the step " right[n] " ms"
        if (!(line in ranks)) lines[++count] = line
        ranks[line] = ranks[line] " " $1 }
        END { for (i = 1; i <= count; i++) print (ranks[lines[i]] ~ / .* / ? "ranks" : "rank") ranks[lines[i]] ":" lines[i] }'
}
