#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of all steps.
# 7 parts
load helpers

@test "each exercise fails without a solution, as its README says, and passes with the step's text" {
    # shellcheck disable=SC2046 # numbers
    fail_unsolved_and_pass_solved $(exercises '[0-9]' | grep -vx '[125][.]1') # which first.bats tries
}

@test "right answers in other styles than the steps' are accepted" {
    accept_right_answers '[0-9]'
}

@test "wrong answers are refused with a reason" {
    refuse_wrong_answers '[0-9]'
}

@test "mutants of the right answers are refused, unless they are right, too" {
    refuse_mutants '[0-9]'
}
