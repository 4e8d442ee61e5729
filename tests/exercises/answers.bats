#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of all steps, and the faults of the debugging lab.
# 14 parts
load helpers

@test "each exercise fails without a solution, as its README says, and passes with the step's text" {
    # shellcheck disable=SC2046 # numbers
    fail_unsolved_and_pass_solved $(exercises | grep -vx '[125][.]1') # which first.bats tries
}

@test "right answers in other styles than the steps' are accepted" {
    try_answers right 0
}

@test "wrong answers are refused with a reason" {
    try_answers wrong 1
}

@test "mutants of the right answers are refused, unless they are right, too" {
    status=0
    for number in $([ -z "${WRONG_ANSWERS:-}" ] || exercises); do # make test-nightly tries them
        tests/exercises/mutants.py "$number" || status=1
    done
    return $status
}
