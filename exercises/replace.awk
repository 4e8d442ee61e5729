# replace.awk: prints a source of the course with the changes of a task. The variables are task, the file with the
# changes, and file, the path of the source as the task names it. A task looks like this:
#
#   file 02_multigpu_fork/train.c
#   in train_step
#        forward(t, rows);
#   -    backward(t, rows);
#   +    // TODO: compute the gradients
#
# As in a diff, "-" begins a line that goes, "+" one that comes, and " " one that stays. The lines with "-" and " " must stand
# in that function (or struct, or table), one after the other, exactly once. A source in another language than C has one
# part, "script". If the lines are not there, the program prints a line to stderr and exits with 1. Only a stretch task,
# which has the line "stretch", may leave a source as it is.

function complain(text) {
    print "error: " task ": " text >"/dev/stderr"
    failed = 1
    exit 1
}

# Reads the changes of this file.
BEGIN {
    while ((getline line <task) > 0) {
        if (line ~ /^file /)
            mine = substr(line, 6) == file
        else if (line == "stretch")
            stretch = 1
        else if (line ~ /^in / && mine)
            name[++changes] = substr(line, 4)
        else if (line ~ /^[-+ ]/ && mine) {
            if (line !~ /^[+]/)
                old[changes] = old[changes] substr(line, 2) "\n"
            if (line !~ /^-/)
                new[changes] = new[changes] substr(line, 2) "\n"
        } else if (line !~ /^([-+ #]|$|in |program |from )/)
            complain("a line that says nothing: " line)
    }
    if (!changes && !stretch)
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

END {
    if (failed)
        exit 1
    # A definition is known by its first line, because a struct and a function may have the same name.
    script = file !~ /\.(c|h|cu)$/
    if (script)
        names[inside = 1] = "script"
    for (i = 1; i <= NR; i++) {
        if (!inside && text[i] ~ /^[a-z_]/ && text[i] !~ /;\n$/)
            names[inside = i] = name_of(text[i])
        body[at[i] = inside] = body[inside] text[i]
        if (!script && text[i] ~ /^}/)
            inside = 0
        if (text[i] ~ /^} .*\{\n$/) # a table behind its struct: } options[] = {
            names[inside = i + 1] = name_of(substr(text[i], 3))
    }
    for (c = 1; c <= changes; c++) {
        n = name[c]
        found = holder = 0
        for (d in names)
            if (names[d] == n) {
                found = d
                if (old[c] != "" && index("\n" body[d], "\n" old[c]))
                    holder = d
            }
        if (!found)
            complain(file " has no " n)
        if (!holder)
            complain(n " in " file " does not hold these lines:\n" old[c])
        place = index("\n" body[holder], "\n" old[c])
        if (index(substr(body[holder], place), "\n" old[c]))
            complain(n " in " file " holds these lines more than once:\n" old[c])
        body[holder] = substr(body[holder], 1, place - 1) new[c] substr(body[holder], place + length(old[c]))
    }
    for (i = 1; i <= NR; i++) {
        if (!at[i])
            printf "%s", text[i]
        else if (at[i] == i)
            printf "%s", body[i]
    }
}
