#!/usr/bin/env bats
# Tests of step 3's trainer: it finds its place under any launcher, a run continues after any failure of a rank, and
# a signal stops it. Copies of its sources with one planted mistake must fail.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats, helpers.bash and every_step.bash set variables across functions
load ../helpers
load every_step

# Three epochs of five steps.
more_options=(--hidden "8,8" --epochs 3 --log-every 100)
own_snapshots='s/ \|\| t->rank > 0\)/)/
    s/^    t\.rank = t\.place\.rank.*/&\n    asprintf((char **)\&opt.snapshot, "%s.%d", opt.snapshot, t.rank);/'

prepare() {
    need_train 04_multinode/doctor
    export two three watched own
    two=$(program_of 2)
    three=$(program_of 3)
    watched=$(watched 3)
    own=$BATS_FILE_TMPDIR/watched_own # with watch.c, and a snapshot of each rank
    cd "$BATS_FILE_TMPDIR" || return
    compiler=compile_watched changed "$own" 3 train.c "$own_snapshots"
}

# by_hand RANKS VARIABLES COMMAND...: starts these ranks at the same time. In VARIABLES, % stands for the rank. Writes the
# output to out.RANK and err.RANK, and the exit code to code.RANK.
by_hand() {
    # shellcheck disable=SC2016 # expanded there
    timeout 60 bash -c '
        for rank in $1; do
            env ${2//%/$rank} "${@:3}" >out.$rank 2>err.$rank &
            pids+=($!)
        done
        i=0
        for rank in $1; do
            wait "${pids[i++]}"
            echo $? >code.$rank
        done' - "$@"
}

# ended CODE TEXT RANK...: these ranks must have ended with this code, and written one line with the text to stderr, or
# nothing if there is no text.
ended() {
    local rank
    for rank in "${@:3}"; do
        if [ "$(cat "code.$rank")" != "$1" ] || [ "$(wc -l <"err.$rank")" != "$([ -z "$2" ] && echo 0 || echo 1)" ] ||
            [[ $(<"err.$rank") != *"$2"* ]]; then
            echo "wanted of rank $rank: code $1, one line with: $2" && tail -n +1 code.* err.* && return 1
        fi
    done
}

# Each test must leave no folder in which ranks have met.
teardown() {
    end_job
    [ -z "${BATS_TEST_COMPLETED:-}" ] || [ -z "$(ls -A "$TMPDIR")" ] || { echo "left behind: $(find "$TMPDIR")" && return 1; }
}

@test "the stop flag needs no extra collective" {
    # Three layers in each of 15 steps; per epoch a check, the test set, and the reports.
    for case in "100 54" "1 66"; do
        read -r every calls <<<"$case"
        for step in 2 3; do
            program=$(watched $step)
            KILL_AT="1 ncclAllReduce $calls 9" run ! train $step 2 --log-every "$every"
            KILL_AT="1 ncclAllReduce $((calls + 1)) 9" train $step 2 --log-every "$every"
        done
    done
}

# who FAMILY VARIABLES: two ranks with these variables must train, name FAMILY, and get the result in $known.
who() {
    rm -f got
    by_hand "0 1" "$2" "${three}" "${options[@]}" --snapshot got
    ended 0 "" 0 1
    [ ! -s out.1 ]
    grep -qx "launcher  $1's variables" out.0
    grep -qx 'ranks     global batch 120 = 2 ranks x 60' out.0
    cmp known got
}

@test "ranks read their place from the variables of any launcher" {
    torchrun="RANK=% WORLD_SIZE=2 LOCAL_RANK=%"
    mpi="OMPI_COMM_WORLD_RANK=% OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=%"
    pals="PMI_RANK=% PMI_SIZE=2 PALS_LOCAL_RANKID=%"
    mpich="PMI_RANK=% PMI_SIZE=2 MPI_LOCALRANKID=%"
    slurm="SLURM_PROCID=% SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=%"
    srun1="SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0"
    train 2 2 --snapshot known
    for ids in "" "TORCHELASTIC_RUN_ID=a/b/c MASTER_PORT=29500 TORCHELASTIC_RESTART_COUNT=3" \
        "TORCHELASTIC_RUN_ID=none"; do
        who torchrun "$torchrun $ids"
    done
    who "Open MPI" "$mpi"
    who "Open MPI" "$mpi PMIX_NAMESPACE=prterun-node-7@1"
    who PALS "$pals PALS_APID=0b54-11ee"
    who MPICH "$mpich"
    who Slurm "$slurm SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=9"
    who Slurm "$slurm"

    # If one launcher runs inside another, the inner one counts.
    who torchrun "$srun1 $torchrun"
    who torchrun "$slurm $torchrun"
    who torchrun "$srun1 $mpi $torchrun"
    who "Open MPI" "$srun1 $mpi"
    who MPICH "$srun1 $mpich"
    who PALS "$srun1 $pals"
    # srun --mpi=pmi2.
    who Slurm "$slurm PMI_RANK=% PMI_SIZE=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0"
}

@test "without a launcher, and in a batch script, the program is the only rank" {
    batch="SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=4 SLURM_NPROCS=4 SLURM_TASKS_PER_NODE=4"
    train 1 1 --snapshot one
    alone() { # PROGRAM VARIABLE...
        rm -f got
        run --separate-stderr env CPU_DEVICE_TIMEOUT=1 "${@:2}" timeout 60 "$1" "${options[@]}" --snapshot got
        [ "$status" = 0 ] && [ -z "$stderr" ] && grep -qx 'launcher  none: the only rank' <<<"$output" && cmp one got
    }
    alone "$three"
    # shellcheck disable=SC2086 # words
    alone "$three" $batch
    changed ./program 3 environment.c 's/SLURM_STEP_NUM_TASKS",/SLURM_NTASKS",/'
    # shellcheck disable=SC2086
    run ! alone ./program $batch
}

# refused TEXT VARIABLE=VALUE...: the program must print one line and nothing else.
refused() {
    fails 2 "$1" env CPU_DEVICE_TIMEOUT=1 "${@:2}" timeout 60 "$three" --join-timeout 1 "${options[@]}" --snapshot no --csv none
    [ -z "$output" ]
    [ ! -e no ]
}

@test "contradictory variables are refused in one line" {
    declare -A values=([RANK]=1 [WORLD_SIZE]=2 [LOCAL_RANK]=0)
    for names in "RANK WORLD_SIZE LOCAL_RANK" "WORLD_SIZE RANK LOCAL_RANK" "LOCAL_RANK RANK WORLD_SIZE" \
        "RANK LOCAL_RANK WORLD_SIZE" "WORLD_SIZE LOCAL_RANK RANK" "LOCAL_RANK WORLD_SIZE RANK"; do
        read -r given first second <<<"$names"
        refused "is not set, but other variables of a launcher are" "$given=1"
        refused "$first is not set" "$given=${values[$given]}" "$second=${values[$second]}"
    done
    refused "WORLD_SIZE is not set" RANK=0 LOCAL_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0
    for wrong in "" x 1x -1 0.5 0x1 99999999999999999999 -99999999999999999999 2147483648 4294967296; do
        refused "RANK=$wrong in the environment" WORLD_SIZE=2 LOCAL_RANK=0 RANK="$wrong"
        refused "LOCAL_RANK=$wrong in the environment" RANK=1 WORLD_SIZE=2 LOCAL_RANK="$wrong"
        refused "WORLD_SIZE=$wrong in the environment" RANK=0 LOCAL_RANK=0 WORLD_SIZE="$wrong"
        refused "OMPI_COMM_WORLD_RANK=$wrong in the environment" OMPI_COMM_WORLD_RANK="$wrong" \
            OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0
        refused "PMI_SIZE=$wrong in the environment" PMI_RANK=0 PMI_SIZE="$wrong" MPI_LOCALRANKID=0
        refused "SLURM_LOCALID=$wrong in the environment" SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID="$wrong"
    done
    refused "WORLD_SIZE=0 in the environment" RANK=0 LOCAL_RANK=0 WORLD_SIZE=0
    for rank in 2 3; do
        refused "RANK=$rank in the environment: want a number from 0 to 1" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0
    done
    refused "SLURM_PROCID=4 in the environment" SLURM_PROCID=4 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0
    refused "LOCAL_RANK=2 in the environment" RANK=1 WORLD_SIZE=2 LOCAL_RANK=2
    refused "LOCAL_RANK=1 in the environment" RANK=0 WORLD_SIZE=2 LOCAL_RANK=1
    refused "--batch 120 $(text_of INDIVISIBLE) 7 ranks; 119 and 126 are" RANK=0 WORLD_SIZE=7 LOCAL_RANK=0
}

@test "a wrong option ends each rank with a line that names the rank" {
    refused "rank 6): --batch 120 $(text_of INDIVISIBLE) 7 ranks; 119 and 126 are" RANK=6 WORLD_SIZE=7 LOCAL_RANK=6
    for program in "$three" "$build/04_multinode/train" "$build/04_multinode/doctor" "$build/05_fsdp/train" \
        "$build/07_large_models/train"; do
        RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 fails 2 "error ($(hostname), rank 1): unknown option --no;" "$program" --no
        fails 2 "error: unknown option --no;" "$program" --no
    done
}

@test "duplicate ranks and missing ranks end the job with one line per rank" {
    export CPU_DEVICE_TIMEOUT=1
    few=("$three" "${options[@]}" --join-timeout 1)
    # Here % is the number of a process, and their ranks are given apart.
    as() { # RANK...: the rank of each process
        # shellcheck disable=SC2016
        by_hand "$(seq -s ' ' 0 $(($# - 1)))" "PROCESS=%" bash -c 'ranks=('"$*"')
            RANK=${ranks[PROCESS]} LOCAL_RANK=${ranks[PROCESS]} WORLD_SIZE='"$world"' TORCHELASTIC_RUN_ID=same exec "$@"' \
            - "${few[@]}"
    }
    world=2
    as 1 1
    ended 1 "waited 1 s (--join-timeout) for rank 0 to write" 0 1
    as 0 0
    ended 1 ", rank 0): " 0 1
    # The second rank 0 finds the first one, which is still waiting.
    start env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 TORCHELASTIC_RUN_ID=x MASTER_PORT=1 "${few[@]}"
    until_true 10 test -e "$TMPDIR/ranks-$(id -u)-x-1/id"
    kill -STOP "$pid"
    as_run 0 "$three"
    kill -CONT "$pid"
    ended 1 "another rank 0 of this run is alive, with its id in" 0
    ends 1
    world=3
    few[-1]=30
    CPU_DEVICE_TIMEOUT=30 as 0 1 1 # nobody gives up before all three are there
    ended 1 "two processes say that they are rank 1 of 3" 0 1 2
    CPU_DEVICE_TIMEOUT=4 as 0 1 # longer than rank 1 needs to start
    ended 1 ncclCommInitRank 0 1
    few[-1]=1
    as 1 2
    ended 1 "waited 1 s (--join-timeout) for rank 0" 0 1
}

@test "each rank uses the only GPU that it sees, or the GPU of its local rank" {
    train 2 3 --snapshot right
    cat >sees <<END
#!/bin/bash
export CUDA_VISIBLE_DEVICES=\$(eval echo "\$VISIBLE")
exec "$three" "\$@"
END
    chmod +x sees
    # shellcheck disable=SC2016 # expanded there
    for visible in '$LOCAL_RANK' '$((3 - LOCAL_RANK))' '0,1,2' '3,1,2,0'; do
        rm -f got
        VISIBLE=$visible program=./sees train 3 3 --snapshot got
        cmp right got
    done
    duplicate() { # RANKS
        refute train 3 "$1" >/dev/null && grep -q "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device" err
    }
    VISIBLE=0 program=./sees duplicate 3
    VISIBLE=3 program=./sees duplicate 3
    CPU_DEVICES=1 duplicate 2
    CPU_DEVICES=1 by_hand "0 1" "RANK=% WORLD_SIZE=2 LOCAL_RANK=%" "$three" "${options[@]}"
    ended 1 "Duplicate GPU" 0 1
    changed ./program 3 environment.c 's/return devices == 1 \? 0 : p->local_rank/return 0/'
    program=./program duplicate 3
}

@test "a rank without its own GPU ends the job" {
    CPU_DEVICES=2 start "$launch" --nproc-per-node 3 "$three" "${options[@]}"
    ends 1
    grep -q "^error (.*, rank 2): there is no GPU for local rank 2, only 2 in all; set CPU_DEVICES=3 to" err
}

# Starts a run with its own name. $meeting is its folder for the id.
as_run() { # RANKS PROGRAM OPTION...
    by_hand "$1" "RANK=% WORLD_SIZE=2 LOCAL_RANK=% TORCHELASTIC_RUN_ID=x MASTER_PORT=1" "$2" "${options[@]}" \
        --epochs 3 "${@:3}"
}

@test "a launcher that is killed while its ranks meet leaves no folder" {
    cat >rank <<END
#!/bin/bash
[ \$RANK = 0 ] || exec sleep 60
exec "$three" \$*
END
    chmod +x rank
    start "$launch" --nproc-per-node 2 ./rank "${options[@]}"
    meets() { ls "$TMPDIR"/ranks-*/id; }
    until_true 30 meets 2>/dev/null
    kill -9 "$pid"
    ends 137
    [ -z "$(ls "$TMPDIR")" ]
}

@test "the id file of a killed run is never read" {
    meeting=$TMPDIR/ranks-$(id -u)-x-1
    train 2 2 --snapshot right
    export RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 TORCHELASTIC_RUN_ID=x MASTER_PORT=1
    start "$three" "${options[@]}"
    until_true 30 test -e "$meeting/id"
    kill -9 "$pid"
    ends 137
    unset RANK WORLD_SIZE LOCAL_RANK TORCHELASTIC_RUN_ID MASTER_PORT
    cp "$meeting/id" old
    [ "$(stat -c %s old)" = 128 ]
    seq 100 | head -c 128 >garbage
    printf x >short
    changed ./program 3 meet_by_file.c 's/ && flock\(file, LOCK_SH.*;/;/'
    for stale in old garbage short; do
        # Rank 1 alone finds no id there.
        [ -d "$meeting" ] || mkdir -m 700 "$meeting"
        cp $stale "$meeting/id"
        as_run 1 "$three" --join-timeout 1
        ended 1 "waited 1 s (--join-timeout) for rank 0 to write $meeting/id" 1
        cmp $stale "$meeting/id"
        # Both ranks meet despite the old file and despite an incomplete one.
        cp $stale "$meeting/new"
        rm -f got
        as_run "0 1" "$three" --snapshot got
        ended 0 "" 0 1
        cmp right got
    done
    for stale in old garbage; do
        [ -d "$meeting" ] || mkdir -m 700 "$meeting"
        cp $stale "$meeting/id"
        CPU_DEVICE_TIMEOUT=1 as_run 1 ./program --join-timeout 1
        run ! ended 1 "waited 1 s (--join-timeout)" 1
    done
    rm -r "$meeting"
}

@test "only this user may have access to the folder of the id" {
    meeting=$TMPDIR/ranks-$(id -u)-x-1
    not_there() { # TEXT
        for ranks in 0 1; do
            CPU_DEVICE_TIMEOUT=1 as_run $ranks "$three" --join-timeout 1
            ended 1 "$1" $ranks
        done
    }
    for mode in 777 770 707 701 740 1777; do
        mkdir -m $mode "$meeting"
        not_there "$meeting must be a folder to which only this user has access"
        rm -r "$meeting"
    done
    mkdir -m 700 other
    for target in other none; do
        ln -s "$PWD/$target" "$meeting"
        not_there "cannot open the folder $meeting: "
        [ -z "$(ls other)" ]
        rm "$meeting"
    done
    : >"$meeting"
    not_there "cannot open the folder $meeting: Not a directory"
    rm "$meeting"
    # What is in it may be no link either.
    mkdir -m 700 "$meeting"
    ln -s "$PWD/victim" "$meeting/new"
    CPU_DEVICE_TIMEOUT=1 as_run 0 "$three"
    ended 1 "cannot write $meeting/id" 0
    [ ! -e victim ]
    rm -rf "$meeting"
    [ "$(id -u)" = 0 ] || skip "only root can try another user's"
    mkdir -m 700 "$meeting"
    chown 1 "$meeting"
    not_there "$meeting must be a folder to which only this user has access"
    rm -r "$meeting"
}

@test "if the temporary folder cannot be used, one line names it" {
    for folder in "$PWD/none" "$tiny/train-labels-idx1-ubyte" /proc; do
        TMPDIR=$folder as_run 0 "$three"
        ended 1 "cannot create the folder $folder/ranks-" 0
        TMPDIR=$folder start "$launch" --nproc-per-node 3 "$three" "${options[@]}"
        ends 1
        grep -q "cannot create the folder $folder/ranks-" err
    done
    TMPDIR=$PWD/$(printf '%0300d' 0) as_run 0 "$three"
    ended 1 "File name too long" 0
    TMPDIR="" train 3 2
}

@test "the folder where the ranks meet is removed, however the run ends" {
    nobody_met() {
        [ -z "$(ls -A "$TMPDIR")" ]
    }
    for more in "" "--max-steps 7"; do
        # shellcheck disable=SC2086 # words
        train 3 3 $more
        nobody_met
    done
    for more in "--snapshot none/s" "--hidden 64,64,64,64,64,64,64,64,64 --lr 1000" "--batch 121"; do
        # shellcheck disable=SC2086
        refute train 3 3 $more
        nobody_met
    done
    program=$watched KILL_AT="1 ncclAllReduce 9 9" refute train 3 3
}

# bats test_tags=test-all
@test "simultaneous runs in the same folder do not disturb each other" {
    for ranks in 1 2 3; do
        train 2 $ranks --snapshot right$ranks
    done
    pids=()
    for i in {1..4}; do
        for ranks in 1 2 3; do
            train 3 $ranks --snapshot got"$i".$ranks &
            pids+=($!)
        done
        "$three" "${options[@]}" --snapshot got"$i".0 &
        pids+=($!)
    done
    for p in "${pids[@]}"; do
        wait "$p"
    done
    cp right1 right0
    for i in {1..4}; do
        for ranks in 0 1 2 3; do
            cmp right$ranks got"$i".$ranks
        done
    done
}

# restarts ATTEMPTS PLACE OPTION...: starts three ranks (or $count). In the first attempts, one of them gets a signal at
# this place. One restart is allowed.
restarts() {
    # shellcheck disable=SC2016 # expanded there
    KILL_AT="$2" start "$launch" --nproc-per-node "${count:-3}" --max-restarts 1 bash -c \
        '[ "$TORCHELASTIC_RESTART_COUNT" -lt '"$1"' ] || unset KILL_AT; exec "$@"' - "$watched" \
        "${options[@]}" "${@:3}"
}

# goes_on PLACE EPOCHS: kills a rank at this place. The run must continue from this number of epochs, or from the start
# (new), and end with the same bits.
goes_on() {
    rm -f s s.tmp
    restarts 1 "$1 9" --snapshot s || return
    ends 0 || { echo "killed at $1" && return 1; }
    restarted 1
    epochs=$(sed -n 's/^resumed   s: \([0-9]*\) epochs\? and 0 steps are done.*/\1/p' out)
    [[ ${epochs:-new} =~ ^($2)$ ]]
    cmp "right$count" s
}

@test "when a rank is killed before or during training, all ranks are restarted" {
    for count in 2 3; do
        train 3 $count --snapshot right$count
        for rank in $(seq 0 $((count - 1))); do
            # Rank 0 may be behind the killed rank, or ahead of it.
            read -r early late last <<<"$([ "$rank" = 0 ] && echo 0 2 3 || echo 'new|0' '2|3' '2|3')"
            goes_on "$rank cudaSetDevice 1" new
            goes_on "$rank ncclCommInitRank 1" new
            goes_on "$rank gather_batch 2" "$early"
            goes_on "$rank ncclAllReduce 5" "$early"
            goes_on "$rank report_epoch 3" "$late"
            goes_on "$rank ncclCommDestroy 1" "$last"
        done
        goes_on "0 ncclGetUniqueId 1" new
        goes_on "0 snapshot_save 1" new
        goes_on "0 snapshot_save 2" 0
        goes_on "0 snapshot_save 4" 2
    done
}

@test "a rank that fails in every attempt ends the job, and each failure is reported" {
    for rank in 0 1 2; do
        restarts 2 "$rank ncclAllReduce 9 9" --snapshot s
        ends 1
        for attempt in 0 1; do
            grep -q "^launch: rank [0-2] (pid [0-9]* on .*) $(text_of FAILED_FIRST) $attempt: " err
        done
        # Without any left.
        KILL_AT="$rank ncclAllReduce 9 9" start "$launch" --nproc-per-node 3 "$watched" "${options[@]}"
        ends 1
        [ "$(grep -c "^launch: .*$(text_of FAILED_FIRST) 0: " err)" = 1 ]
        restarted 0
    done
}

# stops_together PROGRAM PLACE SIGNAL: sends the signal to the rank at this place. All ranks must stop after the same step
# and save the same snapshot. The next run must end with the bits of $right.0.
stops_together() {
    rm -f s.*
    KILL_AT="$2 $3" program=$1 train 3 3 --epochs 4 --log-every 1 --snapshot s || return
    mv out stopped
    drop_pids err
    [ ! -s err ] || return
    [ "$(grep -cx "$(text_of STOPPED_BY_SIGNAL); saved" stopped)" = 1 ] || return
    for rank in 0 1 2; do
        cmp s.0 s.$rank || return
    done
    program=$1 train 3 3 --epochs 4 --log-every 1 --snapshot s || return
    cmp "$right" s.0
}

@test "a signal to one rank stops all after the same step, and the next run ends with the same bits" {
    right=right
    train 2 3 --epochs 4 --log-every 1 --snapshot right
    signal=10
    for rank in 0 1 2; do
        for place in "gather_batch 1" "gather_batch 4" "ncclAllReduce 5" "report_epoch 1" "report_epoch 2"; do
            stops_together "$own" "$rank $place" $signal
            signal=$((25 - signal)) # 10 or 15: each rank and each place meets both
        done
    done
    grep -q '^resumed .* [1-9][0-9]* epochs' out
    # In the middle of an epoch, and at most a step later than told.
    stops_together "$own" "1 ncclAllReduce 5" 10
    grep -qxE 'stopped after step [23]' stopped
    # When nothing is left to be stopped, or saved.
    rm -f s.*
    KILL_AT="1 ncclCommDestroy 1 15" program=$own train 3 3 --epochs 4 --log-every 1 --snapshot s
    cmp right s.0
    KILL_AT="1 ncclAllReduce 5 15" program=$watched train 3 3 --log-every 1
    [ "$(grep -cx "$(text_of STOPPED_BY_SIGNAL); without --snapshot nothing is saved" out)" = 1 ]
}

# Starts a training run that would never end.
start_training() { # OPTION...
    start "$launch" --nproc-per-node 3 "$three" "${options[@]}" --epochs 1000000 --save-every 1000000 "$@"
}

await_training() {
    until_true 30 grep -q '^epoch 2/' out
    find_ranks 3
}

# Prints the number of training steps in the snapshot s.
count_steps() {
    train 3 1 --epochs 1000000 --max-steps 1 --snapshot s
    awk '/^resumed/ { print 5 * $3 + $6 }' out
}

@test "after a signal at a random moment, the ranks save, and the next run ends with the same bits" {
    RANDOM=5
    for target in launcher 0 1 2; do
        for signal in USR1 TERM; do
            for every in 1 100; do
                [ $every = 1 ] || [ $target = launcher ] || continue
                rm -f s right
                start_training --log-every $every --snapshot s
                await_training
                sleep "$(printf 0.0%02d $((RANDOM % 100)))"
                kill -$signal "$([ $target = launcher ] && echo "$pid" || echo "${ranks[target]}")"
                ends 0
                cat err
                [ ! -s err ]
                [ "$(grep -cx "$(text_of STOPPED_BY_SIGNAL); saved" out)" = 1 ]
                cp s stopped
                steps=$(count_steps)
                [ "$steps" -gt 5 ]
                cmp s stopped
                for snapshot in s right; do
                    train 3 3 --epochs 1000000 --save-every 1000000 --log-every $every --max-steps $((steps + 7)) \
                        --snapshot $snapshot
                done
                cmp s right
            done
        done
    done
}

# start_stopped RANK FUNCTION NTH: starts a job of three ranks in which this rank stops at its nth call of the function.
start_stopped() {
    KILL_AT="$* 19" start "$launch" --nproc-per-node 3 "$watched" "${options[@]}" --snapshot s
    until_true 30 find_ranks 3
    until_true 30 stopped "${ranks[$1]}"
}

# Continues a stopped rank, unless the launcher has already ended it because another rank failed.
resume() { # PID
    kill -CONT "$1" 2>/dev/null || true
}

# A signal, once more, ends the process soon. (Signals that follow each other closely could meet the launcher's end.)
ended_by() { # SIGNAL TO PROCESS
    kill -"$1" "$2" 2>/dev/null || true
    for _ in {1..200}; do
        ! has_ended "$3" || return 0
        sleep 0.01
    done
    return 1
}

@test "a second signal ends the run at once" {
    for signal in "USR1 10 1" "TERM 15 143"; do
        read -r name number code <<<"$signal"
        start_stopped 0 ncclAllReduce 5
        until_true 10 ended_by "$name" "$pid" "${ranks[1]}"
        resume "${ranks[0]}"
        ends "$code"
        # To one rank.
        KILL_AT="0 ncclAllReduce 5 19" start_ranks 3 "$watched"
        until_true 30 stopped "${pids[0]}"
        until_true 10 ended_by "$name" "${pids[2]}" "${pids[2]}"
        kill -KILL "${pids[0]}"
        ranks_end 10 $((128 + number)) 2
        wait
        rm s
    done
}

@test "the same signal to the launcher and to all ranks counts as one" {
    for name in USR1 TERM; do
        start_stopped 0 ncclAllReduce 5
        kill -$name "$pid" "${ranks[@]}"
        resume "${ranks[0]}"
        ends 0
        grep -q "^$(text_of STOPPED_BY_SIGNAL); saved\$" out
        rm s
    done
}

@test "a signal before the training ends the job" {
    train 3 3 --snapshot right
    for signal in USR1 TERM; do
        for place in "0 cudaSetDevice 1" "2 ncclCommInitRank 1" "0 ncclCommInitRank 1"; do
            rm -f s
            # shellcheck disable=SC2086 # words
            start_stopped $place
            kill -$signal "$pid"
            resume "${ranks[${place%% *}]}"
            timeout "$(patience 20)" cat <&"$alive"
            exec {alive}<&-
            wait "$pid" || true
            train 3 3 --snapshot s
            cmp right s
        done
    done
}

# ends_soon CODE TEXT OPTION...: no rank may hang, and at least one must print the text.
ends_soon() {
    start "$launch" --nproc-per-node 3 "$three" "${options[@]}" "${@:3}"
    ends "$1" || return
    grep -qF -- "$2" err || { cat err && return 1; }
    run ! grep -vE '^(error|launch: |error \(.*\): )' err
}

@test "bad data, bad snapshots and bad options end the job" {
    ends_soon 1 "unknown option --nproc" --nproc 2
    ends_soon 1 "--join-timeout 0: want a number from 1" --join-timeout 0
    ends_soon 1 "--batch 121 $(text_of INDIVISIBLE) 3 ranks; 120 and 123 are" --batch 121
    ends_soon 1 "make data" --data none
    ends_soon 1 "--model foo: want one of: mlp" --model foo
    train 3 3 --max-steps 7 --snapshot good
    cp good spoilt
    flip spoilt 240
    ends_soon 1 "snapshot spoilt is corrupt: wrong checksum" --snapshot spoilt
    ends_soon 1 "snapshot good holds mlp 8-8-8-10" --snapshot good --hidden 9
    ends_soon 1 "--seed 1" --snapshot good --seed 2
    # Errors that only rank 0 meets during training.
    ends_soon 1 "$(text_of CANNOT_WRITE) none/s: No such file" --snapshot none/s
    ends_soon 1 "none/csv" --csv none/csv
    mkdir s.tmp
    cp good s
    ends_soon 1 "$(text_of CANNOT_WRITE) s: Is a directory" --snapshot s
    cmp good s
    # Errors that only another rank meets: each rank reads the images itself.
    mkdir r{0,1,2}
    for rank in 0 2; do
        ln -s "$tiny" r$rank/images
    done
    # shellcheck disable=SC2016
    start "$launch" --nproc-per-node 3 bash -c 'cd r$RANK && exec "$@"' - "$three" "${options[@]}" --data images
    ends 1
    grep -q "^error (.*, rank 1): .*images" err
}
