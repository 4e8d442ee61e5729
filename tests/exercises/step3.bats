#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of step 3.
load helpers

@test "each exercise of step 3 fails without a solution, as its README says, and passes with the step's text" {
    fail_unsolved_and_pass_solved 3
}

@test "wrong answers to the exercises of step 3 are refused with a reason" {
    refuse_wrong_answers 3
}

@test "step 3 compiles at every point of solving its exercises" {
    compile_in_order 3
}
