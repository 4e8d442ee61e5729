#!/usr/bin/env bats
# Tests of step 2: a job of several processes begins and ends correctly.
load ../helpers
load every_step

more_options=(--hidden "8,8" --epochs 3 --log-every 100)

adjust() {
    two=$(program_of 2) watched=$(watched 2)
}

start_training() {
    start "$two" "${options[@]}" --nproc 3 --epochs 1000000
}

# start_stopped RANK FUNCTION NTH: starts a job of three ranks in which this rank stops at its nth call of the function.
start_stopped() {
    KILL_AT="$* 19" start "$watched" "${options[@]}" --nproc 3
    until_true 30 find_ranks
    until_true 30 stopped "${ranks[$1]}"
}

find_ranks() {
    [ -e "/proc/$pid/task/$pid/children" ] || return
    read -ra ranks <"/proc/$pid/task/$pid/children" || true
    [ ${#ranks[@]} = 3 ]
}

await_training() {
    until_true 30 grep -q '^epoch 2/' out
    find_ranks
}

# The same signal again ends the parent as soon as it is a second request.
ended_by() { # SIGNAL PID
    kill -"$1" -- "$2" 2>/dev/null || true
    has_ended "$pid"
}

# ends_by_kill RANK: the job must end with one line, which says that this rank was killed.
ends_by_kill() {
    ends "${code:-1}"
    if [ "$(wc -l <err)" != 1 ] || ! grep -qE "^error: rank $1 \(pid [0-9]+\) was ended by signal 9, Killed$" err; then
        cat err && return 1
    fi
}

@test "when a rank is killed in any function, the job ends and names it" {
    rank=0
    for place in "cudaSetDevice 1" "ncclCommInitRank 1" "gather_batch 1" "ncclAllReduce 1" "ncclAllReduce 9" \
        "report_epoch 3" "ncclCommDestroy 1" "0 ncclGetUniqueId 1" "0 snapshot_save 2"; do
        [[ $place == 0* ]] || place="$((rank++ % 3)) $place"
        rm -f s s.tmp
        KILL_AT="$place 9" start "$watched" "${options[@]}" --nproc 3 --snapshot s
        ends_by_kill "${place%% *}" || { echo "killed at: $place" && return 1; }
    done
    [ "$(echo s*)" = s ]
    # A rank is killed before all have joined.
    for rank in 0 1 2; do
        start_stopped 2 ncclCommInitRank 1
        kill -9 "${ranks[rank]}"
        ends_by_kill $rank
    done
    KILL_AT="-1 cudaGetDeviceCount 1 9" fails 1 "counting the GPUs: Killed" "$watched" "${options[@]}"
}

@test "a signal to the parent stops training, and before it, ends the job with exit code 128 + signal" {
    for signal in HUP:129 INT:130 TERM:143 USR1:138; do
        # The second time to the whole process group, as from a terminal.
        for to in "" -; do
            start_training
            await_training
            kill -"${signal%:*}" -- $to"$pid"
            kill -HUP -- $to"$pid" || true # the same request, because it follows at once
            ends 0
            [ ! -s err ]
            grep -qx "$(text_of STOPPED_BY_SIGNAL); without --snapshot nothing is saved" out
            # A second request ends it at once.
            start_stopped 2 ncclAllReduce 5
            until_true 20 ended_by "${signal%:*}" $to"$pid"
            ends "${signal#*:}"
            [ "$(wc -l <err)" = 1 ]
            grep -q "^error ($(hostname)): $(text_of SECOND_SIGNAL) before it had saved" err
        done
        start_stopped 2 ncclCommInitRank 1
        kill -"${signal%:*}" "$pid"
        ends "${signal#*:}"
        [ ! -s err ]
    done
    # After a signal, too, a rank that is killed is named.
    start_stopped 2 ncclAllReduce 5
    kill -TERM "$pid"
    kill -9 "${ranks[2]}"
    code=143 ends_by_kill 2
}

@test "a killed parent leaves no rank behind" {
    for moment in find_ranks await_training; do
        start_training
        until_true 30 $moment
        kill -9 "$pid"
        ends 137
        [ ! -s err ]
    done
    start_stopped 1 ncclAllReduce 5 # a stopped rank, and those that wait for it
    kill -9 "$pid"
    ends 137
}

# refused CODE TEXT ARGUMENT...: the program must print one line, and start no rank and write no file.
refused() {
    local before
    before=$(contents)
    fails "$1" "$2" "$two" "${options[@]}" "${@:3}"
    [ -z "$output" ]
    [ "$(contents)" = "$before" ]
}

@test "a wrong number of ranks, or one that does not divide the batch, is refused before any rank starts" {
    refused 2 --nproc --nproc GPU
    CPU_DEVICES=2 refused 2 "--nproc 3 is more than there are GPUs (2); set CPU_DEVICES=3 to" --nproc 3
    SHARE_GPU=1 refused 1 "the name of this variable is SHARE_GPUS" --nproc 1
    SHARE_GPUS=yes refused 1 "SHARE_GPUS=yes: want 1 or 0" --nproc 1
    CPU_DEVICE_CHEK=1 refused 1 "CPU_DEVICE_CHEK=1: the CPU device has no such variable; the nearest one is CPU_DEVICE_CHECK" --nproc 2
    refused 2 "--batch 121 $(text_of INDIVISIBLE) 2 ranks; 120 and 122 are" --nproc 2 --batch 121
}

@test "steps 1 and 2 under a launcher that starts several processes: rank 0 asks for one process" {
    while IFS='|' read -r name variables; do # with % for the rank and # for the number of ranks
        # shellcheck disable=SC2046 # words
        in_place() { env $(sed "s/%/$1/g; s/#/$2/g" <<<"$variables") timeout 60 "${@:3}"; }
        for program in "$TRAIN" "$two"; do
            fails 2 "a launcher has started 3 copies of this program ($name), and they would not work together: start it once" \
                in_place 0 3 "$program" "${options[@]}" --csv csv
            run --separate-stderr in_place 2 3 "$program" "${options[@]}" --csv csv
            [ "$status" = 2 ]
            [ -z "$stderr$output" ]
            [ ! -e csv ]
            in_place 0 1 "$program" "${options[@]}" --epochs 1
        done
    done <<'END'
RANK and WORLD_SIZE, as torchrun sets them|RANK=% WORLD_SIZE=#
Open MPI's variables|OMPI_COMM_WORLD_RANK=% OMPI_COMM_WORLD_SIZE=# OMPI_COMM_WORLD_LOCAL_RANK=%
Slurm's variables|SLURM_PROCID=% SLURM_STEP_NUM_TASKS=# SLURM_LOCALID=%
END
    FLUX_TASK_RANK=0 fails 2 "FLUX_TASK_RANK in the environment: a launcher has started this process" "$TRAIN" "${options[@]}"
    # A batch script is no task.
    SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=7 timeout 60 "$two" --nproc 2 "${options[@]}" --epochs 1
}

@test "make compare tells rounding from a fault" {
    compare=$root/tools/compare.sh one=(--data synthetic --hidden 64 --batch 120 --log-every 1 --max-steps 40)
    "$TRAIN" "${one[@]}" --csv one
    "$two" "${one[@]}" --nproc 3 --csv three
    run make -s -C "$root" compare "$PWD/one" "$PWD/three"
    [[ $status == 0 && $output == "rounding: in 40 steps, the losses differ by at most "* ]]
    "$TRAIN" "${one[@]}" --seed 2 --csv other
    run -1 "$compare" one other
    [[ $output == "a fault: at step 1, the losses "* ]]
    awk -F, -v OFS=, '$1 == 30 { $2 *= 1.01 } { print }' one >jump
    run -1 "$compare" three jump
    [[ $output == "a fault: at step 30, the losses "* ]]
    sed 's/,0.05$/,0.1/' one >rate
    run -1 "$compare" one rate
    [[ $output == "a fault: at step 1, the learning rates are 0.05 and 0.1" ]]
    sed 's/^5,[0-9.]*/5,nan/' one >nan
    run -1 "$compare" one nan
    [[ $output == "a fault: at step 5, the losses "*nan* ]]
    grep -vE '^(1?[0-9]|20),' one >late
    fails 2 "no losses of the same steps up to step 20" "$compare" one late
    fails 2 "error: 'none' is no file" "$compare" one none
}

@test "--nproc gpu starts a rank for each visible GPU" {
    CUDA_VISIBLE_DEVICES=0,2 timeout 60 "$two" "${options[@]}" --max-steps 1 --nproc gpu >out
    grep -qx "ranks     global batch 120 = 2 ranks x 60" out
    CUDA_VISIBLE_DEVICES=0,2 refused 2 "--nproc 4 is more than there are GPUs (2)" --nproc 4
    CUDA_VISIBLE_DEVICES="" refused 1 "cudaErrorNoDevice"
}

@test "a run trains under small limits of the system, or names the limit" {
    for files in {5..12}; do
        run timeout 60 prlimit --nofile="$files" "$two" "${options[@]}" --nproc 2 3>&-
        [ "$status" = 0 ] || [[ $output == *"Too many open files; raise the limit of open files with 'ulimit -n 4096'"* ]] ||
            { echo "$files files: $output" && return 1; }
    done
    prlimit --stack=262144 "$two" "${options[@]}" --nproc 2
}
