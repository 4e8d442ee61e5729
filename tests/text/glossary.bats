#!/usr/bin/env bats
# Tests of docs/glossary.md: it explains each term that a README sets in italics, and links to the step that uses it first.
# shellcheck disable=SC2154 # helpers.bash sets root
load ../helpers

setup() {
    cd "$root" || return
    glossary=docs/glossary.md
}

# terms TEXT...: prints each term in italics once, as "FILE TERM" in lower case and in the singular. Code is left out.
terms() {
    awk '
        FNR == 1 { block = 0 }
        /^ *```/ { block = !block; next }
        block { next }
        {
            gsub(/`[^`]*`/, "")
            gsub(/\*\*/, "")
            while (match($0, /\*[A-Za-z][A-Za-z -]*\*/)) {
                term = tolower(substr($0, RSTART + 1, RLENGTH - 2))
                sub(/s$/, "", term)
                if (!seen[term]++) print FILENAME, term
                $0 = substr($0, RSTART + RLENGTH)
            }
        }' "$@"
}

singular() { # TERM
    local term=${1,,}
    echo "${term%s}"
}

# entries GLOSSARY: prints each entry as "LINK|NAME OF THE LINK|TERM".
entries() {
    sed -nE 's/^- \*\*([^*]+)\*\*[^(]*\(\[([^]]*)\]\(([^)#]*)[^)]*\)\):.*/\3|\2|\1/p' "$1"
}

# faults GLOSSARY: prints the terms that lack an entry, and the entries that are wrong.
faults() {
    local text term link name
    local -A first listed
    while read -r text term; do
        [ -n "${first[$term]:-}" ] || first[$term]=$text
    done < <(terms 0*/README.md README.md exercises/README.md cpu_device/README.md)
    [ ${#first[@]} -gt 0 ] || echo "found none"
    while IFS='|' read -r link name term; do
        text=${link#../}
        [ -e "$text" ] || text=docs/$link
        listed[$(singular "$term")]=$text
        tr -s '\n _' ' ' <"$text" | grep -qiF -- "$term" || echo "$text does not use $term"
        [[ $text != 0* || $text = "0${name#step }"_* ]] || echo "$term: $name is not $text"
    done < <(entries "$1")
    [ ${#listed[@]} = "$(grep -c '^- ' "$1")" ] || echo "an entry has another form, or is there twice"
    for term in "${!first[@]}"; do
        [[ ${first[$term]} = 0* ]] || { [ -n "${listed[$term]:-}" ] || echo "$term of ${first[$term]} has no entry"; continue; }
        [ "${listed[$term]:-no entry}" = "${first[$term]}" ] || echo "$term: ${first[$term]} explains it, not ${listed[$term]:-}"
    done
}

@test "the glossary explains each term that a README sets in italics, and links to the step that explains it" {
    run faults "$glossary"
    [ -z "$output" ] || { echo "$output" && return 1; }
}

@test "a term without an entry and a wrong link are found" {
    finds_in "$glossary" faults <<'END'
/^- \*\*event/d@event: 02_multigpu_fork/README.md explains it
s/(\*\*event\*\* .\[step )2(.*)02_multigpu_fork/\13\203_multigpu_launcher/@event: 02_multigpu_fork/README.md explains it, not 03
s/(\*\*event\*\* .\[step )2/\13/@event: step 3 is not 02_multigpu_fork/README.md
s/\*\*node\*\*/**nodule**/@README.md does not use nodule
s/^(- \*\*kernel\*\*) .*:/\1:/@another form
END
}
