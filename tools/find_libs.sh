#!/bin/sh
# find_libs.sh gpu|cpu: prints, as Makefile variables, the flags that compile and link against the
# libraries of this machine. A library counts as found in the first of the usual places where a
# three-line program compiles and links, whatever its package is called. find_libs.sh nccl looks for
# NCCL alone, which the steps with one process do not need, and says how to get it if it is not there.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# try FLAGS HEADER EXPRESSION: does the program link?
try() {
    printf '#include <stddef.h>\n#include <%s>\nint main(void) { return (int)(%s); }\n' "$2" "$3" >"$work/probe.c"
    # shellcheck disable=SC2086 # flags are several words
    ${CC:-cc} "$work/probe.c" -o "$work/probe" $1 >"$work/log" 2>&1
}

# find_in LIBS HEADER EXPRESSION ROOT...: prints the flags of the first root where it links.
find_in() {
    libs=$1 header=$2 expression=$3
    shift 3
    for root in "$@"; do
        [ "$root" = /usr ] && try "$libs" "$header" "$expression" && echo "$libs" && return 0
        for lib in lib64 lib "targets/$(uname -m)-linux/lib"; do
            [ -d "$root/$lib" ] || continue
            flags="-I$root/include -L$root/$lib -Wl,-rpath,$root/$lib $libs"
            try "$flags" "$header" "$expression" && echo "$flags" && return 0
        done
    done
    return 1
}

missing() {
    echo "error: $1" >&2
    shift
    for fix in "$@"; do
        echo "  - $fix" >&2
    done
    exit 1
}

zlib=$(find_in -lz zlib.h 'zlibVersion() == NULL' ${EBROOTZLIB:+"$EBROOTZLIB"} /usr ${CONDA_PREFIX:+"$CONDA_PREFIX"}) ||
    missing "zlib (zlib.h, -lz) not found. Any one of these mends it:" \
        "tools/deps.sh run (installs it where that is allowed)" \
        "load your site's zlib module, which sets EBROOTZLIB" "conda install zlib"

nvcc=$(readlink -f "$(command -v "${NVCC:-nvcc}")")
cuda_root=${nvcc%/bin/*}
find_nccl() {
    find_in -lnccl nccl.h 'ncclGetVersion(NULL)' ${NCCL_HOME:+"$NCCL_HOME"} ${NCCL_ROOT:+"$NCCL_ROOT"} \
        ${EBROOTNCCL:+"$EBROOTNCCL"} ${CUDA_HOME:+"$CUDA_HOME"} "$cuda_root" \
        ${NVHPC_ROOT:+"$NVHPC_ROOT/comm_libs/nccl"} ${CONDA_PREFIX:+"$CONDA_PREFIX"} /usr
}

if [ "$1" = nccl ]; then
    find_nccl >/dev/null || missing "NCCL (nccl.h, -lnccl) not found. Any one of these mends it:" \
        "load your site's NCCL module, or set NCCL_HOME to its folder" \
        "install it (apt: libnccl-dev, dnf: libnccl-devel, conda: nccl)" \
        "build for the CPU device instead: DEVICE=cpu after make"
    exit
fi
if [ "$1" = gpu ]; then
    cuda=$(find_in "-lcudart -lcublas" cublas_v2.h 'cublasCreate(NULL) + cudaDeviceSynchronize()' \
        ${CUDA_HOME:+"$CUDA_HOME"} "$cuda_root" ${NVHPC_ROOT:+"$NVHPC_ROOT/math_libs"} /usr/local/cuda /usr) ||
        missing "cuBLAS and the CUDA runtime (cublas_v2.h, -lcublas, -lcudart) not found. Any one of these mends it:" \
            "load your site's CUDA module, or set CUDA_HOME to the toolkit's folder" \
            "install the toolkit with cuBLAS (apt: libcublas-dev-13-0, conda: cuda-toolkit)" \
            "build for the CPU device instead: DEVICE=cpu after make"
    # nvcc's objects are C++, and need its library.
    printf 'LIB_FLAGS := %s %s -lstdc++\nNCCL_FLAGS := %s\n' "$cuda" "$zlib" "$(find_nccl)"
    exit
fi

# OpenBLAS in its OpenMP flavour shares its threads with our loops, so it is tried first; it lies in
# a folder of its own on Debian, and has a name of its own on Fedora.
sgemm='cblas_sgemm == NULL'
for multiarch in /usr/lib/*/openblas-openmp; do
    name=$(basename "$(dirname "$multiarch")")
    flags="-I/usr/include/$name/openblas-openmp -L$multiarch -Wl,-rpath,$multiarch -lopenblas"
    [ -d "$multiarch" ] && try "$flags" cblas.h "$sgemm" && blas=$flags && break
done
try "-I/usr/include/openblas -lopenblaso" cblas.h "$sgemm" && : "${blas:=-I/usr/include/openblas -lopenblaso}"
: "${blas:=$(find_in -lopenblas cblas.h "$sgemm" ${OPENBLAS_HOME:+"$OPENBLAS_HOME"} \
    ${EBROOTOPENBLAS:+"$EBROOTOPENBLAS"} ${CONDA_PREFIX:+"$CONDA_PREFIX"} /usr)}"
: "${blas:=$(find_in -lcblas cblas.h "$sgemm" /usr)}"
: "${blas:=$(find_in -lblas cblas.h "$sgemm" /usr)}"
[ -n "$blas" ] ||
    missing "no CBLAS library (cblas.h, -lopenblas) found. Any one of these mends it:" \
        "tools/deps.sh run (installs OpenBLAS where that is allowed)" \
        "load your site's OpenBLAS module, or set OPENBLAS_HOME to its folder" "conda install openblas"

printf 'LIB_FLAGS := %s %s\n' "$blas" "$zlib"
