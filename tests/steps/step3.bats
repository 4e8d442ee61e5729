#!/usr/bin/env bats
# Tests of step 3's trainer: it finds its place under any launcher, a run continues after any failure of a rank, and
# a signal stops it.
load ../helpers
load every_step

more_options=(--hidden "8,8" --epochs 3 --log-every 100)

adjust() {
    three=$(program_of 3) watched=$(watched 3)
}

# by_hand RANKS VARIABLES COMMAND...: starts these ranks at the same time. In VARIABLES, % stands for the rank. Writes the
# output to out.RANK and err.RANK, and the exit code to code.RANK.
by_hand() {
    timeout 60 bash -c '
        for rank in $1; do
            env ${2//%/$rank} "${@:3}" >out.$rank 2>err.$rank &
            pids+=($!)
        done
        i=0
        for rank in $1; do
            wait "${pids[i++]}"
            echo $? >code.$rank
        done' - "$@"
}

# ended CODE TEXT RANK...: these ranks must have ended with this code, and written one line with the text to stderr, or
# nothing if there is no text.
ended() {
    local rank
    for rank in "${@:3}"; do
        if [ "$(cat "code.$rank")" != "$1" ] || [ "$(wc -l <"err.$rank")" != "$([ -z "$2" ] && echo 0 || echo 1)" ] ||
            [[ $(<"err.$rank") != *"$2"* ]]; then
            echo "wanted of rank $rank: code $1, one line with: $2" && tail -n +1 code.* err.* && return 1
        fi
    done
}

# Each test must leave no folder in which ranks have met.
teardown() {
    end_job
    [ -z "${BATS_TEST_COMPLETED:-}" ] || [ -z "$(ls -A "$TMPDIR")" ] || { echo "left behind: $(find "$TMPDIR")" && return 1; }
}

@test "ranks read their place from the variables of any launcher" {
    torchrun="RANK=% WORLD_SIZE=2 LOCAL_RANK=%"
    mpi="OMPI_COMM_WORLD_RANK=% OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=%"
    pals="PMI_RANK=% PMI_SIZE=2 PALS_LOCAL_RANKID=%"
    mpich="PMI_RANK=% PMI_SIZE=2 MPI_LOCALRANKID=%"
    slurm="SLURM_PROCID=% SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=%"
    srun1="SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0"
    # srun --mpi=pmi2 sets variables of MPICH, too. If one launcher runs inside another, the inner one counts.
    train 2 2 --snapshot known
    while IFS='|' read -r family variables; do
        rm -f got
        by_hand "0 1" "$variables" "${three}" "${options[@]}" --snapshot got
        ended 0 "" 0 1
        [ ! -s out.1 ]
        grep -qxE "launcher  ($family's variables|RANK and WORLD_SIZE, as $family sets them)" out.0
        grep -qx 'ranks     global batch 120 = 2 ranks x 60' out.0
        cmp known got
    done <<END
torchrun|$torchrun TORCHELASTIC_RUN_ID=a/b/c MASTER_PORT=29500 TORCHELASTIC_RESTART_COUNT=3
Open MPI|$mpi PMIX_NAMESPACE=prterun-node-7@1
PALS|$pals PALS_APID=0b54-11ee
MPICH|$mpich
Slurm|$slurm PMI_RANK=% PMI_SIZE=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0
torchrun|$slurm $torchrun
Open MPI|$srun1 $mpi
MPICH|$srun1 $mpich
END
}

@test "without a launcher, and in a batch script, the program is the only rank" {
    batch="SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=4 SLURM_NPROCS=4 SLURM_TASKS_PER_NODE=4"
    train 1 1 --snapshot one
    for variables in "$batch" "PMIX_RANK=0 PMI_RANK=0 PMI_SIZE=1 NODE_RANK=0 PAGE_RANK=high A=X_RANK=1"; do
        rm -f got
        # shellcheck disable=SC2086 # words
        env CPU_DEVICE_TIMEOUT=1 $variables timeout 60 "$three" "${options[@]}" --snapshot got >out 2>err
        [ ! -s err ]
        grep -qx 'launcher  none, so this is the only rank; .*/launch starts several' out
        cmp one got
    done
}

# refused TEXT VARIABLE=VALUE...: the program must print one line and nothing else.
refused() {
    fails 2 "$1" env CPU_DEVICE_TIMEOUT=1 "${@:2}" timeout 60 "$three" --join-timeout 1 "${options[@]}" --snapshot no --csv none
    [ -z "$output" ]
    [ ! -e no ]
}

@test "contradictory variables are refused in one line" {
    while IFS='|' read -r text variables; do
        # shellcheck disable=SC2086 # words
        refused "$text" $variables
    done <<'END'
is not set, but other variables of a launcher are|RANK=1
LOCAL_RANK is not set|RANK=1 WORLD_SIZE=2
WORLD_SIZE is not set|RANK=0 LOCAL_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0
RANK=2 in the environment: want a number from 0 to 1|RANK=2 WORLD_SIZE=2 LOCAL_RANK=0
LOCAL_RANK=2 in the environment|RANK=1 WORLD_SIZE=2 LOCAL_RANK=2
PMIX_RANK=1 in the environment|PMIX_RANK=1 PMIX_NAMESPACE=x
PMI_RANK=0 in the environment|PMI_RANK=0 PMI_SIZE=2
OMPI_COMM_WORLD_RANK=0 in the environment|OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2
RANK=1 in the environment|JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=2 JSM_NAMESPACE_LOCAL_RANK=1
FLUX_TASK_RANK in the environment|FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2
PALS_RANKID in the environment|PALS_RANKID=0
JOB_COMPLETION_INDEX in the environment|JOB_COMPLETION_INDEX=0
SLURM_LOCALID=1x in the environment|SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1x
END
    for wrong in "" 4294967296; do
        refused "RANK=$wrong in the environment" WORLD_SIZE=2 LOCAL_RANK=0 RANK="$wrong"
    done
}

@test "duplicate ranks and missing ranks end the job with one line per rank" {
    few=("$three" "${options[@]}" --join-timeout 1)
    # as WORLD RANK...: the ranks of processes 0, 1 and so on.
    as() {
        by_hand "$(seq -s ' ' 0 $(($# - 2)))" "PROCESS=%" bash -c 'ranks=('"${*:2}"')
            RANK=${ranks[PROCESS]} LOCAL_RANK=${ranks[PROCESS]} WORLD_SIZE='"$1"' TORCHELASTIC_RUN_ID=same exec "$@"' \
            - "${few[@]}"
    }
    CPU_DEVICE_TIMEOUT=1 as 2 1 1
    ended 1 "waited 1 s (--join-timeout) for rank 0 to write" 0 1
    few[-1]=30
    CPU_DEVICE_TIMEOUT=30 as 3 0 1 1 # nobody gives up before all three are there
    ended 1 "two processes say that they are rank 1 of 3" 0 1 2
    CPU_DEVICE_TIMEOUT=4 as 3 0 1 # longer than rank 1 needs to start
    ended 1 ncclCommInitRank 0 1
}

@test "each rank uses the only GPU that it sees, or the GPU of its local rank" {
    train 2 3 --snapshot right
    cat >sees <<END
#!/bin/bash
export CUDA_VISIBLE_DEVICES=\$(eval echo "\$VISIBLE")
exec ${three@Q} "\$@"
END
    chmod +x sees
    for visible in '$((3 - LOCAL_RANK))' '3,1,2,0'; do
        rm -f got
        VISIBLE=$visible program=./sees train 3 3 --snapshot got
        cmp right got
    done
    CPU_DEVICES=1 by_hand "0 1" "RANK=% WORLD_SIZE=2 LOCAL_RANK=%" "$three" "${options[@]}"
    ended 1 "Duplicate GPU" 0 1
    CPU_DEVICES=2 refute train 3 3 >/dev/null
    grep -q "^error (.*, rank 2): there is no GPU for local rank 2, only 2 in all; set CPU_DEVICES=3 to" err
}

# Starts a run with its own name. $rendezvous is its folder for the id.
as_run() { # RANKS PROGRAM OPTION...
    by_hand "$1" "RANK=% WORLD_SIZE=2 LOCAL_RANK=% TORCHELASTIC_RUN_ID=x MASTER_PORT=1" "$2" "${options[@]}" \
        --epochs 3 "${@:3}"
}

@test "the id file of a killed run is never read" {
    rendezvous=$TMPDIR/ranks-$(id -u)-x-1
    train 2 2 --snapshot right
    start env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 TORCHELASTIC_RUN_ID=x MASTER_PORT=1 "$three" "${options[@]}"
    until_true 30 test -e "$rendezvous/id"
    kill -9 "$pid"
    ends 137
    # Both ranks meet despite the old file and despite an incomplete one.
    printf x >"$rendezvous/new"
    as_run "0 1" "$three" --snapshot got
    ended 0 "" 0 1
    cmp right got
}

# Rank 0 may be behind the killed rank, or ahead of it.
@test "when a rank is killed before or during training, all ranks are restarted" {
    mkdir right
    train 3 3 --snapshot right/s
    all_come_through 3 3 <<'END'
0 cudaSetDevice 1|new
1 ncclCommInitRank 1|new
0 gather_batch 2|0
0 ncclAllReduce 6|0
0 report_epoch 3|2
0 ncclCommDestroy 1|3
2 ncclCommDestroy 1|2|3
0 snapshot_save 2|0
END
}
