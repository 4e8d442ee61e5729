# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # bats and helpers.bash set variables across functions
# For tests that compare all steps with step 1 on tiny images. A file can set more_options for all of its runs.

setup_file() {
    need_train {02_multigpu_fork,03_multigpu_launcher,04_multinode,05_fsdp,07_large_models}/train \
        03_multigpu_launcher/launch
    tiny_data "$BATS_FILE_TMPDIR/tiny"
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    unset_job
    export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=4 OMP_NUM_THREADS=1 TMPDIR=$BATS_TEST_TMPDIR
    set_build
    options=(--data "$BATS_FILE_TMPDIR/tiny" --hidden "32,22,14" --batch 120 --epochs 4 --log-every 1 "${more_options[@]}")
}

# train STEP RANKS OPTION...: a program of that number with so many ranks, and with random delays if there is a seed in
# delays. The time limit only ends a run that hangs.
train() {
    local program launch=()
    program=("$build"/0"$1"_*/train)
    case $1 in
    1) ;;
    2) launch=(--nproc "$2") ;;
    *) program=("$build/03_multigpu_launcher/launch" --nproc-per-node "$2" "${program[@]}") ;;
    esac
    env ${delays:+CPU_DEVICE_CHAOS=$delays} timeout 60 "${program[@]}" "${launch[@]}" "${options[@]}" "${@:3}" >out 2>err || { cat err && return 1; }
}
