#!/usr/bin/env bats
# bats file_tags=test-all
# Tests of every file of pbs/ on the test cluster. A stand-in for qsub gives a job the same variables and files as PBS.
# Open MPI starts its processes over ssh, as on a cluster whose Open MPI does not support PBS.
load helpers

setup_file() {
    if ! command -v mpirun >/dev/null; then
        export WHY_NOT="missing: mpirun (Debian: openmpi-bin)"
        return
    fi
    start_cluster
    [ -z "$WHY_NOT" ] || return 0
    cd "$CLUSTER_ROOT/my course" || return
    export options="--data tiny --hidden 8,8 --batch 64 --epochs 2 --log-every 1"
    # shellcheck disable=SC2086 # a list of words
    "$TRAIN" $options --csv step1.csv
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
    said "RANK and WORLD_SIZE, as torchrun sets them"
    [ -s "step4-launcher.$(cut -d . -f 1 id).bin" ]
}

@test "steps 5 and 7 shard the model, step 8 runs pipelines and step 9 divides matrices, with the loss curve of step 1" {
    while IFS='|' read -r -u 4 step more shards text; do
        ARGS="$options --csv $step.csv --snapshot $step.bin $more"
        run_job "pbs/$step.pbs"
        same_curve step1.csv "$step.csv"
        said "$text"
        [ "$(find . -name "$step.bin.e*of$shards" | wc -l)" = "$shards" ]
    done 4<<'END'
step5||4|Open MPI's variables
step7|--strategy hybrid|2|= 4 ranks x 16
step8||2|2 stages, 2 replicas
step9||4|tensor    2 parts of 1 pair of matrices
END
}

@test "step6.pbs runs four ranks on two nodes of a cluster without GPUs" {
    ARGS=--check-only
    run_job -l select=2:ncpus=8:mpiprocs=2:ompthreads=4 pbs/step6.pbs
    said "wanted: 4 * 3 / 2 = 6 everywhere, #wrong 0"
}

# kill_one CSV: a rank on the second node, when the first epoch is over and its snapshot, if any, is written.
kill_one() {
    until_true 30 grep -qs '^20,' "$1"
    one_token "$(cluster exec squeue --noheader --format=%i)"
    cluster exec -n node2 pkill -KILL -o -x train
}

@test "a killed rank ends step4.pbs, and no process stays on any node" {
    ARGS="$options --csv killed.csv --epochs 1000000"
    run_job pbs/step4.pbs >/dev/null 3>&- &
    kill_one killed.csv
    code=0
    wait $! || code=$?
    [ $code = 1 ]
    until_true 10 nodes_clean
}

@test "after a killed rank, step4-launcher.pbs restarts all ranks" {
    ARGS="$options --csv restarted.csv --epochs 200"
    run_job pbs/step4-launcher.pbs 3>&- &
    kill_one restarted.csv
    wait $!
    said "restart 1 of 3"
    said "resumed"
}
