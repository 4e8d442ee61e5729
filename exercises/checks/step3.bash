# What the checks of step 3 share.

# alone VARIABLES OPTION...: starts one process of the program without a launcher, but with these variables. Its output is
# in $SCRATCH/out and err.
alone() {
    local variables status=0
    read -ra variables <<<"$1"
    { CPU_DEVICES=2 limited env "${variables[@]}" "$program" "${small[@]}" --max-steps 1 "${@:2}" \
        >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?; } 2>/dev/null
    how_it_ended $status
    return $status
}

# two_nodes block|cyclic [LINE...]: 4 ranks on two nodes of 2 GPUs train as step 1 does. The lines explain a mistake.
two_nodes() {
    local status=0
    rm -f "$SCRATCH/csv"
    [ "$device" = cpu ] || { skip 'on one machine, only the CPU device can play two nodes: make check DEVICE=cpu' && return; }
    limited exercises/checks/two_nodes.sh "$1" "$program" "${small[@]}" --csv "$SCRATCH/csv" \
        >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
    how_it_ended $status
    ! untouched || set -- "$1"
    [ $status = 0 ] || wrong "on 2 nodes with 2 GPUs each ($1 order), the program fails" \
        "$(first_error)" "${@:2}"
    right_losses || wrong "on 2 nodes with 2 GPUs each ($1 order), the losses are not those of step 1"
    ok "on 2 nodes with 2 GPUs each ($1 order), the losses are those of step 1"
}

# one_visible: 2 ranks train if each sees only its own GPU, as with srun --gpus-per-task=1.
one_visible() {
    local starter=(sh -c 'CUDA_VISIBLE_DEVICES=$LOCAL_RANK exec "$@"' sh)
    run_ranks 2 || wrong 'if each rank sees only one GPU, the program fails' \
        "$(first_error)" \
        'CUDA counts the GPUs that a process sees, from 0. So the only one has the number 0, in each rank.'
    ok 'if each rank sees only one GPU, the ranks train'
}

# no_gpu_left: a node has fewer GPUs than ranks.
no_gpu_left() {
    local status=0
    [ "$device" = cpu ] || { skip 'a node with 2 GPUs needs the CPU device: make check DEVICE=cpu' && return; }
    alone 'RANK=2 WORLD_SIZE=3 LOCAL_RANK=2' --join-timeout 1 || status=$?
    ! grep -q waited "$SCRATCH/err" || wrong 'a node with 2 GPUs accepts 3 ranks' 'Local rank 2 goes on.' \
        'Expected: it calls fail, because each of the 2 GPUs belongs to another rank.'
    [ $status = 1 ] || wrong "a node with 2 GPUs does not refuse 3 ranks by a call of fail: the exit code is $status" \
        "$(first_error)"
    ! grep -q cuda "$SCRATCH/err" || wrong 'a node with 2 GPUs refuses 3 ranks by an error of CUDA' \
        "$(grep -m 1 cuda "$SCRATCH/err" | cut -c 1-300)" \
        'choose_device has returned 2, and the GPUs are 0 and 1. It must call fail, which can name the local rank.'
    ok 'a node with 2 GPUs refuses 3 ranks'
}

# launch OPTION... COMMAND...: runs the attendee's launcher. Its exit code is in $code, its output in $SCRATCH/out and err,
# and what the ranks write to $log in $SCRATCH/log.
launch() {
    code=0
    rm -f "$SCRATCH/log"
    # The shell reports a signal to the stderr of the braces.
    { log=$SCRATCH/log limited "$program" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || code=$?; } 2>/dev/null
    [ $code != 124 ] || wrong "the launcher had not ended after $limit s" "Command: launch $*" \
        'Does it wait in your part? It must go on, and handle the next event in wait_for_events.'
}

# launch_until_sigterm OPTION... COMMAND...: like launch, and a user ends the launcher when both of its ranks have written a
# line to $log.
launch_until_sigterm() {
    local pid
    local -x log=$SCRATCH/log
    code=0
    rm -f "$log"
    remember "$program" "$@"
    timeout -k 1 "$limit" "$program" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" &
    pid=$!
    until [ "$(wc -l <"$log")" = 2 ] || ! kill -0 $pid; do sleep 0.02; done
    kill -TERM $pid # timeout passes it on
    wait $pid || code=$?
} 2>/dev/null # the shell reports signals there
