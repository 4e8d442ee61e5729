#!/bin/sh
# find_libs.sh gpu|cpu: prints the flags that compile and link against the libraries of this machine, as Makefile
# variables. It tries to compile and link a three-line program with each of a library's usual places, and takes the first
# place that works. FLAGS holds the compiler flags of the sources. MISSING names an optional library that was not found;
# make looks for it again in the next build. find_libs.sh nccl looks for NCCL only, and explains how to get it if it is
# missing. Step 1 does not need NCCL.
set -u
# shellcheck source=tools/begin.sh
. "$(dirname "$0")/begin.sh"

# try FLAGS HEADER EXPRESSION: succeeds if the program compiles and links.
try() {
    printf '#include <stddef.h>\n#include <%s>\nint main(void) { return (int)(%s); }\n' "$2" "$3" >"$work/probe.c"
    # shellcheck disable=SC2086 # flags are several words
    ${CC:-cc} "$work/probe.c" -o "$work/probe" $1 >"$work/log" 2>&1
}

# find_in -lNAME HEADER EXPRESSION PLACE...: prints the flags of the first place where the library links, or where several
# libraries do, as in '-lcublas -lcublasLt'. $base holds the flags of another library that they depend on. A place is a folder, or a variable that holds a folder, with a subfolder if
# needed (NVHPC_ROOT/math_libs). NVIDIA and conda-forge use targets/ in toolkits for several processors.
base=''
find_in() {
    lib_flag=$1 header=$2 expression=$3
    name=${lib_flag%% *}
    name=lib${name#-l}
    shift 3
    for place in "$@"; do
        root=$place
        if [ "${place#/}" = "$place" ]; then
            variable=${place%%/*}
            eval "folder=\${$variable:-}"
            [ -n "$folder" ] || continue
            root=$folder${place#"$variable"}
        fi
        [ "$root" = /usr ] && try "$lib_flag $base" "$header" "$expression" && echo "$lib_flag" && return 0
        for include in "$root"/include "$root"/targets/*-linux/include; do
            [ -e "$include/$header" ] || continue
            for lib in "$root"/lib64 "$root"/lib "$root"/targets/*-linux/lib; do
                [ -e "$lib/$name.so" ] || [ -e "$lib/$name.a" ] || continue
                flags="-I$include -L$lib -Wl,-rpath,$lib $lib_flag"
                try "$flags $base" "$header" "$expression" && echo "$flags" && return 0
            done
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

[ -z "${FLAGS:-}" ] || try "$FLAGS" stddef.h 0 ||
    missing "${CC:-cc} does not compile: $(head -n 1 "$work/log"). Any one of these fixes it:" \
        "run make with CC=gcc, if a module (such as nvhpc) has set CC to a compiler with other flags" \
        "tools/deps.sh run (installs gcc, if you have root access)"
zlib=$(find_in -lz zlib.h 'zlibVersion() == NULL' EBROOTZLIB /usr CONDA_PREFIX) ||
    missing "zlib (zlib.h, -lz) not found. Any one of these fixes it:" \
        "tools/deps.sh run (installs it, if you have root access)" \
        "load your site's zlib module, which sets EBROOTZLIB" "conda install zlib"

# generations: prints flags that make nvcc compile code for the first GPU of each generation that it knows. Every later
# GPU of the same generation runs this code. The flags also ask for PTX of the newest GPU, which the driver compiles for
# GPUs that are newer than the toolkit.
generations() {
    "$nvcc" --list-gpu-arch | sed -n 's/^compute_//p' | sort -n | awk '
        $1 >= 60 && !known[int($1 / 10)]++ { printf "-gencode arch=compute_%d,code=sm_%d ", $1, $1; newest = $1 }
        END { if (newest) printf "-gencode arch=compute_%d,code=compute_%d", newest, newest; else exit 1 }'
}

find_nccl() {
    find_in -lnccl nccl.h 'ncclGetVersion(NULL)' NCCL_HOME NCCL_ROOT EBROOTNCCL CUDA_HOME toolkit \
        "NVHPC_ROOT/comm_libs/$version/nccl" NVHPC_ROOT/comm_libs/nccl CONDA_PREFIX /usr/local/cuda /usr
}

if [ "$1" != cpu ]; then
    nvcc=$(readlink -f "$(command -v "${NVCC:-nvcc}")")
    toolkit=${nvcc%/bin/*}
    # NVIDIA's HPC SDK (module load nvhpc) has a folder for each library, and in it one for each version of CUDA.
    version=${toolkit##*/} sdk=${toolkit%/compilers}
    [ ! -d "${sdk%/cuda/*}/math_libs" ] || : "${NVHPC_ROOT:=${sdk%/cuda/*}}"
    base=$(find_in -lcudart cuda_runtime.h 'cudaDeviceSynchronize()' \
        CUDA_HOME toolkit EBROOTCUDA NVHPC_ROOT/cuda CONDA_PREFIX /usr/local/cuda /usr)
fi
if [ "$1" = nccl ]; then
    find_nccl >/dev/null || missing "NCCL (nccl.h, -lnccl) not found. Any one of these fixes it:" \
        "load your site's NCCL module, or set NCCL_HOME to its folder" \
        "install it (apt: libnccl-dev, dnf: libnccl-devel, conda: nccl)" \
        "build for the CPU device instead: run make with DEVICE=cpu"
    exit
fi
if [ "$1" = gpu ]; then
    # cuBLASLt is a part of cuBLAS, in the same folders.
    cublas=$([ -n "$base" ] && find_in '-lcublas -lcublasLt' cublas_v2.h 'cublasCreate(NULL)' CUDA_HOME toolkit EBROOTCUDA \
        "NVHPC_ROOT/math_libs/$version" NVHPC_ROOT/math_libs CONDA_PREFIX /usr/local/cuda /usr) ||
        missing "cuBLAS and the CUDA runtime (cublas_v2.h, -lcublas, -lcublasLt, -lcudart) not found. Any one of these fixes it:" \
            "load your site's CUDA module, or set CUDA_HOME to the toolkit's folder" \
            "install the toolkit with cuBLAS (apt: libcublas-dev-13-0, conda: cuda-toolkit)" \
            "build for the CPU device instead: run make with DEVICE=cpu"
    nccl=$(find_nccl) || echo 'MISSING := NCCL'
    case $nccl in
    *"${NCCL_HOME:-}"*) ;;
    ?*) echo "note: no program links with the NCCL in NCCL_HOME=$NCCL_HOME; make uses another one: $nccl" >&2 ;;
    esac
    # The compiler and the linker take a file from the first folder that has it. CUDA's folder comes first, because that of
    # NCCL may hold another CUDA. If CUDA's holds another NCCL, NCCL's comes first, and then it may hold no CUDA.
    cuda_headers=${base#-I} nccl_headers=${nccl#-I}
    cuda_headers=${cuda_headers%% *} nccl_headers=${nccl_headers%% *}
    # shellcheck disable=SC3013 # dash, bash and busybox have -ef
    if [ -e "$cuda_headers/nccl.h" ] && ! [ "$cuda_headers/nccl.h" -ef "$nccl_headers/nccl.h" ]; then
        [ ! -e "$nccl_headers/cuda_runtime.h" ] ||
            missing "$cuda_headers and $nccl_headers both hold CUDA and NCCL. Either of these fixes it:" \
                "set NCCL_HOME to CUDA's folder, to use both from there" "set NCCL_HOME to a folder of NCCL alone"
        cublas="$nccl $cublas"
    fi
    "$nvcc" -x cu -E /dev/null >"$work/log" 2>&1 ||
        missing "$nvcc cannot use the C++ compiler here: $(grep -m 1 -iE 'error|no such' "$work/log" || tail -n 1 "$work/log"). Any one of these fixes it:" \
            "install g++ (apt: g++, dnf: gcc-c++, conda: gxx)" \
            "export NVCC_PREPEND_FLAGS='-ccbin g++-11', or another g++ that this nvcc knows (CUDA 11.8: up to 11, 12.0: up to 12)" \
            "build for the CPU device instead: run make with DEVICE=cpu"
    generations=$(generations) ||
        missing "${nvcc:-nvcc} --list-gpu-arch names no GPU of compute capability 6.0 or later. Any one of these fixes it:" \
            "load another CUDA module (11.8 or later), or set CUDA_HOME to its folder" \
            "build for the CPU device instead: run make with DEVICE=cpu"
    # CUDA 12.8 and later would warn that a future version drops GPUs before 7.5.
    printf 'GENERATIONS := %s -Wno-deprecated-gpu-targets\n' "$generations"
    # Object files made by nvcc need the C++ library.
    printf 'LIB_FLAGS := %s %s %s -lstdc++\nNCCL_FLAGS := %s\n' "$cublas" "$base" "$zlib" "$nccl"
    exit
fi

# oneDNN has fast kernels for x86-64 only. The number of its threads can be limited if it is built with OpenMP.
# PRODUCTS=cblas skips oneDNN.
if echo __x86_64__ | ${CC:-cc} -E -P - | grep -qx 1 && [ "${PRODUCTS:-}" != cblas ]; then
    base=-lgomp
    onednn=$(find_in -ldnnl dnnl.h 'sizeof(char[DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP ? 1 : -1]) + (size_t)dnnl_sgemm % 2' \
        CONDA_PREFIX /usr) && printf 'LIB_FLAGS := -DWITH_ONEDNN %s %s %s\n' "$onednn" "$base" "$zlib" && exit
    base=''
    echo 'MISSING := oneDNN'
fi

# OpenBLAS built with OpenMP shares its threads with our loops, so it is tried first. Debian keeps it in a separate
# folder, and Fedora gives it another name.
sgemm='(size_t)cblas_sgemm % 2'
for multiarch in /usr/lib/*/openblas-openmp; do
    name=$(basename "$(dirname "$multiarch")")
    flags="-I/usr/include/$name/openblas-openmp -L$multiarch -Wl,-rpath,$multiarch -lopenblas"
    [ -d "$multiarch" ] && try "$flags" cblas.h "$sgemm" && blas=$flags && break
done
try "-I/usr/include/openblas -lopenblaso" cblas.h "$sgemm" && : "${blas:=-I/usr/include/openblas -lopenblaso}"
: "${blas:=$(find_in -lopenblas cblas.h "$sgemm" OPENBLAS_HOME EBROOTOPENBLAS CONDA_PREFIX /usr)}"
if [ -z "$blas" ]; then
    blas=$(find_in -lcblas cblas.h "$sgemm" /usr || find_in -lblas cblas.h "$sgemm" /usr) ||
        missing "neither oneDNN nor a CBLAS library (cblas.h, -lopenblas) found. Any one of these fixes it:" \
            "tools/deps.sh run (installs oneDNN or OpenBLAS, if you have root access)" \
            "load your site's OpenBLAS module, or set OPENBLAS_HOME to its folder" "conda install onednn, or openblas"
    # libblas may be a link to a fast one. Where no programs run in the folder (noexec), ldd does not say.
    if ldd "$work/probe" >"$work/log" 2>&1 && ! grep -qE 'openblas|blis|mkl' "$work/log"; then
        echo "note: the CPU device uses the reference BLAS, which is several times slower than oneDNN or OpenBLAS." \
            "tools/deps.sh run installs one of them; or load the module of OpenBLAS, or set OPENBLAS_HOME" >&2
        blas="-DREFERENCE_BLAS $blas"
        echo 'MISSING := OpenBLAS'
    fi
fi
printf 'LIB_FLAGS := %s %s\n' "$blas" "$zlib"
