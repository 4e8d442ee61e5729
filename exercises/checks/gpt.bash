# What the checks of the language model share: a small model, and texts that no model can predict.
. exercises/checks/step7.bash
small=(--data "$SCRATCH/data" --model gpt --layers 1 --width 32 --heads 2 --context 8 --batch 12 --lr 0.01 --max-steps 20
    --log-every 1)

# random_text BYTES LETTERS: from now on, the programs read a text of so many random letters.
random_text() {
    use_data write_text "$@"
}

write_text() { # FOLDER BYTES LETTERS
    awk -v bytes="$2" -v letters="$3" 'BEGIN { for (x = 1; i < bytes; i++) {
        x = x * 16807 % 2147483647; printf "%c", 33 + int(x / 2147483647 * letters) } }' >"$1/input.txt"
}

# predicts_nothing [LINE]: after some training, the loss is that of a guess among four letters. The line explains a lower one.
predicts_nothing() {
    local loss
    must_run 1 --optimizer adamw --context 4 --batch 32 --max-steps 240 --log-every 20
    loss=$(losses <"$SCRATCH/csv" | sed -n '$s/.*,//p')
    holds 'mine > right' "$loss" 1.2 ||
        wrong "the text is four random letters, and the loss falls to $loss; ln 4 = 1.386 is the lowest one that is honest" \
            "$(untouched || echo "$1")"
    ok "the text is four random letters, and the loss stays at $loss, near ln 4 = 1.386"
}
