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
# in that function (or struct, or table), one after the other, exactly once. "-..." stands for all lines up to the one that
# follows it. A change of a few words needs no lines: "in sum_layer: ncclSum => ncclAvg" replaces the words that stand there
# once. A source in another language than C has one part, "script". If the lines or words are not there, the program prints
# a line to stderr and exits with 1.

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
        else if (line == "-..." && mine)
            gap[changes] = 1
        else if (line ~ /^[-+ ]/ && mine) {
            if (line !~ /^[+]/ && gap[changes])
                last[changes] = last[changes] substr(line, 2) "\n"
            else if (line !~ /^[+]/)
                old[changes] = old[changes] substr(line, 2) "\n"
            if (line !~ /^-/)
                new[changes] = new[changes] substr(line, 2) "\n"
        } else if (line !~ /^([-+ #]|$|in |program |from )/)
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
        start = words[c] ? "" : "\n" # of the text that is looked for
        for (d in names)
            if (names[d] == n) {
                found = d
                if (old[c] != "" && index("\n" body[d], start old[c]))
                    holder = d
            }
        if (!found)
            complain(file " has no " n)
        if (!holder)
            complain(n " in " file " does not hold these lines:\n" old[c])
        text_before = "\n" body[holder]
        place = index(text_before, start old[c]) + length(start)
        behind = substr(text_before, place + length(old[c]))
        if (index(words[c] ? behind : "\n" behind, start old[c]))
            complain(n " in " file " holds these lines more than once:\n" old[c])
        if (gap[c]) {
            end = index("\n" behind, "\n" last[c])
            if (last[c] == "" || !end)
                complain(n " in " file " does not hold these lines behind the others:\n" last[c])
            behind = substr(behind, end + length(last[c]))
        }
        body[holder] = substr(text_before, 2, place - 2) new[c] behind
    }
    for (i = 1; i <= NR; i++) {
        if (!at[i])
            printf "%s", text[i]
        else if (at[i] == i)
            printf "%s", body[i]
    }
}
