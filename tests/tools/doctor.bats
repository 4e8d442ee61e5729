#!/usr/bin/env bats
# Tests of tools/doctor.sh on a simulated machine. PATH holds stand-ins for programs. By default, the machine is a healthy
# node of a cluster. Each row of a table says what is missing or wrong, and which line the doctor must print.
load ../helpers

needed='awk basename bash cat chmod cut df dirname env grep head ldd ls make mktemp nproc paste readlink rm sed sleep sort
    tail timeout tr wc'

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
    stand_in bin/getent <<<'sed -n "s/ $2\$/ STREAM $2/p" hosts | grep .'
    stand_in bin/uname <<<'[ "$1" = -n ] && echo gpu07 || echo x86_64'
    shm 8388608
    touch toolkit/include/{cublas_v2,cuda_runtime,nccl}.h
}

stand_in() { # NAME, with its script on stdin
    rm -f "$1" # it may be a link to the real one
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}

shm() { # KILOBYTES of /dev/shm, all free
    stand_in bin/df <<<"echo Filesystem blocks Used Available; echo shm $1 0 $1"
}

interfaces() { # NAME...: those that are up
    local name number=0
    rm -rf net
    for name; do
        mkdir -p "net/$name"
        echo up >"net/$name/operstate"
        echo $((++number)) >"net/$name/ifindex"
    done
}

setup() { # makes the simulated machine, also anew
    mkdir -p "$BATS_TEST_TMPDIR/machine"
    cd "$BATS_TEST_TMPDIR/machine" || return
    rm -rf ./*
    cp -r "$BATS_FILE_TMPDIR"/{bin,toolkit} .
    mkdir -p tools 01_single_gpu 04_multinode build
    cp "$root"/tools/{begin,doctor,find_libs}.sh tools/
    edit tools/doctor.sh "s|^cuda=.*|cuda=$PWD/none|" "s|^nvidia=.*|nvidia=$PWD/nvidia|" \
        "s|^infiniband=.*|infiniband=$PWD/infiniband|" "s|^net=.*|net=$PWD/net|" "s|/\.dockerenv|$PWD/docker|"
    edit tools/find_libs.sh 's|/usr/local/cuda|/none|'
    ln -s ../toolkit/bin/nvcc bin/nvcc
    printf '%s, 81559 MiB, 580.65.06, 9.0\n' 'NVIDIA H100' 'NVIDIA H100' >gpus
    echo '| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0 |' >smi
    printf '%s\n' '10.1.0.7 gpu07' '10.1.0.1 gpu01' '127.0.0.1 localhost' >hosts
    interfaces lo ens3 ib0
    tiny_data data/mnist
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
true @@ WARN 0
@@ FAIL 0
@@ PASS NCCL @ header and library 2.27.7
@@ PASS driver @ 580.65.06, for CUDA up to 13.0
@@ PASS GPUs @ 2 x NVIDIA H100, 81559 MiB
@@ PASS network @ of the interfaces lo ens3 ib0, NCCL uses ib0
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
    for check in 'C compiler' make BLAS nvcc programs driver cores /dev/shm network \
        job container data; do
        grep -Eq "^(PASS|WARN|FAIL)  $check  *[^ ]" <<<"$output"
    done
    [ "$(grep -cvE '^(PASS|WARN|FAIL|    )  .{13}  [^ ]|^  (GPU|CPU device|several nodes)  |What can run here:$|^[^ ]+:$|^$' \
        <<<"$output")" = 0 ]
}

@test "each fault of the programs, the driver, the data and the node is reported with a fix" {
    each_finding <<'END'
rm -r bin/{cc,make,nvcc,nvidia-smi,getent,ldd} data @@ FAIL C compiler @ cc not found @ tools/deps.sh run
@@ FAIL make @ not found
@@ WARN data @ make data
@@ - CPU device @ nothing
@@ - several nodes @ nothing, as no step
anew rm bin/nvcc @@ WARN nvcc @ not found @ CUDA module
@@ - GPU @ nothing, until
anew sed -i /chmod/d bin/cc @@ WARN NCCL @ not checked: programs in @ do not run (noexec) @ set TMPDIR
anew sed -i 's/2.27.7 2.27.7/2.27.7 2.18.3/' bin/cc @ LD_LIBRARY_PATH=older @ FAIL NCCL @ the header is 2.27.7 @ load the library 2.18.3 @ LD_LIBRARY_PATH
anew sed -i 's/CUDA Version: 13.0/CUDA Version: 12.4/' smi @@ FAIL driver @ CUDA 12.4 and older, but nvcc is 13.0 @ CUDA module of 12.x
anew rm bin/nvidia-smi; touch nvidia @ APPTAINER_CONTAINER=/images/tutorial.sif @ FAIL driver @ not in this container (/images/tutorial.sif) @ start it with --nv
anew stand_in bin/nvidia-smi <<<'echo "No devices were found"; exit 6' @ SLURM_JOB_ID=7 @ FAIL driver @ No devices were found @ --gpus-per-node
anew @ CUDA_VISIBLE_DEVICES= @ FAIL GPUs @ shows 0 @ unset CUDA_VISIBLE_DEVICES
anew shm 65536 @@ WARN /dev/shm @ 64 MB free of 64 MB @ remount
stand_in bin/nproc <<<'[ $# = 1 ] && echo 64 || echo 1' @@ WARN cores @ only 1 of 64 @ --cpus-per-task
ulimit -S -l 64; mkdir -p infiniband/mlx5_0 @@ WARN locked memory @ InfiniBand (mlx5_0) @ ulimit -l unlimited
END
}

@test "the job and the network interface that NCCL will use are named, and wrong addresses are reported" {
    each_finding <<'END'
interfaces lo docker0; echo >net/bonding_masters @@ WARN network @ of the interfaces lo docker0, NCCL uses docker0 @ NCCL_SOCKET_IFNAME
interfaces lo docker0 ens3; echo down >net/ens3/operstate @ NCCL_SOCKET_IFNAME=ens3 @ PASS network @ NCCL uses that of NCCL_SOCKET_IFNAME=ens3
interfaces lo @ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 @ FAIL network @ NCCL uses lo @ slurm/site.sh
@@ - several nodes @ nothing, until
anew sed -i 's/.* gpu07/127.0.1.1 gpu07/' hosts @ SLURM_JOB_ID=7 @ WARN MASTER_ADDR @ gpu07 is 127.0.1.1
@ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 @ FAIL MASTER_ADDR @ gpu07 is 127.0.1.1
@ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 MASTER_ADDR=gpu01 @ PASS MASTER_ADDR @ gpu01 is 10.1.0.1
@@ - several nodes @ steps 4, on the 2 nodes of this job
@ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 MASTER_ADDR=localhost @ FAIL MASTER_ADDR @ localhost is 127.0.0.1
stand_in bin/getent <<<'exec sleep 1000' @ MASTER_ADDR=gpu01 @ WARN MASTER_ADDR @ no address is known
anew printf '%s\n' gpu01 gpu07 gpu07 >nodes @ PBS_JOBID=9.server PBS_NODEFILE="$PWD/nodes" @ PASS job @ PBS job 9.server, nodes: 2, ranks: 3
ln -s bash bin/sbatch @@ PASS job @ Slurm is installed
@@ - several nodes @ sbatch slurm/step4.sbatch
@ SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_CPUS_ON_NODE=16 SLURM_GPUS_ON_NODE=2 @ PASS job @ Slurm job 7, nodes: 2; here: 16 cores, 2 GPUs
END
}
