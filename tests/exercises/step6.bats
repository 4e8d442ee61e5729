#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of step 6.
load helpers

@test "each exercise of step 6 fails without a solution, as its README says, and passes with the step's text" {
    fail_unsolved_and_pass_solved 6
}

@test "wrong answers to the exercises of step 6 are refused with a reason" {
    refuse_wrong_answers 6
}

@test "step 6 compiles at every point of solving its exercises" {
    compile_in_order 6
}
