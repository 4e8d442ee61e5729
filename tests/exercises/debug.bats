#!/usr/bin/env bats
# bats file_tags=test-all
# The faults of the debugging lab.
# 7 parts
load helpers

# SEEDS="1 2 3 4 5 6 7 8 9 10" tries more seeds of random delays.
@test "each fault shows its symptom and not its cause, and the step's text removes it" {
    export CHAOS=${SEEDS:-1}
    # shellcheck disable=SC2046 # numbers
    fail_unsolved_and_pass_solved $(exercises debug)
}

@test "likely cures in other styles are accepted" {
    accept_right_answers debug
}

@test "wrong cures of the faults are refused with a reason" {
    refuse_wrong_answers debug
}

@test "mutants of the right answers are refused, unless they are right, too" {
    refuse_mutants debug
}
