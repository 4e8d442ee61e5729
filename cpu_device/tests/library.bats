#!/usr/bin/env bats
# The library as a program meets it: its build, and its headers compared with NVIDIA's.
# bats file_tags=test-all

setup_file() {
    cd "$BATS_TEST_DIRNAME/.." || return
    unset MAKEFLAGS MFLAGS MAKELEVEL
    COMMAND=$(build | sed -n 's/^cc -g program.c //p')
    export COMMAND CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
}

setup() {
    cd "$BATS_TEST_DIRNAME/.." || return
    mapfile -t command < <(xargs printf '%s\n' <<<"$COMMAND")
    program=$BATS_TEST_TMPDIR/program
}

build() { # TARGET...
    make -s -j2 QUIET=@ BUILD="$BATS_FILE_TMPDIR/build" LIBRARY="$BATS_FILE_TMPDIR/libcpu_device.a" "$@"
}

need_nvidia() {
    cc -I"$CUDA_HOME/include" -include cuda_runtime.h -include cublasLt.h -include nccl.h -x c -fsyntax-only - </dev/null 2>/dev/null ||
        skip "NVIDIA's headers are not installed"
    command -v python3 >/dev/null || skip "python3 is not installed"
}

@test "the printed command compiles the example, and README.md has its output" {
    cc -Wall -Wextra -Werror example/vector_sum.c "${command[@]}" -o "$program"
    CPU_DEVICES=4 "$program" | sort >"$BATS_TEST_TMPDIR/out"
    grep '^rank [0-3]: the sum of ' README.md | diff - "$BATS_TEST_TMPDIR/out"
}

@test "the table of README.md has the variables that the sources read, and settings.c those of the device" {
    sed -n 's/^| .\([A-Z_]*\). |.*/\1/p' README.md | sort >"$BATS_TEST_TMPDIR/listed"
    grep -ohE '(getenv|cpu_positive_number)\("[A-Z_]+"' src/*.c | cut -d'"' -f2 | sort -u | diff "$BATS_TEST_TMPDIR/listed" -
    sed -n '/^} settings/,/^};/p' src/settings.c | grep -o 'CPU_DEVICE[A-Z_]*' | sort | diff <(grep ^CPU_ "$BATS_TEST_TMPDIR/listed") -
}

@test "NVIDIA's headers declare the same functions, values and members" {
    need_nvidia
    python3 tests/declarations.py >"$program.c"
    [ "$(grep -c _Static_assert "$program.c")" -gt 200 ]
    for compiler in gcc clang; do
        ! command -v $compiler >/dev/null ||
            $compiler -Wall -Wextra -Wno-missing-field-initializers -Werror -I"$CUDA_HOME/include" -fsyntax-only "$program.c"
    done
}

@test "NVIDIA's libraries have the same error texts" {
    need_nvidia
    python3 tests/declarations.py --errors >"$program.c"
    cc "$program.c" "${command[@]}" -o "$program"
    cc "$program.c" -I"$CUDA_HOME/include" -L"$CUDA_HOME/lib64" -Wl,-rpath,"$CUDA_HOME/lib64" -lcudart -lcublas -lcublasLt -lnccl -o "$program.nvidia"
    "$program" >"$program.txt"
    [ "$(wc -l <"$program.txt")" -gt 50 ]
    "$program.nvidia" | diff - "$program.txt"
}

@test "the cuBLAS tests pass with OpenBLAS, also with the kernels of another processor" {
    echo '#include <cblas.h>' | cc -E - >/dev/null 2>&1 || skip "OpenBLAS is not installed"
    cblas=$BATS_FILE_TMPDIR/cblas
    build BUILD="$cblas" LIBRARY="$cblas/libcpu_device.a" BLAS=-lopenblas "$cblas/tests/test_cublas"
    "$cblas/tests/test_cublas"
    if grep -qw avx2 /proc/cpuinfo; then # whose sums depend on the size of a product most
        OPENBLAS_CORETYPE=Haswell "$cblas/tests/test_cublas"
    fi
}
