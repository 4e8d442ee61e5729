#!/bin/sh
# diffstat.sh: counts the lines that each step changes in the train.c of the previous step. It prints one row
# for each pair of consecutive steps in the current folder. It counts the lines of git diff --minimal. A hunk is
# a run of changed lines. In the list of functions, + marks new ones, and - marks removed ones. The script exits with 1,
# and prints file, line and text, if a pair exceeds its budget, or if a hunk makes readers look at lines for nothing:
#   white space  The whole hunk changes only white space, such as an indentation, a line break or a blank line. Or a
#                line is removed and added with the same letters, beside other changes. This is allowed below a new
#                condition or loop, which explains the new indentation, and for lines of punctuation only.
#   comment      A removed line is only a comment, unless the code below it goes too and its hunk adds no comment. Or
#                a line is removed and added with the same code and another comment. Or an added comment has no added
#                code in its hunk, unless it stands right above a function that gets code.
#   moved        A line with more than 10 characters besides blanks is removed in one place and added in another.
# The first comment of a file explains its step, so it may change. tools/reading.sh counts the lines of the other files.
set -u

# steps, lines to add, lines to remove: a tenth above what the course needs, so that nobody squeezes a line to fit
budgets='1-2 125 20
2-3  65 25
3-4  60 25
4-5  60  95
5-7 150  48'

# awk reads the old file (with side set to -), the new file (side +), and their diff (side empty).
# shellcheck disable=SC2016 # the dollars are those of awk
compare='
# Returns the line without its comments. open is 1 if a comment continues on the next line.
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

# A function begins with a line without indentation, and ends with a brace without indentation. Its first line may
# continue on the next ones.
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
        signature = "" # in a struct or a table, no function begins
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

function indent(n) { match(text["+", n], /^ */); return RLENGTH }

# Returns 1 if an added line is indented below a new condition or loop, or below another such line.
function under_condition(n,    above) {
    for (above = n - 1; above > 0 && (plain["+", above] == "" || indent(above) >= indent(n)); above--) ;
    if (!(above in fresh)) return 0
    if (seen["+", above]) return under_condition(above)
    return text["+", above] ~ /^ *(} *)?(if|else|for|while|do|switch)([^A-Za-z0-9_]|$)/
}

# removed[1..r] and added[1..a] are the lines of one hunk.
function end_hunk(    i, j, n, m, old, new, comments, codes, same) {
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
            same = plain["-", n] == plain["+", m]
            if (seen["+", m] || code["-", n] != code["+", m] || plain["-", n] !~ /[A-Za-z0-9]/) continue
            if (code["-", n] !~ /[A-Za-z0-9]/ && !(same && under_condition(m))) continue
            if (!same) complain("+", m, "only the comment differs")
            else if (!under_condition(m)) complain("+", m, "white space only")
            seen["-", n] = seen["+", m] = 1
        }
        comments += is_comment("-", n)
    }
    for (j = 1; j <= a; j++) codes += code["+", added[j]] != ""
    for (j = 1; j <= a && !codes && !comments; j++)
        if (is_comment("+", added[j])) {
            # The comment may end its hunk, and its function may begin on the next line.
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
/^\+/ { if (is_comment("+", new_line)) explained[hunks] = 1; fresh[new_line]; plus[++pluses] = new_line; added[++a] = new_line; touch("+", new_line++) }

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

    # New functions come first, because the list may be too long for the line.
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
    echo "error: git is not installed, but make needs it to count differences (even outside a git checkout)" >&2
    exit 1
}
echo 'steps  added  removed  hunks   budget  within  functions'
failed=0 new=
for step in 1 2 3 4 5 6 7 8 9; do
    for file in 0"$step"_*/train.c; do
        [ -f "$file" ] || continue 2
        old=$new new=$file
    done
    if [ -n "$old" ]; then
        pair=$(echo "$old" | cut -c 2)-$step
        budget=$(echo "$budgets" | sed -n "s/^$pair *//p")
        changes=$(git diff --no-index --no-ext-diff --no-textconv --text --no-color --diff-algorithm=minimal \
            --indent-heuristic --unified=0 --inter-hunk-context=0 "$old" "$new")
        [ $? -le 1 ] || exit 1 # git has printed the reason
        printf '%s\n' "$changes" |
            LC_ALL=C awk -v pair="$pair" -v budget="$budget" "$compare" side=- "$old" side=+ "$new" side= - ||
            failed=1
    fi
done
exit $failed
