#!/usr/bin/env bats
# bats file_tags=test-all
# The banner names the library of the CPU device's matrix products, and says when OpenBLAS took slow kernels.
load ../helpers
begin_in=$root
unset OPENBLAS_CORETYPE PRODUCTS

banner() { # PROGRAM
    "$1" --data synthetic --hidden 8 --max-steps 1 >"$BATS_TEST_TMPDIR/out"
    grep '^device ' "$BATS_TEST_TMPDIR/out"
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
