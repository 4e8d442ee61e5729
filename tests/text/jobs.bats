#!/usr/bin/env bats
# Tests of the job scripts without a cluster: tools/author/lint_jobs.sh finds common mistakes, each planted in a copy.
# shellcheck disable=SC2016,SC2154 # sed's dollars; bats and helpers.bash set variables
load ../helpers

setup() {
    command -v shellcheck >/dev/null || skip "shellcheck is not installed"
    cd "$BATS_TEST_TMPDIR" || return
    lint=$root/tools/author/lint_jobs.sh
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
        here=$(basename "$script" .pbs)
        [ "$here" = doctor ] || here=run-${here:0:5}
        fails 2 "$script is a job script of PBS: qsub $script on a cluster, or make $here on this machine" \
            env -u PBS_NODEFILE -u PBS_O_WORKDIR bash "$script"
        [ -z "$output" ]
    done
    fails 2 "sbatch slurm/step1.sbatch on a cluster" env SLURM_JOB_ID=7 PATH=/none "$BASH" slurm/step1.sbatch
}

@test "lint_jobs.sh reports each mistake with its line, and nothing else" {
    local script change word wanted line
    # A job script, a change (for sed -E), a word of the faulty line, and a text of the report.
    while IFS='@' read -r script change word wanted; do
        cp "$root/$script" job
        edit job "$change"
        line=$(grep -nF -e "$word" job | cut -d : -f 1)
        run "$lint" job
        if [ "$status" != 1 ] || [ ${#lines[@]} != 1 ] || [[ $output != "job:$line:"*"$wanted"* ]]; then
            printf '%s\n' "wanted job:$line: and: $wanted" "status: $status" "$output"
            return 1
        fi
    done <<'END'
slurm/step4.sbatch@s/#(SBATCH --nodes)/# \1/@--nodes@a blank after #
pbs/step4.pbs@s/#(PBS -j)/# \1/@-j oe@a blank after #
slurm/step4.sbatch@/^set -e/a #SBATCH --requeue@--requeue@after the first command
pbs/step4.pbs@/^set -e/a #PBS -m ae@-m ae@after the first command
slurm/step4.sbatch@s/"(\$SLURM_JOB_NODELIST)"/\1/@hostnames@Double quote
pbs/step4.pbs@s/"(\$PBS_NODEFILE)"/\1/@head@Double quote
slurm/step4.sbatch@s/04_multinode.train/04_multinode\/trian/@trian@04_multinode/trian is not in this repository
slurm/step4.sbatch@s/04_multinode/04_multinodes/@multinodes@04_multinodes/train is not
pbs/step4.pbs@s/^cd.*/&\ntools\/doktor.sh/@doktor@tools/doktor.sh is not
slurm/step4.sbatch@s/--kill-on-bad-exit=1//@srun  --cpus@srun without --kill-on-bad-exit
slurm/step6.sbatch@s/--cpus-per-task="[^"]*"//@srun --ntasks@srun without --cpus-per-task
slurm/step4.sbatch@s/(MASTER_PORT)=.*/\1=29500/@29500@a fixed port
slurm/step6.sbatch@s/(--master-port) "\$MASTER_PORT"/\1 29500/@srun --ntasks@a fixed port
END
}

@test "the jobs of an array of PBS have a port each, in each job script" {
    local script id
    for script in "$root"/pbs/*.pbs; do
        for id in 1234.pbs01 1235.pbs01 '1234[1].pbs01' '1234[2].pbs01' '1234[12].pbs01' 1234-3.pbs01; do
            (cd "$root" && PBS_JOBID=$id PBS_NODEFILE=/dev/null bash -c '
                . pbs/site.sh
                eval "$(grep "^MASTER_PORT=" "$0")"
                echo "$MASTER_PORT"' "$script")
        done >ports
        [ "$(sort -u ports | wc -l)" = 6 ] || { echo "$script" && cat ports && return 1; }
    done
}

@test "lint_jobs.sh finds the options of srun in the next line of a long command" {
    sed -E 's/srun (--kill-on-bad-exit=1)/srun \\\n    \1/' "$root/slurm/step4.sbatch" >job
    "$lint" job
}

@test "lint_jobs.sh reports a Windows line ending, and a first line that names no shell" {
    sed '5s/$/\r/' "$root/slurm/step1.sbatch" >job
    run "$lint" job
    [[ $status = 1 && $output == *"job:5: the line has a Windows line ending"* ]]
    sed 1d "$root/slurm/step1.sbatch" >job
    run "$lint" job
    [[ $status = 1 && $output == *"job:1:"*shell* ]]
}
