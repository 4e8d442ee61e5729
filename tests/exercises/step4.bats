#!/usr/bin/env bats
# bats file_tags=test-all
# The exercises of step 4.
# 3 parts
load helpers

@test "each exercise of step 4 fails without a solution, as its README says, and passes with the step's text" {
    fail_unsolved_and_pass_solved 4
}

@test "wrong answers to the exercises of step 4 are refused with a reason" {
    refuse_wrong_answers 4
}

@test "step 4 compiles at every point of solving its exercises" {
    compile_in_order 4
}
