#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of step 5.
load helpers

@test "each exercise of step 5 fails without a solution, as its README says, and passes with the step's text" {
    fail_unsolved_and_pass_solved 5
}

@test "wrong answers to the exercises of step 5 are refused with a reason" {
    refuse_wrong_answers 5
}

@test "step 5 compiles at every point of solving its exercises" {
    compile_in_order 5
}
