#!/bin/sh
# curve.sh FILE: draws the losses of a run in the terminal, on a logarithmic scale, from the file that its option --csv has
# written. A column stands for a part of the training steps, and shows their mean loss.
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2
[ -r "$1" ] || { echo "usage: tools/curve.sh FILE: a file that train --csv FILE has written" >&2; exit 2; }
awk -F, -v columns=60 -v rows=10 '
    $1 + 0 > 0 && $2 + 0 > 0 { step[++n] = $1; loss[n] = $2 }
    END {
        if (!n) { print "error: this file has no losses of training steps" >"/dev/stderr"; exit 1 }
        for (x = i = 1; x <= columns; x++) {
            for (sum = count = 0; i <= n && step[i] <= step[n] * x / columns; count++) sum += loss[i++]
            value[x] = count ? sum / count : x > 1 ? value[x - 1] : loss[1]
            if (x == 1 || value[x] > high) high = value[x]
            if (x == 1 || value[x] < low) low = value[x]
        }
        for (y = rows; y > 0; y--) {
            line = y == rows ? sprintf("loss %7.4f |", high) : y == 1 ? sprintf("%12.4f |", low) : sprintf("%12s |", "")
            for (x = 1; x <= columns; x++) {
                part = high > low ? log(value[x] / low) / log(high / low) : 1
                line = line (int(1.5 + part * (rows - 1)) == y ? "*" : " ")
            }
            print line
        }
        printf "%14s", "step"
        printf " %-" columns - 8 "d%7d\n", step[1], step[n]
    }' "$1"
