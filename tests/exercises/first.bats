#!/usr/bin/env bats
# The first exercise of each step. The others belong to make test-all.
load helpers

exercises() { # STEP
    all_exercises "$1" | head -n 1
}

@test "the first exercise of each step fails without a solution, and passes with the step's text" {
    for step in {1..7}; do
        fail_unsolved_and_pass_solved "$step"
    done
}
