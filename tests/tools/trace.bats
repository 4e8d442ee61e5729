#!/usr/bin/env bats
# Tests of tools/trace.py on small traces written by hand, whose times are worked out in the comments. Times are in
# microseconds, as in the files; the tables show ms.
load ../helpers
needs=(python3)
trace=$root/tools/trace.py
clock=measured host=node1

# begin RANK RANKS: begins the trace of a rank. The next functions add to it, and finish writes it to trace.RANK.json.
begin() {
    rank=$1 ranks=$2 events=() arrows=0
    local row names=(host 'stream 1' 'stream 2' 'stream 3' 'reader 1')
    events+=("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":$rank,\"tid\":0,\"args\":{\"name\":\"rank $rank\"}}")
    for row in 0 1 2 3 4; do
        events+=("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":$rank,\"tid\":$row,\"args\":{\"name\":\"${names[row]}\"}}")
    done
}
span() { # ROW CATEGORY BEGIN END NAME [MEMBERS OF args]
    events+=("{\"ph\":\"X\",\"name\":\"$5\",\"cat\":\"$2\",\"pid\":$rank,\"tid\":$1,\"ts\":$3,\"dur\":$(($4 - $3)),\"args\":{${6:-}}}")
}
collective() { # NUMBER BEGIN END [COMMUNICATOR]
    span 2 collective "$2" "$3" ncclAllReduce "\"bytes\":4000000,\"comm\":\"${4:-8f3a}\",\"number\":$1"
}
arrow() { # ROW BEGIN ROW END
    local common="\"id\":$arrows,\"name\":\"event\",\"cat\":\"event\",\"pid\":$rank"
    events+=("{\"ph\":\"s\",$common,\"tid\":$1,\"ts\":$2}" "{\"ph\":\"f\",\"bp\":\"e\",$common,\"tid\":$3,\"ts\":$4}")
    arrows=$((arrows + 1))
}
finish() { # [FILE]
    local IFS=,
    printf '{"displayTimeUnit":"ms","otherData":{"clock":"%s","process":%d,"processes":%d,"host":"%s","dropped":0},"traceEvents":[\n%s\n]}\n' \
        "$clock" "$rank" "$ranks" "$host" "${events[*]}" | sed 's/},{"ph"/},\n{"ph"/g' >"${1:-trace.$rank.json}"
}

# Two ranks and one training step. Rank 0 computes from 0 to 100, 110 to 200 and 300 to 350, which is 240, and its
# collective runs from 150 to 280: 50 of its 130 are hidden, and 350 - (240 + 130 - 50) = 30 are idle. Rank 1 arrives at
# the collective 100 later than rank 0. It computes from 0 to 240 (a copy from 20 to 60 runs meanwhile) and from 300 to
# 350, which is 290, and nothing of its 30 is hidden; 350 - 320 = 30 are idle. What a reader of samples does counts nowhere.
two_ranks() {
    begin 0 2
    span 1 product 0 100 'forward 1 dense: matrix product' '"bytes":800,"flops":1e6'
    span 1 product 110 200 'backward 1 dense: matrix product'
    span 2 wait 0 150 wait
    collective 0 150 280
    span 1 kernel 300 350 'update: sgd_step'
    span 4 read 205 400 read
    span 0 host 200 340 cudaStreamSynchronize
    arrow 1 140 2 150
    arrow 2 280 1 300
    finish
    begin 1 2
    span 1 product 0 110 'forward 1 dense: matrix product'
    span 1 product 110 240 'backward 1 dense: matrix product'
    span 3 copy 20 60 cudaMemcpyAsync
    collective 0 250 280
    span 1 kernel 300 350 'update: sgd_step'
    arrow 1 240 2 250
    finish
}

# table ROW...: these rows must be in the output, with single blanks.
table() {
    local row
    for row; do
        sed -E 's/ +/ /g; s/^ //' <<<"$output" | grep -qxF "$row" || { printf '%s\n' "wanted: $row" "$output" && return 1; }
    done
}

read_trace() { # ARGUMENT...
    run --separate-stderr "$trace" "$@"
    [ "$status" = 0 ] || { echo "$stderr" && return 1; }
}

@test "the table shows computing, hidden and shown collectives and idle time, and names the straggler" {
    two_ranks
    read_trace trace.json
    # 50 / 130 = 38.5 %; 30 / 350 = 8.6 %. Rank 0 waits 100 of 350 for rank 1.
    table '0 0.350 0.240 0.130 0.050 0.080 0.030 38.5 % 8.6 %' \
        '1 0.350 0.290 0.030 0.000 0.030 0.030 0.0 % 8.6 %' \
        '0 0 0.000' '1 1 0.100' \
        'measured: rank 1 is the straggler: each other rank waits 0.100 ms for rank 1, 28.6 % of the time, and 0.000 ms for rank 0.'
    by_name=$output
    read_trace trace.1.json trace.0.json
    [ "$output" = "$by_name" ]
}

@test "every heading and conclusion of a modelled trace says so" {
    clock='modelled h100' two_ranks
    read_trace trace.json -o merged.json --svg picture.svg
    [ "$(grep -c 'modelled h100' <<<"$output")" = 5 ]
    refute grep -q measured <<<"$output"
    grep -q '"clock": "modelled h100"' merged.json
    grep -q '(modelled h100)</text>' picture.svg
    read_trace --check trace.json
    [[ $output == *"modelled h100"* ]]
}

# A process with four training steps of 100: a forward pass of 60, and an update of two kernels from 80 to 100.
four_steps() {
    local step
    begin 0 1
    span 1 copy 0 50 'copy: cudaMemcpyAsync'
    for step in 1 2 3 4; do
        span 1 kernel ${step}00 ${step}60 'forward 1 dense: gather_batch'
        span 1 kernel ${step}80 ${step}85 'update: sgd_step'
        span 1 kernel ${step}85 $((step + 1))00 'update: to_bfloat16'
    done
    finish trace.json
}

@test "--steps chooses a part of the trace, and a picture shows steps 2 and 3 without it" {
    four_steps
    read_trace trace.json
    table '0 0.500 0.370 0.000 0.000 0.000 0.130 - 26.0 %' 'Straggler: there is no collective of several ranks.'
    read_trace trace.json --steps 2:3
    table '0 0.200 0.160 0.000 0.000 0.000 0.040 - 20.0 %'
    read_trace trace.json --steps 1
    table '0 0.100 0.080 0.000 0.000 0.000 0.020 - 20.0 %'
    while read -r options title updates copies; do
        # shellcheck disable=SC2086 # several words
        read_trace trace.json --svg picture.svg ${options//_/ }
        grep -q "${title//_/ } of 1 rank (measured)" picture.svg
        [ "$(elements '<title>update') $(elements '<title>copy')" = "$updates $copies" ]
    done <<'END'
_ training_steps_2_to_3 4 0
--steps_4 training_step_4 2 0
END
    fails 1 'rank 0 has 4 training steps, so there are no steps 3:5' "$trace" trace.json --steps 3:5
}

@test "a merged file holds all ranks, with unique arrows, and gives the same table" {
    two_ranks
    read_trace trace.json
    separate=$output
    read_trace trace.json -o merged.json
    [[ $output == *"merged.json: all ranks, measured. To see it, open https://ui.perfetto.dev"* ]]
    read_trace --check merged.json
    [ "$output" = "2 ranks, 12 spans, 3 arrows, measured: no mistake" ]
    [ "$(grep -o '"id": [0-9]*' merged.json | sort | uniq -c | tr -s ' ' | cut -d' ' -f2 | tr '\n' ' ')" = '2 2 2 ' ]
    # The forward pass of rank 1 ends when its backward pass begins; viewers need a gap there.
    grep -q '"pid": 1.*"ts": 0.*"dur": 109.999' merged.json
    read_trace merged.json
    [ "$output" = "$separate" ]
}

@test "the clocks of hosts are aligned by the median of the ends of their collectives" {
    # The clock of node2 is 5000 ahead. One of three collectives ends 40 later there.
    for rank in 0 1; do
        begin $rank 2
        host=node$((rank + 1)) ahead=$((5000 * rank))
        span 1 kernel $((ahead + 10)) $((ahead + 900)) forward
        for number in 0 1 2; do
            collective $number $((ahead + 100 * number + 100)) $((ahead + 100 * number + 150 + 40 * rank * (number == 1)))
        done
        arrow 1 $((ahead + 20)) 2 $((ahead + 30))
        finish
    done
    read_trace trace.json -o merged.json
    [[ $output == *"no rank waits for another one"* ]]
    [ "$(grep -c '"name": "forward".*"ts": 0, "dur": 890' merged.json)" = 2 ]
    [ "$(grep -cE '"ph": "s".*"ts": 10(.0)?}' merged.json)" = 2 ]
}

@test "files that are no traces of one run are refused with one line" {
    fails 1 'trace.json: there is no such file, and none of a rank, such as trace.0.json' "$trace" trace.json
    two_ranks
    mkdir broken
    # A killed rank leaves a part of a file, or none.
    for bytes in 0 300 $(($(stat -c %s trace.1.json) - 3)); do
        head -c "$bytes" trace.1.json >broken/trace.1.json
        fails 1 'trace.1.json: the file ends in the middle, as that of a rank that was killed' "$trace" trace.0.json broken/trace.1.json
    done
    echo 'epoch 1/2  loss 0.1' >broken/log
    printf '\377\376' >broken/binary
    sed 's/"measured"/"modelled h100"/' trace.1.json >broken/modelled.json
    while IFS='@' read -r words wanted; do
        # shellcheck disable=SC2086 # several words
        fails 1 "${wanted# }" "$trace" $words
    done <<'END'
trace.0.json @ rank 1 of 2 is missing
trace.0.json trace.0.json trace.1.json @ trace.0.json is of rank 0, too
broken/log @ broken/log: this is no trace, because line 1 is not JSON
broken/binary @ broken/binary: this is no trace, because it is not text
trace.0.json broken/modelled.json @ the clock is modelled h100, but that of trace.0.json is measured: these files are of different runs
trace.json -o /dev/full @ error: /dev/full: No space left on device
END
}

@test "--check accepts a valid trace and refuses one whose spans overlap" {
    two_ranks
    read_trace --check trace.json
    [ "$output" = "2 ranks, 12 spans, 3 arrows, measured: no mistake" ]
    edit trace.0.json '/forward/s/"dur":100/"dur":110.01/'
    fails 1 'backward 1 dense: matrix product at 110.000 us overlaps forward 1 dense: matrix product at 0.000 us in row 1' \
        "$trace" --check trace.json
}

# elements PATTERN: how many elements of the picture match.
elements() {
    grep -cE "$1" picture.svg || true
}

@test "--svg draws rows, spans, waits, arrows and steps, the same bytes each time" {
    two_ranks
    read_trace trace.json --svg picture.svg
    python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse("picture.svg")'
    grep -q 'training step 1 of 2 ranks (measured)</text>' picture.svg
    for text in 'rank 0' 'rank 1' 'stream 1' 'stream 2' 'stream 3' 'reader 1' 'time in µs' 'step 1' 'forward 1 dense' AR read \
        'waits for another rank' 'a stream waited for an event'; do
        grep -qF ">$text</text>" picture.svg || { echo "no text: $text" && return 1; }
    done
    # The first rank waits in its collective for the second one from 150 to 250 of 350, on an axis of 744 from 132 on.
    [ "$(elements '<rect x="450.86" .*width="212.57".*fill="url\(#late\)".*waits for another rank')" = 1 ]
    [ "$(elements '<rect x="663.43" .*width="63.77".*fill="#E69F00".*<title>ncclAllReduce, 130 us, 4 MB</title>')" = 1 ]
    [ "$(elements 'marker-end')" = 4 ] # three arrows, and one in the legend
    [ "$(elements 'fill="#56B4E9".*<title>forward')" = 2 ]
    mv picture.svg first.svg
    read_trace trace.json --svg picture.svg
    cmp first.svg picture.svg
    read_trace trace.json --svg picture.svg --ranks 1
    [ "$(elements '>rank [01]</text>')" = 1 ]
    grep -q 'training step 1 of rank 1 of 2' picture.svg
}

# A sum over one rank takes no modelled time.
@test "the traces of the steps are valid" {
    need_train 03_multigpu_launcher/launch {05_fsdp,07_large_models,08_pipeline,09_tensor}/train
    programs=${TRAIN%/*/*}
    tiny_data data
    export CPU_DEVICES=2
    while read -r model ranks step readers; do
        rm -f trace*.json
        # shellcheck disable=SC2086 # one variable or none
        env ${model#measured} "$programs/03_multigpu_launcher/launch" --nproc-per-node "$ranks" "$programs/$step/train" \
            --data data --batch 32 --max-steps 4 --log-every 100 --trace trace.json ${readers:+--load stream --workers $readers}
        read_trace --check trace.json
        [[ $output == *"no mistake" ]]
        read_trace trace.json --svg picture.svg
        grep -q 'training steps 2 to 3 of' picture.svg
        [ "$(grep -c '"reader ' trace*.json | cut -d: -f2 | sort -u)" = "${readers:-0}" ]
        [[ -z $readers || $model = measured ]] || [ "$(elements '<title>read, ')" -ge "$ranks" ]
    done <<'END'
measured 1 01_single_gpu
measured 1 01_single_gpu 2
measured 2 05_fsdp
measured 2 09_tensor
CPU_DEVICE_MODEL=h100 1 07_large_models
CPU_DEVICE_MODEL=h100 2 07_large_models 1
CPU_DEVICE_MODEL=h100 2 08_pipeline
END
}

# The commands of the blocks that draw a picture, in the order of the text.
@test "the pictures of traces in docs/seeing.md are what their commands draw" {
    need_train 02_multigpu_fork/train 03_multigpu_launcher/launch 05_fsdp/train
    build=${TRAIN%/01_single_gpu/train}
    ln -s "$root/tools" "$build"/{02_multigpu_fork,03_multigpu_launcher,05_fsdp} .
    awk '/^```/ { if (block ~ /--svg/) printf "%s", block; block = ""; next } !/^make / { block = block $0 "\n" }' \
        "$root/docs/seeing.md" >commands
    [ "$(grep -c -e --svg commands)" = 2 ]
    bash -e commands >out 2>&1 || { cat out && return 1; }
    for picture in overlap prefetch; do
        cmp $picture.svg "$root/docs/figures/$picture.svg"
    done
}
