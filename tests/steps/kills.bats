#!/usr/bin/env bats
# A short form of kills.sh. docs/measurements.md describes a longer run.
# bats file_tags=test-all
load ../helpers

setup_file() {
    need_train 03_multigpu_launcher/launch 03_multigpu_launcher/train 04_multinode/train 05_fsdp/train 07_large_models/train
}

@test "killing ranks of steps 3 to 5 and 7 at random moments changes no bit and leaves no file behind" {
    "$BATS_TEST_DIRNAME/kills.sh" 40
}
