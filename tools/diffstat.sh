#!/bin/sh
# diffstat.sh: what each step changes in the train.c of the step before: a row per pair of consecutive steps
# in the current folder that both have one. Lines are those of git diff --minimal, a hunk is a run of changed
# lines, and + marks new functions, - those that are gone. Exits with 1, and names file, line and text, if a
# pair is beyond its budget or a hunk holds what a reader would look at for nothing:
#   white space  all of the hunk, as for re-indented or re-wrapped code or a lone blank line; or, beside other
#                changes, a line removed and added with the same letters (lines of only punctuation may recur)
#   comment      a removed line that is only a comment, unless the code below it goes too and no comment comes
#                in its hunk; a line removed and added with the same code under another comment; an added
#                comment without added code in its hunk, unless it stands right above a function that gets code
#   moved        a line with more than 10 characters besides blanks that is removed and added in the pair,
#                with any indentation
# The comment that opens the file says what its step is about, and may change. Other sources in the folder
# of the later step, which are read on their own, are named with their lines.
set -u

# steps, lines to add, lines to remove; in 1-2, five lines compare replicas piece by piece for hosts with little memory
budgets='1-2  95 20
2-3  60 60
3-4 110 30
4-5 160 60'

# Reads the old file (side is -), the new one (side is +) and their diff (side is empty).
# shellcheck disable=SC2016 # the dollars are those of awk
compare='
# The line without its comments; open says, from line to line, whether a comment goes on.
function uncommented(line,    code, quote, c, two, i) {
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (open) {
            if (two == "*/") { open = 0; i++ }
        } else if (quote != "") {
            code = code c
            if (c == "\\") code = code substr(line, ++i, 1)
            else if (c == quote) quote = ""
        } else if (two == "//") {
            break
        } else if (two == "/*") {
            open = 1; i++
        } else {
            code = code c
            if (c == "\"" || c == "\047") quote = c
        }
    }
    return code
}
function squeezed(s) { gsub(/[ \t\r]+/, "", s); return s }

# A function begins in a line without indentation, which may go on, and ends with a brace without indentation.
function locate(line, code,    name) {
    if (line ~ /^[A-Za-z_#]/) { signature = ""; first = FNR }
    signature = signature code
    if (inside == "" && code ~ /\{ *$/) {
        if (signature ~ /^[A-Za-z_][^=]*\(/) {
            name = signature
            sub(/ *\(.*/, "", name)
            sub(/.*[^A-Za-z0-9_]/, "", name)
            inside = starts[side, first] = name
            known[side, name] = 1
            if (side == "+") current[++currents] = name; else former[++formers] = name
            for (; first < FNR; first++) owner[side, first] = name
        }
        signature = "" # a struct or a table: what it holds begins no function
    }
    owner[side, FNR] = inside
    if (line ~ /^}/) inside = ""
}

function complain(side, n, what) {
    complaints[++count] = path[side] ":" n ": " what ": " (plain[side, n] == "" ? "(blank line)" : text[side, n])
}
function is_comment(side, n) { return plain[side, n] != "" && code[side, n] == "" && n > opening[side] }

function goes_with_code(n,    hunk) {
    hunk = hunk_of[n]
    while (is_comment("-", n)) n++
    return hunk_of[n] == hunk && code["-", n] != "" && !explained[hunk]
}

# removed[1..r] and added[1..a] are the lines of one hunk.
function end_hunk(    i, j, n, m, old, new, comments, codes) {
    for (i = 1; i <= r; i++) old = old plain["-", removed[i]]
    for (i = 1; i <= a; i++) new = new plain["+", added[i]]
    if (r + a && old == new) {
        if (a) complain("+", added[1], "white space only"); else complain("-", removed[1], "white space only")
        for (i = 1; i <= r; i++) seen["-", removed[i]] = 1
        for (i = 1; i <= a; i++) seen["+", added[i]] = 1
    }
    for (i = 1; i <= r; i++) {
        n = removed[i]
        for (j = 1; j <= a && !seen["-", n]; j++) {
            m = added[j]
            if (seen["+", m] || code["-", n] != code["+", m] || code["-", n] !~ /[A-Za-z0-9]/) continue
            if (plain["-", n] == plain["+", m]) complain("+", m, "white space only")
            else complain("+", m, "only the comment differs")
            seen["-", n] = seen["+", m] = 1
        }
        comments += is_comment("-", n)
    }
    for (j = 1; j <= a; j++) codes += code["+", added[j]] != ""
    for (j = 1; j <= a && !codes && !comments; j++)
        if (is_comment("+", added[j])) {
            # Its hunk may end with it, and the function that it is about begin.
            if ((m = starts["+", added[a] + 1]) == "") complain("+", added[j], "comment without code")
            else { waiting[++waits] = added[j]; about[waits] = m }
            break
        }
    r = a = 0
}

function touch(side, n) {
    if (owner[side, n] != "") touched[owner[side, n]] = 1
    if (side == "+" && code[side, n] != "") gains[owner[side, n]] = 1
}

side != "" {
    if (FNR == 1) { path[side] = FILENAME; inside = signature = ""; open = 0; opens = 1 }
    text[side, FNR] = $0
    plain[side, FNR] = squeezed($0)
    line = uncommented($0)
    code[side, FNR] = squeezed(line)
    if (opens && code[side, FNR] == "" && plain[side, FNR] != "") opening[side] = FNR; else opens = 0
    locate($0, line)
    next
}
/^@@ / {
    end_hunk()
    hunks++
    split($2, from, /[-,]/); split($3, to, /[+,]/)
    old_line = from[2]; new_line = to[2]
    next
}
!hunks { next }
/^-/ { hunk_of[old_line] = hunks; minus[++minuses] = old_line; removed[++r] = old_line; touch("-", old_line++) }
/^\+/ { if (is_comment("+", new_line)) explained[hunks] = 1; plus[++pluses] = new_line; added[++a] = new_line; touch("+", new_line++) }

function name_function(mark, name) {
    if (more || length(list mark name) > 60) more++
    else list = list (list == "" ? "" : ", ") mark name
}
END {
    end_hunk()
    for (i = 1; i <= pluses; i++) if (length(plain["+", plus[i]]) > 10 && !seen["+", plus[i]])
        places[plain["+", plus[i]]] = places[plain["+", plus[i]]] " " plus[i]
    for (i = 1; i <= minuses; i++) {
        n = minus[i]
        if (seen["-", n]) continue
        if (split(places[plain["-", n]], place, " ")) {
            complain("-", n, "moved to " path["+"] ":" place[1])
            sub(/^ [0-9]+/, "", places[plain["-", n]])
        } else if (is_comment("-", n) && !goes_with_code(n)) {
            complain("-", n, "comment removed or reworded")
        }
    }
    for (i = 1; i <= waits; i++)
        if (!gains[about[i]]) complain("+", waiting[i], "comment without code")
    if (budget == "") complaints[++count] = path["+"] ": no budget in tools/diffstat.sh for steps " pair
    split(budget, most, " ")
    within = budget != "" && pluses <= most[1] && minuses <= most[2]
    if (budget != "" && !within)
        complaints[++count] = path["+"] ": " pluses + 0 " lines added and " minuses + 0 \
            " removed, beyond the budget of " most[1] " and " most[2]

    # The new ones come first, as there may be no room for all.
    for (i = 1; i <= currents; i++)
        if (!known["-", current[i]]) name_function("+", current[i])
    for (i = 1; i <= currents; i++)
        if (known["-", current[i]] && touched[current[i]]) name_function("", current[i])
    for (i = 1; i <= formers; i++)
        if (!known["+", former[i]]) name_function("-", former[i])
    if (more) list = list ", and " more " more"
    limits = budget == "" ? "none" : most[1] "/" most[2]
    verdict = within ? "yes" : "no"
    printf "%-5s %6d %8d %6d %8s  %-6s  %s\n", pair, pluses, minuses, hunks, limits, verdict, list
    fflush()
    for (i = 1; i <= count; i++) print "error: " complaints[i] >"/dev/stderr"
    exit (count > 0)
}'

command -v git >/dev/null || {
    echo "error: git is not installed, and counts the differences (the folder need not be a git checkout)" >&2
    exit 1
}
echo 'steps  added  removed  hunks   budget  within  functions'
failed=0 new=
for step in 1 2 3 4 5 6 7 8 9; do
    old=$new new=
    for file in 0"$step"_*/train.c; do
        [ -f "$file" ] && new=$file && break
    done
    if [ -n "$old" ] && [ -n "$new" ]; then
        pair=$((step - 1))-$step
        budget=$(echo "$budgets" | sed -n "s/^$pair *//p")
        changes=$(git diff --no-index --no-ext-diff --no-textconv --text --no-color --diff-algorithm=minimal \
            --indent-heuristic --unified=0 --inter-hunk-context=0 "$old" "$new")
        [ $? -le 1 ] || exit 1 # git has said why
        printf '%s\n' "$changes" |
            LC_ALL=C awk -v pair="$pair" -v budget="$budget" "$compare" side=- "$old" side=+ "$new" side= - ||
            failed=1
        for other in "${new%/*}"/*.[ch]; do
            [ "$other" = "$new" ] || [ ! -f "$other" ] || echo "      and $other, $(wc -l <"$other") lines"
        done
    fi
done
exit $failed
