#!/usr/bin/env bats
# Tests of tools/find_libs.sh with simulated toolkits of four headers and four libraries, in the folder layouts of module
# systems, conda-forge and NVIDIA's HPC SDK. Also a test of make, which stores the results of the script.
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    # The script does not see the toolkit of this machine.
    cp "$root"/tools/{begin,find_libs}.sh .
    edit find_libs.sh 's|/usr/local/cuda|/none|'
    unset "${!CUDA@}" "${!NCCL@}" "${!NVHPC@}" "${!EBROOT@}" "${!CONDA@}" "${!OPENBLAS@}" NVCC CC CPATH LIBRARY_PATH
    unset DEVICE CFLAGS BUILD WERROR ARCH
}

library() { # NAME INCLUDE LIB: its header, and a library that defines the function which the script asks for
    local header function base=''
    case $1 in
    cudart) header=cuda_runtime.h function=cudaDeviceSynchronize ;;
    cublas) header=cublas_v2.h function=cublasCreate base='#include <cuda_runtime.h>' && library cublasLt "${@:2}" ;;
    cublasLt) header=cublasLt.h function=cublasLtCreate base='#include <cublas_v2.h>' ;;
    nccl) header=nccl.h function=ncclGetVersion base='#include <cuda_runtime.h>' ;;
    esac
    mkdir -p "$2" "$3"
    printf '%s\n' '#pragma once' "$base" "int $function();" >"$2/$header"
    echo "int $function() { return 0; }" | cc -shared -fPIC -x c - -o "$3/lib$1.so"
}

nvcc() { # PATH GENERATION...: one that only lists generations
    mkdir -p "$(dirname "$1")"
    printf '#!/bin/sh\nprintf "compute_%%s\\n" %s\n' "${*:2}" >"$1"
    chmod +x "$1"
}

find_libs() { # NAME=VALUE...
    run --separate-stderr env "$@" sh find_libs.sh gpu
    [ "$status" = 0 ] || { echo "$stderr" && return 1; }
}

finds() { # LIBRARY INCLUDE LIB: with the header in this folder and the library in that one
    grep -qF -- "-I$PWD/$2 -L$PWD/$3 -Wl,-rpath,$PWD/$3 -l$1" <<<"$output" || {
        printf '%s\n' "wanted $1 in $2 and $3" "$output" "$stderr"
        return 1
    }
}

@test "NCCL_HOME, NCCL_ROOT and EBROOTNCCL come before the NCCL in the CUDA folder" {
    nvcc cuda/bin/nvcc 90
    for name in cudart cublas nccl; do
        library $name cuda/include cuda/lib64
    done
    library nccl apart/include apart/lib
    find_libs CUDA_HOME="$PWD/cuda" NVCC="$PWD/cuda/bin/nvcc"
    finds nccl cuda/include cuda/lib64
    for variable in NCCL_HOME NCCL_ROOT EBROOTNCCL; do
        find_libs CUDA_HOME="$PWD/cuda" NVCC="$PWD/cuda/bin/nvcc" $variable="$PWD/apart"
        finds cudart cuda/include cuda/lib64
        finds cublas cuda/include cuda/lib64
        finds nccl apart/include apart/lib
        [ -z "$stderr" ]
    done
    rm cuda/include/nccl.h
    find_libs PATH="$PWD/cuda/bin:$PATH" NCCL_HOME="$PWD/apart" # the path of nvcc shows where CUDA is
    finds nccl apart/include apart/lib
}

@test "CUDA's folder decides which CUDA is linked, and NCCL's which NCCL, whatever else they hold" {
    nvcc cuda/bin/nvcc 90
    export CUDA_HOME=$PWD/cuda NCCL_HOME=$PWD/nccl NVCC=$PWD/cuda/bin/nvcc
    cuda="-I$CUDA_HOME/include -L$CUDA_HOME/lib64"
    for name in cudart cublas; do
        library $name cuda/include cuda/lib64
        library $name nccl/include nccl/lib # NCCL's folder holds another CUDA
    done
    library nccl nccl/include nccl/lib
    find_libs
    [[ $output == *"LIB_FLAGS := $cuda "* ]]
    finds nccl nccl/include nccl/lib
    library nccl cuda/include cuda/lib64
    run ! sh find_libs.sh gpu
    [[ $output == "error: $CUDA_HOME/include and $NCCL_HOME/include both hold CUDA and NCCL. "* ]]
    rm nccl/*/*cu{da,blas}*
    find_libs # CUDA's folder holds another NCCL, so NCCL's comes first
    [[ $output == *"LIB_FLAGS := -I$NCCL_HOME/include -L$NCCL_HOME/lib "* ]]
}

# A row has the folder of nvcc, and those of the headers and the libraries of cudart, cublas and nccl.
@test "the libraries of conda-forge and of NVIDIA's HPC SDK are found through the path of nvcc" {
    while read -r bin cudart cublas nccl; do
        nvcc "$bin/nvcc" 90
        library cudart "${cudart%:*}" "${cudart#*:}"
        library cublas "${cublas%:*}" "${cublas#*:}"
        library nccl "${nccl%:*}" "${nccl#*:}"
        find_libs CONDA_PREFIX="$PWD/conda" PATH="$PWD/$bin:$PATH"
        finds cudart "${cudart%:*}" "${cudart#*:}"
        finds cublas "${cublas%:*}" "${cublas#*:}"
        finds nccl "${nccl%:*}" "${nccl#*:}"
        rm -r conda sdk 2>/dev/null || true
    done <<'END'
conda/bin conda/targets/sbsa-linux/include:conda/targets/sbsa-linux/lib conda/targets/sbsa-linux/include:conda/targets/sbsa-linux/lib conda/include:conda/lib
sdk/compilers/bin sdk/cuda/include:sdk/cuda/lib64 sdk/math_libs/include:sdk/math_libs/lib64 sdk/comm_libs/nccl/include:sdk/comm_libs/nccl/lib
sdk/cuda/12.4/bin sdk/cuda/12.4/include:sdk/cuda/12.4/lib64 sdk/math_libs/12.4/include:sdk/math_libs/12.4/lib64 sdk/comm_libs/nccl/include:sdk/comm_libs/nccl/lib
END
}

@test "make builds for the first GPU of each generation that nvcc lists, and PTX of the last" {
    library cudart cuda/include cuda/lib64
    library cublas cuda/include cuda/lib64
    nvcc cuda/bin/nvcc 35 50 60 61 62 70 75 80 86 90 100 110 103 120 # in nvcc's own order
    find_libs NVCC="$PWD/cuda/bin/nvcc"
    for generation in 60 70 80 90 100 110 120; do
        flags+="-gencode arch=compute_$generation,code=sm_$generation "
    done
    [[ $output == *"GENERATIONS := $flags-gencode arch=compute_120,code=compute_120 "* ]]
}

@test "if nvcc finds no C++ compiler, the message names the reason and a fix" {
    library cudart cuda/include cuda/lib64
    library cublas cuda/include cuda/lib64
    nvcc cuda/bin/nvcc 90
    edit cuda/bin/nvcc '2i [ "$1" = --list-gpu-arch ] || { echo "ERROR: No supported gcc/g++ host compiler found" >&2; exit 1; }'
    run --separate-stderr env NVCC="$PWD/cuda/bin/nvcc" sh find_libs.sh gpu
    [ "$status" = 1 ]
    [[ ${stderr_lines[0]} == "error: $PWD/cuda/bin/nvcc cannot use the C++ compiler here: ERROR: No supported gcc/g++ host compiler found. "* ]]
    [[ ${stderr_lines[1]} == "  - install g++ (apt: g++, "* ]]
}

# searches COMMAND...: make must have searched for the libraries, without a note in its output.
searches() {
    rm -f searched
    "$@" 2>err && [ -e searched ]
}

@test "make looks for libraries again if one was missing or the search variables change" {
    copy_tree tree
    cd tree
    # This find_libs.sh leaves a mark, and finds NCCL in the folder that the file nccl names.
    cat >tools/find_libs.sh <<'END'
touch searched
echo "LIB_FLAGS :="
if [ -e nccl ]; then echo "NCCL_FLAGS := -I$(cat nccl)"; else echo "MISSING := NCCL"; fi
END
    chmod +x tools/find_libs.sh
    flags() { cat build/cpu/flags; }
    searches make DEVICE=cpu build/cpu/flags
    searches make DEVICE=cpu build/cpu/flags # as NCCL is missing
    [[ $(flags) != *-I/opt/nccl* ]]
    echo /opt/nccl >nccl
    searches make DEVICE=cpu build/cpu/flags
    [[ $(flags) == *-I/opt/nccl* ]]
    run ! searches make DEVICE=cpu build/cpu/flags
    for variable in CUDA_HOME NCCL_HOME EBROOTNCCL NVHPC_ROOT CONDA_PREFIX OPENBLAS_HOME CPATH; do
        searches env $variable=/opt/new make DEVICE=cpu build/cpu/flags || { echo "not for $variable" && return 1; }
        searches make DEVICE=cpu build/cpu/flags # as the variable is gone
    done
    run ! searches make DEVICE=cpu build/cpu/flags
    searches make DEVICE=cpu CC=gcc build/cpu/flags
    echo '[ -e second ] || { touch second; make DEVICE=cpu CC=gcc build/cpu/flags >&2; }' >>tools/find_libs.sh
    searches make DEVICE=cpu CC=gcc build/cpu/flags # and another make searches meanwhile
    [ "$(echo build/cpu/libs.mk*)" = build/cpu/libs.mk ]
}

@test "the reference BLAS is named if the linker takes it, and if ldd can tell" {
    mkdir bin
    printf '#!/bin/sh\ncase "$*" in *openblas* | *cblas* | *-E*) exit 1 ;; esac\n' >bin/cc
    chmod +x bin/cc
    while read -r notes line; do
        printf '#!/bin/sh\n%s\n' "$line" >bin/ldd
        chmod +x bin/ldd
        run --separate-stderr env PATH="$PWD/bin:$PATH" sh find_libs.sh cpu
        [ "$(grep -c 'reference BLAS' <<<"$stderr")" = "$notes" ] || { echo "$line: $stderr" && return 1; }
    done <<'END'
1 echo libblas.so.3
0 echo libopenblas.so.0
0 false
END
}
