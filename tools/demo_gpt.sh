#!/bin/bash
# demo_gpt.sh [OPTION...]: trains a small language model with step 5 on two ranks, for about two minutes on two cores. The
# script shows what the model writes before and after training, and compares its loss on the held-out tenth of the text with
# those of models that count bytes. Options go to the training program. TEXT is the text (that of --data text), and
# PROMPT the beginning that the model continues. build/demo-gpt keeps the snapshots.
set -eu
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2
device=cpu ranks=2
[[ $(readlink 05_fsdp/train) != *build/gpu/* ]] || ! nvidia-smi -L >/dev/null 2>&1 || device=gpu
if [ "$device" = gpu ]; then
    [ "$(nvidia-smi -L | grep -c "^GPU ")" -gt 1 ] || ranks=1
else
    export CPU_DEVICES=$ranks OMP_NUM_THREADS=1 NCCL_SOCKET_IFNAME=lo
fi
text=${TEXT:-build/story.txt}
PROMPT=${PROMPT:-The }
folder=build/demo-gpt
rm -rf "$folder"
mkdir -p "$folder"

train() { # SNAPSHOT OPTION...
    03_multigpu_launcher/launch --nproc-per-node "$ranks" 05_fsdp/train --model gpt --data "text:$text" --batch 16 \
        --optimizer adamw --schedule cosine --lr 2e-3 --epochs 16 --snapshot "$folder/$1" "${@:2}"
}

write() { # SNAPSHOT
    07_large_models/generate --snapshot "$folder/$1" --prompt "$PROMPT" --tokens 500 --temperature 0.7 | sed 's/^/    /'
}

# Prints the losses of a unigram, a bigram and a trigram model. They count how often a byte follows none, one or two others
# in the training part of the text. To know something about bytes that they have never counted, the unigram model adds one
# to each count, and each longer model adds four bytes, divided as the model that is shorter by one predicts. They are
# measured on the same bytes as gpt, apart from the last few, which make no whole sequence.
count_bytes() {
    local size
    size=$(stat -Lc %s "$text")
    od -An -v -tu1 -w1 "$text" | awk -v train=$((size - size / 10)) '
        NR <= train {
            one[$1]++
            two[b, $1]++
            three[a, b, $1]++
        }
        NR > train + 1 {
            p = (one[$1] + 1) / (train + 256)
            loss[1] -= log(p)
            p = (two[b, $1] + 4 * p) / (one[b] + 4)
            loss[2] -= log(p)
            p = (three[a, b, $1] + 4 * p) / (two[a, b] + 4)
            loss[3] -= log(p)
        }
        { a = b; b = $1 }
        END {
            for (n = 1; n <= 3; n++)
                print loss[n] / (NR - train - 1)
        }'
}

row() { # MODEL LOSS WHAT; without a loss if the run ended before its first evaluation
    [ -n "$2" ] || { printf '  %-8s not measured, as no epoch has ended\n' "$1" && return; }
    awk -v model="$1" -v loss="$2" -v what="$3" 'BEGIN {
        bar = sprintf("%*s", 10 * loss, "")
        gsub(/ /, "#", bar)
        printf "  %-8s %5.2f  %5.1f  %-36s %s\n", model, loss, exp(loss), bar, what
    }'
}

echo "A language model reads $text byte by byte, and learns to predict the next byte."
train untrained "$@" --max-steps 1 --lr 1e-12 >/dev/null 2>"$folder/errors" || { cat "$folder/errors" >&2 && exit 1; }
printf '\n%s\n\n' "Before training, it continues \"$PROMPT\" like this:"
write untrained
printf '\n%s\n\n' "It trains on $ranks ranks, each of which stores a part of the model:"
train trained --csv "$folder/losses.csv" "$@"
printf '\n%s\n\n' "The loss on the held-out tenth of the text, in nats per byte, and the perplexity: lower is better"
{ read -r unigram && read -r bigram && read -r trigram; } < <(count_bytes)
row unigram "$unigram" "knows how often each byte occurs"
row bigram "$bigram" "sees one byte"
row trigram "$trigram" "sees two bytes"
row gpt "$(tail -n 1 "$folder/losses.csv" | cut -d, -f5)" "sees all bytes of its context"
[ -n "${TEXT:-}" ] || row author "$(build/story 2>&1 >/dev/null | cut -d' ' -f1)" "knows all but the random choices"
printf '\n%s\n\n' "After training, it continues \"$PROMPT\" like this:"
write trained
printf '\n%s\n' "Go on: 07_large_models/generate --snapshot $folder/trained --prompt \"$PROMPT\" --seed 2 --temperature 0.5"
