# What the checks share that compare modelled times. These depend on the calls of a program and on nothing else, so every
# machine shows the same ones. Only the CPU device has the modelled clock, so these runs use it on machines with GPUs, too.

# modelled RANKS OPTION...: runs the step and then the program on modelled GPUs, for 20 training steps. Their phases are in
# $SCRATCH/right.phases and mine.phases.
modelled() {
    local built=$device device=cpu build=${BUILD:-build/cpu} program reference=$main mine=("${options[@]}")
    local launcher=$build/03_multigpu_launcher/launch
    local -x CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0
    program=$build/$MINE/${main##*/}
    makes_course "$main" 03_multigpu_launcher/launch
    [ "$built" = cpu ] || build_mine || wrong "it does not compile for the CPU device: $(first_error build)"
    set -- "$@" --log-every 100
    rm -f "$SCRATCH"/{mine,right}.*json # a run before may have had more ranks
    if ! kept phases "$@"; then
        options=()
        program=$build/$main must_run "$@" --trace "$SCRATCH/right.json"
        options=("${mine[@]}")
        phases right >"$SCRATCH/right.phases"
        keep "$SCRATCH/right.phases"
    fi
    cp "$kept" "$SCRATCH/right.phases"
    must_run "$@" --trace "$SCRATCH/mine.json"
    phases mine >"$SCRATCH/mine.phases"
}

# as_fast RANKS OPTION...: on modelled GPUs, a training step takes at most a twentieth longer than in the step.
as_fast() {
    local mine right gpus="$1 GPUs"
    [ "$1" != 1 ] || gpus='1 GPU'
    data_set 20480 10 28 28 # an epoch of 20 batches, as wide as those of MNIST
    modelled "$@"
    data_set "${small_images[@]}"
    read -r mine right <<<"$(step_times)"
    holds 'mine > 0 && mine <= 1.05 * right' "$mine" "$right" ||
        wrong "on $gpus (modelled h100), a training step takes $mine ms; in the step, it takes $right ms" \
            "$(untouched || differences)"
    ok "on $gpus (modelled h100), a training step takes $mine ms; in the step, it takes $right ms"
}

# step_times: of the last modelled runs, the milliseconds of a training step in the program and in the step.
step_times() {
    awk '/^all: a training step/ { printf "%s ", $NF }' "$SCRATCH"/{mine,right}.phases
}

# hides_sums [LINE]: while the ranks sum the gradients of a layer, they compute those of the layers before it, as much as in
# the step. The line explains that they do not.
# shellcheck disable=SC2120 # most callers need no line
hides_sums() {
    local mine right part
    host_does_not_wait 2
    modelled 2 --hidden 2048,2048,2048
    read -r mine part right _ <<<"$(awk '/^all: hidden/ { printf "%s %s ", $3, $4 }' "$SCRATCH"/{mine,right}.phases)"
    holds 'mine >= 0.95 * right' "$mine" "$right" ||
        wrong "on 2 GPUs (modelled h100), backward hides $mine us of the sums of a training step; in the step, $right us" \
            "${1:-The sums must run on t->comm_stream, each as soon as its gradients are computed.
            t->stream may wait for them only once, after backward of all layers.}"
    ok "on 2 GPUs (modelled h100), backward hides $mine us ($part) of the sums of a training step; in the step, $right us"
}

# host_does_not_wait RANKS OPTION...: ten training steps more do not let the host wait more often, or ask more often whether it
# has to. Barriers instead of events are right.
host_does_not_wait() {
    local name count waits barriers
    local -A before=()
    local -x CPU_DEVICE_MODEL=h100 # with a modelled clock, no report of the progress waits
    for count in 9 19; do # both runs end within an epoch
        must_run "$@" --log-every 100 --max-steps $count
        for name in wait_for cuda{Stream,Device,Event}Synchronize cuda{Stream,Event}Query cudaMemcpy; do
            waits=$(calls "$name" -)
            [ "$waits" -le "${before[$name]:-$waits}" ] || wrong "the host calls $name $((waits - before[$name])) times in 10 training steps" \
                'While the host waits, it queues no operations, and the GPU runs out of work. Let a stream wait for the other' \
                'one, with cudaEventRecord and cudaStreamWaitEvent; the host then goes on at once.'
            before[$name]=$waits
        done
    done
    ok 'the host does not wait for the streams'
    barriers=$(calls barrier -)
    [ "$barriers" -lt $count ] || costs "$barriers barriers in $count training steps: an operation in the default stream waits for all" \
        'streams, and all wait for it. An event lets one stream wait for one other'
}

# Of the traces of all ranks: a line "all: a training step takes MS", a line "all: hidden US PART", the mean microseconds
# of a rank in which a sum and a kernel run, and their part of the sums, and lines such as "rank 0: copies take MS", in milliseconds of one training step.
phases() { # mine|right
    sed -nE 's/^\{"ph":"X","name":"([^":]*)[^"]*","cat":"([a-z]*)","pid":([0-9]*),"tid":[0-9]*,"ts":([0-9.]*),"dur":([0-9.]*).*/\3 \4 \5 \2 \1/p' \
        "$SCRATCH/$1".*json | sort -k1,1n -k2,2n | awk -v steps=20 '
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
                    time += to[rank, i] - from[rank, i]
                    shown += to[rank, i] - from[rank, i]
                    for (n = 1; n <= spans[rank]; n++) {
                        low = from[rank, i] > busy_from[rank, n] ? from[rank, i] : busy_from[rank, n]
                        high = to[rank, i] < busy_to[rank, n] ? to[rank, i] : busy_to[rank, n]
                        if (low < high) shown -= high - low
                    }
                }
                printf "rank %d: kernels take %.2f\n", rank, computing[rank] / steps / 1000
                printf "rank %d: copies take %.2f\n", rank, copies[rank] / steps / 1000
                printf "rank %d: nothing is computed during communication for %.2f\n", rank, shown / steps / 1000
                all += shown
            }
            printf "all: hidden %.0f %.0f%%\n", (time - all) / rank / steps, time ? 100 * (1 - all / time) : 0
        }'
}

# The phases that take longer than in the step, each with its ranks.
differences() {
    paste -d'|' "$SCRATCH/mine.phases" "$SCRATCH/right.phases" | grep ^rank | awk -F'[:|]' '{
        n = split($2, mine, " "); split($4, right, " "); sub(/.* /, "", $1)
        if (mine[n] <= right[n] + 0.01) next
        line = $2 " ms; in the step " right[n] " ms"
        if (!(line in ranks)) lines[++count] = line
        ranks[line] = ranks[line] " " $1 }
        END { for (i = 1; i <= count; i++) print (ranks[lines[i]] ~ / .* / ? "ranks" : "rank") ranks[lines[i]] ":" lines[i] }'
}
