#!/usr/bin/env bats
# bats file_tags=test-all
# Other launchers start our trainer, and our launcher starts other programs. The tests use the installed torchrun, PyTorch
# DDP, Open MPI and MPICH, and skip those that are missing.
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
    export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=4 OMP_NUM_THREADS=1 TMPDIR=$BATS_TEST_TMPDIR/tmp
    export PYTHONDONTWRITEBYTECODE=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
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

# Prints the processes of this test. (torchrun's children inherit no pipe.)
processes() (
    mark=TMPDIR=$TMPDIR
    unset TMPDIR # or this would find itself
    grep -lzxsF "$mark" /proc/[0-9]*/environ
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

# learns RANKS LAUNCHER COMMAND...: the command must start this number of ranks, with the loss curve of step 1.
learns() {
    "${@:3}" "$three" "${options[@]}" --epochs 3 --log-every 1 --csv csv >out </dev/null
    same_curve "$one" csv
    tr -d '\r' <out | grep -qxE "launcher  ($2's variables|RANK and WORLD_SIZE, as $2 sets them)" # mpirun gives ranks a terminal
    [ "$(grep '^ranks' out | tr -d '\r')" = "ranks     global batch 120 = $1 ranks x $((120 / $1))" ]
    leaves csv out
    rm csv out
}

@test "ranks that torchrun starts have the loss curve of step 1" {
    need_torch
    learns 4 torchrun timeout "$(patience 60)" "${torchrun[@]}" --standalone --nproc_per_node 4 --no_python
}

@test "our launcher starts a DDP script" {
    need_torch
    losses=$("${ddp[@]}")
    printf 'rank %d of 2:%s\n' 0 "${losses#*:}" 1 "${losses#*:}" >wanted
    timeout "$(patience 60)" "$launch" --nproc-per-node 2 "${ddp[@]}" 2>err >out
    sort out | diff wanted -
    leaves err out wanted
}

@test "ranks that Open MPI starts have the loss curve of step 1" {
    need_open_mpi
    three=$build/04_multinode/train learns 2 "Open MPI" timeout "$(patience 60)" "${open_mpi[@]}" -n 2
}

@test "ranks that MPICH starts have the loss curve of step 1" {
    command -v mpiexec.hydra >/dev/null || skip "no MPICH here: no mpiexec.hydra"
    learns 2 MPICH timeout "$(patience 60)" mpiexec.hydra -n 2
}
