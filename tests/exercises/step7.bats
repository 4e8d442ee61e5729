#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of step 7.
load helpers

@test "each exercise of step 7 fails without a solution, as its README says, and passes with the step's text" {
    fail_unsolved_and_pass_solved 7
}

@test "wrong answers to the exercises of step 7 are refused with a reason" {
    refuse_wrong_answers 7
}

@test "step 7 compiles at every point of solving its exercises" {
    compile_in_order 7
}
