#!/usr/bin/env bats
# Tests of tools/deps.sh and the make targets that call it, with missing packages: as root, with sudo and with neither.
# apt-get, sudo and id are stand-ins, so no test installs anything.
load ../helpers

setup() {
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree" || return
    unset DEVICE CC CFLAGS BUILD WERROR
    mkdir "$BATS_TEST_TMPDIR/bin"
    ln -s /usr/bin/* "$BATS_TEST_TMPDIR/bin"
    PATH=$BATS_TEST_TMPDIR/bin
    (cd "$PATH" && rm -f cppcheck clang-format g++ sbatch qsub bsub)
    stand_in ccache 'exit 1'
    stand_in apt-cache 'printf "%s\n" "Size: 5000000" "Installed-Size: 7000"'
    stand_in apt-get 'echo "apt-get $*" >>calls
case "$*" in
*update*) echo "Hit:1 http://mirror" ;;
*--simulate*) printf "Inst %s (1.0)\n" one two ;;
esac'
}

stand_in() { # NAME SCRIPT
    rm -f "$BATS_TEST_TMPDIR/bin/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$BATS_TEST_TMPDIR/bin/$1"
    chmod +x "$BATS_TEST_TMPDIR/bin/$1"
}

calls() { # PATTERN: how many there were of apt-get
    grep -c -e "$1" calls || true
}

@test "without root, make stops after one note that contains complete commands" {
    stand_in id 'echo 1000'
    stand_in sudo 'exit 1'
    run --separate-stderr make lint </dev/null
    [ "$status" = 2 ]
    [ -z "$output" ]
    [ "${stderr_lines[0]}" = "error: missing packages: clang-format cppcheck" ]
    [ "${stderr_lines[1]}" = "  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install clang-format cppcheck" ]
    [[ ${stderr_lines[2]} =~ ^'  Fedora, RHEL:    sudo dnf install '[a-z] ]]
    [[ ${stderr_lines[3]} =~ ^'  conda, no root:  conda install -c conda-forge '[a-z] ]]
    [ ${#stderr_lines[@]} = 5 ] # and one of make
    NVCC=/opt/cuda/bin/nvcc run ! tools/deps.sh run </dev/null # nvcc needs a C++ compiler
    [[ ${lines[0]} == "error: missing packages:"*" g++"* ]]
    NVCC='' run tools/deps.sh run </dev/null
    [[ $output != *g++* ]]
    [ ! -e build ]
    [ ! -e calls ]
}

@test "a target that runs Python first says that it is missing" {
    stand_in id 'echo 1000'
    stand_in sudo 'exit 1'
    rm "$PATH"/python3
    for target in demo rehearse schedule docs record launches figures slides trace-step1; do
        run --separate-stderr make "$target" </dev/null
        [ "$status" = 2 ]
        [[ -z $output && ${stderr_lines[0]} == "error: missing packages: python3"* ]] || { echo "$target: $stderr" && return 1; }
    done
}

@test "root and sudo users see the packages and their size before the installation" {
    for user in 0 1000; do
        rm -f calls
        stand_in id "echo $user"
        stand_in sudo '[ "$1" = -n ] && shift || echo sudo >>calls; exec "$@"'
        run --separate-stderr tools/deps.sh lint </dev/null
        # deps.sh notices that the stand-in installed nothing.
        [ "$status" = 1 ]
        [[ ${stderr_lines[0]} == "error: missing packages: clang-format cppcheck" ]]
        [ "${lines[1]}" = "installing: clang-format cppcheck" ]
        [ "${lines[2]}" = "  2 packages, 5.0 MB to download, 7 MB on disk" ]
        [ "$(calls 'update$')" = 1 ]
        [ "$(calls 'install -y clang-format cppcheck$')" = 1 ]
        [ "$(calls ^sudo$)" = $((user ? 3 : 0)) ]
    done
}

@test "sudo is used after a yes at the terminal, and never on a cluster" {
    need_terminal
    stand_in id 'echo 1000'
    stand_in sudo 'echo sudo >>calls; [ "$1" = -v ] || [ "$1" = -n ] || exec "$@"'
    run script -qec 'tools/deps.sh lint' /dev/null <<<n
    [[ $output == *'Install clang-format cppcheck with sudo? [y/N]'*'error: missing packages'* ]]
    [ ! -e calls ]
    script -qec 'tools/deps.sh lint' /dev/null <<<y || true
    [ "$(calls 'install -y')" = 1 ]
    rm calls
    stand_in sbatch true
    for cluster in PATH="$PATH" SLURM_JOB_ID=7 PBS_JOBID=7.server LSB_JOBID=7; do
        run env "$cluster" tools/deps.sh lint </dev/null
        [[ $output == *"On a cluster:"*"module avail"* ]]
        rm -f "$BATS_TEST_TMPDIR/bin/sbatch"
    done
    [ ! -e calls ]
}

@test "make bench looks for images and for PyTorch before it installs or builds anything" {
    refuses() { # MESSAGE ARGUMENT...
        run --separate-stderr make bench "${@:2}"
        [ "$status" = 2 ] && [[ ${stderr_lines[0]} == "error: make bench needs $1"* ]]
        [ ! -e calls ] && [ ! -e build ]
    }
    stand_in no-torch 'exit 1'
    refuses 'images: make data' TORCH=no-torch
    mkdir -p data/digits && touch data/digits/train-images-idx3-ubyte.gz
    refuses 'PyTorch, which no-torch does not find: sudo apt-get install python3-torch' TORCH=no-torch
}
