#!/usr/bin/env bats
# bats file_tags=test-all
# Other launchers start our trainer, and our launcher starts other programs. The tests use the installed torchrun, PyTorch
# DDP, Open MPI and MPICH, and skip those that are missing.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    need_train {03_multigpu_launcher,04_multinode}/{train,launch}
    tiny_data "$BATS_FILE_TMPDIR/tiny"
    export torch_is_missing mpirun
    torch_is_missing=$(/usr/bin/python3 -c 'import torch.distributed.run' 2>&1 | tail -n 1)
    for mpirun in mpirun.openmpi mpirun ""; do # mpirun may be MPICH's
        [[ $("${mpirun:-true}" --version 2>&1) != *@(Open MPI|OpenRTE)* ]] || break
    done
    setup
    "$TRAIN" "${options[@]}" --epochs 3 --log-every 1 --csv "$BATS_FILE_TMPDIR/one"
}

setup() {
    mkdir -p "$BATS_TEST_TMPDIR/work" "$BATS_TEST_TMPDIR/tmp" && cd "$BATS_TEST_TMPDIR/work" || return
    unset_job
    # Without PYTHONCOERCECLOCALE Python itself may add a variable to its environment.
    export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=4 OMP_NUM_THREADS=1 TMPDIR=$BATS_TEST_TMPDIR/tmp
    export PYTHONCOERCECLOCALE=0 PYTHONDONTWRITEBYTECODE=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    build=${TRAIN%/01_single_gpu/train}
    three=$build/03_multigpu_launcher/train
    launch=$build/03_multigpu_launcher/launch
    options=(--data "$BATS_FILE_TMPDIR/tiny" --hidden "8,8" --batch 120)
    one=$BATS_FILE_TMPDIR/one # the curve of step 1
    torchrun=(/usr/bin/python3 "$BATS_TEST_DIRNAME/torchrun/torchrun.py" --monitor_interval 0.1)
    ddp=(/usr/bin/python3 "$BATS_TEST_DIRNAME/torchrun/ddp.py")
    open_mpi=("$mpirun" --oversubscribe)
}

# Ends the processes that a failed test has left.
teardown() {
    local environ
    for environ in $(processes); do
        environ=${environ#/proc/}
        kill -9 "${environ%/environ}" 2>/dev/null || true
    done
}

need_torch() {
    [ -z "$torch_is_missing" ] || skip "/usr/bin/python3 has no torchrun: $torch_is_missing"
}

need_open_mpi() {
    [ -n "$mpirun" ] || skip "no Open MPI here"
}

# Prints the processes of this test whose environment has the variable. (torchrun's children inherit no pipe.)
processes() ( # [VARIABLE=VALUE]
    mark=TMPDIR=$TMPDIR
    unset TMPDIR # or this would find itself
    grep -lzxsF "$mark" /proc/[0-9]*/environ | xargs -r grep -lzxsF "${1:-$mark}"
)

no_process() {
    [ -z "$(processes)" ]
}

# No process may be left, and no file except these in the working folder and torchrun's own folders.
leaves() { # FILE...
    for _ in {1..100}; do
        ! no_process || break
        sleep 0.03
    done
    no_process || { echo "left: $(processes)" && return 1; }
    [ -z "$(find "$TMPDIR" -mindepth 1 -maxdepth 1 ! -name 'torchelastic_*')" ] || { ls -A "$TMPDIR" && return 1; }
    [ "$(echo *)" = "$*" ] || { ls && return 1; }
}

# All processes of the job must end soon, the launcher with this code ('[!0]*' is any code but 0).
ends() { # CODE
    local code=0
    until_true 10 no_process
    exec {alive}<&-
    wait "$pid" || code=$?
    # shellcheck disable=SC2053 # $1 is a pattern
    [[ $code = $1 ]] || { echo "ended with $code" && cat err && return 1; }
}

# learns RANKS LAUNCHER COMMAND...: the command must start this number of ranks, with the loss curve of step 1.
learns() {
    "${@:3}" "$three" "${options[@]}" --epochs 3 --log-every 1 --csv csv >out </dev/null
    same_curve "$one" csv
    tr -d '\r' <out | grep -qxE "launcher  ($2's variables|RANK and WORLD_SIZE, as $2 sets them)" # mpirun gives ranks a terminal
    [ "$(grep '^ranks' out | tr -d '\r')" = "ranks     global batch 120 = $1 ranks x $((120 / $1))" ]
    leaves csv out
    rm csv out
}

# Starts a training run that would never end.
start_training() { # COMMAND...
    start "$@" "$three" "${options[@]}" --epochs 1000000 --csv csv --snapshot s
}

epochs() {
    tail -n 2 csv 2>/dev/null | sed -nE 's/^[0-9]+,,([0-9]+),.*/\1/p' | tail -n 1
}

epochs_are_more_than() {
    [ "$(epochs)" -gt "$1" ] 2>/dev/null
}

rank() { # RANK: prints its pid
    local environ
    environ=$(processes "RANK=$1")
    environ=${environ#/proc/}
    echo "${environ%/environ}"
}

# undisturbed COMMAND...: an undisturbed run with the same number of epochs must end with the same bits.
undisturbed() {
    grep -q "$(text_of STOPPED_BY_SIGNAL); saved" out
    timeout 60 "$@" "$three" "${options[@]}" --epochs "$(epochs)" --save-every 1000000 \
        --snapshot whole </dev/null
    cmp s whole
}

@test "ranks that torchrun starts have the loss curve of step 1" {
    need_torch
    learns 4 torchrun timeout 60 "${torchrun[@]}" --standalone --nproc_per_node 4 --no_python
}

@test "after kill -9, torchrun restarts the ranks, and the result has the same bits as without it" {
    need_torch
    start_training "${torchrun[@]}" --standalone --max_restarts 2 --nproc_per_node 2 --no_python
    for victim in 1 0; do
        until_true 20 epochs_are_more_than "${before:-2}"
        kill -9 "$(rank $victim)"
        runs_again() { [ -n "$(processes TORCHELASTIC_RESTART_COUNT=$((2 - victim)))" ]; }
        until_true 20 runs_again
        before=$(epochs)
    done
    until_true 20 epochs_are_more_than "$before"
    kill -USR1 "$(rank 1)"
    ends 0
    [ "$(grep -cE '^resumed   s: [0-9]+ epochs? and 0 steps are done$' out)" = 2 ]
    undisturbed "${torchrun[@]}" --standalone --nproc_per_node 2 --no_python
    leaves alive csv err out s whole
}

@test "our launcher starts a DDP script" {
    need_torch
    losses=$("${ddp[@]}")
    printf 'rank %d of 2:%s\n' 0 "${losses#*:}" 1 "${losses#*:}" >wanted
    timeout "$(patience 60)" "$launch" --nproc-per-node 2 "${ddp[@]}" 2>err >out
    sort out | diff wanted -
    leaves err out wanted
}

# dumps FOLDER COMMAND...: the ranks write their environments to the folder. bash sets _ to the path of the launcher.
dumps() {
    mkdir -p "$1"
    timeout "$(patience 30)" env -u _ "${@:2}" "$BATS_TEST_DIRNAME/torchrun/dump.sh" "$1" 2>>err
}

environment() { # FILE
    sed -zE 's/^(TORCHELASTIC_ERROR_FILE)=.+/\1=WHATEVER/' "$1" | LC_ALL=C sort -z
}

# Ours lets rank 0 listen at MASTER_PORT, and torchrun listens there itself, with a store. PyTorch's @record leaves a traceback
# for torchrun in the error file. The last variable is a setting of PyTorch.
wanted_differences='> TORCHELASTIC_USE_AGENT_STORE=False
< NCCL_ASYNC_ERROR_HANDLING=1
< TORCHELASTIC_ERROR_FILE=WHATEVER
< TORCHELASTIC_USE_AGENT_STORE=True'

@test "our launcher and torchrun set the same variables in every attempt" {
    need_torch
    unset OMP_NUM_THREADS
    port=$(free_port)
    dumps theirs "${torchrun[@]}" --nproc_per_node 3 --max_restarts 2 --rdzv_id some --master_addr 127.0.0.1 \
        --master_port "$port" --no_python
    dumps ours "$build/04_multinode/launch" --nproc-per-node 3 --max-restarts 2 --run-id some --master-addr 127.0.0.1 \
        --master-port "$port"
    [ -e ours/1.2 ]
    diff <(ls theirs) <(ls ours)
    for file in theirs/*; do
        LC_ALL=C comm -z -3 <(environment "$file") <(environment "ours/${file##*/}") |
            sed -z 's/^[^\t]/< &/; s/^\t/> /' | tr '\0' '\n' | LC_ALL=C sort >differences
        diff <(LC_ALL=C sort <<<"$wanted_differences") differences
    done
    leaves differences err ours theirs
}

@test "ranks that Open MPI starts have the loss curve of step 1" {
    need_open_mpi
    three=$build/04_multinode/train learns 2 "Open MPI" timeout 60 "${open_mpi[@]}" -n 2
}

@test "under Open MPI, SIGUSR1 to mpirun makes all ranks save and stop" {
    need_open_mpi
    start_training "${open_mpi[@]}" -n 2
    until_true 20 epochs_are_more_than 2
    kill -USR1 "$pid"
    ends 0
    undisturbed "${open_mpi[@]}" -n 2
    leaves alive csv err out s whole
}

@test "ranks that MPICH starts have the loss curve of step 1" {
    command -v mpiexec.hydra >/dev/null || skip "no MPICH here: no mpiexec.hydra"
    learns 2 MPICH timeout 60 mpiexec.hydra -n 2
}
