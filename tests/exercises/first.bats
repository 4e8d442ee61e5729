#!/usr/bin/env bats
# The first exercise of each step. The others belong to make test-all.
load helpers

@test "the first exercise of each step fails without a solution, and passes with the step's text" {
    fail_unsolved_and_pass_solved {1..9}.1
}
