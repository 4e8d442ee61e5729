#!/bin/sh
# compare.sh A B: whether the losses in two files of --csv differ by rounding, as those of more ranks, or by a fault.
# Measured with 3 ranks and 1 in 19 pairs of runs, with rates from 0.01 to 0.4: in the first 20 training steps, rounding stayed
# below 3e-6. Later it grew up to 1, but never by more than a factor of 150 from one step to the next.
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2
for file in "$1" "$2"; do
    [ -f "$file" ] && [ -r "$file" ] && continue
    echo "error: '$file' is no file: make compare A.csv B.csv needs two that train --log-every 1 --csv FILE has written" >&2
    exit 2
done
awk -F, -v first=20 -v most=1e-5 -v floor=1e-6 -v jump=1000 '
    FNR == 1 { file++; for (i = 1; i <= NF; i++) column[$i] = i; next }
    !("loss" in column) || $column["loss"] == "" { next }
    file == 1 { loss[$1] = $column["loss"]; rate[$1] = $column["lr"]; next }
    !($1 in loss) { next }
    $column["lr"] != rate[$1] { fault = "at step " $1 ", the learning rates are " rate[$1] " and " $column["lr"]; exit }
    {
        a = loss[$1]; b = $column["loss"]; n++
        early += $1 <= first
        difference = a == b ? 0 : a ? (a - b) / a : 1
        if (difference < 0) difference = -difference
        limit = $1 <= first ? most : $1 == last + 1 ? jump * (widest > floor ? widest : floor) : 1e9
        if (a !~ /^[0-9.e+-]+$/ || b !~ /^[0-9.e+-]+$/ || difference > limit) {
            fault = sprintf("at step %d, the losses %s and %s differ by %.0e. Rounding would not reach %.0e there", $1, a, b, difference, limit)
            exit
        }
        if (difference > widest) widest = difference
        last = $1
    }
    END {
        if (fault) { print "a fault: " fault; exit 1 }
        if (!early) {
            print "error: the files have no losses of the same steps up to step " first ": train with --log-every 1" >"/dev/stderr"
            exit 2
        }
        printf "rounding: in %d steps, the losses differ by at most %.0e, and by less than %.0e in the first %d\n", n, widest, most, first
    }' "$1" "$2"
