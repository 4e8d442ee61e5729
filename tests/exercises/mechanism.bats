#!/usr/bin/env bats
# bats file_tags=test-all
# What make check prints and does for all exercises alike.
# shellcheck disable=SC2154 # helpers.bash sets root and mine
load helpers

# mine_with CODE: an answer to exercise 2.1 that runs this code in each training step.
mine_with() {
    answer 2.1
    edit "$mine/train.c" "s/^static void train_step.*/&\n    $1/"
}

@test "a failing check shows where a crash is, what the attendee prints, and a command that repeats it" {
    mine_with 'printf("hello from %d\\n", t->rank); memset(t->host_order + (1l << 40), 1, 8);'
    checked 2.1 1 "It crashes in train_step, $mine/train.c:"
    grep -qx ' *hello from 0' "$mine/said"
    run bash -c "$(sed -n 's/^ *To repeat it: //p' "$mine/said")"
    [ "$status" != 0 ]
    [[ $output == *"hello from 0"*crash* ]]
}

# repeats NUMBER ANSWER TEXT: the check refuses this wrong answer, and the command that it shows prints the text.
repeats() {
    answer "$1" wrong "$2"
    checked "$1" 1 'To repeat it: '
    bash -c "$(sed -n 's/^ *To repeat it: //p' "$mine/said")" 2>&1 | grep -F "$3"
}

@test "the command that a check shows repeats a hidden GPU, a race and a wrong division, and shows a slow program and a job" {
    repeats 3.2 3 cudaErrorInvalidDevice
    repeats 5.5 1 "$(text_of UNORDERED)"
    repeats 9.1 1 'part 0 has the weight of output 0 and input 2'
    answer debug.1 wrong 1
    checked debug.1 1 ': CPU_DEVICE_COMPUTE=0 CPU_DEVICE_MODEL=h100'
    answer debug.11 wrong 2
    checked debug.11 1 "exercises/checks/cluster.sh $mine/step4-launcher.sbatch"
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
