#!/usr/bin/env bats
# Tests of tools/deps.sh and the make targets that call it, with missing packages: as root, with sudo, with neither, and
# without a network. apt-get, sudo and id are stand-ins, so no test installs anything.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree" || return
    unset MAKEFLAGS MFLAGS MAKELEVEL DEVICE CC CFLAGS BUILD WERROR
    mkdir "$BATS_TEST_TMPDIR/bin"
    ln -s /usr/bin/* "$BATS_TEST_TMPDIR/bin"
    PATH=$BATS_TEST_TMPDIR/bin
    stand_in id 'echo 0'
    stand_in ccache 'exit 1'
    stand_in apt-cache 'printf "%s\n" "Size: 5000000" "Installed-Size: 7000"'
    # shellcheck disable=SC2016 # expanded there
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

hide() { # PROGRAM...
    (cd "$BATS_TEST_TMPDIR/bin" && rm -f "$@")
}

calls() { # PATTERN: how many there were of apt-get
    grep -c -e "$1" calls || true
}

@test "without root, make stops after one note that contains complete commands" {
    stand_in id 'echo 1000'
    stand_in sudo 'exit 1'
    hide bats clang-format cppcheck
    while read -r target apt; do
        run --separate-stderr make "$target" </dev/null
        echo "$target: $output $stderr"
        [ "$status" = 2 ]
        [ -z "$output" ]
        [ "${stderr_lines[0]}" = "error: missing packages: $apt" ]
        [ "${stderr_lines[1]}" = "  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install $apt" ]
        [[ ${stderr_lines[2]} =~ ^'  Fedora, RHEL:    sudo dnf install '[a-z] ]]
        [[ ${stderr_lines[3]} =~ ^'  conda, no root:  conda install -c conda-forge '[a-z] ]]
        [[ ${stderr_lines[4]} == "make: "*"Error 1" ]]
        [ ${#stderr_lines[@]} = 5 ]
    done <<'END'
test bats
lint clang-format cppcheck
format clang-format
END
    [ ! -e build ]
    [ ! -e calls ]
}

@test "a build for GPUs asks for g++, and a build for the CPU device does not" {
    stand_in id 'echo 1000'
    stand_in sudo 'exit 1'
    hide g++
    run ! env NVCC=/opt/cuda/bin/nvcc tools/deps.sh run </dev/null
    [[ ${lines[0]} == "error: missing packages:"*" g++"* ]]
    [[ ${lines[2]} == *"dnf install"*" gcc-c++"* ]]
    run env NVCC= tools/deps.sh run </dev/null
    [[ $output != *g++* ]]
}

@test "where bats is too old, npm installs another, or a line says how" {
    stand_in bats 'echo Bats 1.2.1'
    # shellcheck disable=SC2016 # expanded there
    stand_in npm 'echo "npm $*" >>calls; mkdir -p build/npm/node_modules/bats/bin
printf "#!/bin/sh\necho Bats 1.8.0\n" >build/npm/node_modules/bats/bin/bats; chmod +x build/npm/node_modules/bats/bin/bats'
    stand_in id 'echo 1000'
    stand_in sudo 'exit 1'
    run ! tools/deps.sh test </dev/null
    [ "${lines[0]}" = "error: missing packages: bats" ]
    [ "${lines[2]}" = "  bats is older than 1.8; without root: npm install --prefix build/npm bats" ]
    [ ! -e calls ]
    stand_in id 'echo 0'
    tools/deps.sh test
    [ "$(calls '^npm install .* bats$')" = 1 ]
    run tools/deps.sh test # which finds it
    [ -z "$output" ]
}

@test "root and sudo users see the packages and their size before the installation" {
    for user in 0 1000; do
        rm -f calls
        stand_in id "echo $user"
        # shellcheck disable=SC2016 # expanded there
        stand_in sudo '[ "$1" = -n ] && shift || echo sudo >>calls; exec "$@"'
        hide cppcheck clang-format
        run --separate-stderr tools/deps.sh lint
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

@test "sudo asks for the password only on a terminal, and names the packages" {
    need_terminal
    stand_in id 'echo 1000'
    # shellcheck disable=SC2016 # expanded there
    stand_in sudo '[ "$1" = -n ] || echo "sudo: $*"; exit 1'
    hide cppcheck clang-format
    run script -qec 'tools/deps.sh lint' /dev/null
    [[ $output == *"sudo: -vp sudo installs clang-format cppcheck; password of %p: "* ]]
    run tools/deps.sh lint </dev/null
    [[ $output != *"sudo: "* ]]
}
