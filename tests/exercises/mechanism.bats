#!/usr/bin/env bats
# bats file_tags=test-all
# What make check prints and does for all exercises alike.
load helpers

# mine_with CODE: an answer to exercise 2.1 that runs this code in each training step.
mine_with() {
    answer 2.1
    edit "$mine/train.c" "s/^static void train_step.*/&\n    $1/"
}

@test "a failing check shows errors that nobody looks at, a crash, what the attendee prints, and a command that repeats it" {
    mine_with 'ncclBcast(NULL, 1, ncclInt, 0, t->comm, t->stream); printf("hello from %d\\n", t->rank); memset(t->host_sums + (1l << 40), 1, 8);'
    checked 2.1 1 "It crashes in train_step, $mine/train.c:"
    grep -q 'warning: ignoring return value of .ncclBcast' "$mine/said"
    grep -qx ' *hello from 0' "$mine/said"
    run bash -c "$(sed -n 's/^ *To repeat it: //p' "$mine/said")"
    [ "$status" != 0 ]
    [[ $output == *"hello from 0"*crash* ]]
}

# repeats NUMBER ANSWER TEXT: the check refuses this wrong answer, and the command that it shows has each option once, and
# prints the text.
repeats() {
    answer "$1" wrong "$2"
    checked "$1" 1 'To repeat it: '
    [ -z "$(grep 'To repeat it: ' "$mine/said" | grep -oE ' --[a-z-]+' | sort | uniq -d)" ]
    bash -c "$(sed -n 's/^ *To repeat it: //p' "$mine/said")" 2>&1 | grep -F "$3"
}

@test "the command that a check shows repeats a hidden GPU, a race and a wrong division, and shows a slow program and a job" {
    repeats 3.2 3 cudaErrorInvalidDevice
    repeats 5.5 1 "$(text_of UNORDERED)"
    repeats 9.1 1 'part 0 has the weight of output 0 and input 2'
    answer debug.8 wrong 1
    mkdir "$BATS_TEST_TMPDIR/two words"
    TMPDIR="$BATS_TEST_TMPDIR/two words" checked debug.8 1 'To repeat it: '
    for _ in 1 2; do # the second time, the snapshot of the first one is no start
        TMPDIR=$BATS_TEST_TMPDIR bash -c "$(sed -n 's/^ *To repeat it: //p' "$mine/said")" >"$mine/repeated"
        grep -q '^stopped after step 10' "$mine/repeated"
        grep -q '^resumed .*10 steps are done' "$mine/repeated"
    done
    answer debug.1 wrong 1
    checked debug.1 1 ': CPU_DEVICE_COMPUTE=0 CPU_DEVICE_MODEL=h100'
    answer debug.11 wrong 2
    checked debug.11 1 "exercises/checks/cluster.sh $mine/step4-launcher.sbatch"
}

@test "where numbers have a comma, checks refuse and accept the same answers" {
    with_comma
    # Each row: an exercise, and a wrong answer whose losses or times differ only after the comma.
    while read -r number wrong; do
        answer "$number"
        checked "$number" 0
        answer "$number" wrong "$wrong"
        checked "$number" 1 "$(with_texts "$(texts_of "$number" wrong | sed -n "${wrong}p")")"
    done <<'END'
1.1 4
2.1 1
2.3 2
7.1 2
8.3 3
END
    fail_unsolved debug.8
}

@test "a full disk ends a check without a verdict, and what it cuts off is no data for a later check" {
    answer 1.1
    edit "$mine/train.c" 's/1\.f \/ opt/.9f \/ opt/'
    without_programs
    mkdir "$BUILD/exercises" "$BATS_TEST_TMPDIR/full"
    on_small_disk "$BUILD/exercises" 128k bash -c '
        check() {
            exercises/run.sh try 1.1 "$1"
            echo "status $?"
        }
        check "$1"
        mount -o remount,size=32m "$BUILD/exercises"
        check "$1"
        rm "$BUILD"/exercises/kept.*
        cat /dev/zero >"$BUILD/exercises/rest" 2>/dev/null
        check "$1"
        rm "$BUILD/exercises/rest"
        mount -t tmpfs -o size=64k none "$2"
        TMPDIR=$2 check "$1"' bash "$mine" "$BATS_TEST_TMPDIR/full"
    echo "$output"
    [ "$(grep ^status <<<"$output" | xargs)" = 'status 2 status 1 status 2 status 1' ]
    [ "$(grep -c '^error: 4 MB cannot be written to .* (No space left on device), so this check cannot say' <<<"$output")" = 2 ]
    [[ ${lines[-2]} == "error: 1 MB cannot be written to $BATS_TEST_TMPDIR/full (No space left on device): make room there"* ]]
}

@test "a check runs no program in the folder for temporary files, where a system may allow none" {
    answer 4.1
    mkdir "$BATS_TEST_TMPDIR/tmp"
    on_small_disk "$BATS_TEST_TMPDIR/tmp" 64m,noexec env TMPDIR="$BATS_TEST_TMPDIR/tmp" exercises/run.sh try 4.1 "$mine"
    echo "$output"
    [ "$status" = 0 ]
}

# run_check LINE...: runs a check of these lines.
run_check() {
    mkdir -p "$BATS_TEST_TMPDIR/scratch"
    printf '%s\n' "$@" >"$BATS_TEST_TMPDIR/check"
    run env EXERCISE=2.1 TASK="$root/$(folder_of 2.1)/task" MINE="$mine" COURSE="$root" SCRATCH="$BATS_TEST_TMPDIR/scratch" \
        bash exercises/check.bash "$BATS_TEST_TMPDIR/check"
}

@test "too few GPUs end a check without a verdict" {
    answer 2.1
    run_check device=gpu 'nvidia-smi() { :; }' 'enough_devices 2'
    [[ $status == 2 && ${lines[-1]} == "error: "*" this machine has 0 "*", so this check cannot say whether your answer is right" ]]
}

@test "a comparison of nothing is no success" {
    answer 2.1
    while read -r line; do
        run_check 'must_run 1' 'data_set 2520 1000 8 8' "$line" "ok 'nothing differs'"
        [[ $status != 0 && $output != *'nothing differs'* ]] || { echo "$line: $output" && return 1; }
    done <<'END'
same_evaluation 1
first_difference "$SCRATCH/none"
first_difference "$SCRATCH/csv" 21
head -n 11 "$SCRATCH/csv" >"$SCRATCH/short"; first_difference "$SCRATCH/short"; [ ${#at[@]} = 0 ] || wrong 'more losses'
: >"$SCRATCH/csv"; right_losses || wrong 'no losses'
holds 'mine <= right' 1 ''
holds 'mine <= right' '' 1 || wrong 'no number'
holds 'mine <= 1.1 * right' 0.00 0.00 || wrong 'no time'
all_watched ncclAllGather float
. exercises/checks/step7.bash; costs_agree 1
END
}

runs() { # whether the program runs
    local process name
    for process in /proc/[0-9]*/cmdline; do
        { read -rd '' name <"$process" && [ "$name" = "build/test/$mine/train" ]; } 2>/dev/null && return
    done
    return 1
}

@test "Ctrl-C ends a check whose program does not end, and leaves no file" {
    need_terminal
    mine_with 'for (volatile int i = 0; i < 10; i *= 2) continue;'
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    {
        until runs; do sleep 0.1; done
        printf '\003'
        SECONDS=0
        while runs; do sleep 0.1; done
        echo $SECONDS >"$BATS_TEST_TMPDIR/seconds"
    } | timeout 60 script -qefc "exercises/run.sh try 2.1 $mine" "$mine/said" >/dev/null || [ $? = 130 ]
    [ "$(<"$BATS_TEST_TMPDIR/seconds")" -lt 15 ] # its limit is 20 s
    refute grep -q wrong "$mine/said"
    [ -z "$(ls "$TMPDIR")" ]
}

@test "SIGTERM to the process group ends a check and its program" {
    mine_with 'for (volatile int i = 0; i < 10; i *= 2) continue;'
    setsid exercises/run.sh try 2.1 "$mine" >/dev/null 2>&1 3>&- &
    until runs; do sleep 0.1; done
    kill -TERM -- -$!
    SECONDS=0
    while runs; do sleep 0.1; done
    [ $SECONDS -lt 15 ] # its limit is 20 s
}

@test "the next exercise follows the one that was worked on last, and a deleted file is named" {
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree" || return
    exercises/run.sh start 1.1 >/dev/null
    exercises/run.sh start debug.6 >/dev/null
    exercises/run.sh hint 1.1 >/dev/null
    touch work/1.1/.solved
    run exercises/run.sh start
    [[ ${lines[0]} == "# 1.2 "* ]]
    rm work/1.2/*.c
    fails 1 'kernels.c is not there' exercises/run.sh start 1.2
    rm -r work/{1.2,debug.6} work/1.1/{.solved,train.c}
    ALL=1 run --separate-stderr exercises/run.sh check
    [[ $output == *": 0 of "* ]]
}

@test "a hint shows code as it stands, and no tags" {
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree" || return
    exercises/run.sh start 5.5 >/dev/null
    for _ in 1 2 3; do
        exercises/run.sh hint >said
    done
    [ "$(head -n 1 said)" = 'Hint 3 of 3' ]
    grep -qF 'if (f->prefetch && next >= 0 && next < f->model->count)' said
    refute grep -q '^<' said
}

@test "a mutant is a wrong answer in one place, or listed as right" {
    run tests/exercises/mutants.py 2.1 ncclAvg
    [ "$status" = 0 ]
    [[ ${lines[0]} == "refused, wrong  with 2 ranks, "*": train.c: ncclAvg, t->comm, t->stream));" ]]
    [ "${lines[1]}" = '2.1: 1 mutants, 1 refused' ]
    run tests/exercises/mutants.py 5.1 "begin <="
    [ "${lines[1]}" = '5.1: 1 mutants, 1 equal' ]
}
