#!/usr/bin/env bats
# Tests of what each program does with the files and the streams that it writes: none is lost in silence.
load ../helpers

setup_file() {
    need_train {02_multigpu_fork,03_multigpu_launcher,04_multinode,05_fsdp,07_large_models,08_pipeline,09_tensor}/train \
        {03_multigpu_launcher,04_multinode}/launch 04_multinode/doctor 06_allreduce_demo/allreduce
    tiny_data "$BATS_FILE_TMPDIR/tiny"
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=2 OMP_NUM_THREADS=1 TMPDIR=$BATS_TEST_TMPDIR
    set_build
    options=(--data "$BATS_FILE_TMPDIR/tiny" --hidden 8 --batch 64 --epochs 2)
}

on_full_disk() {
    "$@" >/dev/full
}

@test "a program that cannot write to stdout ends with exit code 1 and one line" {
    lost="cannot write all of the output to stdout"
    for program in 0{1,2,3,4,5,7,8,9}_*/train 0{3,4}_*/launch 04_multinode/doctor 06_allreduce_demo/allreduce; do
        # shellcheck disable=SC2086 # a pattern
        fails 1 "$lost" on_full_disk "$build"/$program --help
    done
    fails 1 "$lost" on_full_disk "$TRAIN" "${options[@]}" --snapshot s
    "$TRAIN" "${options[@]}" --snapshot s | grep -q "$(text_of NOTHING_LEFT)" # it was saved
    run ! on_full_disk "$build/02_multigpu_fork/train" --nproc 2 "${options[@]}"
    [[ $output == *"rank 0): $lost"* ]]
    run --separate-stderr ! on_full_disk "$build/03_multigpu_launcher/launch" --tee --nproc-per-node 2 echo words
    [ "$(grep -c '^error' <<<"$stderr")" = 1 ]
    [[ $stderr == *"cannot write the output of the ranks to stdout: No space left on device"* ]]
    run ! "$build/06_allreduce_demo/allreduce" --nproc 2 --count 10 --max-bytes 64 --csv /dev/full
    [[ $output == *"rank 0): "*csv*"No space left"* ]]
}

@test "two outputs may not be the same file" {
    for program in 0{1,2,3,4,5,7,8,9}_*/train; do
        # shellcheck disable=SC2086 # a pattern
        fails 2 "--snapshot and --csv name the same file, s" "$build"/$program "${options[@]}" --csv s --snapshot s
    done
    fails 2 "--trace and --csv name the same file, x" "$build/06_allreduce_demo/allreduce" --csv x --trace x
    [ -z "$(ls -A)" ]
}

@test "a host name of 64 letters, the most that Linux allows, is whole in all messages" {
    name=$(printf 'n%.0s' {1..64})
    # Only root may write the file, and not each system has the command.
    export rename='hostname "$0" 2>/dev/null || echo "$0" >/proc/sys/kernel/hostname'
    unshare -ru bash -c "$rename" "$name" 2>/dev/null || skip "this user may not name a host"
    unshare -ru bash -c 'eval "$rename"
        seed='\''exec "$@" --seed $RANK'\''
        "$1"/01_single_gpu/train --data none
        "$1"/04_multinode/launch --master-port "$2" --nproc-per-node 2 "$1"/04_multinode/doctor
        "$1"/03_multigpu_launcher/launch --nproc-per-node 2 sh -c "$seed" - "$1"/03_multigpu_launcher/train "${@:3}"
        "$1"/01_single_gpu/train "${@:3}" --trace trace' "$name" "$build" "$(free_port)" "${options[@]}" --max-steps 1 >out 2>&1 || true
    grep -ohE 'n{20,}' out trace >names
    [ "$(wc -l <names)" -ge 9 ] && [ "$(sort -u names)" = "$name" ] || { cat out && return 1; }
}
