#!/usr/bin/env bats
# Tests of --profile and of modelled times in what the steps print. The model in profile/simple.model has simple times, so
# the comments compute the timelines: a product takes 100 us, an all-reduce of two ranks 141.2 us, and an all-gather or a
# reduce-scatter 75 us (cpu_device/src/gpu_collectives.c: 6.6 us and 0.18 times the latency of each step). The model has three
# layers, so forward takes 300 us, and backward 200 + 200 + 100.
load ../helpers
load every_step

adjust() {
    simple=$root/tests/steps/profile/simple.model
    options=(--data "$tiny" --hidden "8,8" --batch 120 --epochs 1)
}

# has CSV TITLE=VALUE...: the last line of the file must have these values in these columns, to 0.1 us ($tolerance: ms).
has() {
    awk -F, -v wanted="${*:2}" -v tolerance="${tolerance:-0.0001}" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
        END {
            for (n = split(wanted, each, " "); n > 0; n--) {
                split(each[n], pair, "=")
                if (!(pair[1] in column) || $column[pair[1]] == "" || ($column[pair[1]] - pair[2]) ^ 2 > tolerance ^ 2) {
                    print each[n] ", but found " (pair[1] in column ? $column[pair[1]] : "no such column")
                    wrong = 1
                }
            }
            exit wrong
        }' "$1"
}

@test "every step prints the profile of an epoch, and writes it to the CSV file" {
    more=()
    for number in 1 2 3 4 5 7 8 9; do
        [ $number != 8 ] || more=(--stages 1) # the first of two stages computes no loss
        train $number 2 --epochs 2 --profile --csv csv "${more[@]}"
        [ "$(grep -c '^profile   [45] steps timed  *copy  forward     loss backward   update .*idle     step' out)" = 2 ]
        [ "$(grep -cE '^           *ms( +[0-9.]+){8,10}$' out)" = 2 ]
        [ "$(grep -cE '^           *share( +[0-9.]+%){8,10}$' out)" = 2 ]
        [ "$(head -n 1 csv)" = step,loss,epoch,epoch_loss,test_loss,accuracy,seconds,lr,data_ms,copy_ms,forward_ms,loss_ms,backward_ms,update_ms,comm_ms,report_ms,idle_ms,step_ms,hidden_ms ]
        [ "$(awk -F, '{ print NF }' csv | sort -u)" = 19 ]
        # The phases that --profile times are there, and they are not longer than the step.
        awk -F, -v number=$number 'NR > 1 && $3 {
            for (i = 10; i <= 14; i++) if ($i <= 0) bad = 1
            if ($9 + $10 + $11 + $12 + $13 + $14 + $15 > $18 * 1.0001 || (number > 1) != ($15 + $19 > 0)) bad = 1
        } END { exit bad }' csv
    done
}

@test "step 2 hides the sums that run during backward, and none with --overlap 0" {
    export CPU_DEVICE_MODEL=$simple
    # One sum after backward: 300 + 500 + 141.2. The report has another sum, in one of the four training steps.
    train 2 2 --profile --csv csv --overlap 0
    # The rate counts the images of both ranks.
    awk '/modelled .* images\/s$/ { rate = $(NF - 1) * $(NF - 3) } END { exit !(rate > 590 && rate < 610) }' out
    has csv modelled_forward_ms=0.3 modelled_backward_ms=0.5 modelled_comm_ms=0.1412 modelled_hidden_ms=0 \
        modelled_step_ms=0.9765 modelled_report_ms=0.0353 modelled_idle_ms=0
    # The sum of the last layer begins after 200 of backward and is hidden. That of the second one begins after 400, and
    # backward ends after 500. The third one begins when it ends, after 541.2, and ends after 682.4.
    train 2 2 --profile --csv csv --overlap 1
    has csv modelled_forward_ms=0.3 modelled_backward_ms=0.5 modelled_comm_ms=0.1824 modelled_hidden_ms=0.2412 \
        modelled_step_ms=1.0177 modelled_report_ms=0.0353 modelled_idle_ms=0
}

@test "step 5 hides the gathers of the next layer, and none with --prefetch 0" {
    export CPU_DEVICE_MODEL=$simple
    # Nine collectives, one after the other with everything else.
    train 5 2 --profile --csv csv --prefetch 0
    has csv modelled_forward_ms=0.3 modelled_backward_ms=0.5 modelled_comm_ms=0.675 modelled_hidden_ms=0
    # Forward and backward wait for the first gather, and the update waits for the last sum.
    train 5 2 --profile --csv csv --prefetch 1
    has csv modelled_forward_ms=0.3 modelled_backward_ms=0.5 modelled_comm_ms=0.225 modelled_hidden_ms=0.45
}

@test "lines and columns with modelled times say so, and no line shows a rate of the host's clock" {
    CPU_DEVICE_MODEL=$simple train 1 2 --log-every 2 --csv csv
    grep -qxE 'epoch 1/1  step 2/5  loss [0-9.]+' out
    grep -qxE 'epoch 1/1  loss .*%  modelled [0-9.]+ s  [0-9]+ images/s' out
    [ "$(grep -c images/s out)" = 1 ]
    [ "$(head -n 1 csv)" = step,loss,epoch,epoch_loss,test_loss,accuracy,modelled_seconds,lr ]
    # Five training steps of 300 + 500 us.
    has csv modelled_seconds=0.004
}

# A GPU has no timeline of its own, so watch/gpu_trace.c writes the spans. Here it replaces watch/cpu_trace.c.
@test "a trace from events has the sizes of collectives, and rows that trace.py reads" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    compile traced "$build/02_multigpu_fork/train.o" "$root/watch/gpu_trace.c"
    for overlap in 0 1; do
        CPU_DEVICE_MODEL=$simple timeout 60 ./traced "${options[@]}" --nproc 2 --overlap $overlap --trace trace.json >log
        python3 "$root/tools/trace.py" trace.json >table
        grep -q '^ *1 ' table
        # Each of 5 training steps and an evaluation of one batch has 3 layers, and each report a sum of 6 doubles. The
        # model has 8 x 8 + 8 + 8 x 8 + 8 + 8 x 10 + 10 parameters.
        while read -r count pattern; do
            [ "$(grep -cE "$pattern" trace.1.json)" = "$count" ] || { echo "not $count: $pattern" && return 1; }
        done <<END
18 "name":"forward . dense.*","cat":"kernel"
18 "name":"forward . dense.*","cat":"host","pid":1,"tid":0
5 "name":"optimizer_step","cat":"kernel"
2 "cat":"collective".*"bytes":48,"comm":"all","number":[0-9]+}
$((overlap ? 0 : 5)) "cat":"collective".*"bytes":936,
$((overlap ? 10 : 0)) "cat":"collective".*"bytes":288,
$((overlap ? 3 : 2)) "thread_name"
END
    done
    # Without a model, the times of the host and of the device come from one clock.
    timeout 60 ./traced "${options[@]}" --nproc 2 --trace real.json >log
    python3 "$root/tools/trace.py" real.json
    run timeout 60 ./traced "${options[@]}" --nproc 1 --trace no/trace.json
    [ "$status" = 1 ]
    [[ $output == *"): --trace no/trace.json: No such file or directory"* ]]
    exec 7<real.0.json 8<real.1.json && flock 7 && flock 8 # as another run does
    run timeout 60 ./traced "${options[@]}" --nproc 2 --trace real.json
    [ "$status" = 1 ]
    [[ $output == *"): --trace real."[01]".json: another run writes this file"* ]]
    exec 7<&- 8<&-
    python3 "$root/tools/trace.py" real.json # as before
}
