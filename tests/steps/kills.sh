#!/usr/bin/env bash
# kills.sh [KILLS [SEED]]: kills random ranks of steps 3, 4, 5 and 7 with SIGKILL, some at random moments and most of them
# while they save. The launcher starts them again. Each job must end well with the bytes of an undisturbed run, and
# leave no process and no file. 40 kills and a random seed by default; the seed decides which jobs run, and about when.
# shellcheck disable=SC2034,SC2154 # helpers.bash has variables of its own, and uses some of these
set -eu
cd "$(dirname "$0")"
kills=${1:-40} seed=${2:-$((SRANDOM % 32768))}
RANDOM=$seed
BATS_TEST_DIRNAME=$PWD
bats_require_minimum_version() { :; }
# shellcheck source=/dev/null
. ../helpers.bash
programs=(03_multigpu_launcher/launch 03_multigpu_launcher/train 04_multinode/train 05_fsdp/train
    07_large_models/train)
need_train "${programs[@]}" >&2
set_build
unset_job
work=$(mktemp -d)
pid=''
trap 'trap - EXIT; [ -z "$pid" ] || kill -9 -- -"$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"
mkdir meet jobs right
tiny_data tiny
tiny_data few 60 20
export TMPDIR=$work/meet NCCL_SOCKET_IFNAME=lo CPU_DEVICES=4 OMP_NUM_THREADS=1
launch=$build/03_multigpu_launcher/launch

# Each job is a number of ranks, a program and its options. A narrow model saves a few KB many times a second. A wide model
# saves up to 25 MB after each training step. This takes so long that many kills happen during a write. Two jobs of three
# have the wide model.
narrow="--data tiny --hidden 33,17 --batch 120 --epochs 100"
wide="--data few --hidden 2048,1024 --batch 60 --epochs 8"
jobs=()
for optimizer in sgd adam; do
    for size in "$narrow" "$wide" "$wide"; do
        for ranks in 2 3; do
            jobs+=("$ranks 03_multigpu_launcher/train --optimizer $optimizer $size"
                "$ranks 04_multinode/train --optimizer $optimizer $size")
            jobs+=("$ranks 05_fsdp/train --optimizer $optimizer $size")
            for strategy in none grad; do
                jobs+=("$ranks 07_large_models/train --optimizer $optimizer --strategy $strategy $size")
            done
        done
        # Two simulated nodes with two ranks each.
        jobs+=("4 07_large_models/train --optimizer $optimizer --strategy hybrid $size")
    done
done

# set_command JOB FOLDER [LAUNCHER'S OPTION...]: the job saves in the folder after each of its epochs.
set_command() {
    local words nodes=()
    read -ra words <<<"$1"
    # shellcheck disable=SC2016 # the ranks expand it
    [[ $1 != *hybrid* ]] || nodes=(sh -c 'LOCAL_WORLD_SIZE=2 LOCAL_RANK=$((RANK % 2)) NCCL_HOSTID=$((RANK / 2)) exec "$0" "$@"')
    command=("$launch" --nproc-per-node "${words[0]}" "${@:3}" "${nodes[@]}" "$build/${words[1]}" "${words[@]:2}"
        --snapshot "$2/s")
}

# The job must end with 0, and all its processes with it.
ends_well() {
    timeout 120 cat <&"$alive" || fail "a process of the job goes on"
    exec {alive}<&-
    wait "$pid" || fail "the job ended with $?"
    pid=''
}

fail() {
    echo "not ok - $1, after $killed ranks were killed: $job (seed $seed)"
    tail -n 30 out err
    exit 1
}

# Succeeds if a rank has written to a file in the job's folder since this kill was planned.
has_saved() {
    local file
    for file in now/*; do
        [ ! "$file" -nt planned ] || return 0
    done
    return 1
}

# Waits without starting a process, which would take as long as a write. Fails if the job has ended.
pause() { # SECONDS
    local code=0
    read -rt "$1" -u "$alive" || code=$?
    [ $code -gt 128 ]
}

# Kills one rank, or all at once, as soon as they run. If WHILE_SAVING is set, it waits until a rank saves, and up to 15 ms
# longer.
kill_ranks() { # WHILE_SAVING
    local children=() victims saving=0 end=$((SECONDS + 20))
    : >planned
    until [ ${#children[@]} -gt 1 ] && { [ "$1" = no ] || has_saved; }; do
        pause 0.001 && [ $SECONDS -lt $end ] || return 0
        # The first child is the launcher's guard.
        read -ra children 2>/dev/null <"/proc/$pid/task/$pid/children" || true
    done
    [ "$1" = no ] || [ $((RANDOM % 2)) = 0 ] || pause "$(printf 0.%03d $((RANDOM % 15)))" || return 0
    ! compgen -G 'now/*.tmp' >/dev/null || saving=1
    victims=("${children[@]:1}")
    [ $((RANDOM % 2)) = 0 ] || victims=("${victims[RANDOM % ${#victims[@]}]}")
    kill -9 "${victims[@]}" 2>/dev/null || return 0
    killed=$((killed + ${#victims[@]})) while_saving=$((while_saving + saving * ${#victims[@]}))
}

killed=0 while_saving=0 count=0
while [ $killed -lt "$kills" ]; do
    job=${jobs[RANDOM % ${#jobs[@]}]}
    right=right/${job//[ \/]/_}
    if [ ! -d "$right" ]; then
        mkdir "$right"
        set_command "$job" "$right"
        start "${command[@]}"
        ends_well
    fi
    rm -rf now
    mkdir now
    set_command "$job" now --max-restarts 20
    start "${command[@]}"
    for ((i = RANDOM % 6; i >= 0; i--)); do
        sleep "$(printf 0.%03d $((RANDOM % 400)))"
        kill_ranks "$([[ $job != *"$wide" && $((RANDOM % 2)) = 0 ]] && echo no || echo yes)"
    done
    ends_well
    diff -r "$right" now || fail "the snapshot differs from that of an undisturbed run"
    [ -z "$(ls -A meet)" ] || fail "left behind: $(find meet)"
    count=$((count + 1))
done
echo "ok - $killed ranks killed in $count jobs, $while_saving of them while a rank saved (seed $seed)"
