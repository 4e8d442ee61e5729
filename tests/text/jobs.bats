#!/usr/bin/env bats
# Tests of the job scripts without a cluster.
# shellcheck disable=SC2154 # helpers.bash sets root
load ../helpers

@test "a job script that is started with bash outside a job names the right command" {
    cd "$root" || return
    unset_job
    local script here
    for script in slurm/*.sbatch; do
        here=$(basename "$script" .sbatch)
        case $here in
        step*) here=run-${here:0:5} ;;
        chain | sweep) here=run-step4 ;;
        esac
        fails 2 "$script is a job script of Slurm: sbatch $script on a cluster, or make $here on this machine" bash "$script"
        [ -z "$output" ]
    done
    for script in pbs/*.pbs; do
        here=$(basename "$script" .pbs)
        [ "$here" = doctor ] || here=run-${here:0:5}
        fails 2 "$script is a job script of PBS: qsub $script on a cluster, or make $here on this machine" \
            env -u PBS_NODEFILE -u PBS_O_WORKDIR bash "$script"
        [ -z "$output" ]
    done
    fails 2 "sbatch slurm/step1.sbatch on a cluster" env SLURM_JOB_ID=7 PATH=/none "$BASH" slurm/step1.sbatch
}

@test "the jobs of an array of PBS have a port each, in each job script" {
    local script id
    for script in "$root"/pbs/*.pbs; do
        for id in 1234.pbs01 1235.pbs01 '1234[1].pbs01' '1234[2].pbs01' '1234[12].pbs01' 1234-3.pbs01; do
            (cd "$root" && PBS_JOBID=$id PBS_NODEFILE=/dev/null bash -c '
                . pbs/site.sh
                eval "$(grep "^MASTER_PORT=" "$0")"
                echo "$MASTER_PORT"' "$script")
        done >"$BATS_TEST_TMPDIR/ports"
        [ "$(sort -u "$BATS_TEST_TMPDIR/ports" | wc -l)" = 6 ] || { echo "$script" && cat "$BATS_TEST_TMPDIR/ports" && return 1; }
    done
}
