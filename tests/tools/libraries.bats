#!/usr/bin/env bats
# Tests of tools/find_libs.sh with simulated toolkits of three headers and three libraries, in the folder layouts of module
# systems, conda-forge and NVIDIA's HPC SDK. Also tests of make, which stores the results of the script.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    # The script does not see the toolkit of this machine.
    cp "$root/tools/find_libs.sh" .
    edit find_libs.sh 's|/usr/local/cuda|/none|'
    unset "${!CUDA@}" "${!NCCL@}" "${!NVHPC@}" "${!EBROOT@}" "${!CONDA@}" "${!OPENBLAS@}" NVCC CC CPATH LIBRARY_PATH
    unset MAKEFLAGS MFLAGS MAKELEVEL DEVICE CFLAGS BUILD WERROR ARCH
}

library() { # NAME INCLUDE LIB [VERSION]: its header, and a library that defines the function which the script asks for
    local header function base=''
    case $1 in
    cudart) header=cuda_runtime.h function=cudaDeviceSynchronize ;;
    cublas) header=cublas_v2.h function=cublasCreate base='#include <cuda_runtime.h>' && library cublasLt "${@:2}" ;;
    cublasLt) header=cublasLt.h function=cublasLtCreate base='#include <cublas_v2.h>' ;;
    nccl) header=nccl.h function=ncclGetVersion base='#include <cuda_runtime.h>' ;;
    esac
    mkdir -p "$2" "$3"
    printf '%s\n' '#pragma once' "$base" "int $function();" "#define ${1}_header \"${4:-}\"" >"$2/$header"
    echo "int $function() { return 0; }" | cc -shared -fPIC -x c - -Wl,-soname,"lib$1.so${4:+.$4}" -o "$3/lib$1.so"
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

# builds_with CUDA NCCL: make must take the headers and the libraries of these versions.
builds_with() {
    rm -rf build
    make -s DEVICE=gpu PROGRAMS=probe/probe COMMON_MODULES=build/gpu/common/device/driver.o STEPS_MODULES= build/gpu/probe/probe || return
    diff <(readelf -dW build/gpu/probe/probe | sed -nE 's/.*NEEDED.*\[lib((cu|nc).*)\]/\1/p' | sort) \
        <(printf '%s\n' cublas.so."$1" cublasLt.so."$1" cudart.so."$1" nccl.so."$2" | sort)
    readelf -p .rodata build/gpu/probe/probe | grep -q "headers $1 $1 $2" || {
        readelf -p .rodata build/gpu/probe/probe | grep headers
        return 1
    }
}

@test "CUDA's folder decides which CUDA is linked, and NCCL's which NCCL, whatever else they hold" {
    copy_tree tree
    cd tree
    cp ../find_libs.sh tools/
    nvcc cuda/bin/nvcc 90
    mkdir probe
    for name in cudart cublas; do
        library $name cuda/include cuda/lib64 12
    done
    library nccl nccl/include nccl/lib 2
    cat >probe/probe.c <<'END'
#include <cublasLt.h>
#include <nccl.h>
#include <stdio.h>
int main(void) {
    return puts("headers " cudart_header " " cublas_header " " nccl_header) + cublasCreate() + cublasLtCreate() + cudaDeviceSynchronize() + ncclGetVersion();
}
END
    export CUDA_HOME=$PWD/cuda NCCL_HOME=$PWD/nccl
    builds_with 12 2 # each holds one
    for name in cudart cublas; do
        library $name nccl/include nccl/lib 13
    done
    builds_with 12 2 # NCCL's folder holds another CUDA
    library nccl cuda/include cuda/lib64 1
    run --separate-stderr sh tools/find_libs.sh gpu
    [ "$status" = 1 ]
    [[ ${stderr_lines[0]} == "error: $CUDA_HOME/include and $NCCL_HOME/include both hold CUDA and NCCL. "* ]]
    rm nccl/*/*cu{da,blas}*
    builds_with 12 2 # CUDA's folder holds another NCCL
    NCCL_HOME=$CUDA_HOME
    builds_with 12 1
}

@test "conda-forge's CUDA and NCCL are found, on x86 and on Arm" {
    for target in x86_64-linux sbsa-linux; do
        nvcc $target/bin/nvcc 90
        library cudart $target/targets/$target/include $target/targets/$target/lib
        library cublas $target/targets/$target/include $target/targets/$target/lib
        library nccl $target/include $target/lib
        find_libs CONDA_PREFIX="$PWD/$target" PATH="$PWD/$target/bin:$PATH"
        finds cudart $target/targets/$target/include $target/targets/$target/lib
        finds cublas $target/targets/$target/include $target/targets/$target/lib
        finds nccl $target/include $target/lib
    done
}

@test "the libraries of NVIDIA's HPC SDK are found, for the CUDA version of nvcc" {
    library cudart sdk/cuda/12.4/include sdk/cuda/12.4/targets/x86_64-linux/lib
    library cudart sdk/cuda/include sdk/cuda/lib64
    library cublas sdk/math_libs/include sdk/math_libs/lib64
    library cublas sdk/math_libs/12.4/include sdk/math_libs/12.4/lib64
    library nccl sdk/comm_libs/nccl/include sdk/comm_libs/nccl/lib
    nvcc sdk/compilers/bin/nvcc 90
    nvcc sdk/cuda/12.4/bin/nvcc 90
    for variable in NVHPC_ROOT="$PWD/sdk" NVHPC_ROOT=; do # the module's, and nvcc in PATH alone
        find_libs "$variable" PATH="$PWD/sdk/compilers/bin:$PATH"
        finds cudart sdk/cuda/include sdk/cuda/lib64
        finds cublas sdk/math_libs/include sdk/math_libs/lib64
        finds nccl sdk/comm_libs/nccl/include sdk/comm_libs/nccl/lib
        find_libs "$variable" PATH="$PWD/sdk/cuda/12.4/bin:$PATH"
        finds cudart sdk/cuda/12.4/include sdk/cuda/12.4/targets/x86_64-linux/lib
        finds cublas sdk/math_libs/12.4/include sdk/math_libs/12.4/lib64
        finds nccl sdk/comm_libs/nccl/include sdk/comm_libs/nccl/lib
    done
}

# builds_for GENERATION...: if nvcc lists the generations on stdin, make must build code for these, and PTX of the last.
builds_for() {
    local listed generation last flags
    mapfile -t listed
    nvcc cuda/bin/nvcc "${listed[@]}"
    find_libs NVCC="$PWD/cuda/bin/nvcc"
    for generation; do
        flags+="-gencode arch=compute_$generation,code=sm_$generation "
        last=$generation
    done
    diff <(grep -o 'GENERATIONS := .*-gencode [^ ]*' <<<"$output") \
        <(echo "GENERATIONS := $flags-gencode arch=compute_$last,code=compute_$last")
}

@test "CUDA 11.8, 12.4, 12.8 and 13.0 build for the first GPU of each generation" {
    library cudart cuda/include cuda/lib64
    library cublas cuda/include cuda/lib64
    builds_for 60 70 80 90 <<<"35 37 50 52 53 60 61 62 70 72 75 80 86 87 89 90"
    builds_for 60 70 80 90 <<<"50 52 53 60 61 62 70 72 75 80 86 87 89 90"
    builds_for 60 70 80 90 100 120 <<<"50 52 53 60 61 62 70 72 75 80 86 87 89 90 100 101 120"
    builds_for 75 80 90 100 110 120 <<<"75 80 86 87 88 89 90 100 110 103 120 121" # in nvcc's own order
}

@test "if nvcc finds no C++ compiler, the message names the reason and a fix" {
    library cudart cuda/include cuda/lib64
    library cublas cuda/include cuda/lib64
    mkdir -p cuda/bin
    cat >cuda/bin/nvcc <<'END'
#!/bin/sh
[ "$1" = --list-gpu-arch ] && echo compute_90 && exit
printf '%s\n' "In file included from cuda_runtime.h:82:" "$REASON" "nvcc fatal   : Failed to preprocess" >&2
exit 1
END
    chmod +x cuda/bin/nvcc
    for reason in "gcc: fatal error: cannot execute 'cc1plus'" "ERROR: No supported gcc/g++ host compiler found" \
        "gcc: No such file or directory" "nvcc fatal   : Failed to preprocess"; do
        run --separate-stderr env REASON="$reason" NVCC="$PWD/cuda/bin/nvcc" sh find_libs.sh gpu
        [ "$status" = 1 ]
        [[ ${stderr_lines[0]} == "error: $PWD/cuda/bin/nvcc cannot use the C++ compiler here: $reason. "* ]]
    done
    [[ ${stderr_lines[1]} == "  - install g++ (apt: g++, "* ]]
    [[ ${stderr_lines[2]} == *"-ccbin g++-11'"* ]]
    [[ ${stderr_lines[3]} == *"DEVICE=cpu"* ]]
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
    for variable in CUDA_HOME NCCL_HOME NCCL_ROOT EBROOTNCCL EBROOTOPENBLAS NVHPC_ROOT CONDA_PREFIX OPENBLAS_HOME CPATH; do
        searches env $variable=/opt/new make DEVICE=cpu build/cpu/flags || { echo "not for $variable" && return 1; }
        searches make DEVICE=cpu build/cpu/flags # as the variable is gone
    done
    run ! searches make DEVICE=cpu build/cpu/flags
    searches make DEVICE=cpu CC=gcc build/cpu/flags
}

@test "a compiler that rejects the course's flags is named, and the message suggests a fix" {
    copy_tree tree
    cd tree
    cat >nvc <<'END'
#!/bin/sh
case " $* " in *" -fno-math-errno "*) echo "nvc-Error-Unknown switch: -fno-math-errno" >&2 && exit 1 ;; esac
exec cc "$@"
END
    chmod +x nvc
    run --separate-stderr make DEVICE=cpu CC="$PWD/nvc" step1
    [ "$status" = 2 ]
    [[ ${stderr_lines[0]} == "error: $PWD/nvc does not compile: nvc-Error-Unknown switch: -fno-math-errno. "* ]]
    [[ ${stderr_lines[1]} == "  - run make with CC=gcc,"* ]]
}
