# replace.awk: prints a source of the course with the changes of a task. The variables are task, the file with the
# changes, and file, the path of the source as the task names it. A task looks like this:
#
#   file 02_multigpu_fork/train.c
#   in train_step
#        forward(t, rows);
#   -    backward(t, ...
#   +    // TODO: compute the gradients
#
# As in a diff, "-" begins a line that goes, "+" one that comes, and " " one that stays. The lines with "-" and " " must stand
# in that function (or struct, or table), one after the other, exactly once. A line that ends with "..." stands for the
# statement that begins so, up to its ";" or "}", and with its else. Then a change in the rest of the statement needs no change
# here. "-..." stands for all lines up to the one that follows it. A change of a few words needs no lines: "in sum_layer:
# ncclSum => ncclAvg" replaces the words that stand there once. A source in another language than C has one part, "script". If
# the lines or words are not there, the program prints a line to stderr and exits with 1.
#
# Words that end with "..." are a statement, and "..." in the new words is this statement: "in f: backward(... => g(); ..."
# calls g before it.

function complain(text) {
    print "error: " task ": " text >"/dev/stderr"
    failed = 1
    exit 1
}

# Reads the changes of this file.
BEGIN {
    while ((getline line <task) > 0) {
        arrow = line ~ /^in [a-z0-9_]+: / ? match(line, / =>( |$)/) : 0
        if (line ~ /^file /)
            mine = substr(line, 6) == file
        else if (arrow && mine) {
            colon = index(line, ": ")
            words[++changes] = 1
            name[changes] = substr(line, 4, colon - 4)
            old[changes] = substr(line, colon + 2, arrow - colon - 2)
            new[changes] = substr(line, arrow + 4)
        } else if (line ~ /^in / && mine)
            name[++changes] = substr(line, 4)
        else if (line ~ /^[-+ ]/ && mine) {
            wanted[changes, ++lines[changes]] = line
            if (line !~ /^[+]/)
                old[changes] = old[changes] substr(line, 2) "\n"
        } else if (line !~ /^([-+ #]|$|in |program )/)
            complain("a line that says nothing: " line)
    }
    if (!changes)
        complain("no changes for " file)
}

{ text[NR] = $0 "\n" }

# Returns the name that a line at the beginning of a definition defines.
function name_of(line) {
    sub(/^__attribute__\(\(.*\)\) static/, "static", line)
    sub(/ *[[({=].*/, "", line)
    sub(/\n.*/, "", line)
    sub(/.*[^A-Za-z0-9_]/, "", line)
    return line
}

# Returns the last line of the statement that begins in line i of the definition at hand.
function end_of_statement(i,    code, depth) {
    for (; i < count; i++) {
        code = here[i]
        gsub(/"([^"\\]|\\.)*"|\/\/.*/, "", code)
        depth += gsub(/[({]/, "&", code) - gsub(/[)}]/, "&", code)
        if (script || (depth <= 0 && code ~ /[;}] *$/ && here[i + 1] !~ /^ *else( |$)/))
            break
    }
    return i
}

function lines_of(first, last,    joined) {
    for (; first <= last; first++)
        joined = joined here[first] "\n"
    return joined
}

# Whether the definition at hand has the wanted lines of change c, from the k-th on, in its lines from i on. Then next_line is
# the one after them, and made the text that takes their place.
function fits(c, k, i,    kind, line, last, stays) {
    if (k > lines[c]) {
        next_line = i
        made = ""
        return 1
    }
    kind = substr(wanted[c, k], 1, 1)
    line = substr(wanted[c, k], 2)
    if (wanted[c, k] == "-...") {
        while (i <= count && !fits(c, k + 1, i))
            i++
        return i <= count
    }
    last = kind == "+" ? i - 1 : i
    if (kind == "+")
        stays = line "\n"
    else if (line ~ /\.\.\.$/ && index(here[i], substr(line, 1, length(line) - 3)) == 1)
        last = end_of_statement(i)
    else if (i > count || here[i] != line)
        return 0
    if (kind == " ")
        stays = lines_of(i, last)
    if (!fits(c, k + 1, last + 1))
        return 0
    made = stays made
    return 1
}

# Counts how often the definition d holds the old text of change c. changed is the definition with the new text.
function find(c, d,    times, place, rest, i) {
    if (words[c] && old[c] ~ /\.\.\.$/) {
        count = split(body[d], here, "\n") - 1
        for (i = 1; i <= count; i++) {
            rest = here[i]
            sub(/^ +/, "", rest)
            if (index(rest, substr(old[c], 1, length(old[c]) - 3)) == 1) {
                times++
                place = end_of_statement(i)
                rest = new[c] "\n"
                if (match(rest, /\.\.\./))
                    rest = substr(rest, 1, RSTART - 1) "\n" lines_of(i, place) substr(rest, RSTART + 3)
                changed = lines_of(1, i - 1) rest lines_of(place + 1, count)
            }
        }
        return times
    }
    if (words[c]) {
        place = index(body[d], old[c])
        rest = substr(body[d], place + length(old[c]))
        changed = substr(body[d], 1, place - 1) new[c] rest
        return !place ? 0 : index(rest, old[c]) ? 2 : 1
    }
    count = split(body[d], here, "\n") - 1
    for (i = 1; i <= count; i++)
        if (fits(c, 1, i)) {
            times++
            changed = lines_of(1, i - 1) made lines_of(next_line, count)
        }
    return times
}

END {
    if (failed)
        exit 1
    # A definition is known by its first line, because a struct and a function may have the same name.
    script = file !~ /\.(c|h|cu)$/
    if (script)
        names[inside = 1] = "script"
    for (i = 1; i <= NR; i++) {
        if (!inside && text[i] ~ /^([A-Z0-9_]+ )?[a-z_]/ && text[i] !~ /[;>]\n$/)
            names[inside = i] = name_of(text[i])
        body[at[i] = inside] = body[inside] text[i]
        if (!script && text[i] ~ /^}/)
            inside = 0
        if (text[i] ~ /^} .*\{\n$/) # a table after its struct: } options[] = {
            names[inside = i + 1] = name_of(substr(text[i], 3))
    }
    for (c = 1; c <= changes; c++) {
        found = times = 0
        for (d in names)
            if (names[d] == name[c]) {
                found = 1
                times += now = find(c, d)
                if (now) {
                    holder = d
                    result = changed
                }
            }
        if (!found)
            complain(file " has no " name[c])
        if (!times)
            complain(name[c] " in " file " does not hold these lines:\n" old[c])
        if (times > 1)
            complain(name[c] " in " file " holds these lines more than once:\n" old[c])
        body[holder] = result
    }
    for (i = 1; i <= NR; i++) {
        if (!at[i])
            printf "%s", text[i]
        else if (at[i] == i)
            printf "%s", body[i]
    }
}
