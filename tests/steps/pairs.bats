#!/usr/bin/env bats
# Options that work alone may fail together. Each run takes a random value of each option of step 7, which has those of all
# steps. In 30 runs, nearly every two values meet.
# bats file_tags=test-all
# shellcheck disable=SC2206 # options are lists of words
load ../helpers
load every_step

prepare() {
    tiny_data "$BATS_FILE_TMPDIR/images" 480 40 12 12
    cksum "$BATS_FILE_TMPDIR/tiny_text" >"$BATS_FILE_TMPDIR/tiny_text.cksum"
}

adjust() {
    options=(--epochs 2 --snapshot s)
    images=$BATS_FILE_TMPDIR/images
}

# In each line, one of the values counts. Options that depend on each other share a line.
values() {
    cat <<END
--data $images --model mlp --hidden 9|--data blank:480 --model mlp --hidden 4,5,6 --dropout 0.2|--data $images --model cnn --augment crop,flip|--data blank:480 --model resnet --depth 8 --width 8|--data $images --model resnet --depth 14 --width 16 --augment flip|--size tiny $gpt
--load auto|--load device|--load stream
--workers 2|--workers 0|--workers 3
|--verify
--optimizer sgd|--optimizer sgd --momentum 0.5 --nesterov 1|--optimizer adam --beta1 0.5|--optimizer adamw --beta2 0.9 --epsilon 1e-4|--optimizer adadelta --rho 0.5
--schedule constant|--schedule step --gamma 0.5 --step-epochs 2|--schedule cosine --warmup 2|--schedule onecycle
--lr auto|--lr 0.01
--weight-decay 0|--weight-decay 0.1
--label-smoothing 0|--label-smoothing 0.1
--batch 12|--batch 24
--tf32 0|--tf32 1
--seed 1|--seed 7
--log-every 1|--log-every 100
--save-every 1|--save-every 2
--save-minutes 0|--save-minutes 1e-9
|--summary
|--profile
|--trace trace.json
|--csv csv
--join-timeout 60 --step-timeout 60|--token-file token
--overlap 0|--overlap 1
--prefetch 0|--prefetch 1
--strategy full|--strategy grad|--strategy hybrid|--strategy none
--unit-bytes 0|--unit-bytes 100000
--recompute 0|--recompute 1
--precision fp32|--precision bf16
--accumulate 1|--accumulate 2
--clip 0|--clip 0.1
--save sharded|--save full
END
}

@test "options work together, and a run continues with them" {
    echo word >token
    chmod 600 token
    "$(program_of 7)" --help all | grep -oE '^  --[a-z0-9-]+' | grep -vxE '  --(help|version|epochs|snapshot|max-steps)' | sort >listed
    values | grep -oE -- '--[a-z0-9-]+' | sort -u | sed 's/^/  /' | diff listed - # each option has values
    for number in {1..30}; do
        RANDOM=$number words=()
        while IFS='|' read -ra line; do
            words+=(${line[RANDOM % ${#line[@]}]})
        done < <(values)
        ranks=$((1 + number % 2 * 2))
        rm -f s s.* csv
        train 7 $ranks "${words[@]}" --max-steps 3 || { echo "failed: ${words[*]}" && return 1; }
        train 7 $ranks "${words[@]}" --max-steps 5 || { echo "cannot continue: ${words[*]}" && return 1; }
        grep -q '^resumed   s: 0 epochs and 3 steps are done$' out
        refute grep '^note .*differs' out
    done
}
