#!/usr/bin/env bats
# The exercises of step 2.
load helpers

@test "each exercise of step 2 fails without a solution, as its README says, and passes with the step's text" {
    fail_unsolved_and_pass_solved 2
}

# bats test_tags=test-all
@test "wrong answers to the exercises of step 2 are refused with a reason" {
    refuse_wrong_answers 2
}

@test "step 2 compiles at every point of solving its exercises" {
    compile_in_order 2
}
