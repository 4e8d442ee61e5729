#!/usr/bin/env bats
# Tests of generate: it continues a text from a snapshot of any step, whole or in shards, with the same text at each run.
load ../helpers
load every_step
more_programs=(07_large_models/generate)

# Saves the same model three times: whole, in shards, and in a file that step 7 gathers.
prepare() {
    cd "$BATS_FILE_TMPDIR" || return
    set_variables
    train 1 1 --snapshot whole
    train 5 4 --snapshot shards
    train 7 2 --save full --optimizer adam --snapshot gathered
}

adjust() {
    # shellcheck disable=SC2206 # words
    options=($gpt --batch 24 --max-steps 6 --lr 0.01 --log-every 6)
    saved=$BATS_FILE_TMPDIR
}

generate() { # SNAPSHOT OPTION...
    "$build/07_large_models/generate" --snapshot "$saved/$1" --tokens 100 "${@:2}"
}

@test "the same seed gives the same text, from shards too, and another seed another text" {
    generate whole --prompt "12 34" >first
    [ "$(head -c 5 first)" = "12 34" ]
    generate whole --prompt "12 34" | cmp - first
    generate shards --prompt "12 34" | cmp - first
    generate gathered --check >/dev/null
    generate gathered --prompt "12 34" | refute cmp -s - first
    generate whole --prompt "12 34" --seed 2 | refute cmp -s - first
}

# The window of 16 tokens moves several times. --check fails if a logit differs.
@test "with and without a cache, the logits agree and the text is the same" {
    generate whole --prompt abc --check >checked
    generate whole --prompt abc --cache 0 | cmp - checked
    generate shards --prompt abc --cache 1 --time 2>err | cmp - checked
    grep -qxE '[0-9]+ tokens/s' err
}

@test "--temperature 0 and --top-k 1 choose the most likely byte, whatever the seed" {
    generate whole --temperature 0 >greedy
    generate whole --temperature 0 --seed 7 | cmp - greedy
    generate whole --top-k 1 --seed 7 | cmp - greedy
    generate whole --temperature 5 | refute cmp -s - greedy
}

@test "each mistake is one clear line" {
    path=$build/07_large_models/generate
    fails 2 "--snapshot FILE is missing" "$path"
    fails 1 "none: no such file: train --model gpt saves one" "$path" --snapshot none
    options=(--data "$tiny" --batch 24 --max-steps 1)
    train 1 1 --snapshot images
    fails 1 "images: mlp 8-512-512-10 is no model of --model gpt" "$path" --snapshot images
    cp "$saved/shards" shards # the manifest without its shards
    fails 1 "lacks its shard" "$path" --snapshot shards
}
