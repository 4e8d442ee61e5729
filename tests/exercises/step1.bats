#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of step 1.
load helpers

@test "each exercise of step 1 fails without a solution, as its README says, and passes with the step's text" {
    fail_unsolved_and_pass_solved 1
}

@test "wrong answers to the exercises of step 1 are refused with a reason" {
    refuse_wrong_answers 1
}

@test "step 1 compiles at every point of solving its exercises" {
    compile_in_order 1
}
