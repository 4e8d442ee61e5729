#!/usr/bin/env bats
# Tests of the job scripts without a cluster.
load ../helpers

@test "a job script that is started with bash or sh outside a job names the right command" {
    cd "$root" || return
    for script in slurm/*.sbatch; do
        here=$(basename "$script" .sbatch)
        case $here in
        step*) here=run-${here:0:5} ;;
        chain | sweep) here=run-step4 ;;
        esac
        for shell in bash sh; do
            fails 2 "$script is a job script of Slurm: sbatch $script on a cluster, or make $here on this machine" $shell "$script"
            [ -z "$output" ]
        done
    done
    for script in pbs/*.pbs; do
        here=$(basename "$script" .pbs)
        [ "$here" = doctor ] || here=run-${here:0:5}
        fails 2 "$script is a job script of PBS: qsub $script on a cluster, or make $here on this machine" \
            env -u PBS_NODEFILE -u PBS_O_WORKDIR sh "$script"
        [ -z "$output" ]
    done
    mkdir "$BATS_TEST_TMPDIR/job"
    ln -s "$(type -P true)" "$BATS_TEST_TMPDIR/job/srun"
    for script in slurm/*.sbatch pbs/*.pbs; do
        [ "$(readlink -f "$(command -v sh)")" = "$(readlink -f "$BASH")" ] ||
            fails 2 "$script needs bash: bash $script" env SLURM_JOB_ID=7 PBS_NODEFILE=/dev/null PBS_O_WORKDIR=. \
                PATH="$BATS_TEST_TMPDIR/job:$PATH" sh "$script"
    done
    fails 2 "sbatch slurm/step1.sbatch on a cluster" env SLURM_JOB_ID=7 PATH=/none "$BASH" slurm/step1.sbatch
}

@test "the ranks of step 9's job scripts sum shares of matrices in each stage" {
    need_train 03_multigpu_launcher/launch 09_tensor/train
    build=${TRAIN%/*/*}
    cd "$BATS_TEST_TMPDIR" || return
    for script in slurm/step9.sbatch pbs/step9.pbs; do
        read -ra options <<<"$(sed -n 's/.*09_tensor\/train \(.*\) ".*/\1/p' "$root/$script")"
        CPU_DEVICES=4 "$build/03_multigpu_launcher/launch" --nproc-per-node 4 "$build/09_tensor/train" --tensor 2 --stages 2 \
            --data blank:128 "${options[@]}" --max-steps 1 | tee out
        grep -qE 'parts / step +[1-9]' out
    done
}

@test "without a cluster, a job script starts its ranks, and a signal ends them" {
    need_train 04_multinode/{train,launch}
    cd "$BATS_TEST_TMPDIR" || return
    ln -s "$root/slurm" "${TRAIN%/*/*}/04_multinode" .
    for script in step4 step4-launcher; do
        "$root/exercises/checks/cluster.sh" "slurm/$script.sbatch" --data blank:128 --max-steps 1 | tee out
        grep -q '= 4 ranks x 32' out
    done
    start "$root/exercises/checks/cluster.sh" slurm/step4.sbatch --data blank:128 --epochs 100000
    until_true 20 grep -q '^epoch' out
    kill "$pid"
    ends 143
    fails 1 'slurm/step4-4x1.sbatch wants 4 nodes' "$root/exercises/checks/cluster.sh" slurm/step4-4x1.sbatch
}

delivered() { # SIGUSR1, to the job
    ! (((0x$(sed -n 's/^ShdPnd:\t//p' "/proc/$pid/status") >> 9) & 1))
}

@test "a chain that gets its signal twice passes it on once, and is queued again when its ranks have saved" {
    cd "$BATS_TEST_TMPDIR" || return
    ln -s "$root/slurm" .
    printf '%s\n' '#!/bin/bash' 'trap "echo told >>told" USR1; : >ready' \
        'until [ -e end ]; do sleep 0.05; done; echo saved >>order' >srun
    printf '%s\n' '#!/bin/sh' '[ "$1" != requeue ] || echo "$1" >>order' >scontrol
    chmod +x srun scontrol
    SLURM_JOB_ID=7 SLURM_JOB_NAME=chain PATH=$PWD:$PATH start bash slurm/chain.sbatch
    until_true 20 test -e ready
    kill -USR1 "$pid"
    until_true 20 test -e told
    kill -USR1 "$pid"
    until_true 20 delivered
    touch end
    ends 0
    [ "$(<told)" = told ]
    [ "$(<order)" = "$(printf 'saved\nrequeue')" ]
}

@test "the jobs of an array of PBS have a port each" {
    cd "$root" || return
    for id in 1234.pbs01 1235.pbs01 '1234[1].pbs01' '1234[2].pbs01' '1234[12].pbs01' 1234-3.pbs01; do
        PBS_JOBID=$id PBS_NODEFILE=/dev/null bash -c '. pbs/site.sh && echo "$MASTER_PORT"'
    done >"$BATS_TEST_TMPDIR/ports"
    [ "$(sort -u "$BATS_TEST_TMPDIR/ports" | wc -l)" = 6 ]
}
