#!/usr/bin/env bats
# The programs as they are built for a GPU, with the objects of nvcc, on the CPU device. gpu_build.c says how.
# bats file_tags=test-all
# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

programs=({01_single_gpu,02_multigpu_fork,03_multigpu_launcher,04_multinode,05_fsdp,07_large_models,08_pipeline,09_tensor}/train
    {03_multigpu_launcher,04_multinode}/launch 04_multinode/doctor 06_allreduce_demo/allreduce 07_large_models/generate)

setup_file() {
    local object program
    use_cached_nvcc || skip "nvcc is not installed"
    command -v clang >/dev/null || skip "clang is not installed"
    command -v python3 >/dev/null || skip "python3 is not installed"
    need_train "${programs[@]:1}"
    cd "$root" || return
    tools/find_libs.sh gpu | grep -q '^NCCL_FLAGS := .' || skip "NCCL is not installed"
    # make check-gpu runs the unit tests on a GPU, so they must link with the libraries for it, too.
    make -j2 DEVICE=gpu BUILD=build/test-gpu ARCH=90 WERROR=1 programs unit-tests build/test-gpu/tests/steps/gpu_build.o \
        build/test-gpu/{common/kernels/{,optimizer_},zoo/kernels/{image_,norm_,sequence_}}kernels_on_host.o || return
    for object in build/test-gpu/*/kernels/*_on_host.o; do # in which launches look for kernels, and nothing else
        objcopy --wildcard --localize-symbol='*' "$object" "$BATS_FILE_TMPDIR/${object##*/}" || return
    done
    for program in "${programs[@]}"; do
        mkdir -p "$BATS_FILE_TMPDIR/${program%/*}"
        on_cpu_device "$BATS_FILE_TMPDIR/$program" "build/test-gpu/$program.o" || return
    done
}

setup() {
    unset_job
    set_build
    cd "$BATS_TEST_TMPDIR" || return
    export CPU_DEVICES=4 OMP_NUM_THREADS=1 NCCL_SOCKET_IFNAME=lo KERNELS_RUN=$BATS_FILE_TMPDIR/kernels_run
}

# on_cpu_device PROGRAM OBJECT...: links objects that are built for a GPU.
on_cpu_device() {
    local gpu=$root/build/test-gpu versioned
    # NVIDIA's headers give some functions other names, such as cublasCreate_v2.
    mapfile -t versioned < <(find "$gpu"/{0*,common,watch,zoo} -name '*.o' -exec nm -u {} + |
        sed -n 's/^ *U \(.*\)_v2$/-Wl,--defsym=\1_v2=\1/p' | sort -u)
    set_build
    cc "${@:2}" "$gpu"/{steps,common}.a "$gpu/common/device/fallback.o" "$BATS_FILE_TMPDIR"/*_on_host.o "$gpu/tests/steps/gpu_build.o" \
        -Wl,--wrap=cudaGetDeviceProperties "${versioned[@]}" "$build"/{common,libcpu_device}.a "${libs[@]}" -lstdc++ -ldl -lm -pthread -o "$1"
}

# both STEP RANKS OPTION...: the programs for a GPU and for the CPU device must have the same losses. RANKS is 0 in steps 1
# and 2, which need no launcher.
both() {
    local folder command=()
    [ "$2" = 0 ] || command=("$build/03_multigpu_launcher/launch" --nproc-per-node "$2")
    for folder in "$build" "$BATS_FILE_TMPDIR"; do
        "${command[@]}" "$folder/$1/train" --data "${data:-synthetic}" --hidden "48,40" --batch 120 --max-steps 12 --log-every 1 \
            --lr 0.01 "${@:3}" --csv csv --trace trace.json >out 2>err || { cat err && return 1; }
        cut -d, -f 1-8 csv >"${folder##*/}.csv"
    done
    same_curve test.csv "${BATS_FILE_TMPDIR##*/}.csv"
}

# traced NAME...: the traces of all ranks are valid, and have spans of the stream with these names.
traced() {
    local file name
    python3 -B "$root/tools/trace.py" --check trace*.json
    for file in trace*.json; do
        for name; do
            grep -qE "\"name\":\"${name}[^\"]*\",\"cat\":\"(kernel|collective)\"" "$file" ||
                { echo "$file has no $name" && return 1; }
        done
    done
    rm trace*.json
}

@test "steps 1 to 5 and 7 to 9 have the losses of the CPU device, and profiles and traces" {
    local spans=(gather_batch 'forward 1' softmax_cross_entropy 'backward 3' optimizer_step)
    both 01_single_gpu 0 --profile
    grep '^profile   4 steps timed .* backward' out
    traced "${spans[@]}"
    both 02_multigpu_fork 0 --nproc 3 --profile
    grep '^profile   4 steps timed .* comm' out
    traced "${spans[@]}" ncclAllReduce
    for step in 03_multigpu_launcher 04_multinode 05_fsdp 07_large_models; do
        both $step 3 --profile
        grep '^profile   4 steps timed .* comm' out
        traced "${spans[@]}" nccl
    done
    both 08_pipeline 3 --profile # each rank has a layer
    grep '^profile   4 steps timed .* comm' out
    traced forward backward optimizer_step nccl
    both 09_tensor 4 --tensor 2 --stages 2 --profile
    grep '^profile   4 steps timed .* comm' out
    traced forward backward optimizer_step nccl
}

@test "step 6 sums right, and has a trace" {
    "$BATS_FILE_TMPDIR/06_allreduce_demo/allreduce" --nproc 3 --op all --check-only --trace trace.json >out
    grep '#wrong 0$' out
    traced nccl{AllReduce,AllGather,ReduceScatter}
}

@test "step 4's doctor finds no mistake" {
    "$build/03_multigpu_launcher/launch" --nproc-per-node 2 "$BATS_FILE_TMPDIR/04_multinode/doctor" >out
    [ "$(grep -c '^PASS' out)" = 5 ]
}

@test "generate writes the text of the CPU device, with and without a cache" {
    seq 9000 | head -c 12000 >text
    "$build/01_single_gpu/train" --data text:text --model gpt --layers 1 --heads 2 --width 32 --context 24 --batch 24 \
        --max-steps 4 --snapshot snapshot >/dev/null
    for folder in "$build" "$BATS_FILE_TMPDIR"; do
        "$folder/07_large_models/generate" --snapshot snapshot --tokens 80 --check >"${folder##*/}.txt"
    done
    cmp test.txt "${BATS_FILE_TMPDIR##*/}.txt"
}

@test "every kernel runs, with the losses of the CPU device" {
    local data=small
    tiny_data small 240 20 12 12
    both 01_single_gpu 0 --model resnet --depth 8 --width 8 --augment crop,flip --optimizer adamw --batch 2
    both 01_single_gpu 0 --model cnn --optimizer adadelta --batch 4
    both 01_single_gpu 0 --nesterov 1 --label-smoothing 0.1
    both 07_large_models 2 --model cnn --batch 4 --precision bf16 --accumulate 2 --clip 0.1 --recompute 1
    seq 9000 | head -c 12000 >text
    data=text:text
    gpt="--model gpt --layers 1 --heads 2 --width 32 --context 24 --batch 24 --dropout 0.1"
    both 01_single_gpu 0 $gpt --optimizer adamw
    both 07_large_models 3 $gpt --recompute 1 --accumulate 2
    nm "$root"/build/test-gpu/*/kernels/*kernels.o | sed -nE 's/.* t _ZL?([0-9]+[a-z][^.]*_kernel[^.]*)$/_Z\1/p' | sort >all
    [ "$(wc -l <all)" -gt 25 ]
    sort -u "$KERNELS_RUN" | diff - all
}

@test "an error that a call leaves behind ends the next launch" {
    cp "$root/common/device/device.c" .
    edit device.c 's/if \(recorded\)//' 's/CUDA_CHECK\((cudaEventElapsedTime.*)\);/\1;/'
    read -ra flags <<<"$(sed -n 's/^LIB_FLAGS := //p' "$root/build/test-gpu/libs.mk" | grep -oE -- '-I[^ ]+' | tr '\n' ' ')"
    cc -std=c11 -D_GNU_SOURCE -I"$root" "${flags[@]}" -c device.c
    on_cpu_device changed "$root/build/test-gpu/01_single_gpu/train.o" device.o
    fails 1 "invalid resource handle (cudaErrorInvalidResourceHandle, cudaGetLastError at common/kernels/kernels.cu:" \
        ./changed --data synthetic --max-steps 2 --log-every 1
}
