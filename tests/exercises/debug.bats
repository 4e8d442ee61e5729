#!/usr/bin/env bats
# bats file_tags=test-all
# The faults of the debugging lab.
# 7 parts
# shellcheck disable=SC2154 # helpers.bash sets mine
load helpers

@test "right cures of the faults in other styles are accepted" {
    accept_right_answers debug
}

@test "wrong cures of the faults are refused with a reason" {
    refuse_wrong_answers debug
}

# Removes what the seeds of a run add to the messages of a check.
without_seeds() {
    sed 's/ and CPU_DEVICE_CHAOS=[0-9]*//'
}

# SEEDS="1 2 3 4 5 6 7 8 9 10" tries more seeds. Cures in another style are tried without random delays.
@test "each fault shows its symptom and not its cause, also with random delays, and the step's text removes it" {
    local number seed promise seeds=${SEEDS:-1}
    for number in $(exercises debug); do
        fail_unsolved "$number"
        promise=$(promise_of "$number" | without_seeds)
        for seed in $seeds; do
            CHAOS=$seed CPU_DEVICE_CHAOS=$seed run exercises/run.sh try "$number" "$mine"
            if [ "$status" != 1 ] || ! grep '^wrong ' <<<"$output" | without_seeds | grep -qF "$promise"; then
                printf '%s\n' "$number with seed $seed: wanted status 1 and: $promise" "status $status:" "$output"
                return 1
            fi
        done
        answer "$number"
        CHAOS=$seeds CPU_DEVICE_CHAOS=1 checked_without_programs "$number"
    done
}
