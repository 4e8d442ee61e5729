#!/usr/bin/env bats
# bats file_tags=test-all
# Matrix products of the CPU device: the library that find_libs.sh takes, and the one that it takes where that is not
# there; the banner names them, and says when OpenBLAS took slow kernels.
# shellcheck disable=SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    cd "$root" || return
    unset OPENBLAS_CORETYPE PRODUCTS MAKEFLAGS MFLAGS MAKELEVEL
}

banner() { # PROGRAM
    "$1" --data synthetic --hidden 8 --max-steps 1 >"$BATS_TEST_TMPDIR/out"
    grep '^device ' "$BATS_TEST_TMPDIR/out"
}

@test "oneDNN is preferred if it supports the processor, unless PRODUCTS=cblas" {
    tools/find_libs.sh cpu >"$BATS_TEST_TMPDIR/libs"
    PRODUCTS=cblas tools/find_libs.sh cpu >"$BATS_TEST_TMPDIR/cblas"
    run ! grep -q dnnl "$BATS_TEST_TMPDIR/cblas"
    [ "$(uname -m)" = x86_64 ] || skip "oneDNN has kernels of its own for x86-64 only"
    grep -qx 'LIB_FLAGS := -DWITH_ONEDNN .*-ldnnl .*-lgomp .*' "$BATS_TEST_TMPDIR/libs"
    uname() { echo aarch64; }
    export -f uname
    bash tools/find_libs.sh cpu | diff - "$BATS_TEST_TMPDIR/cblas"
}

@test "the banner names the library, and a fix if OpenBLAS uses kernels of an old processor" {
    need_train
    [ "$(uname -m)" != x86_64 ] || [[ $(banner "$TRAIN") == *", oneDNN "[0-9]*.[0-9]*", no GPU)"* ]]
    other=build/cblas/01_single_gpu/train
    make -j2 DEVICE=cpu BUILD=build/cblas PRODUCTS=cblas $other
    ldd $other | grep -q openblas || skip "OpenBLAS is not installed"
    [[ $(banner $other) == *", OpenBLAS for "* ]]
    grep -qw avx2 /proc/cpuinfo || skip "this processor has nothing better"
    cure=$(OPENBLAS_CORETYPE=Prescott banner $other | sed -n 's/.* (slow here: set \(OPENBLAS_CORETYPE=[A-Za-z]*\)), no GPU).*/\1/p')
    [[ $(env "$cure" bash -c "$(declare -f banner); banner $other") == *", OpenBLAS for ${cure#*=}, no GPU)"* ]]
}
