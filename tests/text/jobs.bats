#!/usr/bin/env bats
# Tests of the job scripts without a cluster: tools/lint_jobs.sh finds common mistakes, each planted in a copy.
# shellcheck disable=SC2016,SC2154 # sed's dollars; bats and helpers.bash set variables
load ../helpers

setup() {
    command -v shellcheck >/dev/null || skip "shellcheck is not installed"
    cd "$BATS_TEST_TMPDIR" || return
    lint=$root/tools/lint_jobs.sh
}

# plant FILE SED...: copies the job script to job, with these changes (see edit).
plant() {
    cp "$root/$1" job
    edit job "${@:2}"
}

# found WORD TEXT: lint_jobs.sh must report only this text, for the line of job that has the word.
found() {
    local line
    line=$(grep -nF -e "$1" job | cut -d : -f 1)
    run "$lint" job
    if [ "$status" != 1 ] || [ ${#lines[@]} != 1 ] || [[ $output != "job:$line:"*"$2"* ]]; then
        printf '%s\n' "wanted job:$line: and: $2" "status: $status" "$output"
        return 1
    fi
}

@test "lint_jobs.sh accepts all job scripts" {
    "$lint"
}

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
        here=$(basename "$script")
        fails 2 "$script is a job script of PBS: qsub $script on a cluster, or make run-${here:0:5} on this machine" \
            env -u PBS_NODEFILE -u PBS_O_WORKDIR bash "$script"
        [ -z "$output" ]
    done
    fails 2 "sbatch slurm/step1.sbatch on a cluster" env SLURM_JOB_ID=7 PATH=/none "$BASH" slurm/step1.sbatch
}

@test "lint_jobs.sh reports a blank between # and SBATCH or PBS" {
    plant slurm/step4.sbatch 's/#(SBATCH --nodes)/# \1/'
    found --nodes "a blank after #"
    plant pbs/step4.pbs 's/#(PBS -j)/# \1/'
    found "-j oe" "a blank after #"
}

@test "lint_jobs.sh reports a directive after the first command" {
    plant slurm/step4.sbatch '/^set -e/a #SBATCH --requeue'
    found "--requeue" "after the first command"
    plant pbs/step4.pbs '/^set -e/a #PBS -m ae'
    found "-m ae" "after the first command"
}

@test "lint_jobs.sh reports an unquoted list of nodes" {
    plant slurm/step4.sbatch 's/"(\$SLURM_JOB_NODELIST)"/\1/'
    found hostnames "Double quote"
    plant pbs/step4.pbs 's/"(\$PBS_NODEFILE)"/\1/'
    found head "Double quote"
}

@test "lint_jobs.sh reports a program, script or folder that does not exist" {
    plant slurm/step4.sbatch 's/04_multinode.train/04_multinode\/trian/'
    found trian "04_multinode/trian is not in this repository"
    plant slurm/step4.sbatch 's/04_multinode/04_multinodes/'
    found multinodes "04_multinodes/train is not"
    plant pbs/step4.pbs 's/^cd.*/&\ntools\/doktor.sh/'
    found doktor "tools/doktor.sh is not"
}

@test "lint_jobs.sh reports srun without --kill-on-bad-exit or --cpus-per-task, also in long commands" {
    plant slurm/step4.sbatch 's/--kill-on-bad-exit=1//'
    found "srun  --cpus" "srun without --kill-on-bad-exit"
    plant slurm/step6.sbatch 's/--cpus-per-task="[^"]*"//'
    found "srun --kill" "srun without --cpus-per-task"
    # The options may be in the second line.
    sed -E 's/srun (--kill-on-bad-exit=1)/srun \\\n    \1/' "$root/slurm/step4.sbatch" >job
    "$lint" job
}

@test "lint_jobs.sh reports a port that is the same for all jobs" {
    plant slurm/step4.sbatch 's/(MASTER_PORT)=.*/\1=29500/'
    found 29500 "a fixed port"
    plant slurm/step6.sbatch 's/(--master-port) "\$MASTER_PORT"/\1 29500/'
    found "srun --kill" "a fixed port"
}

@test "lint_jobs.sh reports Windows line endings" {
    plant slurm/step1.sbatch '5s/$/\r/'
    run "$lint" job
    [ "$status" = 1 ]
    [[ $output == *"job:5: the line has a Windows line ending"* ]]
}

@test "lint_jobs.sh reports a first line that names no shell" {
    plant slurm/step1.sbatch 1d
    run "$lint" job
    [ "$status" = 1 ]
    [[ $output == *"job:1:"*shell* ]]
}
