#!/usr/bin/env bats
# The faults of the debugging lab. Their checks take long, so most tests run in make test-all only.
# shellcheck disable=SC2154 # helpers.bash sets mine
load helpers

@test "each fault shows its symptom as its README says, and not its cause, and the step's text removes it" {
    fail_unsolved_and_pass_solved debug
}

# bats test_tags=test-all
@test "wrong cures of the faults are refused with a reason" {
    refuse_wrong_answers debug
}

# bats test_tags=test-all
@test "a fault of timing shows its symptom with each of 10 seeds of random delays, and its cure removes it" {
    local number seed count=0
    for number in $(exercises debug); do
        grep -q '^same_losses_delayed' "$(exercises/run.sh folder "$number")/check" || continue
        count=$((count + 1))
        rm -f "$mine"/*
        exercises/run.sh cut "$number" "$mine"
        for seed in {1..10}; do
            CHAOS=$seed checked "$number" 1 "with 2 ranks and CPU_DEVICE_CHAOS=$seed, the"
        done
        answer "$number"
        CHAOS=$(echo {1..10}) checked "$number" 0
    done
    [ $count = 2 ]
}
