#!/usr/bin/env bats
# tools/mps.sh with a stand-in for NVIDIA's control program, which keeps the file that the real one makes.
load ../helpers

@test "MPS is on while the command runs, the exit code is that of the command, and without MPS nothing runs" {
    cd "$BATS_TEST_TMPDIR"
    mkdir bin tmp
    cat >bin/nvidia-cuda-mps-control <<'SCRIPT'
#!/bin/sh
[ "$1" = -d ] && touch "$CUDA_MPS_PIPE_DIRECTORY/control" && echo on >>log || { read -r word && echo "$word" >>log; }
SCRIPT
    chmod +x bin/nvidia-cuda-mps-control
    export TMPDIR=$PWD/tmp
    PATH=$PWD/bin:$PATH run "$root/tools/mps.sh" sh -c 'test -e "$CUDA_MPS_PIPE_DIRECTORY/control" && exit 7'
    [ "$status" = 7 ]
    [ "$(xargs <log)" = "on quit" ]
    [ -z "$(ls tmp)" ]
    PATH=/usr/bin:/bin fails 1 "error: nvidia-cuda-mps-control is not here" "$root/tools/mps.sh" touch ran
    [ ! -e ran ]
}
