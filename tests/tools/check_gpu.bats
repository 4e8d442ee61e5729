#!/usr/bin/env bats
# Tests of make check-gpu in copies of the tree: a run on the CPU device with few tests, and machines that it refuses.
load ../helpers

setup() {
    # The tests inherit nothing from a make that runs them but the flags of tests/run.sh, whose objects ccache knows.
    unset DEVICE CC CFLAGS BUILD LEVEL
    copy_tree "$BATS_TEST_TMPDIR/tree" && cd "$BATS_TEST_TMPDIR/tree" || return
}

@test "make check-gpu writes a report with the machine, the measured times and the result of each test, with packed tools" {
    PATH=${PATH#"$BATS_LIBEXEC:"} make -s pack-tests # bats puts a folder with another program of its name in front
    echo '#define PACKED' >>build/packed/include/cmocka.h
    printf '#ifndef PACKED\n#error "this is the cmocka.h of the machine"\n#endif\n' >>tests/unit/test_data.c
    find tests/unit tests/steps \( -name 'test_*.c' ! -name '*kernels.c' ! -name test_data.c -o -name '*.bats' ! -name step1.bats \) -delete
    printf '# bats test_tags=gpu\n@test "a mistake" {\n    echo "$BATS_ROOT" && false\n}\n' >tests/steps/wrong.bats
    run make -s check-gpu DEVICE=cpu
    echo "$output"
    [ "$status" = 2 ]
    grep -q 'issue with the template "GPU report", and attach build/check-gpu/report.md and build/check-gpu/tests.txt' <<<"$output"
    grep -q 'not ok 1 a mistake' build/check-gpu/tests.txt
    grep -qx "# $PWD/build/packed" build/check-gpu/tests.txt
    cat build/check-gpu/report.md
    for line in '## make check-gpu: [0-9]+ passed, 1 failed(, [0-9]+ skipped)?' \
        'GPU +none: a trial on the CPU device, which stands for NCCL 2\..*' 'epoch 2/2 .* images/s' 'rung 6: .* modelled .*' \
        'cnn +[0-9. ]*' 'allreduce .* 262144 .*' '\| the ladder of step 1 \| ok \| [0-9]+ \|' '\| unit/test_data \| ok \| [0-9]+ \|' \
        '\| steps/step1.bats \| ok \| [0-9]+ \|' '\| steps/wrong.bats \| FAILED \| [0-9]+ \|' \
        '  steps/wrong.bats:not ok 1 a mistake'; do
        grep -qxE "$line" build/check-gpu/report.md || { echo "no line $line" && return 1; }
    done
}

@test "without a GPU, and with one that allows one process, a line says what to do" {
    mkdir bin
    printf '#!/bin/sh\n[ "$1" = -L ] && echo "$GPUS" || echo "$MODE"\n' >bin/nvidia-smi
    chmod +x bin/nvidia-smi
    export PATH=$PWD/bin:$PATH
    GPUS='No devices were found' fails 1 "error: nvidia-smi lists no GPU here; make check-gpu DEVICE=cpu" tools/check_gpu.sh gpu
    GPUS='GPU 0: some' MODE=Exclusive_Process fails 1 "error: the compute mode is Exclusive_Process" tools/check_gpu.sh gpu
    fails 2 "usage" tools/check_gpu.sh
    [ ! -e build ]
}
