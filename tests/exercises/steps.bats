#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of all steps.
# 7 parts
load helpers

@test "each exercise fails without a solution, as its README says, and passes with the step's text" {
    fail_unsolved_and_pass_solved '[0-9]'
}

@test "right answers in other styles than the steps' are accepted" {
    accept_right_answers '[0-9]'
}

@test "wrong answers are refused with a reason" {
    refuse_wrong_answers '[0-9]'
}

@test "each step compiles at every point of solving its exercises" {
    for step in {1..7}; do
        [[ ${PART:-$step} != "$step"* ]] || compile_in_order "$step"
    done
}
