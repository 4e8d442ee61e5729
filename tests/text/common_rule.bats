#!/usr/bin/env bats
# Tests of the sources as text: which folder may include or mention what, what programs link, and the format.
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

# members HEADER...: the members of the structs in the headers
members() {
    sed -E 's://.*::' "$@" | awk '/^(extern )?struct .*\{$/ { inside = 1; next } /^\}/ { inside = 0 } inside' |
        tr '\n' ' ' | tr ';' '\n' | sed -E 's/.*\(\*([a-z_0-9]+)\)\(.*/\1/; s/(\[[^]]*\])+//g' |
        tr ',' '\n' | grep -oE '[a-z_0-9]+ *$' | tr -d ' ' | sort -u
}

@test "step 1 and common/ use each member of a struct of common/, but for two that others set" {
    unused=()
    for member in $(members common/*/*.h); do
        grep -qE "(->|\.)$member\b" "${common[@]}" 01_single_gpu/train.c || unused+=("$member")
    done
    [ "${unused[*]}" = "first_sample more" ] || { echo "${unused[*]}" && return 1; }
}

@test "no two structs have the same name, apart from those of each train.c" {
    found=$(find 0*/*.[ch] common zoo watch -name '*.[ch]' ! -name train.c -exec \
        sed -nE 's/^ *(struct|union|enum)( __attribute__\(\([a-z_]*\)\))? ([a-z_0-9]+) \{.*/\3/p' {} + | sort)
    [ "$(wc -l <<<"$found")" -gt 100 ]
    [ "$(uniq -d <<<"$found")" = "" ] || { uniq -d <<<"$found" && return 1; }
}

@test "each script that computes with awk, or sorts numbers, reads them with a point in each locale" {
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
    mapfile -t modules < <(linked "$build/06_allreduce_demo/allreduce" common)
    size=$(cat "${modules[@]}" "${modules[@]/%.c/.h}" 2>/dev/null | wc -l)
    [ "$size" -gt 1000 ]
    [ "$size" -le 1600 ] || { echo "$size: ${modules[*]}" && return 1; }
    [ "$(linked "$build/06_allreduce_demo/allreduce" zoo)" = "" ]
}

@test "without zoo/ and watch/, or with ZOO=0, steps build that need common/ only, and train the MLP as before" {
    need_train
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree" || return
    make -s DEVICE=cpu ZOO=0 step1
    [ "$(linked 01_single_gpu/train zoo)$(linked 01_single_gpu/train watch)" = "" ]
    rm -r zoo watch
    make -s -j2 DEVICE=cpu step1 step2 step3 step4 step5 step6
    [ "$(linked 01_single_gpu/train common | wc -l)" -gt 15 ]
    tiny_data data
    options=(--data data --epochs 2 --log-every 1)
    "$TRAIN" "${options[@]}" | grep -oE '^epoch.*(loss|accuracy) [0-9.]+' >right
    [ -s right ]
    nodes="04_multinode/launch --master-port $(free_port)"
    for command in 01_single_gpu/train '02_multigpu_fork/train --nproc 1' \
        '03_multigpu_launcher/launch 03_multigpu_launcher/train' "$nodes 04_multinode/train" "$nodes 05_fsdp/train"; do
        $command "${options[@]}" | grep -oE '^epoch.*(loss|accuracy) [0-9.]+' | diff right -
    done
    02_multigpu_fork/train --nproc 2 "${options[@]}" --csv two --lr 0.001 >/dev/null
    "$TRAIN" "${options[@]}" --csv one --lr 0.001 >/dev/null
    same_curve one two
    06_allreduce_demo/allreduce --nproc 2 --check-only | grep '#wrong'
    for _ in 1 2; do 01_single_gpu/train --data data --epochs 1 --snapshot s; done | grep '^resumed'
    fails 2 "--model cnn: want one of: mlp" 01_single_gpu/train --model cnn
    fails 2 "unknown option --trace" 01_single_gpu/train --trace t
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
    found=0
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
    for tool in clang-format shellcheck cppcheck; do
        command -v $tool >/dev/null || skip "$tool is not installed"
    done
    [[ $(clang-format --version) == *"version 14."* ]] || skip "other versions of clang-format than 14 lay out otherwise"
    make -s lint
}
