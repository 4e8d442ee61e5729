#!/usr/bin/env bats
# Tests of targets that make lists, in a tree like a fresh clone: without data/, links, libraries and programs. Only the
# objects are there, because compiling them again for each target would show nothing new. The flags are those of tests/run.sh,
# whose objects ccache knows.
load ../helpers

setup_file() {
    unset DEVICE CC CFLAGS BUILD
    copy_tree "$BATS_FILE_TMPDIR/tree"
    cd "$BATS_FILE_TMPDIR/tree" || return
    make -s -j2 DEVICE=cpu programs
    find . -type l -delete
    find build -type f ! -name '*.[od]' ! -name flags -delete
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    unset DEVICE CC CFLAGS BUILD MNIST_MIRROR
}

# fresh TARGET [VARIABLE=VALUE...]: make runs the target in a fresh tree, for the CPU device.
fresh() {
    cd "$BATS_TEST_TMPDIR" && rm -rf tree && cp -a "$BATS_FILE_TMPDIR/tree" tree && cd tree || return
    run make -j2 DEVICE=cpu "$@"
    [ "$status" = 0 ] || { printf '%s\n' "make $1 ended with $status" "$output" && return 1; }
}

says() { # TEXT...
    local text
    for text; do
        [[ $output == *"$text"* ]] || { printf '%s\n' "wanted: $text" "$output" && return 1; }
    done
}

@test "make run-stepN and stepN work in a fresh clone, for each step" {
    for folder in "$root"/0*/; do
        step=$(basename "$folder")
        arguments='--hidden 8 --max-steps 2' banner='2/468'
        [ -e "$folder/train.c" ] || arguments='--nproc 2 --check-only' banner='#wrong 0'
        fresh "run-step${step:1:1}" ARGS="$arguments" LAUNCH='--nproc-per-node 2'
        says "CPU device" "$banner"
        make DEVICE=cpu "step${step:1:1}"
        programs=$(find "$step" -type l) # the links that make has made; other sources are modules
        [ -n "$programs" ]
        for program in $programs; do
            "$program" --help >help
        done
    done
}

@test "make trace-stepN writes a trace of each step's program, and says how to see it" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    export CPU_DEVICES=2
    fresh "trace-step2" ARGS='--hidden 8'
    says 'step 12/468' 'Times of the streams in ms, measured' 'Arrivals at' \
        'build/trace/step2/merged.json: all ranks, measured. To see it, open https://ui.perfetto.dev' \
        'build/trace/step2/steps.svg: a picture' 'CPU_DEVICE_MODEL=h100 make trace-step2 shows GPUs'
    # The other steps have the same recipe as 7.
    run make -j2 DEVICE=cpu trace-step7 ARGS='--hidden 8 --max-steps 4' LAUNCH='--nproc-per-node 2'
    [ "$status" = 0 ] || { echo "$output" && return 1; }
    says 'step 4/468' "build/trace/step7/merged.json: all ranks, measured"
    tools/trace.py --check build/trace/step7/merged.json
    grep -q "training steps 2 to 3 of 2 rank" build/trace/step7/steps.svg
    run make -j2 DEVICE=cpu trace-step6 ARGS='--count 1000 --max-bytes 2M'
    [ "$status" = 0 ]
    says 'allreduce        2097152' 'build/trace/step6/steps.svg: a picture'
    run make DEVICE=cpu trace-step10
    [ "$status" = 2 ]
    says 'There is no trace-step10: the steps are step1 step2'
    run make DEVICE=cpu quikstart
    [[ $status == 2 ]] && says 'There is no quikstart: the steps are step1 step2' '; make help-all lists all targets'
    ln -s nowhere build/cpu/gone.d # as a file that another make removes after this one has found it
    make -n DEVICE=cpu step2 >/dev/null
}

@test "make profile-stepN runs the programs with nsys, and says in one line where it is missing" {
    printf '#!/bin/bash\necho "nsys: $*"\nwhile [[ $1 == -* || $1 == profile ]]; do shift; done\nexec "$@"\n' >nsys
    chmod +x nsys
    CPU_DEVICES=2 PATH=$PWD:$PATH fresh "profile-step2" ARGS='--hidden 8'
    says 'nsys: profile --trace=cuda,nvtx,cublas ' 'step 12/468' 'build/profile/step2/report.nsys-rep: all ranks'
    ! command -v nsys >/dev/null || skip "nsys is installed"
    run make DEVICE=cpu profile-step1
    [[ $status == 2 && ${lines[0]} == "error: nsys is missing: install Nsight Systems"* ]]
}

@test "make doctor works in a fresh clone, and two ranks meet" {
    fresh doctor LAUNCH='--nproc-per-node 2' || [ "$status" = 2 ]
    says 'What can run here' 'PASS  the sum of 1 to 2 over all ranks is 3'
}

@test "targets that take seconds succeed with their defaults, and none reports a fault of the course" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    fresh diffstat
    [[ $output != *error* ]]
    fresh schedule
    fresh style
    fresh demo
}

@test "make rehearse works in a fresh clone" {
    fresh rehearse ARGS='--gpus 1,2 --strategies none --hidden 8'
    says 'These times are modelled: h100' '   1 ' '   2 ' 'rehearse.csv'
}

@test "cpu_device/ alone builds its library, its example and its tests, and names the lines of a program" {
    cp -r "$root/cpu_device" alone && cd alone
    rm -rf build lib
    make -j2 WERROR=1 library tests
    [ "$(make -s example QUIET=@ | grep -c 'the sum of 4194304 numbers is 10485760$')" = 4 ]
    build/tests/test_check
}

# In this text, a byte says which one follows. Its place in a sequence of 15 does not. (18000 / 2 + 1) / (18000 + 256) is the unigram model's probability of each.
@test "make demo-gpt works in a fresh clone" {
    yes ab | tr -d '\n' | head -c 20000 >text
    fresh demo-gpt TEXT="$PWD/text" PROMPT=aba ARGS='--layers 1 --width 16 --heads 2 --context 15 --lr 0.01 --epochs 3'
    says 'Before training, it continues "aba" like this:' 'ranks     global batch 16 = 2 ranks x 8' 'accuracy 100.00%' \
        'After training, it continues "aba" like this:' '    abababababababababababababababab'
    [ "$(grep -cE '^  (unigram   0.71    2.0  #{7} |(bi|tri)gram +0.00    1.0  |gpt       0.[0-9]{2}  )' <<<"$output")" = 4 ]
}

# Other files run other targets, such as build.bats make clean and data.bats make data.
@test "the scripts that a target calls exist, for each target that make help-all lists (a dry run)" {
    fresh -n test
    # make also runs a line with $(MAKE) in a dry run, such as the one of doctor.
    mapfile -t targets < <(make --no-print-directory help-all | sed -n 's/^make \([^ ]*\) .*/\1/p' | grep -vx doctor)
    [ ${#targets[@]} -gt 15 ]
    for target in "${targets[@]}"; do
        target=${target/NM/12}
        run make -n DEVICE=cpu "${target/N/1}"
        [ "$status" = 0 ] || { echo "make $target: $output" && return 1; }
        while read -r script; do
            [ -f "$script" ] || { echo "make $target calls $script, which is not there" && return 1; }
        done < <(grep -oE '\b(tools|tests)/[a-z0-9_/]+\.(sh|py)\b' <<<"$output")
    done
}
