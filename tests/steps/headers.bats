#!/usr/bin/env bats
# bats file_tags=test-all
# The sources build for a GPU where the CUDA toolkit is installed, and they compile against the headers of an old NCCL.
load ../helpers
begin_in=$root

@test "cpu_device/API.md names every function of NVIDIA that the programs call" {
    mapfile -t names < <(cat 0*/{*,*/*}.[ch] {common,zoo}/*/*.{c,h,cu} {watch,zoo}/*.[ch] | grep -oE '\b(cuda|cublas|nccl)[A-Z][A-Za-z]+\(' | tr -d '(' | sort -u)
    [ ${#names[@]} -gt 40 ]
    for name in "${names[@]}"; do
        grep -q "\`$name\`" cpu_device/API.md || { echo "$name is not in cpu_device/API.md" && return 1; }
    done
}

@test "all programs and unit tests build for a GPU without a warning" {
    use_cached_nvcc || skip "nvcc is not installed"
    tools/find_libs.sh gpu | grep -q '^NCCL_FLAGS := .' || skip "NCCL is not installed"
    make -j2 DEVICE=gpu BUILD=build/test-gpu ARCH=90 WERROR=1 programs unit-tests
}

# NCCL 2.18 is the oldest release that the programs support. What came later is removed from our header.
@test "the programs compile against the declarations of NCCL 2.18" {
    {
        echo '#define NCCL_VERSION_CODE 21805'
        sed -E '/^#define NCCL_VERSION_CODE/d; /ncclBfloat16/d; /ncclTimeout/d' cpu_device/include/nccl.h
    } >"$BATS_TEST_TMPDIR/nccl.h"
    run ! grep -E 'ncclTimeout|ncclBfloat16' "$BATS_TEST_TMPDIR/nccl.h"
    for file in 0*/{*,*/*}.c; do
        gcc -std=c11 -D_GNU_SOURCE -I. -Wall -Wextra -Wno-missing-field-initializers -Werror "-I$BATS_TEST_TMPDIR" -Icpu_device/include -fsyntax-only "$file"
    done
}
