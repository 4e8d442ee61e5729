#!/usr/bin/env bats
# tools/mps.sh with a stand-in for NVIDIA's control program, which keeps the files that the real one makes.
# shellcheck disable=SC2154 # helpers.bash sets root
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir bin
    cat >bin/nvidia-cuda-mps-control <<'SCRIPT'
#!/bin/sh
if [ "$1" = -d ]; then
    [ ! -e refuses ] || { echo "it refuses" >"$CUDA_MPS_LOG_DIRECTORY/control.log"; exit 1; }
    touch "$CUDA_MPS_PIPE_DIRECTORY/control" && echo on >>log
else
    read -r word && echo "$word, folder there: $(ls "$CUDA_MPS_PIPE_DIRECTORY")" >>log
fi
SCRIPT
    chmod +x bin/nvidia-cuda-mps-control
    export PATH=$PWD/bin:$PATH TMPDIR=$PWD/tmp
    mkdir tmp
}

ended() { # MPS was on, was told to end, and left no file
    diff log - <<<$'on\nquit, folder there: control'
    [ -z "$(ls tmp)" ]
}

@test "MPS is on while the command runs, and the exit code is that of the command" {
    # shellcheck disable=SC2016 # expanded there
    run "$root/tools/mps.sh" sh -c 'test -e "$CUDA_MPS_PIPE_DIRECTORY/control" && exit 7'
    [ "$status" = 7 ]
    ended
}

@test "a signal ends the command, and then MPS" {
    "$root/tools/mps.sh" sh -c 'trap "echo told >told; exit 3" TERM; touch ready; while :; do sleep 0.05; done' 3>&- &
    until [ -e ready ]; do sleep 0.01; done
    kill -TERM $!
    wait $! || [ $? = 3 ]
    [ -e told ]
    ended
}

@test "without MPS, and if it does not start, the command does not run" {
    touch refuses
    run "$root/tools/mps.sh" touch ran
    [ "$status" = 1 ]
    [ "$output" = "error: MPS did not start; its log says: it refuses" ]
    PATH=/usr/bin:/bin run "$root/tools/mps.sh" touch ran
    [[ $output == "error: nvidia-cuda-mps-control is not here"* ]]
    [ ! -e ran ]
}
