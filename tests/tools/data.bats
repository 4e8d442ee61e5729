#!/usr/bin/env bats
# Tests of tools/data.sh with folders in place of the mirrors, so they need no network. The files are made up, and a copy of
# data.sh has their sums.
load ../helpers

setup() {
    command -v curl >/dev/null || skip "curl is not installed"
    cd "$BATS_TEST_TMPDIR" || return
    mkdir good empty
    cp -r "$root/tools" tools
    ln -s "$root/common" common
    for name in $all; do
        head -c 30000 /dev/urandom | gzip >"good/$name"
    done
    plant good/*
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

@test "a full disk is named, and no mirror is blamed" {
    mkdir -p data/mnist
    on_small_disk data/mnist 64k tools/data.sh
    [ "$status" = 1 ]
    [ "$output" = 'error: 1 MB cannot be written to data/mnist (No space left on device): make room there' ]
}

@test "a second make data waits for the first one" {
    mkdir -p data/mnist
    exec 7<data/mnist
    flock 7
    refute timeout 1 tools/data.sh
    exec 7<&-
    tools/data.sh
}

@test "a broken download continues where it stopped, and a wrong file is downloaded again or refused" {
    part=data/mnist/$labels.part
    # The first bytes of this mirror's files are wrong, so only a resumed download gives a right file.
    mkdir -p tail bad data/mnist
    { head -c 1000 /dev/zero && tail -c +1001 good/$labels; } >tail/$labels
    # Each row: the files of the mirror and of before, the mirror, and whether data.sh succeeds. All other files are complete.
    while IFS='@' read -r before mirror status; do
        cp good/* data/mnist
        cp good/$labels bad
        rm -f data/mnist/$labels
        eval "$before"
        MNIST_MIRROR=file://$PWD/${mirror// } run tools/data.sh
        [ "$status" = "${status// }" ] || { echo "after $before: $output" && return 1; }
        case $mirror in
        *bad*) [[ $output == *"no correct $labels from file://$PWD/bad"* && ! -e data/mnist/$labels && ! -e $part ]] ;;
        *empty*)
            cmp $part <(head -c 1000 good/$labels) &&
                [[ ${lines[-1]} == "error: MNIST_MIRROR=file://$PWD/empty has no correct copy of MNIST"* ]]
            ;;
        *) right $labels && [ ! -e $part ] ;;
        esac || { echo "wrong files after $before" && return 1; }
    done <<'END'
head -c 1000 good/$labels >$part     @ tail  @ 0
head -c 1000 good/$labels >$part     @ empty @ 1
head -c 10 /dev/urandom >$part       @ good  @ 0
head -c 5000 /dev/urandom >$part     @ good  @ 0
head -c 5000000 /dev/urandom >$part  @ good  @ 0
cp bad/* data/mnist; flip data/mnist/$labels 2000 @ good @ 0
flip bad/$labels 2000                @ bad   @ 1
truncate -s -1 bad/$labels           @ bad   @ 1
cp good/$images bad/$labels          @ bad   @ 1
END
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

# Runs data.sh without MNIST_MIRROR, but with this list of mirrors for each set.
with_mirrors() { # URL [SET]
    cp tools/data.sh tools/other.sh
    edit tools/other.sh "/^ *mirrors='https/,/'\$/c mirrors='$1'"
    (unset MNIST_MIRROR && bash tools/other.sh "${@:2}")
}

# plant FILE...: data.sh expects the content of these files, as it is without compression, where their names stand.
plant() {
    local name sum
    for file; do
        name=$(basename "$file" .gz)
        sum=$(gzip -dcf <"$file" | sha256sum | cut -d' ' -f1)
        edit tools/data.sh "s/(^|')$name [0-9a-f]{64}/\1$name $sum/"
    done
}

archive=cifar-10-binary.tar.gz

# Makes up the files of CIFAR-10, and their archive in the folder cifar, which also has files that nobody asked for.
make_cifar() {
    local folder=cifar-10-batches-bin name
    mkdir -p $folder cifar
    for name in data_batch_{1..5} test_batch; do
        { printf '\3' && yes "$name" | head -c 3072; } >"$folder/$name.bin"
    done
    plant $folder/*
    touch $folder/readme.html stranger
    tar -czf cifar/$archive $folder stranger
    rm $folder/readme.html
    export CIFAR_MIRROR=file://$PWD/cifar
}

@test "the files of CIFAR-10 come from its archive, complete ones stay, and a wrong archive is refused" {
    make_cifar
    run tools/data.sh cifar10
    [ "$status" = 0 ]
    [ "$output" = "data/cifar10: CIFAR-10, 50000 training and 10000 test images" ]
    diff -r cifar-10-batches-bin data/cifar10
    [ "$(ls data)" = cifar10 ]
    touch -d '2001-01-01' data/cifar10/* before
    gzip data/cifar10/test_batch.bin
    CIFAR_MIRROR=file://$PWD/empty tools/data.sh cifar10
    [ "$(find data -type f -newer before)" = "" ]
    rm -r data
    truncate -s -9 cifar/$archive
    run ! tools/data.sh cifar10
    [[ ${lines[-1]} == "error: CIFAR_MIRROR=$CIFAR_MIRROR has no correct copy of CIFAR-10"* && ! -e data/cifar10 ]]
}

@test "if no mirror has a set, data.sh fails and suggests what to do" {
    run --separate-stderr with_mirrors "file://$PWD/empty" fashion-mnist
    [ "$status" = 1 ]
    [ "$output" = "" ]
    for way in "internet" "FASHION_MIRROR" "SET=digits"; do
        [[ $(tail -n 1 <<<"$stderr") == error:*"$way"* ]]
    done
    [ "$(find data -type f)" = "" ]
}

@test "if no mirror has MNIST, digits are drawn, MNIST comes before them later, and a part of MNIST stays" {
    run --separate-stderr with_mirrors "file://$PWD/empty"
    [ "$status" = 0 ]
    [ "$output" = "data/digits: drawn digits, not MNIST, 60000 training and 10000 test images" ]
    [[ $stderr == *"note: no mirror sent MNIST, so tools/digits.c draws digits"* && ! -e data/mnist ]]
    run --separate-stderr with_mirrors "file://$PWD/good"
    [[ $status == 0 && $output == "data/mnist: "*$'\nnote: '*"not the drawn digits in data/digits" ]]
    rm -r data/digits data/mnist/$labels
    run --separate-stderr with_mirrors "file://$PWD/empty"
    [[ $status == 1 && ! -e data/digits && ${stderr_lines[-1]} == "error: no mirror sent MNIST: "* ]]
    [ "$(find data/mnist -type f | wc -l)" = 3 ]
}

@test "drawn digits are the same everywhere, are called so, and train as MNIST does" {
    need_train
    cp "$root/tools/data.sh" tools # which has the sums of the digits
    CC="${CC:-cc} -O0" tools/data.sh digits
    touch before
    tools/data.sh digits
    [ "$(find data -newer before)" = "" ]
    timeout "$(patience 60)" "$TRAIN" --epochs 3 >log
    grep '^data      data/digits (drawn digits, not MNIST): 60000 training and 10000 test images' log
    # MNIST: 96.7 % and 97.9 %, and 93.4 % with a tenth of the rate.
    awk '/accuracy/ && $2 == "1/3" { first = $9 > 96 && $9 < 97.5 } END { exit !(first && $9 > 97 && $9 < 98.3) }' log
    timeout "$(patience 60)" "$TRAIN" --epochs 1 --lr 0.005 | awk 'END { exit $9 < 92 || $9 > 94 }'
    fails 1 "$(text_of NOT_FINITE)" timeout "$(patience 60)" "$TRAIN" --epochs 1 --lr 0.4
}
