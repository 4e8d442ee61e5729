#!/usr/bin/env bats
# Tests of the Makefile in copies of the tree: building, rebuilding, cleaning and messages. The folder has a name such as people
# give, with signs that have a meaning for make or the shell.
load ../helpers

# Builds step 1 once for all tests.
setup_file() {
    unset DEVICE CC CFLAGS BUILD
    export tree="Jörg's tree, 100% \$5 #1: a"
    copy_tree "$BATS_FILE_TMPDIR/$tree"
    make -s -C "$BATS_FILE_TMPDIR/$tree" -j2 DEVICE=cpu step1
    use_cached_nvcc || true
}

setup() {
    cp -a "$BATS_FILE_TMPDIR/$tree" "$BATS_TEST_TMPDIR"
    cd "$BATS_TEST_TMPDIR/$tree" || return
    # The tests inherit nothing from a make that runs them but the flags of tests/run.sh, whose objects ccache knows.
    unset DEVICE CC CFLAGS BUILD MNIST_MIRROR
    nvcc=$(ls "$root/build/toolkit/bin/nvcc" 2>/dev/null || true)
}

objects() { # all objects that are newer than the file
    find build -name '*.o' -newer "$1" | sort
}

@test "make without a target lists ten targets, make help-all all of them, and both build nothing" {
    make clean
    run --separate-stderr make
    [ "$status" = 0 ]
    [ -z "$stderr" ]
    [ "$(grep -cE '^make [^ ]+ +[^ ].*' <<<"$output")" = 11 ] # ten, and where the others are
    run --separate-stderr make help-all
    [ "$status" = 0 ]
    [ -z "$stderr" ]
    for target in quickstart stepN run-stepN diffNM check test-all fuzz bench trace-stepN clean; do
        grep -qE "^make $target +[^ ].*" <<<"$output" || { echo "$target is missing" && return 1; }
    done
    [ ! -e build ]
}

@test "make rebuilds only files that have changed, or all if the flags change, and make clean removes them" {
    run make DEVICE=cpu step1
    [ "$status" = 0 ]
    [ "$output" = "" ]
    touch ../before
    make DEVICE=cpu step1
    [ -z "$(find . -newer ../before)" ] # a user who may only read the tree can run this make, too

    touch stamp common/snapshots/snapshot.h
    [ "$(make -j2 DEVICE=cpu step1)" = "compiles into build/cpu (V=1 shows the commands)" ]
    [ "$(objects stamp)" = "$(printf 'build/cpu/%s.o\n' 01_single_gpu/{classify,train} 05_fsdp/{manifest,shards} common/snapshots/{lock,snapshot})" ]
    [ build/cpu/01_single_gpu/train -nt stamp ]

    touch stamp cpu_device/include/cublas_v2.h
    make -j2 DEVICE=cpu step1
    grep -q build/cpu/cpu_device/src/cublas.o <<<"$(objects stamp)"
    grep -q build/cpu/common/models/model.o <<<"$(objects stamp)"
    run ! grep -q build/cpu/common/base/options.o <<<"$(objects stamp)"

    touch stamp
    make -j2 DEVICE=cpu CFLAGS=-O1 step1
    [ "$(objects stamp)" = "$(find build -name '*.o' | sort)" ]

    mkdir -p data/mnist
    touch data/mnist/t10k-labels-idx1-ubyte.gz
    make clean
    [ -e data/mnist/t10k-labels-idx1-ubyte.gz ]
    [ ! -e build ]
    find . \( -type f -o -type l \) ! -path './data/*' ! -name stamp | sort >../after
    copy_tree ../fresh
    (cd ../fresh && find . -type f | sort) | diff - ../after
}

@test "make in the folder of a step builds the step, and knows the targets of the root" {
    for folder in 0*; do
        run make -n -C "$folder" DEVICE=cpu
        [[ $output == *"-C .. step${folder:1:1}"* ]]
    done
    make -C 02_multigpu_fork DEVICE=cpu run-step1 ARGS='--hidden 8 --max-steps 1'
}

need_nvcc_without_gpu() {
    [ -n "$nvcc" ] || skip "nvcc is not installed"
    ! nvidia-smi -L >/dev/null 2>&1 || skip "there is a GPU here"
}

tiny=(--data synthetic --hidden 8 --max-steps 1)

on_cpu_device() { # COMMAND...: it runs there, and says once why
    run --separate-stderr "$@"
    if [ "$status" != 0 ] || [ "$(grep -c '^note  .*no NVIDIA driver.*CPU device' <<<"$output")" != 1 ] ||
        ! grep -q '^device .*CPU device' <<<"$output"; then
        echo "$output" "$stderr" && return 1
    fi
}

@test "with nvcc but no GPU, make stepN builds for both, and the programs run on the CPU device" {
    need_nvcc_without_gpu
    make -j2 ARCH=90 step1 step3
    [ "$(readlink -f 01_single_gpu/train)" = "$PWD/build/gpu/01_single_gpu/train" ]
    on_cpu_device 01_single_gpu/train "${tiny[@]}"
    on_cpu_device 03_multigpu_launcher/launch --nproc-per-node 2 03_multigpu_launcher/train "${tiny[@]}"
    fails 2 --no-such-option 01_single_gpu/train --no-such-option
    run make ARCH=90 step1 step3
    [ "$status" = 0 ]
    [ "$output" = "" ]
    on_cpu_device make ARCH=90 run-step1 ARGS='--hidden 8 --max-steps 1'
    rm -r build/cpu
    fails 1 "DEVICE=cpu after make" 01_single_gpu/train "${tiny[@]}"
}

@test "with nvcc, make quickstart and make doctor build for the CPU device only, or for the GPU that is here" {
    need_nvcc_without_gpu
    printf '#!/bin/sh\n' | tee tools/deps.sh >tools/data.sh
    unset DEVICE
    run make quickstart ARGS='--data synthetic --hidden 8 --batch 2000'
    [ "$status" = 0 ]
    [[ $output == *$'\nepoch 3/3  loss'*"note: this machine has no GPU"*"make step1"* ]]
    run make doctor
    [[ $output == *"PASS  the sum of 1 to "* ]]
    [ ! -e build/gpu ]
    printf '#!/bin/sh\necho GPU 0: H100\n' >../nvidia-smi
    chmod +x ../nvidia-smi
    PATH=$BATS_TEST_TMPDIR:$PATH run make -n quickstart
    [[ $output == *-arch=native* && $output != *-gencode* && $output != *-Icpu_device* ]]
    [ ! -e build/gpu ]
}

@test "make run-step1 takes MNIST, Fashion-MNIST or drawn digits, and says which" {
    mkdir -p data/mnist data/fashion-mnist
    touch data/mnist/train-images-idx3-ubyte.gz.part # of a download that was interrupted
    run --separate-stderr make DEVICE=cpu run-step1 ARGS='--hidden 8 --max-steps 1'
    [ "$status" = 0 ]
    grep -q '^data      data/digits (drawn digits, not MNIST): ' <<<"$output"
    tiny_data data/digits # plain files are found, and stay
    rm data/digits/drawn.txt
    run --separate-stderr make DEVICE=cpu run-step1 ARGS='--hidden 8 --max-steps 1'
    grep -q '^data      data/digits: ' <<<"$output"
    tiny_data data/fashion-mnist
    gzip data/fashion-mnist/train-images-idx3-ubyte
    run --separate-stderr make DEVICE=cpu run-step1 ARGS='--hidden 8 --max-steps 1'
    grep -q '^data      data/fashion-mnist: ' <<<"$output"
    [ "${lines[-1]}" = "stopped after step 1" ]
    tiny_data data/mnist
    run --separate-stderr make DEVICE=cpu run-step1 ARGS='--hidden 8 --max-steps 1'
    grep -q '^data      data/mnist: ' <<<"$output"
}

@test "make quickstart suggests what to do next, and stops if MNIST_MIRROR is wrong" {
    printf '#!/bin/sh\n' >tools/deps.sh # installs nothing
    MNIST_MIRROR=file:///nowhere run --separate-stderr make DEVICE=cpu quickstart
    [ "$status" != 0 ]
    [[ $stderr == *"error: MNIST_MIRROR=file:///nowhere has no correct copy of MNIST"* ]]
    run ! grep -q '^epoch' <<<"$output"
    printf '#!/bin/sh\nexit 6\n' >../curl # no mirror answers
    chmod +x ../curl
    PATH=$BATS_TEST_TMPDIR:$PATH run --separate-stderr make DEVICE=cpu quickstart ARGS='--hidden 8 --batch 2000'
    [ "$status" = 0 ]
    grep -q '^data      data/digits (drawn digits, not MNIST)' <<<"$output"
    grep -q '^epoch 3/3  loss' <<<"$output"
    [[ ${lines[-1]} == 'Next: make exercise' ]]
}

@test "programs choose AVX2 when they begin, and no compiler fuses a multiplication and an addition" {
    # A compiler for another processor knows no such flag.
    printf '#!/bin/sh\ncase " $*" in *" -m"*) exit 1 ;; esac\nexec cc "$@"\n' >other
    chmod +x other
    kernels=({common,zoo}/kernels/cpu_*.c)
    kernels=("${kernels[@]/#/build/other/}") kernels=("${kernels[@]/%.c/.o}")
    make -s -j2 CC=./other DEVICE=cpu BUILD=build/other "${kernels[@]}"
    [ "$(uname -m)" = x86_64 ] || skip "AVX2 is for x86-64"
    run -0 awk '/^[0-9a-f]+ </ { name = $2 } /%ymm/ { print name }' <(objdump -d "${kernels[@]}")
    grep -q '^<run_sgd_step.avx2' <<<"$output"
    run ! grep -v avx2 <<<"$output"
    command -v clang || skip "clang is not installed, and gcc fuses nothing with -std=c11"
    make -s -j2 CC='clang -mfma' DEVICE=cpu BUILD=build/fused build/fused/{common/kernels/cpu_,zoo/kernels/cpu_attention_}kernels.o
    make -s -C cpu_device CC='clang -mfma' BUILD=../build/fused ../build/fused/src/reduce.o
    run ! grep -E 'vfn?m(add|sub)' <(objdump -d build/fused/{common,zoo}/kernels/*.o build/fused/src/reduce.o)
}

# Makes a compiler that does not find this header.
compiler_without() { # HEADER
    cat >without <<END
#!/bin/sh
for word; do
    case \$word in *.c) ! grep -q '<$1>' "\$word" || exit 1 ;; esac
done
exec cc "\$@"
END
    chmod +x without
}

@test "the message about a missing library lists the fixes" {
    while read -r device header more; do
        compiler_without "$header"
        CC=./without PRODUCTS=cblas run --separate-stderr tools/find_libs.sh "$device"
        [ "$status" = 1 ]
        [ -z "$output" ]
        [[ ${stderr_lines[0]} == error:*"($header, "*"found."* ]]
        [[ $stderr == *"  - "*"$more"* ]]
    done <<'END'
cpu cblas.h OPENBLAS_HOME
cpu zlib.h EBROOTZLIB
gpu cublas_v2.h CUDA_HOME
nccl nccl.h NCCL_HOME
END
}

@test "make site refuses a folder that its packages cannot read" {
    fails 1 'error: the packages that make the site read no folder whose path has a %' tools/author/site.sh build/site
}
