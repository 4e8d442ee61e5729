#!/usr/bin/env bats
# A short form of run.sh; a long one is run by hand.
# bats file_tags=test-all
load ../e2e/helpers

setup_file() {
    need_train 03_multigpu_launcher/launch 03_multigpu_launcher/train 04_multinode/train 05_fsdp/train
}

@test "kill -9 of ranks of steps 3 to 5 at random moments changes no bit and leaves nothing" {
    "$BATS_TEST_DIRNAME/run.sh" 40
}
