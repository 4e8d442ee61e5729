#!/usr/bin/env bats
# Tests of the sources as text: which folder may include or mention what, what programs link, and the format.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    cd "$root" || return
    mapfile -t sources < <(find 0*/ common zoo watch cpu_device exercises tests -name '*.[ch]' -o -name '*.cu')
    mapfile -t common < <(find common -name '*.[ch]' -o -name '*.cu')
    [ ${#sources[@]} -gt 0 ]
    [ ${#common[@]} -gt 0 ]
}

# none PATTERN FILE...: no line may match. Prints the lines that do.
none() {
    local found
    found=$(grep -nHE "$@") || return 0
    echo "$found" && return 1
}

@test "common/ mentions no ranks, no world size and no NCCL" {
    none -i '(^|[^a-z])(ranks?|world)([^a-z]|$)|nccl' "${common[@]}"
}

@test "common/ includes nothing of zoo/, watch/ or a step; zoo/ and watch/ include nothing of each other or a step" {
    none '#include [<"](zoo|watch|0)' "${common[@]}"
    none '#include [<"](watch|0)' zoo/{*,*/*}.[ch] zoo/*/*.cu
    none '#include [<"](zoo|0)' watch/*.[ch]
}

@test "each script that computes with awk, or sorts numbers, reads them with a point in each locale" {
    local scripts
    mapfile -t scripts < <(grep -rlE '\bawk\b|sort -[a-z]*[gnV]' --include='*.sh' --include='*.bats' .ci bench cpu_device exercises tests tools)
    [ ${#scripts[@]} -gt 30 ]
    scripts=("$(grep -LE '^export LC_ALL=C|^ *\. .*(begin\.sh|helpers\.bash)|^load .*helpers' "${scripts[@]}")")
    [ "${scripts[*]}" = '' ] || { echo "${scripts[*]}" && return 1; }
}

# linked PROGRAM FOLDER: the sources of the folder whose modules the program contains
linked() {
    readelf -wi --dwarf-depth=1 "$1" | sed -n "s|.*DW_AT_name.*: \($2/.*\)|\1|p" | sort -u
}

@test "step 6 links at most 1600 lines of common/, and nothing of zoo/" {
    need_train 06_allreduce_demo/allreduce
    set_build
    local modules lines
    mapfile -t modules < <(linked "$build/06_allreduce_demo/allreduce" common)
    lines=$(cat "${modules[@]}" "${modules[@]/%.c/.h}" 2>/dev/null | wc -l)
    [ "$lines" -gt 1000 ]
    [ "$lines" -le 1600 ] || { echo "$lines: ${modules[*]}" && return 1; }
    [ "$(linked "$build/06_allreduce_demo/allreduce" zoo)" = "" ]
}

@test "step 1 without its lines of zoo/ and watch/ links nothing of them, and trains the MLP as before" {
    need_train
    set_build
    sed -E '/zoo|watch|trace_and_profile/d' 01_single_gpu/train.c >"$BATS_TEST_TMPDIR/plain.c"
    compile "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/plain.c"
    cd "$BATS_TEST_TMPDIR"
    [ "$(linked plain zoo)$(linked plain watch)" = "" ]
    [ "$(linked plain common | wc -l)" -gt 15 ]
    tiny_data data
    for program in "$TRAIN" ./plain; do
        "$program" --data data --epochs 2 --log-every 1 | grep -oE '^epoch.*(loss|accuracy) [0-9.]+' >"lines.${#program}"
    done
    [ -s "lines.${#TRAIN}" ]
    diff lines.*
    for _ in 1 2; do ./plain --data data --epochs 1 --snapshot s; done >log
    grep -q '^resumed' log
    fails 2 "--model cnn: want one of: mlp" ./plain --model cnn
}

@test "the steps use no conditional compilation" {
    none '^ *# *(if|el)' 0*/{*,*/*}.c
}

@test "no trainer calls printf itself or closes stdout, which NCCL's log needs" {
    none 'freopen|(fclose|dup2)\(.*(stdout|STDOUT)' 0*/{*,*/*}.[ch] {common/*,zoo,zoo/*,watch}/*.c
    none '(^|[^a-z])(printf|puts|putchar)\(' 0*/train.c 06_allreduce_demo/*.[ch]
}

@test "when a text names a call and its line, the call is on that line" {
    # "CALL at FILE:LINE" and "CALL(...) at FILE:LINE"; a file without a folder is in the text's own
    local text found=0 file line call
    for text in README.md */README.md docs/{,slides/}*.md; do
        while read -r file line call; do
            [[ $file == */* ]] || file=$(dirname "$text")/$file
            found=$((found + 1))
            sed -n "$line,$((line + 1))p" "$file" | # a call in a macro may stand in the macro's second line
                grep -qE "$call|DEVICE_ALLOC" ||
                { echo "$text: $file:$line is not $call" && return 1; }
        done < <(tr '\n' ' ' <"$text" | sed 's/  */ /g' |
            grep -oE '[A-Za-z]+(\([^`"]{0,80}\))? at [a-z0-9_/]+\.c:[0-9]+' |
            sed -E 's/^([A-Za-z]+).* at ([^ ]*\.c):([0-9]+)$/\2 \3 \1/')
    done
    [ $found -gt 0 ] || { echo "found none" && return 1; }
}

@test "make lint finds no mistakes" {
    local tool
    for tool in clang-format shellcheck cppcheck; do
        command -v $tool >/dev/null || skip "$tool is not installed"
    done
    [[ $(clang-format --version) == *"version 14."* ]] || skip "other versions of clang-format than 14 lay out otherwise"
    make -s lint
}
