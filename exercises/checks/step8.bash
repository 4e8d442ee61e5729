# What the checks of step 8 share.
small+=(--hidden "32,32,32,32,32") # six layers, so three stages can have two chunks each
course_words+='|pipeline|stages'
errors=('waits in Send|A stage waits until another one receives. Does that one send, too, before it receives?'
    'waits in Recv|A stage waits until another one sends. Does that one receive, too, before it sends?')

# compiles_orders: the attendee's program, and checks/orders.c with the attendee's schedule.c, which is $orders.
compiles_orders() {
    compiles
    orders=$build/$MINE/orders
    "${CC:-cc}" -D_GNU_SOURCE -O1 -I. -DSCHEDULE="\"$MINE/schedule.c\"" exercises/checks/orders.c -o "$orders" \
        2>"$SCRATCH/build" && return
    cat "$SCRATCH/build"
    wrong 'it compiles, but the check cannot call its functions' 'Have their parameters changed?'
}

# order KIND STAGES CHUNKS MICRO_BATCHES [evaluation]: each stage does each work once, after all that it needs. $idle is the
# number of idle ticks of each stage, and $flight holds the micro-batches in flight of each stage.
order() {
    local kinds=(gpipe 1f1b interleaved) kind what training=1 status=0 lines
    for kind in 0 1 2; do
        [ "${kinds[kind]}" != "$1" ] || break
    done
    [ "${5:-}" != evaluation ] || training=0
    what="with $1, $2 stages$([ "$3" = 1 ] || echo " of $3 chunks") and $4 micro-batch$([ "$4" = 1 ] || echo es)${5:+, in $5}"
    what_order=$what
    limited "$orders" "$kind" "$2" "$3" "$4" $training >"$SCRATCH/orders" 2>/dev/null || status=$?
    mapfile -t lines < <(sed -n 's/^wrong //p' "$SCRATCH/orders")
    [ ${#lines[@]} != 0 ] || [ $status = 0 ] || lines=('pipeline_schedule_build crashes, or does not end')
    [ ${#lines[@]} = 0 ] || wrong "$what, ${lines[0]}" "${lines[@]:1}" \
        "$(order_of "$(sed -n 's/.*\(stage [0-9]*\) .*/\1/p; s/.*forever$/stage [0-9]*/p' <<<"${lines[0]}")")"
    idle=$(sed -n 's/^idle //p' "$SCRATCH/orders")
    read -ra flight < <(sed -n 's/^flight //p' "$SCRATCH/orders")
}

# Of the last order: that of this stage, such as "stage 1", shortened.
order_of() { # STAGE
    [ -z "$1" ] || grep "^$1:" "$SCRATCH/orders" | sed 's/^stage/Order of stage/' | cut -c 1-120
}

# keeps STAGE MOST: in the last order, this stage has at most so many micro-batches in flight.
keeps() {
    [ "${flight[$1]}" -le "$2" ] ||
        wrong "$what_order, stage $1 keeps ${flight[$1]} micro-batches in flight" \
            "Expected: $2. It must store the activations of each of them until its backward." "$(order_of "stage $1")"
}

# idles MOST: in the last order, each stage is idle for at most so many ticks.
idles() {
    [ "$idle" -le "$1" ] || wrong "$what_order, each stage is idle for $idle ticks" "Expected: $1 ticks." "$(order_of 'stage 0')"
    ok "$what_order, each work comes once and after what it needs, and a stage is idle for $idle ticks"
}

# one_group_a_move: with 2 stages and 4 micro-batches in 1F1B, each stage transfers something before 5 of its works, in each
# of 20 training steps.
one_group_a_move() {
    must_run 2 --micro-batches 4
    expect_calls ncclGroupStart - $((20 * 2 * 5)) 'one group for the transfers of a tick' \
        'Transfers outside of a group, or in two groups, run one after the other. In one group, a link carries data in' \
        'both directions at the same time.'
}
