#!/usr/bin/env bats
# A GPU must have the losses of the CPU device. A row is: the largest relative difference, a program with its options, and the
# losses of its training steps on the CPU device, whose libraries a machine with a GPU may lack.
load ../helpers
programs=({01_single_gpu,07_large_models}/train)

# bats test_tags=gpu
@test "each model has the losses of the CPU device, in fp32, TF32 and bfloat16" {
    while IFS=: read -r most command wanted; do
        # shellcheck disable=SC2086 # words
        timeout "$(patience 60)" "$build/"$command --log-every 1 --csv csv >out
        got=$(awk -F, 'NR > 1 && $2 { printf " %s", $2 }' csv)
        awk -v most="$most" -v wanted="$wanted" -v got="$got" 'BEGIN {
            wrong = (n = split(wanted, a, " ")) != split(got, b, " ") || !n
            for (i = 1; i <= n; i++) wrong += !((b[i] / a[i] - 1) ^ 2 <= most ^ 2)
            exit wrong > 0 }' || differs+="$most:$command:$got, not$wanted"$'\n'
    done <<'END'
1e-5:01_single_gpu/train --data synthetic --lr 0.01 --max-steps 20: 2.30541919 2.29222032 2.26489481 2.25057654 2.21522095 2.18007612 2.12796328 2.07753057 2.01267582 1.941025 1.89635264 1.80931245 1.71747652 1.63503024 1.53746721 1.43696379 1.34552331 1.20411047 1.08632354 0.927263114
1e-5:01_single_gpu/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-4 --heads 1 --width 64: 5.55055112 5.29800819 3.78909147
5e-4:01_single_gpu/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-2 --heads 1 --width 64 --tf32 1: 5.55054384 5.14877472 4.27129891
2e-4:07_large_models/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-2 --heads 1 --width 64 --precision bf16: 5.55055665 5.14853704 4.27255565
1e-5:01_single_gpu/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-4 --heads 1 --width 128 --dropout 0.1: 5.57034112 5.01007357 3.68351714
5e-4:01_single_gpu/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-2 --heads 1 --width 128 --dropout 0.1 --tf32 1: 5.57032479 4.81378106 3.90497107
2e-4:07_large_models/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-2 --heads 1 --width 128 --dropout 0.1 --precision bf16: 5.57023144 4.81272763 3.90502595
1e-5:01_single_gpu/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-4 --heads 3 --width 99 --dropout 0.1: 5.57373395 4.89716611 3.92758094
5e-4:01_single_gpu/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-2 --heads 3 --width 99 --dropout 0.1 --tf32 1: 5.573724 4.93746533 3.87220108
2e-4:07_large_models/train --data text --model gpt --layers 1 --context 100 --batch 2 --max-steps 3 --optimizer adamw --lr 0.03 --epsilon 1e-2 --heads 3 --width 99 --dropout 0.1 --precision bf16: 5.57362396 4.93717087 3.87205553
1e-5:01_single_gpu/train --data synthetic --model cnn --batch 16 --max-steps 3: 2.30402714 2.25698783 2.29295401
5e-4:01_single_gpu/train --data synthetic --model cnn --batch 16 --max-steps 3 --tf32 1: 2.30403039 2.25699942 2.29300851
2e-4:07_large_models/train --data synthetic --model cnn --batch 16 --max-steps 3 --precision bf16: 2.30389144 2.25795832 2.28926427
1e-5:01_single_gpu/train --data shapes --model resnet --depth 8 --batch 8 --max-steps 3 --lr 0.01: 2.06282996 2.40137899 2.47900751
5e-4:01_single_gpu/train --data shapes --model resnet --depth 8 --batch 8 --max-steps 3 --lr 0.01 --tf32 1: 2.06281212 2.4012765 2.47870836
1e-3:07_large_models/train --data shapes --model resnet --depth 8 --batch 8 --max-steps 3 --lr 0.01 --precision bf16: 2.06326823 2.40118527 2.47970982
END
    [ -z "${differs:-}" ] || { echo "$differs" && false; }
}
