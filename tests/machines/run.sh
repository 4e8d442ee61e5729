#!/usr/bin/env bash
# run.sh [PATTERN]: tries what new users do on bare machines (machine.sh), in TAP, and counts the results. With a pattern,
# it runs only those whose names match.
set -u
cd "$(dirname "$0")/../.." || exit
pattern=${1:-.} passed=0 failed=0
build=curl,libc6-dev,libdnnl-dev,libopenblas-openmp-dev,zlib1g-dev

# try NAME WORD...: the words are options, a suite and a command for machine.sh. The command must end with 0.
try() {
    local result=ok
    [[ $1 =~ $pattern ]] || return 0
    tests/machines/machine.sh "${@:2}" </dev/null 2>&1 | sed 's/^/# /'
    if [ "${PIPESTATUS[0]}" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1)) result='not ok'
    fi
    echo "$result $((passed + failed)) - $1"
}

try 'Debian 12, root' bookworm 'make quickstart && make test'
try 'Debian 13, sudo' --as sudo trixie 'make quickstart && WERROR=1 make test-quick'
try 'Debian 11, root' bullseye 'make quickstart && WERROR=1 make test-quick'
try 'Debian unstable, root' sid 'make quickstart && WERROR=1 make test-quick'
try 'Ubuntu 24.04, root' noble 'make quickstart && WERROR=1 make test-quick'
try 'Ubuntu 22.04, whose bats is too old' jammy 'make test-quick && tools/deps.sh test && tests/run.sh tools/run'
try '64-bit ARM' --arch arm64 bookworm \
    'make quickstart ARGS="--max-steps 50" && make run-step2 run-step3 ARGS="--max-steps 10"'
try 'clang' --with clang noble 'make quickstart CC=clang && CC=clang WERROR=1 make test-quick'
try 'an ordinary user in a folder with a space and other signs, in German' --as user --folder "Jörg's course, 100% \$5 #1: a" \
    --lang de_DE.UTF-8 --with $build,libcmocka-dev,bats,procps,iproute2,python3,ccache,shellcheck bookworm 'make quickstart && make test'
try 'the clone of another user' --with $build,libcmocka-dev,bats,python3 bookworm \
    'chown -R 1000 . && make quickstart && tests/run.sh tools/run'
try 'an ordinary user who lacks packages' --as user bookworm \
    'make quickstart 2>&1 | tee log; grep -q "^error: missing packages: .*zlib1g-dev" log'
try 'no network' --net none --with $build bookworm 'make quickstart'
try 'lost packets' --net drop --with $build bookworm 'MNIST_MIRROR= timeout 300 make quickstart'
try 'nvcc without a GPU, one core' --cuda --cores 1 --with $build bookworm 'make quickstart && [ ! -e build/gpu ]'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
