#!/usr/bin/env bats
# NVIDIA's compute-sanitizer looks for mistakes of the course's kernels on a GPU.
load ../helpers

setup() {
    on_gpu || skip "compute-sanitizer checks only kernels on a GPU"
    command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is not in PATH; it comes with the CUDA toolkit"
    cd "$BATS_TEST_TMPDIR" || return
}

# sanitize TOOL OPTION...: with a tiny model.
sanitize() {
    timeout "$(patience 120)" compute-sanitizer --tool "$1" --error-exitcode 9 "${@:2}" --data synthetic --hidden "33,17" \
        --batch 32 --max-steps 3
}

# bats test_tags=test-all,gpu
@test "step 1 uses its own memory only, and synchronises its threads" {
    for tool in memcheck initcheck synccheck; do
        sanitize $tool "$TRAIN"
    done
}

# Kernels of cuBLAS may have accesses that look like races.
# bats test_tags=test-all,gpu
@test "no kernel of the course has a race" {
    sanitize racecheck --print-limit 10000 "$TRAIN" >log 2>&1 || { cat log && return 1; }
    run ! grep -wFf <(grep -rohE --include='*.cu' '[a-z0-9_]+_kernel\(' "$root"/{common,zoo} | tr -d '(') log
}

# NCCL tries what the driver can do, and expects that some of these calls fail.
# bats test_tags=test-all,gpu
@test "step 7 in bfloat16 uses its own memory only" {
    sanitize memcheck --report-api-errors no "${TRAIN/01_single_gpu/07_large_models}" --precision bf16 --accumulate 32 \
        --clip 1 --recompute 1
}
