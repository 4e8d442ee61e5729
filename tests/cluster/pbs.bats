#!/usr/bin/env bats
# bats file_tags=test-all
# Tests of every file of pbs/ on the test cluster. A stand-in for qsub gives a job the same variables and files as PBS.
# Open MPI starts its processes over ssh, as on a cluster whose Open MPI does not support PBS.
# shellcheck disable=SC2154 # bats and helpers.bash set variables
load helpers

setup_file() {
    if ! command -v mpirun >/dev/null; then
        export WHY_NOT="missing: mpirun (Debian: openmpi-bin)"
        return
    fi
    start_cluster
    [ -z "$WHY_NOT" ] || return 0
    cd "$CLUSTER_ROOT/course" || return
    export options="--data tiny --hidden 8,8 --batch 64 --epochs 2 --log-every 1"
    # shellcheck disable=SC2086 # a list of words
    "$TRAIN" $options --csv step1.csv
}

teardown_file() {
    stop_cluster
}

setup() {
    enter_course
}

teardown() {
    clear_cluster
}

# run_job OPTION... SCRIPT: on the login node, with $ARGS; waits for the end. Open MPI wants to be asked twice before it runs
# as root.
run_job() {
    export ARGS
    cluster exec tests/cluster/qsub -W block=true \
        -v ARGS,OMPI_ALLOW_RUN_AS_ROOT=1,OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@" >id && return
    cat ./*.o"$(cut -d . -f 1 id)"
    return 1
}

# said TEXT: the output of the last job must contain the text.
said() {
    grep -F -e "$1" ./*.o"$(cut -d . -f 1 id)"
}

@test "step4.pbs starts a rank per GPU on two nodes, with the loss curve of step 1" {
    ARGS="$options --csv step4.csv"
    run_job pbs/step4.pbs
    same_curve step1.csv step4.csv
    said "= 4 ranks x 16"
    said "Open MPI's variables"
}

@test "doctor.pbs checks both nodes, and all ranks sum a number" {
    ARGS=''
    run_job pbs/doctor.pbs
    said "node1, PBS job"
    said "node2"
    said "ranks: 4, hosts: 2"
    refute said "FAIL  job"
}

@test "step4-launcher.pbs starts a launcher per node, with the loss curve of step 1" {
    ARGS="$options --csv launcher.csv"
    run_job pbs/step4-launcher.pbs
    same_curve step1.csv launcher.csv
    said "= 4 ranks x 16"
    said "torchrun's variables"
    [ -s "step4-launcher.$(cut -d . -f 1 id).bin" ]
}

@test "step5.pbs shards the model over four ranks, with the loss curve of step 1" {
    ARGS="$options --csv full.csv --snapshot full.bin"
    run_job pbs/step5.pbs
    same_curve step1.csv full.csv
    said "Open MPI's variables"
    [ "$(find . -name "full.bin.e*of4" | wc -l)" = 4 ]
}

@test "step7.pbs with hybrid sharding has the loss curve of step 1" {
    ARGS="$options --csv hybrid.csv --snapshot hybrid.bin --strategy hybrid"
    run_job pbs/step7.pbs
    same_curve step1.csv hybrid.csv
    [ "$(find . -name "hybrid.bin.e*of2" | wc -l)" = 2 ]
}

@test "step8.pbs runs two pipelines, with the loss curve of step 1" {
    ARGS="$options --csv pipeline.csv --snapshot pipeline.bin"
    run_job pbs/step8.pbs
    same_curve step1.csv pipeline.csv
    said "2 stages, 2 replicas"
    [ "$(find . -name "pipeline.bin.e*of2" | wc -l)" = 2 ]
}

@test "step9.pbs divides matrices within nodes and layers between nodes, with the loss curve of step 1" {
    ARGS="$options --csv parts.csv --snapshot parts.bin"
    run_job pbs/step9.pbs
    same_curve step1.csv parts.csv
    said "2 stages, 1 replica"
    said "tensor    2 parts of each pair of matrices"
    [ "$(find . -name "parts.bin.e*of4" | wc -l)" = 4 ]
}

@test "step6.pbs runs four ranks on two nodes of a cluster without GPUs" {
    ARGS=--check-only
    run_job -l select=2:ncpus=8:mpiprocs=2:ompthreads=4 pbs/step6.pbs
    said "wanted: 4 * 3 / 2 = 6 everywhere, #wrong 0"
}

# kill_one CSV: a rank on the second node, when the first epoch is over and its snapshot, if any, is written.
kill_one() {
    within 30 grep -qs '^20,' "$1"
    cluster exec -n node2 pkill -KILL -o -x train
}

@test "a killed rank ends step4.pbs, and no process stays on any node" {
    ARGS="$options --csv killed.csv --epochs 1000000"
    run_job pbs/step4.pbs >/dev/null 3>&- &
    kill_one killed.csv
    code=0
    wait $! || code=$?
    [ $code = 1 ]
    within 10 nodes_clean
}

@test "after a killed rank, step4-launcher.pbs restarts all ranks" {
    ARGS="$options --csv restarted.csv --epochs 200"
    run_job pbs/step4-launcher.pbs 3>&- &
    kill_one restarted.csv
    wait $!
    said "restart 1 of 3"
    said "resumed"
}
