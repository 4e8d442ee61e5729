#!/usr/bin/env bats
# Tests of the optimizers, the schedules of the learning rate, and label smoothing: the losses and rates are those of PyTorch.
# every.bats trains with them in all steps.
# shellcheck disable=SC2086 # options are lists of words
load ../helpers
load every_step

# A snapshot holds the state of training, and no settings, so that a run can continue with others.
@test "a run may continue with another rate or schedule, and the banner and the CSV file show it" {
    train 1 1 --snapshot s --csv csv --max-steps 7
    train 1 1 --snapshot s --csv csv --schedule cosine --lr 0.01 --momentum 0.5
    grep -q '^training  5 steps of batch 120 per epoch, sgd, lr 0.01 (cosine to 0 after step 20), momentum 0.5, ' out
    [ "$(awk -F, '$8 != "" { print $8 }' csv | sed -n '2p;8p;9p;21p')" = "0.05
0.05
0.0072699525
6.1558297e-05" ]
}

need_torch() {
    local missing
    missing=$(/usr/bin/python3 -c 'import torch' 2>&1 | tail -n 1)
    [ -z "$missing" ] || skip "/usr/bin/python3 has no PyTorch: $missing"
    torch=(env PYTHONPATH="$root/bench" /usr/bin/python3 -B "$BATS_TEST_DIRNAME/optimizers/torch_curve.py")
}

# Each training step uses all images, so the order does not matter.
# bats test_tags=test-all
@test "20 steps have the losses and rates of the same network in PyTorch" {
    need_torch
    options+=(--batch 640 --epochs 20)
    train 1 1 --lr 1e-12 --momentum 0 --max-steps 1 --snapshot start # too small a rate to change a parameter
    while read -r more; do
        words=$(sed -E 's/--([a-z0-9-]+) ([^ ]+)/\1=\2/g' <<<"$more")
        train 1 1 --csv csv $more
        "${torch[@]}" "$BATS_FILE_TMPDIR/tiny" start 20 $words >wanted
        awk -F, 'NR > 1 && $2 { print $2, $8 }' csv | paste -d' ' - wanted | awk -v more="$more" '
            function error(a, b) { return (a > b ? a - b : b - a) / b }
            { loss = error($1, $3); rate = error($2, $4) }
            loss > worst { worst = loss }
            !(loss <= 1e-5) || !(rate <= 1e-8) { print "differs in step " NR " of " more ": " $0; wrong = 1 }
            END { print worst, more; exit wrong || NR != 20 }'
    done <<'END'
--optimizer adadelta
--optimizer adadelta --lr 0.5 --rho 0.8 --epsilon 1e-3 --weight-decay 0.01 --schedule step
--nesterov 1
--nesterov 1 --lr 0.1 --momentum 0.8 --weight-decay 0.01 --schedule onecycle
--optimizer adamw --beta1 0.8 --beta2 0.95 --epsilon 1e-4 --weight-decay 0.1
--optimizer adam --beta1 0.5 --beta2 0.9 --epsilon 1e-3 --schedule cosine
--warmup 6 --schedule cosine --lr 0.03
--warmup 7 --schedule step --step-epochs 3 --gamma 0.1 --lr 0.03
--label-smoothing 0.1
--label-smoothing 1 --lr 0.1
END
}
