# For the checks of step 6.
small=() seldom=()
course_words+='|[1-3]\.|op|[a-z+]+ +[0-9]+ +[0-9]+'
errors=('waits in Recv|A rank waits for data. Which rank should send it, and is that rank itself waiting for this one?'
    'waits in Send|A rank waits until another one receives its data. Has that rank called ncclRecv for it?'
    "{CALLS_DIFFER}|A rank waits in ncclSend or ncclRecv, but the other rank has gone on without the call for it."
    'is too short|NCCL counts values, not bytes.'
    'device memory|A chunk begins or ends outside of the arrays.')
options=(--check-only --count 10 --min-bytes 40 --max-bytes 40)

# with_probe: all runs use the attendee's program with the probe of step6.c.
with_probe() {
    local folder=$build/exercises/probe.$$
    mkdir -p "$folder"
    # shellcheck disable=SC2064 # the folder is known now
    trap "rm -rf '$folder' '$build/$folder'" EXIT
    sed "s|06_allreduce_demo/allreduce.c|$MINE/allreduce.c|" exercises/checks/step6.c >"$folder/allreduce.c"
    program=$build/$folder/allreduce
    makes_caller "$program" "$main" "$folder"
}

# sums OPERATION RANKS FLOATS: the operation is a right all-reduce of vectors with so many floats.
sums() {
    local status=0 lines bytes=$((4 * $3)) what
    what="with $(ranks "$2") and vectors of $3 float$([ "$3" = 1 ] || echo s), $1"
    rm -f "$SCRATCH/probe"
    PROBE=$1 PROBE_FILE=$SCRATCH/probe run_ranks "$2" --count "$3" --min-bytes $bytes --max-bytes $bytes || status=$?
    if ! grep -qs sum "$SCRATCH/probe"; then
        mapfile -t lines < <(explain_errors)
        [ ${#lines[@]} != 0 ] || lines=("The table has no operation $1.")
        wrong "$what fails" "${lines[@]}"
    fi
    mapfile -t lines < <(sort -k 2,2n -k 3,3n "$SCRATCH/probe" | awk -v right="$(printf %0"$2"d 0 | tr 0 1)" '
        $1 == "sum" {
            bad += $5 != right
            if (++parts[$2] > 6) next
            text[$2] = text[$2] (parts[$2] > 1 ? "; " : "") ($5 ~ /nan/ ? "nothing" : $5) " in " \
                (parts[$2] > 1 ? "" : $3 == $4 ? "element " : "elements ") ($3 == $4 ? $3 : $3 " to " $4) \
                (parts[$2] == 6 ? " ..." : "")
        }
        END {
            if (bad) print "Rank r begins with 10^r in each element, so the digits of a sum count the vectors."
            if (bad) print "Expected: " right " in each element."
            for (i = 0; bad && i in text; i++) print "Rank " i " has: " text[i]
        }')
    [ ${#lines[@]} = 0 ] || wrong "$what does not sum" "${lines[@]}"
    [ $status = 0 ] || { mapfile -t lines < <(explain_failure "$1") && wrong "$what is not right" "${lines[@]}"; }
    ok "$what gives the sums"
}

# explain_failure OPERATION: the sum has all vectors, but the program has ended with an error.
explain_failure() {
    awk -v name="$1" -v sent="$(sent)" '
        $1 == name && $4 != "float" && $2 { out = $2 }
        $1 == name && $4 != "float" && /differs/ { bytes = 1 }
        $1 == name && $4 == "float" && $NF { in_place = $NF }
        END {
            if (out) print out " elements have the sum of other elements: data is sent from, or received to, the wrong place."
            else if (in_place) print in_place " elements are wrong if the input and the output are the same array."
            else if (bytes) print "The bytes in w->sent are not those that such an all-reduce sends. The ranks send: " sent
        }' "$SCRATCH/out"
    explain_errors
}

# What the ranks sent in the last run of the probe: "0 to 1: 12 floats, ..."
sent() {
    awk '$1 == "send" { n[$2 " to " $3] += $4 } END { for (i in n) print i ": " n[i] " floats" }' "$SCRATCH/probe" |
        sort | paste -sd, | sed 's/,/, /g; s/^$/nothing/'
}

# sends FLOATS FROM-TO...: the ranks sent so many floats in the last run of the probe, such as: sends 12 0-1 1-0.
sends() {
    local expected
    expected=$(printf "%s: $1 floats, " "${@:2}" | sed 's/-/ to /g; s/, $//')
    [ "$(sent)" = "$expected" ] ||
        wrong 'the sums are right, but not the way to them' "The ranks send: $(sent)" "Expected:       $expected"
    ok "the ranks send $1 floats: $(echo "${@:2}" | sed 's/ /, /g; s/-/ to /g')"
}

# sends_of_ring RANKS FLOATS: each rank sends so many floats to the next one.
sends_of_ring() {
    local rank links=()
    for ((rank = 0; rank < $1; rank++)); do
        links+=("$rank-$(((rank + 1) % $1))")
    done
    sends "$2" "${links[@]}"
}

# both_ways: in the last run, each rank sent and received at the same time.
both_ways() {
    local alone
    alone=$(awk '$1 == "receive" && $5 { receives[$2, $5] } $1 == "send" { n++; group[n] = $2 SUBSEP $5 }
        END { for (i in group) alone += !(group[i] in receives); print alone + 0 }' "$SCRATCH/probe")
    [ "$alone" = 0 ] || wrong "the ring works, but in $alone of the ranks' sends, the rank does not receive meanwhile" \
        'A link can carry data in both directions at the same time. Here, some ranks wait while others send, and with' \
        'more ranks, a round takes longer. A group runs the send and the receive of a round together.'
    ok 'each rank sends and receives at the same time'
}
