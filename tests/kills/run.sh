#!/usr/bin/env bash
# run.sh [KILLS [SEED]]: kills random ranks of steps 3, 4 and 5 with SIGKILL at random moments, many of them while
# they save. The launcher starts them again. Each job must end well with the bytes of an undisturbed run, and leave no
# process and no file. 40 kills and a random seed by default; the seed decides which jobs run, and about when.
# shellcheck disable=SC2034,SC2154 # helpers.bash has variables of its own, and uses some of these
set -eu
cd "$(dirname "$0")"
kills=${1:-40} seed=${2:-$((SRANDOM % 32768))}
RANDOM=$seed
BATS_TEST_DIRNAME=$PWD
bats_require_minimum_version() { :; }
# shellcheck source=/dev/null
. ../e2e/helpers.bash
programs=(03_multigpu_launcher/launch 03_multigpu_launcher/train 04_multinode/train 05_fsdp/train)
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
export TMPDIR=$work/meet NCCL_SOCKET_IFNAME=lo CPU_DEVICES=4 OMP_NUM_THREADS=1
launch=$build/03_multigpu_launcher/launch

# All jobs: a program and its options, behind the number of ranks.
jobs=()
for optimizer in sgd adam; do
    for ranks in 2 3; do
        jobs+=("$ranks 03_multigpu_launcher/train --optimizer $optimizer"
            "$ranks 04_multinode/train --optimizer $optimizer")
        for strategy in none grad full; do
            jobs+=("$ranks 05_fsdp/train --optimizer $optimizer --strategy $strategy")
        done
    done
    # Two nodes that are made up, with two ranks each.
    jobs+=("4 05_fsdp/train --optimizer $optimizer --strategy hybrid")
done

# set_command JOB FOLDER [LAUNCHER'S OPTION...]: the job saves in the folder after each of its epochs.
set_command() {
    local words nodes=()
    read -ra words <<<"$1"
    # shellcheck disable=SC2016 # the ranks expand it
    [[ $1 != *hybrid ]] || nodes=(sh -c 'LOCAL_WORLD_SIZE=2 LOCAL_RANK=$((RANK % 2)) NCCL_HOSTID=$((RANK / 2)) exec "$0" "$@"')
    command=("$launch" --nproc-per-node "${words[0]}" "${@:3}" "${nodes[@]}" "$build/${words[1]}" "${words[@]:2}"
        --data tiny --hidden "33,17" --batch 120 --epochs "$epochs" --snapshot "$2/s")
}

# The job ends well, and with it all its processes.
ends_well() {
    timeout 120 cat <&"$alive" || fail "a process of the job goes on"
    exec {alive}<&-
    wait "$pid" || fail "the job ended with $?"
    pid=''
}

fail() {
    echo "not ok - $1: $job (seed $seed)"
    tail -n 30 out err
    exit 1
}

# Waits until a rank lives and, if that is wanted, for some time until one saves; then kills one.
kill_one() { # WHILE_SAVING
    local tries victims saving=''
    for ((tries = 0; tries < 100; tries++)); do
        mapfile -t victims < <(pgrep -P "$pid" -x 'train|launch|sh')
        kill -0 "$pid" 2>/dev/null || return 0
        [ "$1" = no ] || [ ${#victims[@]} = 0 ] || compgen -G 'now/*.tmp' >/dev/null || continue
        [ ${#victims[@]} = 0 ] || break
    done
    ! compgen -G 'now/*.tmp' >/dev/null || saving=1
    [ ${#victims[@]} -gt 0 ] || return 0
    kill -9 "${victims[RANDOM % ${#victims[@]}]}" 2>/dev/null || return 0
    killed=$((killed + 1)) while_saving=$((while_saving + ${saving:-0}))
}

epochs=100 killed=0 while_saving=0 count=0
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
        kill_one "$([ $((RANDOM % 2)) = 0 ] && echo no || echo yes)"
    done
    ends_well
    diff -r "$right" now || fail "the snapshot differs from that of an undisturbed run"
    [ -z "$(ls -A meet)" ] || fail "left behind: $(find meet)"
    count=$((count + 1))
done
echo "ok - $killed ranks killed in $count jobs, $while_saving of them while a rank saved (seed $seed)"
