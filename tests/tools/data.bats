#!/usr/bin/env bats
# Tests of tools/data.sh with folders in place of the mirrors and the Fashion-MNIST package, so they need no network.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    [ -d "$root/data/mnist" ] || skip "no MNIST to serve: make data fetches it"
    command -v curl >/dev/null || skip "curl is not installed, and wget reads no file:// mirrors"
    cd "$BATS_TEST_TMPDIR" || return
    mkdir good empty fashion
    cp "$root"/data/mnist/*.gz good/
    cp -r "$root/tools" tools
    # No test installs a package, and packages of this machine make no difference.
    printf '#!/bin/sh\n' >tools/deps.sh
    edit tools/data.sh 's|^fashion=.*|fashion=fashion|'
    export MNIST_MIRROR=file://$PWD/good
}

right() { # NAME...: these files are the mirror's
    for name; do
        cmp "good/$name" "data/mnist/$name" || return
    done
}

all='train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz'
images=t10k-images-idx3-ubyte.gz labels=t10k-labels-idx1-ubyte.gz

@test "all four files are downloaded" {
    run tools/data.sh
    [ "$status" = 0 ]
    [ "$output" = "data/mnist: MNIST, 60000 training and 10000 test images" ]
    # shellcheck disable=SC2086 # a list of names
    right $all
    [ "$(find data -type f | wc -l)" = 4 ]
}

# all_but NAME: copies the complete files except this one, so data.sh must download only this one.
all_but() { # NAME
    mkdir -p data/mnist
    cp good/* data/mnist/
    rm "data/mnist/$1"
}

@test "a broken download continues where it stopped" {
    all_but $images
    head -c 100000 good/$images >data/mnist/$images.part
    # The first bytes of the mirror's file are wrong, so only a resumed download gives the right file.
    mkdir tail
    { head -c 100000 /dev/zero && tail -c +100001 good/$images; } >tail/$images
    MNIST_MIRROR=file://$PWD/tail run tools/data.sh
    [ "$status" = 0 ]
    right $images
    [ ! -e data/mnist/$images.part ]
}

@test "a partial file with wrong content is deleted" {
    for size in 10 5000 5000000; do # less than the file, more of it, more than all of it
        all_but $labels
        head -c $size /dev/urandom >data/mnist/$labels.part
        run tools/data.sh
        [ "$status" = 0 ]
        right $labels
        [ ! -e data/mnist/$labels.part ]
    done
}

@test "a partial download is kept if the mirror does not answer" {
    all_but $labels
    head -c 1000 good/$labels >data/mnist/$labels.part
    MNIST_MIRROR=file://$PWD/empty run tools/data.sh
    [ "$status" = 1 ]
    cmp data/mnist/$labels.part <(head -c 1000 good/$labels)
}

@test "a corrupt download is refused and deleted" {
    mkdir bad
    cp good/* bad/
    for spoil in "flip bad/$labels 2000" "truncate -s -1 bad/$labels" "cp good/$images bad/$labels"; do
        all_but $labels
        cp good/$labels bad/
        $spoil
        MNIST_MIRROR=file://$PWD/bad run tools/data.sh
        [ "$status" = 1 ]
        [[ $output == *"no correct $labels from file://$PWD/bad"* ]]
        [ ! -e data/mnist/$labels ]
        [ ! -e data/mnist/$labels.part ]
    done
}

@test "a corrupt file from earlier is replaced" {
    all_but $labels
    cp good/$labels data/mnist/
    flip data/mnist/$labels 2000
    tools/data.sh
    right $labels
}

@test "files that one mirror lacks or has wrong come from the next mirror" {
    mkdir half
    cp good/* half/
    rm half/$images
    flip half/$labels 2000
    MNIST_MIRROR="file://$PWD/none file://$PWD/half
        file://$PWD/good" run tools/data.sh
    [ "$status" = 0 ]
    # shellcheck disable=SC2086
    right $all
}

@test "complete files are not downloaded again" {
    mkdir data
    cp -r good data/mnist
    touch -d '2001-01-01' data/mnist/* before
    MNIST_MIRROR=file://$PWD/empty run tools/data.sh
    [ "$status" = 0 ]
    # shellcheck disable=SC2086
    right $all
    [ "$(find data -type f -newer before)" = "" ]
}

# Runs data.sh without MNIST_MIRROR, but with this list of mirrors.
with_mirrors() { # URL
    cp tools/data.sh tools/other.sh
    edit tools/other.sh "/^mirrors='https/,/'\$/c mirrors='$1'"
    (unset MNIST_MIRROR && bash tools/other.sh)
}

@test "uncompressed images are recognised, and wrong ones are refused" {
    mkdir -p data/mnist
    cp good/* data/mnist
    gzip -d data/mnist/*
    MNIST_MIRROR=file://$PWD/empty run tools/data.sh
    [ "$status" = 0 ]
    [ "$output" = "data/mnist: MNIST, 60000 training and 10000 test images" ]
    [ "$(find data -name '*.gz*')" = "" ]
    flip data/mnist/${labels%.gz} 2000
    MNIST_MIRROR=file://$PWD/empty run tools/data.sh
    [ "$status" = 1 ]
}

@test "a folder needs neither curl nor wget, and a note says that mirrors need one of them" {
    mkdir bin
    ln -s /usr/bin/* bin
    rm -f bin/curl bin/wget
    PATH=$PWD/bin MNIST_MIRROR=file://$PWD/empty run tools/data.sh
    [ "$status" = 1 ]
    PATH=$PWD/bin run tools/data.sh
    [ "$status" = 0 ]
    # shellcheck disable=SC2086 # a list of names
    right $all
    rm -r data
    PATH=$PWD/bin MNIST_MIRROR=http://127.0.0.1:9 run tools/data.sh
    [ "$status" = 1 ]
    [ "${lines[0]}" = "note: neither curl nor wget is installed, so no mirror is asked" ]
    [[ ${lines[1]} == error:* ]]
    [ ${#lines[@]} = 2 ]
}

@test "a wrong MNIST_MIRROR is an error, even if Fashion-MNIST is installed" {
    for name in $all; do
        echo "$name" >"fashion/$name"
    done
    MNIST_MIRROR=file://$PWD/empty run --separate-stderr tools/data.sh
    [ "$status" = 1 ]
    [ "$output" = "" ]
    [[ ${stderr_lines[-1]} == "error: MNIST_MIRROR=file://$PWD/empty has no correct copy of MNIST"* ]]
    [ ! -e data/fashion-mnist ]
}

@test "if no mirror answers, Fashion-MNIST is used, and the output says so" {
    for name in $all; do
        echo "$name" >"fashion/$name"
    done
    run with_mirrors "file://$PWD/empty"
    [ "$status" = 0 ]
    [[ $output == *"Fashion-MNIST (clothes, not digits)"*"the programs use it"* ]]
    diff -r fashion data/fashion-mnist
    [ ! -e data/mnist ]
}

@test "if there are no images at all, data.sh fails and suggests what to do" {
    run --separate-stderr with_mirrors "file://$PWD/empty"
    [ "$status" = 1 ]
    [ "$output" = "" ]
    for way in "internet" "MNIST_MIRROR" "--data synthetic"; do
        [[ $(tail -n 1 <<<"$stderr") == error:*"$way"* ]]
    done
    [ "$(find data -type f)" = "" ]
}
