#!/usr/bin/env bats
# Tests of the commands in the READMEs, guides and slides. Commands of the course's own programs run here on tiny images.
# quotes.bats runs those whose output is quoted, and texts.py looks up the targets of make.
load ../helpers

setup_file() {
    cd "$root" || return
    programs=(01_single_gpu/train 02_multigpu_fork/train 03_multigpu_launcher/{train,launch}
        04_multinode/{train,doctor} 05_fsdp/train 06_allreduce_demo/allreduce 07_large_models/{train,generate})
    cd "$BATS_FILE_TMPDIR" || return
    tiny_data data/mnist
    # A pipeline needs a layer for each part of the model, and each of four parts of a matrix needs a head.
    local small='"$@" --hidden 8,8,8,8,8,8,8 --heads 4 --width 8 --batch 120 --epochs 1'
    # The text of the course is not tiny.
    small+=' $(case "$*" in *--max-steps*) ;; *"--data text"*) echo --max-steps 40 ;; esac)'
    small_programs "$small --layers 1 --context 256" "${programs[@]}"
    small_programs "$small --layers 6 --context 16" 08_pipeline/train 09_tensor/train
    export build=${TRAIN%/01_single_gpu/train}
    mkdir -p tools build/trace/step2 build/quickstart
    ln -s "$root"/tools/{trace.py,on_paper.py,formulas.py,curve.sh} tools
    # This make runs the programs in this folder, but for classify, whose model would be another one than that of this small
    # trainer. The next test knows the other targets.
    mkdir bin
    cat >bin/make <<END
#!/bin/bash
set -eu -o pipefail
for word; do
    [[ \$word != EX=* ]] || compgen -G "$root/exercises/\$(sed 's,^EX=,,; s,^debug.,debug/,' <<<"\$word")-*" >/dev/null
done
[[ " \$*" =~ \ (quickstart|(run|trace)-step) ]] || exit 0
$(command -v make) --no-print-directory -C "$root" -n "\$@" DEVICE=cpu BUILD=build/test >made
grep '^0[1-9]_' made | grep -v classify | bash -e || [ \${PIPESTATUS[0]} = 1 ]
END
    printf '#!/bin/sh\n[ -f "%s/$1" ]\n' "$root" | tee bin/qsub >bin/sbatch # which are tested elsewhere
    printf '#!/bin/sh\n' | tee bin/squeue >bin/apptainer
    printf '#!/bin/sh\n' >tools/doctor.sh # tested elsewhere, too
    chmod +x bin/* tools/doctor.sh
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    unset DEVICE
    export NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 PATH=$PWD/bin:$PATH
    texts=("$root"/README.md "$root"/0*/README.md "$root"/docs/{,slides/}*.md)
}

# blocks FILE: prints its fenced blocks that begin with a command. A line with only # ends each block. quotes.bats runs those
# whose output is quoted.
blocks() {
    awk '
        function put() { if (block) print block "#"; block = "" }
        /^```/ { inside = !inside; if (inside && $0 == "```output") block = ""
            if (inside) put(); first = inside && $0 == "```"; command = 0; next }
        inside && first { first = 0; command = /^(export )?([A-Za-z_]+=|(make|0[0-9]_[^ ]*|tools\/[^ ]*|for|cat) )/ }
        inside && command { block = block $0 "\n" }
        END { put() }' "$1"
}

@test "the commands in the READMEs, guides and slides run as written" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    count=0
    for text in "${texts[@]}"; do
        rm -f ./*.bin* ./*.csv
        block=
        while IFS= read -r line; do
            [ "$line" = '#' ] || { block+=$line$'\n' && continue; }
            [[ $block != *"--master-addr node"* ]] || block= # needs two machines
            block=${block//29556/$(free_port)} block=${block//\/shared\//}
            block=${block//--model cnn/--model cnn --data synthetic} # the tiny images are too small for it
            block=$(sed '/^work\//d' <<<"$block") # a learner's program
            timeout "$(patience 60)" bash -e -o pipefail -c "$block" >out 2>err </dev/null ||
                { printf '%s\n' "${text#"$root/"}:" "$block" && tail -n 5 out err && return 1; }
            count=$((count + 1)) block=
        done < <(blocks "$text")
        [ -z "$block" ]
    done
    [ $count -gt 0 ] || { echo "found none" && return 1; }
}

@test "the READMEs of the steps and the guides build a step before a command runs it" {
    for text in "$root"/0*/README.md "$root"/docs/*.md; do
        awk -v text="${text#"$root/"}" '
            /^```/ { inside = !inside }
            /make / { for (step = 1; step <= 9; step++) if ($0 ~ "step" step) built[step] = 1 }
            /make (run-step|rehearse)/ { built[3] = 1 } # and with it the launcher
            inside { for (step = 1; step <= 9; step++)
                if ($0 ~ "0" step "_[a-z_]*/(train|launch|allreduce|generate)" && !built[step]++) { print text ": " $0; bad = 1 } }
            END { exit bad }' "$text"
    done
}

@test "git ignores the files that commands and jobs leave in the clone" {
    git -C "$root" rev-parse 2>/dev/null || skip "no checkout"
    for file in step4.bin step4.bin.{lock,tmp} step5.bin.e1s0u0123abcd.0of2 step5.bin.e1s0u0123abcd.0of2.tmp \
        loss.csv trace.json trace.0.json merged.json one.log logs/rank_0.stdout step4.17.out step4.o17; do
        git -C "$root" check-ignore -q "$file" || { echo "$file" && return 1; }
    done
}

@test "the losses in the README of step 2 agree to eight digits at first, and differ by rounding later" {
    [ -d "$root/data/mnist" ] || skip "no MNIST: make data fetches it"
    mkdir whole
    cd whole
    ln -s "$root/data" data
    mkdir 01_single_gpu 02_multigpu_fork
    ln -s "$build/01_single_gpu/train" 01_single_gpu
    ln -s "$build/02_multigpu_fork/train" 02_multigpu_fork
    blocks "$root/02_multigpu_fork/README.md" | sed -n '/csv one.csv/,/^#/p' >commands
    timeout 300 bash -e commands >now
    sed -n '/^1,[0-9.]*,[0-9.]*$/,/^```/p' "$root/02_multigpu_fork/README.md" | grep , >recorded
    [ "$(cut -d, -f1 now | tr '\n' ' ')" = "1 2 5 20 100 500 " ]
    paste -d, now recorded | awk -F, '
        function near(a, b, most) { return (a - b) ^ 2 < (most * a) ^ 2 }
        $1 != $4 { print "another step: " $0; wrong = 1 }
        $1 <= 20 && !(near($2, $3, 2e-8) && near($2, $5, 1e-6) && near($5, $6, 2e-8)) { print "differs: " $0; wrong = 1 }
        !near($2, $3, 0.1) || !near($2, $5, 0.1) { print "is far off: " $0; wrong = 1 }
        $1 == 500 && $5 == $6 { print "rounding should show: " $0; wrong = 1 }
        END { exit wrong }'
}
