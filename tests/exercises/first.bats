#!/usr/bin/env bats
# An exercise of one program, one of forked ranks and one with a launcher. The others belong to make test-all.
load helpers

@test "a first exercise fails without a solution, and passes with the step's text" {
    fail_unsolved_and_pass_solved 1.1 2.1 5.1
}
