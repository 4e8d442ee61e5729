# step4.bash: what the checks of step 4 share. They start ranks without a launcher, which would end all of them when one
# fails.
pids=() # of the ranks; that of listener is 100
unset MASTER_ADDR MASTER_PORT MASTER_TOKEN TORCHELASTIC_USE_AGENT_STORE
export CPU_DEVICE_TIMEOUT=60 TORCHELASTIC_RUN_ID=exercise
small+=(--max-steps 5)

# The check has ended, or a rank has failed: no process may stay.
end_all() {
    local pid
    for pid in "${pids[@]}"; do
        kill -9 "$pid"
        wait "$pid"
    done 2>/dev/null
    pids=()
}
trap end_all EXIT

# rendezvous RANKS [ADDRESS]: begins a new rendezvous at a free port. $world is its number of ranks.
rendezvous() {
    end_all
    rm -f "$SCRATCH"/{out,err}.* "$SCRATCH/csv"
    command_line=
    world=$1
    export MASTER_ADDR=${2:-127.0.0.1} WORLD_SIZE=$1 CPU_DEVICES=$(($1 < 64 ? $1 : 64)) # the CPU device has at most 64
    until MASTER_PORT=$((20000 + RANDOM % 10000)) && ! (: <>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do :; done
    export MASTER_PORT
}

# rank NUMBER OPTION...: starts this rank. It prints to out.NUMBER and err.NUMBER.
rank() {
    local before=$command_line
    RANK=$1 LOCAL_RANK=$1 remember "$program" "${small[@]}" "${@:2}"
    command_line="${before:+$before & }$command_line"
    RANK=$1 LOCAL_RANK=$1 "$program" "${small[@]}" --csv "$SCRATCH/csv" "${@:2}" >"$SCRATCH/out.$1" 2>"$SCRATCH/err.$1" &
    pids[$1]=$!
}

# Of a process in $pids.
is_over() { # NUMBER
    [[ ! -e /proc/${pids[$1]} || $(cat "/proc/${pids[$1]}/stat" 2>/dev/null) == *") Z "* ]]
}

# ends SECONDS NUMBER: the exit code of a rank that ends within this time is $code. Fails if it goes on.
ends() {
    within "$1" is_over "$2" || return
    wait "${pids[$2]}"
    code=$?
    unset "pids[$2]"
} 2>/dev/null # the shell reports signals there

# The addresses at which a program listens at the port, as /proc has them: 0100007F is 127.0.0.1.
listeners() {
    cat /proc/net/tcp{,6} 2>/dev/null | awk -v port=":$(printf %04X "$MASTER_PORT")" '
        $4 == "0A" && substr($2, length($2) - 4) == port { sub(/:.*/, "", $2); print $2 }'
}

listening() {
    [ -n "$(listeners)" ]
}

# trained WHAT [LINE...]: all ranks of the rendezvous end with 0, and have the losses of step 1. The lines explain a failure.
trained() {
    local number end=$((SECONDS + limit)) left=$world
    while [ "$left" -gt 0 ]; do
        for ((number = 0; number < world; number++)); do
            { [ -n "${pids[number]:-}" ] && is_over $number; } || continue
            ends 0 $number
            left=$((left - 1))
            [ "$code" = 0 ] || wrong "$1: rank $number ends with exit code $code" "$(cut -c 1-300 "$SCRATCH/err.$number")" "${@:2}"
        done
        sleep 0.05
        [ $SECONDS -le $end ] || wrong "$1: $left of $world ranks do not end" "${@:2}"
    done
    right_losses || wrong "$1: the losses are not those of step 1" "${@:2}"
    ok "$1: all ranks train, and have the losses of step 1"
}

# listener: starts the program listener instead of rank 0.
listener() {
    "${CC:-cc}" -D_GNU_SOURCE exercises/checks/listener.c -o "$SCRATCH/listener" 2>"$SCRATCH/build" ||
        wrong 'exercises/checks/listener.c does not compile'
    "$SCRATCH/listener" "$MASTER_ADDR" "$MASTER_PORT" >"$SCRATCH/ready" &
    pids[100]=$!
    within 10 grep -qs listening "$SCRATCH/ready" || wrong 'exercises/checks/listener.c does not start'
}
