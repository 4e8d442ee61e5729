#!/usr/bin/env bats
# Tests of tools/doctor.sh on a simulated machine. PATH holds stand-ins for missing programs. By default, the machine is a
# healthy node of a cluster. Each row of a table says what is missing or wrong, and which line the doctor must print.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

needed='awk basename bash cat chmod cut df dirname env fold grep gzip head ldd ls make mktemp nproc paste readlink rm sed sleep
    sort stty tail timeout tr wc'

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    mkdir toolkit toolkit/{bin,include,lib64} bin
    for program in $needed; do
        ln -s "$(path_of "$program")" "bin/$program"
    done
    # This compiler finds everything, and its program prints the versions of NCCL.
    stand_in bin/cc <<'SCRIPT'
[ "$1" = --version ] && echo 'cc 12.2.0' && exit
until [ "$1" = -o ]; do shift; done
printf '#!/bin/sh\necho 2.27.7 2.27.7\n' >"$2"
chmod +x "$2"
SCRIPT
    stand_in toolkit/bin/nvcc <<'SCRIPT'
case $1 in
--version) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;
--list-gpu-arch) printf 'compute_%s\n' 75 80 90 100 ;;
esac
SCRIPT
    # The query is the name of the file with the answer.
    stand_in bin/nvidia-smi <<'SCRIPT'
case ${1:-smi} in
--query-gpu=*) cat gpus ;;
smi) cat smi ;;
esac
SCRIPT
    stand_in bin/getent <<'SCRIPT'
sed -n "s/ $2\$/ STREAM $2/p" hosts | grep .
SCRIPT
    stand_in bin/ip <<'SCRIPT'
[ "$2" != -4 ] || cat interfaces
SCRIPT
    shm 8388608
    stand_in bin/uname <<'SCRIPT'
[ "$1" = -n ] && echo gpu07 || echo x86_64
SCRIPT
    echo 'int cublasCreate(void *);' >toolkit/include/cublas_v2.h
    echo 'int cudaDeviceSynchronize(void);' >toolkit/include/cuda_runtime.h
    echo 'int cublasCreate(void *p) { return !p; }' | cc -shared -fPIC -x c - -o toolkit/lib64/libcublas.so
    cp toolkit/lib64/libcublas.so toolkit/lib64/libcublasLt.so
    echo 'int cudaDeviceSynchronize(void) { return 0; }' | cc -shared -fPIC -x c - -o toolkit/lib64/libcudart.so
    ar -rc toolkit/lib64/libstdc++.a # the real one comes with g++, which nvcc needs, and which may not be here
    nccl toolkit 2 27 7 22707
}

stand_in() { # NAME, with its script on stdin
    rm -f "$1" # it may be a link to the real one
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}

shm() { # KILOBYTES of /dev/shm, all free
    stand_in bin/df <<<"echo Filesystem blocks Used Available; echo shm $1 0 $1"
}

program() { # SOURCE FLAG...: a program of step 4
    echo "$1" | cc -x c - -Ltoolkit/lib64 "${@:2}" -o 04_multinode/train
}

compile_for_real() {
    local program
    for program in cc as ld; do
        ln -sf "$(path_of "$program")" bin/
    done
}

# nccl FOLDER MAJOR MINOR PATCH CODE: makes an NCCL with this header, and a library that returns CODE as its version.
nccl() {
    mkdir -p "$1/include" "$1/lib64"
    printf '#define NCCL_%s %s\n' MAJOR "$2" MINOR "$3" PATCH "$4" VERSION_CODE $(($2 * 10000 + $3 * 100 + $4)) \
        >"$1/include/nccl.h"
    echo 'int ncclGetVersion(int *);' >>"$1/include/nccl.h"
    echo "int ncclGetVersion(int *v) { if (v) *v = $5; return 0; }" | cc -shared -fPIC -x c - -o "$1/lib64/libnccl.so"
}

setup() { # makes the simulated machine, also anew
    mkdir -p "$BATS_TEST_TMPDIR/machine"
    cd "$BATS_TEST_TMPDIR/machine" || return
    rm -rf ./*
    cp -r "$BATS_FILE_TMPDIR"/{bin,toolkit} .
    mkdir -p tools 01_single_gpu 04_multinode build
    cp "$root"/tools/{doctor,find_libs}.sh tools/
    edit tools/doctor.sh "s|^cuda=.*|cuda=$PWD/none|" "s|^nvidia=.*|nvidia=$PWD/nvidia|" \
        "s|^infiniband=.*|infiniband=$PWD/infiniband|" "s|/\.dockerenv|$PWD/docker|"
    edit tools/find_libs.sh 's|/usr/local/cuda|/none|'
    ln -s ../toolkit/bin/nvcc bin/nvcc
    printf '%s, 81559 MiB, 580.65.06, 9.0\n' 'NVIDIA H100' 'NVIDIA H100' >gpus
    echo '| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0 |' >smi
    printf '%s\n' '10.1.0.7 gpu07' '10.1.0.1 gpu01' '127.0.0.1 localhost' >hosts
    printf '%s\n' '1: lo inet 127.0.0.1/8' '2: ens3 inet 10.1.0.7/24' '3: ib0 inet 10.9.0.7/24' >interfaces
    tiny_data data/mnist
    gzip data/mnist/*
}

# doctor [NAME=VALUE...]: runs doctor.sh on the simulated machine with only these variables. The exit code fits the output,
# which has no message of bash itself.
doctor() {
    run env -i PATH="$PWD/bin" "$@" bash tools/doctor.sh
    [[ $output != *": line "[0-9]* ]] &&
        [ "$status" = "$(grep -q '^FAIL  ' <<<"$output" && echo 1 || echo 0)" ]
}

says() { # WORD CHECK TEXT...: the line of this check begins with the word, which may be "-", and has these texts
    local text line
    line=$(grep "^$(printf '%s  %-13s  ' "${1#-}" "$2")" <<<"$output") || return
    for text in "${@:3}"; do
        [[ $line == *"$text"* ]] || return
    done
}

# Reads rows "PREPARATION @ VARIABLES @ WORD CHECK @ TEXT @ TEXT...": after the preparation, doctor.sh runs with these
# variables, and prints this word and these texts for the check. Where both are empty, the row is about the last run. A row
# "FAIL 1" wants one line with FAIL. A preparation that begins with "anew" leaves nothing of the one before.
each_finding() {
    local prepare variables wanted texts word check fields
    while IFS='@' read -r prepare variables wanted texts; do
        read -r word check <<<"$wanted"
        mapfile -t fields < <(sed 's/ *@ */\n/g; s/^ //' <<<"$texts")
        {
            if [ -n "${prepare// }$variables" ]; then
                [[ $prepare != anew* ]] || setup
                eval "${prepare#anew}" && eval "doctor $variables"
            fi && case $check in
            [0-9]) [ "$(grep -c "^$word  " <<<"$output")" = "$check" ] ;;
            *) says "$word" "$check" "${fields[@]}" ;;
            esac
        } || { printf '%s\n' "not so: $prepare @$variables @$wanted @$texts" "$output" && return 1; }
    done
}

@test "a healthy node with GPUs gets no warning" {
    each_finding <<'END'
compile_for_real @@ WARN 0
@@ FAIL 0
@@ PASS NCCL @ header and library 2.27.7
@@ PASS driver @ 580.65.06, for CUDA up to 13.0
@@ PASS GPUs @ 2 x NVIDIA H100, 81559 MiB
@@ PASS network @ of the interfaces lo ens3 ib0, NCCL uses ib0, 10.9.0.7
@@ - GPU @ steps 1 4, with up to 2 ranks on this node
@@ - several nodes @ steps 4, with a launcher on each
END
    [ "${lines[0]}" = gpu07: ]
}

@test "on this machine, the table has a line for each check" {
    run "$root/tools/doctor.sh"
    [ "$status" -le 1 ]
    says - 'CPU device'
    says - 'several nodes' 'steps 4 5 6 7'
    for check in 'C compiler' make BLAS nvcc programs driver cores /dev/shm 'locked memory' 'open files' network \
        'host name' job container data; do
        grep -Eq "^(PASS|WARN|FAIL)  $check  *[^ ]" <<<"$output"
    done
    [ "$(grep -cvE '^(PASS|WARN|FAIL|    )  .{13}  [^ ]|^  (GPU|CPU device|several nodes)  |What can run here:$|^[^ ]+:$|^$' \
        <<<"$output")" = 0 ]
}

@test "the compiler, the libraries and the programs: each fault is reported with a fix" {
    # shellcheck disable=SC2034 # used in the rows
    local needs_nccl='int ncclGetVersion(int *); int main(void) { return ncclGetVersion(0); }'
    each_finding <<'END'
rm -r bin/{cc,make,nvcc,nvidia-smi,ip,getent,ldd} data @@ FAIL C compiler @ cc not found @ tools/deps.sh run
@@ FAIL make @ not found
@@ WARN data @ make data
@@ - CPU device @ nothing
@@ FAIL 3
stand_in bin/strange <<<"echo 'fatal error: stdio.h: No such file' >&2; exit 1" @ CC=strange @ FAIL C compiler @ stdio.h: No such file @ libc6-dev
anew ln -s ../build/gone 04_multinode/train @@ WARN programs @ 04_multinode/train is a link to a missing file @ make step4
anew mv toolkit/lib64/libnccl.so toolkit/lib64/libgone.so; program "$needs_nccl" -lgone @@ FAIL programs @ libgone.so => not found @ slurm/site.sh
anew compile_for_real; rm bin/nvcc @@ WARN nvcc @ not found @ CUDA module
@@ - GPU @ nothing, until
rm toolkit/lib64/libcublas.so @ CUDA_HOME="$PWD/toolkit" @ FAIL nvcc @ cuBLAS and the CUDA runtime @ not found @ CUDA module
anew compile_for_real; mv toolkit/include/nccl.h . @@ WARN NCCL @ not found @ NCCL_HOME
@@ - GPU @ steps 1, with
mv nccl.h toolkit/include/; nccl older 2 18 3 21803 @ LD_LIBRARY_PATH="$PWD/older/lib64" @ FAIL NCCL @ the header is 2.27.7 @ load the library 2.18.3 @ LD_LIBRARY_PATH
nccl old 2 18 3 21803 @ NCCL_HOME="$PWD/old" @ FAIL NCCL @ the header is 2.18.3 @ 2.18.5 or later @ NCCL_HOME
END
}

@test "the driver and the GPUs: each fault is reported with a fix" {
    each_finding <<'END'
sed -i 's/CUDA Version: 13.0/CUDA Version: 12.4/' smi @@ FAIL driver @ CUDA 12.4 and older, but nvcc is 13.0 @ CUDA module of 12.x
@@ - GPU @ nothing, until
anew rm bin/nvidia-smi; touch nvidia @@ FAIL driver @ nvidia-smi is not found
@ APPTAINER_CONTAINER=/images/tutorial.sif @ FAIL driver @ not in this container (/images/tutorial.sif) @ start it with --nv
anew stand_in bin/nvidia-smi <<<'echo "Driver/library version mismatch"; exit 18' @@ FAIL driver @ Driver/library version mismatch @ reboot
stand_in bin/nvidia-smi <<<'echo "No devices were found"; exit 6' @ SLURM_JOB_ID=7 @ FAIL driver @ No devices were found @ --gpus-per-node
stand_in bin/nvidia-smi <<<'exec sleep 1000' @@ FAIL driver @ does not answer @ another node
anew @ CUDA_VISIBLE_DEVICES= @ FAIL GPUs @ shows 0 @ unset CUDA_VISIBLE_DEVICES
@ CUDA_VISIBLE_DEVICES=1 @ - GPU @ up to 1 rank on
echo 'Tesla V100, 16384 MiB, 580.65.06, 7.0' >>gpus @@ FAIL GPUs @ 81559 MiB; 1 x Tesla V100, 16384 MiB @ builds for 7.5 and later @ older CUDA
END
}

@test "a node with too little of something is reported" {
    each_finding <<'END'
shm 65536 @@ WARN /dev/shm @ 64 MB free of 64 MB @ remount
touch docker; shm 16384 @@ FAIL /dev/shm @ 16 MB free of 16 MB @ --shm-size=1g
stand_in bin/nproc <<<'[ $# = 1 ] && echo 64 || echo 1' @@ WARN cores @ only 1 of 64 @ --cpus-per-task
ulimit -S -l 64; ulimit -S -n 256 @@ WARN open files @ at most 256 @ ulimit -n 4096
mkdir -p infiniband/mlx5_0 @@ WARN locked memory @ InfiniBand (mlx5_0) @ ulimit -l unlimited
END
}

@test "the network interface that NCCL will use is named, and wrong addresses are reported" {
    each_finding <<'END'
@ NCCL_SOCKET_IFNAME=^ib,lo @ PASS network @ NCCL uses ens3, 10.1.0.7
@ NCCL_SOCKET_IFNAME==ens @ FAIL network @ NCCL_SOCKET_IFNAME==ens names none of the interfaces lo ens3 ib0 @ unset it
@@ - several nodes @ nothing, until
sed -i '2d; s/3: ib0.*/3: docker0 inet 172.17.0.1\/16/' interfaces @@ WARN network @ NCCL uses docker0 @ NCCL_SOCKET_IFNAME
sed -i 2d interfaces @ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 @ FAIL network @ NCCL uses lo @ slurm/site.sh
anew sed -i 's/ib0/hsn0/' interfaces @@ WARN network @ without the plugin aws-ofi-nccl @ docs/nccl.md
anew sed -i 's/.* gpu07/127.0.1.1 gpu07/' hosts @@ WARN host name @ gpu07 is 127.0.1.1 @ MASTER_ADDR=10.9.0.7
@ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 @ FAIL host name @ gpu07 is 127.0.1.1 @ MASTER_ADDR=10.9.0.7
@ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 MASTER_ADDR=gpu01 @ PASS MASTER_ADDR @ gpu01 is 10.1.0.1
@@ - several nodes @ steps 4, on the 2 nodes of this job
@ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 MASTER_ADDR=localhost @ FAIL MASTER_ADDR @ localhost is 127.0.0.1
END
}

@test "Slurm and PBS jobs, schedulers and a Slurm without a cluster are recognised" {
    printf '%s\n' gpu01 gpu01 gpu07 gpu07 >nodefile
    each_finding <<'END'
@ PBS_JOBID=9.server PBS_NODEFILE="$PWD/nodefile" @ PASS job @ PBS job 9.server, nodes: 2, ranks: 4
ln -s bash bin/qsub @@ - several nodes @ pbs/
rm bin/qsub; ln -s bash bin/sbatch; stand_in bin/scontrol <<<"echo 'Slurmctld(primary) at head is UP'" @@ PASS job @ Slurm is installed
@@ - several nodes @ sbatch slurm/step4.sbatch
stand_in bin/scontrol <<<"echo 'scontrol: fatal: no configuration' >&2; exit 1" @@ WARN job @ no Slurm controller answers: scontrol: fatal @ make run-step4
stand_in bin/scontrol <<<'exec sleep 1000' @@ WARN job @ answers: scontrol ping does not answer
@ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_CPUS_ON_NODE=16 SLURM_GPUS_ON_NODE=2 @ PASS job @ Slurm job 7, nodes: 2; here: 16 cores, 2 GPUs
END
    [ "${lines[0]}" = 'gpu07, Slurm job 7:' ]
}

@test "missing and damaged data files are reported" {
    each_finding <<'END'
rm data/mnist/t10k-images-idx3-ubyte.gz @@ FAIL data @ data/mnist/t10k-images-idx3-ubyte.gz is missing @ make data
echo nonsense >data/mnist/t10k-images-idx3-ubyte.gz @@ FAIL data @ data/mnist/t10k-images-idx3-ubyte.gz is damaged @ make data
rm -r data/*; mkdir data/cifar10; touch data/cifar10/data_batch_{1..5}.bin @@ FAIL data @ data/cifar10/test_batch.bin is missing @ make data SET=cifar10
END
}
