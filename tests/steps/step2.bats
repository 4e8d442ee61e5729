#!/usr/bin/env bats
# Tests of step 2: the ranks use each sample once, and a job of several processes ends correctly. Copies of train.c with
# one planted mistake must fail.
# shellcheck disable=SC2030,SC2031,SC2154 # bats, helpers.bash and every_step.bash set variables across functions
load ../helpers

load every_step

prepare() {
    export two watched
    two=$(program_of 2)
    watched=$(watched 2)
}

# Three epochs of five steps on the tiny images with a program; the time limit only ends a run that hangs.
run_tiny() {
    timeout 60 "$1" --data "$tiny" --hidden 8,8 --batch 120 --epochs 3 "${@:2}"
}

train() {
    run_tiny "$two" "$@"
}

# bats test_tags=test-all
@test "the test detects wrong samples and wrong weights of samples" {
    run_tiny "$TRAIN" --log-every 1 --csv one
    for change in 's/(slice = )t->rank/\10/' debug.5 's/(progress\.step \* )opt\.batch/\1t->rows/'; do
        changed ./program 2 train.c "$change"
        run_tiny ./program --log-every 1 --csv two --nproc 3
        run ! same_curve one two
    done
}

# finds_changed CHANGE SEED...: a program with the change must fail or compute a wrong result with at least one of
# these seeds. The unchanged program never does.
finds_changed() {
    local found=0
    changed ./program 2 train.c "$1"
    train --nproc 3 --snapshot right
    for seed in "${@:2}"; do
        rm -f got
        CPU_DEVICE_CHAOS=$seed train --nproc 3 --snapshot got
        cmp right got
        rm -f got
        if ! CPU_DEVICE_CHAOS=$seed run_tiny ./program --nproc 3 --snapshot got || ! cmp right got; then
            found=$((found + 1))
        fi
    done
    echo "found with $found of the seeds"
    [ $found -gt 0 ]
}

# bats test_tags=test-all
@test "each wait between the streams is necessary" {
    finds_changed debug.2 1 2 3 4 5
    finds_changed debug.1 1 2 3 4 5
}

# bats test_tags=test-all
@test "the test detects ranks that do not start with the parameters of rank 0" {
    changed ./program 2 debug.3
    run --separate-stderr run_tiny ./program --nproc 3
    [ "$status" = 1 ]
    [[ $stderr == *"$(text_of NOT_FINITE)"* ]]
}

# bats test_tags=test-all
@test "check_replicas detects a missing sum over the ranks" {
    for layer in 0 1 2; do
        changed ./program 2 train.c "s/NCCL_CHECK\(ncclAllReduce\(t->gradients \+/if (l != \&t->model.layers[$layer])\n&/"
        for epochs in "--epochs 1" "--max-steps 1"; do
            # shellcheck disable=SC2086
            run --separate-stderr run_tiny ./program --nproc 3 $epochs
            [ "$status" = 1 ]
            [[ $stderr == *"epoch 1: $(text_of REPLICAS_DIFFER)"* ]]
        done
        run_tiny ./program --nproc 1 --epochs 1
    done
}

@test "all ranks end with the same bits" {
    # Each rank saves its own snapshot.
    changed ./program 2 train.c 's/ \|\| t->rank > 0\)/)/
        s/^    t\.rank = start_ranks.*/&\n    asprintf((char **)\&opt.snapshot, "%s.%d", opt.snapshot, t.rank);/'
    for ranks in 2 3 4; do
        run_tiny ./program --nproc $ranks --snapshot replica
        [ "$(echo replica.*)" = "$(seq -f replica.%g -s ' ' 0 $((ranks - 1)))" ]
        for replica in replica.*; do
            cmp replica.0 "$replica"
        done
        rm replica.*
    done
}

# part FOLDER TRAIN TEST: writes a data set with this number of the tiny images.
part() {
    local split count
    mkdir -p "$1"
    for split in "train:$2" "t10k:$3"; do
        count=${split#*:} split=${split%:*}
        { idx_header "$count" 2 4 && tail -c +17 "$tiny/$split-images-idx3-ubyte" | head -c $((8 * count)); } \
            >"$1/$split-images-idx3-ubyte"
        { idx_header "$count" && tail -c +9 "$tiny/$split-labels-idx1-ubyte" | head -c "$count"; } \
            >"$1/$split-labels-idx1-ubyte"
    done
}

@test "together, the ranks use each training and test sample once per epoch" {
    for sizes in 600:100:120 600:97:12 240:7:240 120:1:60 130:3:60 125:50:24; do # training, test, batch
        IFS=: read -r samples tests batch <<<$sizes
        part data "$samples" "$tests"
        used=$((samples / batch * batch))
        run_tiny "$TRAIN" --data data --batch "$batch" --epochs 2 --csv one
        for ranks in 1 2 3 4; do
            rm -f log
            WATCH_LOG=log run_tiny "$watched" --data data --batch "$batch" --epochs 2 --nproc $ranks --csv two
            diff <(cut -d, -f1,3,6 one) <(cut -d, -f1,3,6 two)
            for epoch in 1 2; do
                grep "^epoch $epoch test" log | cut -d' ' -f4 | sort -n | cmp - <(seq 0 $((tests - 1)))
                grep "^epoch $epoch train" log | cut -d' ' -f4 | sort -n >trained
                if [ $used = "$samples" ]; then
                    cmp trained <(seq 0 $((samples - 1)))
                else
                    [ "$(wc -l <trained)" = $used ]
                    [ "$(uniq trained | wc -l)" = $used ]
                fi
                # No rank is idle.
                [ "$(grep "^epoch $epoch train" log | cut -d' ' -f6 | sort | uniq -c | awk '{print $1}' | sort -u)" = \
                    $((used / ranks)) ]
            done
            # The printed numbers count the samples of all ranks.
            [ "$(grep -c ' reports ' log)" = $((2 * ranks)) ]
            [ "$(grep ' reports ' log | cut -d' ' -f4- | sort -u)" = "$used train $tests test $used in time" ]
        done
    done
}

@test "the parent calls neither CUDA nor NCCL nor cuBLAS" {
    for file in "$root"/cpu_device/*.c; do
        cc "${c_flags[@]}" "${libs[0]}" -finstrument-functions -c "$file"
    done
    strict() { # PROGRAM SED...
        cp "$root/02_multigpu_fork/train.c" "$1.c"
        edit "$1.c" "${@:2}"
        compile "$1" -rdynamic "$1.c" "$root/tests/steps/step2/parent.c" ./*.o
    }
    strict ./program
    run_tiny ./program --nproc 3 --snapshot got
    train --nproc 3 --snapshot right
    cmp right got
    run_tiny ./program --batch 4 --max-steps 1
    fails 2 "ranks; 120 and 122 are" run_tiny ./program --nproc 2 --batch 121

    for call in 'cudaGetDeviceCount(\&i)' 'ncclGetUniqueId(\&id)' 'cublasCreate(\&t.pass.blas)'; do
        strict ./program "s/^    t\.rank = start_ranks/    int i = 0;\n    ncclUniqueId id;\n    (void)i, (void)id;\n    $call;\n&/"
        fails 3 "the parent called ${call%(*}" run_tiny ./program --nproc 3
    done
}

# Starts a training run that would never end.
start_training() {
    start "$two" --data "$tiny" --hidden 8,8 --batch 120 --nproc 3 --epochs 1000000
}

# start_stopped RANK FUNCTION NTH: starts a job of three ranks in which this rank stops at its nth call of the function.
start_stopped() {
    KILL_AT="$* 19" start "$watched" --data "$tiny" --hidden 8,8 --batch 120 --nproc 3
    until_true 30 find_ranks
    until_true 30 stopped "${ranks[$1]}"
}

# find_ranks [COUNT]: sets ranks to the pids of the three ranks (or COUNT), in their order.
find_ranks() {
    [ -e "/proc/$pid/task/$pid/children" ] || return
    read -ra ranks <"/proc/$pid/task/$pid/children" || true
    [ ${#ranks[@]} = "${1:-3}" ]
}

await_training() {
    until_true 30 grep -q '^epoch 2/' out
    find_ranks
}

# The parent's line about a rank must be the only line on stderr.
one_line() { # TEXT
    [ "$(cat err)" = "error: rank $1" ] || { echo "wanted only: error: rank $1" && cat err && return 1; }
}

# dies R FUNCTION NTH: kills rank R at its nth call of the function, and checks the end of the job.
dies() {
    KILL_AT="$* 9" start "$watched" --data "$tiny" --hidden 8,8 --batch 120 --nproc 3 --epochs 3 --snapshot s
    ends 1
    [[ $(cat err) =~ ^error:\ rank\ $1\ \(pid\ [0-9]+\)\ was\ ended\ by\ signal\ 9,\ Killed$ ]] ||
        { cat err && return 1; }
}

@test "when a rank is killed in any function, the job ends and names it" {
    for rank in 0 1 2; do
        for place in "cudaSetDevice 1" "ncclCommInitRank 1" "gather_batch 1" "ncclAllReduce 1" "ncclAllReduce 2" \
            "ncclAllReduce 9" "report_epoch 1" "report_epoch 3" "ncclCommDestroy 1"; do
            # shellcheck disable=SC2086
            dies $rank $place
            rm -f s s.tmp
        done
    done
    dies 0 ncclGetUniqueId 1
    for nth in 1 2 4; do
        dies 0 snapshot_save $nth
        [ "$(find . -name 's*')" = "$([ $nth = 1 ] || echo ./s)" ]
        rm -f s s.tmp
    done
}

@test "when a rank is killed before all have joined, the job ends and names it" {
    for victim in 0 1 2 0 0 0; do
        start_stopped 2 ncclCommInitRank 1
        kill -9 "${ranks[victim]}"
        ends 1
        one_line "$victim (pid ${ranks[victim]}) was ended by signal 9, Killed"
    done
}

@test "if the child that counts the GPUs is killed, the job ends" {
    KILL_AT="-1 cudaGetDeviceCount 1 9" fails 1 "counting the GPUs: Killed" run_tiny "$watched"
}

@test "a job leaves nothing in shared memory" {
    on_own_memory() {
        unshare -m -i bash -c "mount -t tmpfs none /dev/shm && $1"
    }
    on_own_memory true || skip "no file system can be mounted here"
    export -f dies start ends
    export watched tiny
    for place in "0 ncclCommInitRank 1" "1 ncclAllReduce 9" "0 ncclAllReduce 9" "2 ncclCommDestroy 1" "9 none 1"; do
        # shellcheck disable=SC2016 # expanded there
        on_own_memory "dies $place"'; [ "$(ls -A /dev/shm)$(ipcs -ms | grep ^0x)" = "" ]'
    done
}

@test "a signal to the parent ends the job with exit code 128 + signal" {
    for signal in HUP:129 INT:130 TERM:143; do
        start_training
        await_training
        kill -"${signal%:*}" "$pid"
        ends "${signal#*:}"
        [ ! -s err ]
        # To the whole process group, as from a terminal; and while the ranks join.
        start_training
        await_training
        kill -"${signal%:*}" -- -"$pid"
        ends "${signal#*:}"
        [ ! -s err ]
        start_stopped 2 ncclCommInitRank 1
        kill -"${signal%:*}" "$pid"
        ends "${signal#*:}"
        [ ! -s err ]
    done
}

@test "signals that the caller ignores do not end the job" {
    for signal in HUP INT TERM; do
        # shellcheck disable=SC2016
        start bash -c "trap '' $signal; exec"' "$@"' - "$two" --data "$tiny" --hidden 8,8 --batch 120 --nproc 3 \
            --epochs 1000000
        await_training
        kill -$signal -- -"$pid"
        before=$(tail -n 1 out)
        changed() { [ "$(tail -n 1 out)" != "$before" ]; }
        until_true 3 changed
        kill -9 "$pid"
        ends 137
    done
}

@test "a killed parent leaves no rank behind" {
    for moment in find_ranks await_training; do
        start_training
        until_true 30 $moment
        kill -9 "$pid"
        ends 137
        [ ! -s err ]
    done
    for rank in 0 1 2; do # a stopped rank, and those that wait for it
        start_stopped $rank ncclAllReduce 5
        kill -9 "$pid"
        ends 137
    done
}

@test "Ctrl-C on a terminal ends the job" {
    need_terminal
    mkfifo keys alive
    set -m
    command="env --default-signal=INT $two --data $tiny --hidden 8,8 --batch 120 --nproc 3 --epochs 1000000"
    SHELL=$BASH script -qec "exec $command 9>alive" typed <keys >out 2>err 3>&- &
    pid=$!
    set +m
    exec {keyboard}>keys {alive}<alive
    until_true 30 grep -q 'epoch 2/' out
    printf '\003' >&"$keyboard"
    ends 130
    exec {keyboard}>&-
    run ! grep -aq error out
}

@test "after kill -9 of a rank or the parent, the run continues from its snapshot" {
    RANDOM=1
    for _ in {1..8}; do
        start "$two" --data "$tiny" --hidden 1 --batch 640 --nproc 2 --epochs 1000000 --snapshot killed
        until_true 30 grep -q images/s out
        sleep "$(printf 0.0%03d $((RANDOM % 300)))"
        find_ranks 2
        victims=("$pid" "${ranks[0]}" "${ranks[1]}")
        kill -9 "${victims[RANDOM % 3]}"
        timeout "$(patience 3)" cat <&"$alive"
        exec {alive}<&-
        wait "$pid" || true
    done
    saved=$(train --hidden 1 --batch 640 --epochs 1 --nproc 2 --snapshot killed |
        sed -n 's/^resumed .* \([0-9]*\) epochs\? and 0 .*/\1/p')
    [ "$saved" -ge 8 ]
    for snapshot in killed whole; do
        train --hidden 1 --batch 640 --nproc 2 --epochs $((saved + 3)) --snapshot $snapshot --save-every 1000000
    done
    cmp whole killed
    [ ! -e killed.tmp ]
}

# The job must print two lines: the error of rank 0, and the parent's line about its end.
two_lines() { # TEXT COMMAND...
    run --separate-stderr "${@:2}"
    [ "$status" = 1 ] && [ ${#stderr_lines[@]} = 2 ] && [[ ${stderr_lines[0]} == "error ("*", rank 0): "*"$1"* ]] &&
        [[ ${stderr_lines[1]} =~ ^error:\ rank\ 0\ \(pid\ [0-9]+\)\ ended\ with\ exit\ code\ 1$ ]] && return
    printf '%s\n' "wanted: $1" "status: $status" "stderr: $stderr" && return 1
}

@test "a snapshot that cannot be written ends the job" {
    two_lines "$(text_of CANNOT_WRITE) none/s: No such file" train --nproc 3 --snapshot none/s
    mkdir s.tmp
    two_lines "$(text_of CANNOT_WRITE) s: Is a directory" train --nproc 3 --snapshot s
    [[ $output != *$'\n'epoch* ]]
    rmdir s.tmp
    train --nproc 3 --snapshot s --max-steps 3
    before=$(sha256sum s)
    mkdir s.tmp
    two_lines "$(text_of CANNOT_WRITE) s: Is a directory" train --nproc 3 --snapshot s # after the first epoch
    [[ $output == *$'\n'epoch* ]]
    [ "$(sha256sum s)" = "$before" ]
}

@test "a full disk ends the job, and the earlier snapshot stays" {
    on_small_disk() {
        mkdir -p disk
        unshare -m bash -c "mount -t tmpfs -o size=64k none disk && $1"
    }
    on_small_disk true || skip "no file system can be mounted here"
    export tiny two
    export -f run_tiny train
    train --hidden 64,64 --max-steps 5 --snapshot good
    # shellcheck disable=SC2016 # expanded there
    two_lines "No space left on device" on_small_disk \
        'cp good disk/s && { train --nproc 3 --hidden 64,64 --snapshot disk/s; code=$?; cp -r disk after; exit $code; }'
    cmp good after/s
    [ "$(ls after)" = s ]
}

@test "a CSV file that cannot be written ends the job" {
    two_lines "none/csv" train --nproc 3 --csv none/csv
    ln -s /dev/full csv
    two_lines "cannot write the --csv file: No space left on device" train --nproc 3 --csv csv
}

# refused CODE FORKS TEXT ARGUMENT...: the program must print one line, and start no rank and write no file. It may fork
# once, to count the GPUs.
refused() {
    rm -f "$BATS_TEST_TMPDIR/forks"
    before=$(contents)
    WATCH_LOG=$BATS_TEST_TMPDIR/forks fails "$1" "$3" run_tiny "$watched" "${@:4}"
    [ -z "$output" ]
    [ "$(contents)" = "$before" ]
    [ "$(cat "$BATS_TEST_TMPDIR/forks" 2>/dev/null)" = "$(yes fork | head -n "$2")" ]
}

@test "a wrong number of ranks is refused before any rank starts" {
    for number in 0 x 1.5 "" GPU 1000001; do
        refused 2 0 --nproc --nproc "$number"
    done
    for number in 5 1000000; do
        refused 2 1 "--nproc $number is more than there are GPUs (4); set CPU_DEVICES=$number to" --nproc $number
    done
    CPU_DEVICES=2 refused 2 1 "--nproc 3 is more than there are GPUs (2); set CPU_DEVICES=3 to" --nproc 3
    refused 2 0 --overlap --overlap 2
}

# By the variables that each launcher sets for its rank % and the number of its ranks.
@test "under a launcher that starts several processes, rank 0 asks for one process" {
    # The interactive shell of an salloc is the only task of its step. A batch script is no task.
    # shellcheck disable=SC2034 # they are used by name
    torchrun="RANK=% WORLD_SIZE=#" mpi="OMPI_COMM_WORLD_RANK=% OMPI_COMM_WORLD_SIZE=#" mpich="PMI_RANK=% PMI_SIZE=#"
    slurm="SLURM_PROCID=% SLURM_STEP_NUM_TASKS=#" batch="SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=7"
    in_place() { # RANK COUNT VARIABLES COMMAND...
        local variables=${3//%/$1}
        # shellcheck disable=SC2086 # words
        env ${variables//#/$2} "${@:4}"
    }
    while read -r family name; do
        fails 2 "this program starts its ranks itself, but $name has started it 3 times: start it once, as $two --nproc 3" \
            in_place 0 3 "${!family}" "$two"
        run --separate-stderr in_place 2 3 "${!family}" timeout 20 "$two"
        [ "$status" = 2 ]
        [ -z "$stderr$output" ]
        in_place 0 1 "${!family}" timeout 60 "$two" --nproc 2 --data "$tiny" --hidden 8,8 --batch 120 --epochs 1
    done <<'END'
torchrun a launcher
mpi mpirun
mpich mpiexec
slurm srun
END
    for variables in "$batch" "$slurm $batch ${mpi//#/1}"; do
        in_place 0 2 "$variables" timeout 60 "$two" --nproc 2 --data "$tiny" --hidden 8,8 --batch 120 --epochs 1
    done
}

@test "a batch size that does not divide among the ranks is refused before any rank starts" {
    refused 2 1 "--batch 121 $(text_of INDIVISIBLE) 2 ranks; 120 and 122 are" --nproc 2 --batch 121
    refused 2 1 "--batch 122 $(text_of INDIVISIBLE) 4 ranks; 120 and 124 are" --batch 122
    refused 2 1 "--batch 1 $(text_of INDIVISIBLE) 2 ranks; 2 and 4 are" --nproc 2 --batch 1
    refused 2 1 "--batch 3 $(text_of INDIVISIBLE) 4 ranks; 4 and 8 are" --nproc gpu --batch 3
    refused 2 0 "--batch" --nproc 2 --batch 0
}

@test "--nproc gpu starts a rank for each visible GPU" {
    of() { grep -x "ranks     global batch 120 = $1 ranks x $((120 / $1))" out; }
    for arguments in "" "--nproc gpu" "--nproc=gpu"; do
        # shellcheck disable=SC2086
        CUDA_VISIBLE_DEVICES=0,2 train --max-steps 1 $arguments >out
        of 2
    done
    train --max-steps 1 >out
    of 4
    CPU_DEVICES=3 train --max-steps 1 >out
    of 3
    CUDA_VISIBLE_DEVICES=3 train --max-steps 1 >out
    grep -x "ranks     global batch 120 = 1 rank x 120" out
    CUDA_VISIBLE_DEVICES=0,2 refused 2 1 "--nproc 4 is more than there are GPUs (2)" --nproc 4
    for arguments in "" "--nproc gpu" "--nproc 1"; do
        # shellcheck disable=SC2086
        CUDA_VISIBLE_DEVICES="" refused 1 1 "cudaErrorNoDevice" $arguments
    done
}

@test "options that step 1 refuses are refused once, before any rank starts" {
    refused 2 0 --foo --foo 1
    refused 2 0 --model --model foo
    refused 2 0 --lr --lr x
    refused 2 1 --hidden --hidden "8,"
    refused 1 1 "make data" --data none
    refused 1 1 "--batch 641: the training set has only 640 samples" --batch 641

    cp -r "$tiny" bad
    flip bad/t10k-labels-idx1-ubyte 2
    refused 1 1 "bad/t10k-labels-idx1-ubyte" --data bad

    train --nproc 2 --max-steps 7 --snapshot good
    cp good spoilt
    flip spoilt 144
    refused 1 1 spoilt --snapshot spoilt --nproc 3
    refused 1 1 "mlp 8-8-8-10" --snapshot good --hidden 8,9
    refused 1 1 "--seed 1" --snapshot good --seed 2
    refused 1 1 "--batch 120" --snapshot good --batch 60
    refused 1 1 "no snapshot" --snapshot "$tiny"
}

@test "without enough device memory, the job ends and names the requested size" {
    CPU_DEVICE_MEMORY=1M run --separate-stderr train --nproc 3 --data synthetic
    [ "$status" = 1 ]
    [[ $stderr == *"asked for 47.0 MB of data, 1.0 MB of 1.0 MB are left"* ]]
    [ "$(grep -c 'ended with exit code 1' <<<"$stderr")" = 1 ]
}

@test "progress is one bar on a terminal" {
    need_terminal
    SHELL=$BASH script -qec "$two --data $tiny --hidden 8,8 --batch 120 --epochs 1 --log-every 1 --nproc 3" /dev/null \
        >terminal </dev/null
    [ "$(grep -o $'\r\033\\[K''epoch 1/1  \[' terminal | wc -l)" = 5 ]
    [ "$(grep -cE $'\r\033\\[K''epoch 1/1  loss .*images/s' terminal)" = 1 ]
}

@test "on a terminal, the line about a dead rank clears the progress bar" {
    need_terminal
    changed ./program 2 train.c 's/^( *)report_loss\(.*/\1if (t->rank == 1 \&\& p->step == 3) raise(SIGKILL);\n&/; 1i #include <signal.h>'
    SHELL=$BASH script -qec "./program --data $tiny --hidden 8,8 --batch 120 --epochs 1 --log-every 1 --nproc 2" /dev/null \
        >terminal </dev/null || true
    grep -qaE $'\r\033\\[Kerror: rank 1 \\(pid [0-9]+\\) was ended by signal 9' terminal
}
