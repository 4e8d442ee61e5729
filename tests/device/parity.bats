#!/usr/bin/env bats
# bats file_tags=test-all
# The CPU device's headers and texts against NVIDIA's, where the CUDA toolkit is installed.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    cd "$root" || return
    CUDA_FLAGS=$(tools/find_libs.sh gpu 2>/dev/null | sed -n 's/^[A-Z]*_FLAGS := //p' | tr '\n' ' ')
    export CUDA_FLAGS
}

setup() {
    cd "$root" || return
}

need_toolkit() {
    [ -n "$CUDA_FLAGS" ] || skip "no CUDA toolkit here"
    command -v python3 >/dev/null || skip "python3 is not installed"
}

# compiles FLAGS FILE...: with clang, or gcc where there is none; a warning is an error. gpu_build.bats compiles with gcc.
compiles() {
    local cc=clang include
    command -v clang >/dev/null || cc=gcc
    read -ra include <<<"$1"
    for file in "${@:2}"; do
        $cc -std=c11 -D_GNU_SOURCE -I. -Wall -Wextra -Wno-missing-field-initializers -Werror "${include[@]}" -fsyntax-only "$file" || return 1
    done
}

@test "cpu_device/API.md names every function of NVIDIA that the programs call" {
    local name names
    mapfile -t names < <(cat 0*/*.[ch] {common,zoo}/*/*.{c,h,cu} {watch,zoo}/*.[ch] | grep -oE '\b(cuda|cublas|nccl)[A-Z][A-Za-z]+\(' | tr -d '(' | sort -u)
    [ ${#names[@]} -gt 40 ]
    for name in "${names[@]}"; do
        grep -q "\`$name\`" cpu_device/API.md || { echo "$name is not in cpu_device/API.md" && return 1; }
    done
}

@test "NVIDIA's headers declare the same functions, values and members" {
    need_toolkit
    python3 tests/device/declarations.py >"$BATS_TEST_TMPDIR/declarations.c"
    [ "$(grep -c _Static_assert "$BATS_TEST_TMPDIR/declarations.c")" -gt 200 ]
    compiles "$(grep -oE -- '-I[^ ]+' <<<"$CUDA_FLAGS")" "$BATS_TEST_TMPDIR/declarations.c"
}

@test "a program in C++ in NVIDIA's style compiles against both headers, and runs" {
    local cxx include
    read -ra include <<<"$(grep -oE -- '-I[^ ]+' <<<"$CUDA_FLAGS" | tr '\n' ' ')"
    need_train # for its objects
    read -ra ours <<<"$(sed -n 's/^LIB_FLAGS := //p' build/test/libs.mk)"
    for cxx in g++ clang++; do
        command -v $cxx >/dev/null || continue
        $cxx -Wall -Wextra -Werror -Icpu_device/include tests/device/cplusplus.cpp build/test/libcpu_device.a "${ours[@]}" \
            -lm -pthread -o "$BATS_TEST_TMPDIR/program"
        [ "$("$BATS_TEST_TMPDIR/program")" = 6 ]
        [ -z "$CUDA_FLAGS" ] || $cxx -Wall -Wextra -Werror "${include[@]}" -fsyntax-only tests/device/cplusplus.cpp
    done
}

@test "NVIDIA's libraries have the same error texts" {
    need_toolkit
    need_train # for its objects
    read -ra ours <<<"$(sed -n 's/^LIB_FLAGS := //p' build/test/libs.mk)"
    read -ra theirs <<<"$CUDA_FLAGS"
    cd "$BATS_TEST_TMPDIR"
    (cd "$root" && python3 tests/device/declarations.py --errors) >errors.c
    cc -I"$root/cpu_device/include" errors.c "$root/build/test/libcpu_device.a" "${ours[@]}" -lm -pthread -o ours
    cc errors.c "${theirs[@]}" -o theirs
    ./ours >ours.txt
    ./theirs >theirs.txt
    [ "$(wc -l <ours.txt)" -gt 50 ]
    diff theirs.txt ours.txt
}

@test "the programs and all modules compile against NVIDIA's headers" {
    need_toolkit
    compiles "$(grep -oE -- '-I[^ ]+' <<<"$CUDA_FLAGS")" 0*/*.c {common/*,zoo,zoo/*,watch}/*.c
}

# NCCL 2.18 is the oldest release that the programs support. What came later is removed from our header.
@test "the programs compile against the declarations of NCCL 2.18" {
    {
        echo '#define NCCL_VERSION_CODE 21805'
        echo '#define NCCL_CONFIG_INITIALIZER {sizeof(ncclConfig_t), 0xcafebeef, 21805, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, INT_MIN}'
        # A function may be declared in several lines, and a macro defined in several.
        sed -E '/^#define NCCL_VERSION_CODE/d; /^#define NCCL_CONFIG_INITIALIZER/,/ }$/d
            /ncclBfloat16/d; /int trafficClass/,/int nvlinkCentricSched/d
            /^ncclResult_t nccl(Mem|CommRegister|CommDeregister|CommWindow|AlltoAll|Gather|Scatter)/{:more; /;/!{N; b more}; d}' \
            cpu_device/include/nccl.h
    } >"$BATS_TEST_TMPDIR/nccl.h"
    run ! grep -E 'ncclMemAlloc|ncclGather\(|trafficClass|ncclBfloat16' "$BATS_TEST_TMPDIR/nccl.h"
    compiles "-I$BATS_TEST_TMPDIR -Icpu_device/include" 0*/*.c
}
