# The functions that the end-to-end tests share. Each test works in its own folder, which bats removes.
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2
bats_require_minimum_version 1.5.0
root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
# shellcheck source=exercises/shared.bash
. "$root/exercises/shared.bash"
# Tests inherit nothing of a job, or of a make that runs them.
unset_job
unset MAKEFLAGS MFLAGS MAKELEVEL

# A file of tests sets these, or has a setup_file and a setup of its own.
programs=() # of the course, such as 02_multigpu_fork/train; then tiny is the folder of a small data set
needs=()    # other programs, such as python3: without one of them, the tests are skipped
begin_in='' # where each test begins, if not in its own folder
tiny=${BATS_FILE_TMPDIR:-}/tiny

setup_file() {
    [ ${#programs[@]} = 0 ] || { need_train "${programs[@]}" && tiny_data "$tiny"; }
}

setup() {
    local program
    for program in "${needs[@]}"; do
        command -v "$program" >/dev/null || skip "$program is not installed"
    done
    [ -z "${TRAIN:-}" ] || set_build
    cd "${begin_in:-$BATS_TEST_TMPDIR}" || return
}

# Tests with the tag gpu also run on GPUs: LEVEL=gpu DEVICE=gpu tests/run.sh.
on_gpu() {
    [ "${DEVICE:-cpu}" = gpu ]
}

# need_train [PROGRAM...]: builds step 1 for the CPU device, and other programs such as 02_multigpu_fork/train. If
# tests/run.sh has built all programs, TRAIN holds the path of step 1, and nothing is built.
need_train() {
    [ -n "${TRAIN:-}" ] && return
    export TRAIN=$root/build/test/01_single_gpu/train
    make -C "$root" DEVICE=cpu BUILD=build/test build/test/01_single_gpu/train "${@/#/build/test/}"
}

# path_of PROGRAM: where it is. tests/run.sh puts ccache in front of the compilers, and ccache looks for them in PATH, so a
# test that leaves little in PATH needs the compiler itself.
path_of() {
    local path
    while read -r path; do
        [ "$(basename "$(readlink -f "$path")")" = ccache ] || { echo "$path" && return; }
    done < <(type -ap "$1")
}

# fails CODE TEXT COMMAND...: the command must exit with the code and print one line on stderr that contains the text.
fails() {
    local code=$1 text=$2
    run --separate-stderr "${@:3}"
    if [ "$status" != "$code" ] || [ ${#stderr_lines[@]} != 1 ] || [[ $stderr != *"$text"* ]]; then
        printf '%s\n' "wanted status $code and one line with: $text" "command: ${*:3}" "status: $status" \
            "stderr: $stderr"
        return 1
    fi
}

# on_small_disk FOLDER SIZE COMMAND...: like run, while the folder is an empty disk of this size.
on_small_disk() {
    unshare -rm mount -t tmpfs none "$BATS_TEST_TMPDIR" 2>/dev/null || skip "unshare cannot mount a file system here"
    run unshare -rm sh -c 'mount -t tmpfs -o "size=$2" none "$1" && shift 2 && exec "$@"' sh "$@"
}

# with_comma: from now on, awk is mawk, and numbers have a comma. mawk then reads 2.5 as 2.
with_comma() {
    local bin=$BATS_TEST_TMPDIR/mawk
    export LOCPATH=$BATS_TEST_TMPDIR/locales
    mkdir -p "$bin" "$LOCPATH"
    ln -s "$(command -v mawk)" "$bin/awk" 2>/dev/null || skip "mawk is not installed"
    localedef -i de_DE -f UTF-8 "$LOCPATH/de_DE.UTF-8" 2>/dev/null || skip "there is no localedef, or no German locale to compile"
    export LC_ALL=de_DE.UTF-8 PATH=$bin:$PATH
    [ "$(awk 'BEGIN { print 2 * "2.5" }')" = 4 ] || skip "this mawk reads a point as a point"
}

# refute COMMAND...: the command must fail. Unlike "run !", it runs in this shell, so its variables stay.
refute() {
    ! "$@" || { echo "succeeded: $*" && return 1; }
}

# Skips the test if no terminal can be made for the program.
need_terminal() {
    script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "script cannot make a terminal here"
}

# Prints all files below the working folder with checksums, to show what a command changed.
contents() {
    find . -type f -exec sha256sum {} + | sort -k 2
}

flip() { # FILE OFFSET: inverts one byte
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf '%b' "\\0$(printf %o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# tiny_data FOLDER [TRAINING TEST [HEIGHT WIDTH]]: writes 640 training and 100 test images (or these numbers) of 2 x 4 pixels
# (or this size). The pixels are the digits of the image's number, and the last digit is the label. A run on them takes
# milliseconds.
tiny_data() {
    local split count height=${4:-2} width=${5:-4}
    mkdir -p "$1"
    for split in train:"${2:-640}" t10k:"${3:-100}"; do
        count=${split#*:} split=${split%:*}
        { idx_header "$count" "$height" "$width" && seq -f %0$((height * width - 1))g "$count"; } >"$1/$split-images-idx3-ubyte"
        { idx_header "$count" && seq "$count" | sed 's/.*\(.\)/\1/' | tr -d '\n' | tr 0-9 '\000-\011'; } \
            >"$1/$split-labels-idx1-ubyte"
    done
}

# small_programs WORDS PROGRAM...: builds the programs, and puts them into this folder at the paths that texts give them.
# A trainer gets these words, which make it small. In them, "$@" stands for the options of the command.
small_programs() {
    local words=$1 program build
    shift
    need_train "$@"
    build=${TRAIN%/01_single_gpu/train}
    for program; do
        mkdir -p "${program%/*}"
        if [ "${program##*/}" = train ]; then
            printf '#!/bin/bash\nexec %q %s\n' "$build/$program" "$words" >"$program"
            chmod +x "$program"
        else
            ln -s "$build/$program" "$program"
        fi
    done
}

# edit FILE SED...: makes each of these changes (for sed -E). If a change finds nothing to change, the test fails, because
# it would not test the mistake that it plants.
edit() {
    local before change
    for change in "${@:2}"; do
        before=$(<"$1")
        sed -i -E "$change" "$1"
        [ "$(<"$1")" != "$before" ] || { echo "nothing to change in $1 for: $change" && return 1; }
    done
}

# Copies the tree into the folder, without what was built or downloaded. git would refuse the tree of another user.
copy_tree() {
    mkdir -p "$1"
    (cd "$root" && find . \( -path ./.git -o -path ./build -o -path ./cpu_device/build -o -path ./cpu_device/lib -o -path ./data -o \
        -path ./work -o -path ./logs \) -prune -o \
        -type f ! -name '*.sif' -print0) | tar -C "$root" -c --null -T - | tar -C "$1" -x
}

# use_cached_nvcc: sets CUDA_HOME to a toolkit like that of this machine, whose nvcc compiles equal sources once. Fails if
# there is no nvcc.
use_cached_nvcc() {
    local nvcc
    nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null) || return
    nvcc=$(readlink -f "$nvcc")
    export CUDA_HOME=$root/build/toolkit
    mkdir -p "$CUDA_HOME/bin"
    ln -sfn "${nvcc%/bin/nvcc}"/{include,lib64} "$CUDA_HOME"
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$(command -v ccache)" "$nvcc" >"$CUDA_HOME/bin/nvcc.$$"
    chmod +x "$CUDA_HOME/bin/nvcc.$$"
    mv "$CUDA_HOME/bin/nvcc.$$" "$CUDA_HOME/bin/nvcc" # another test may use it meanwhile
}

# Sets the flags of the next three functions to those of the programs beside $TRAIN.
set_build() {
    build=${TRAIN%/01_single_gpu/train}
    read -ra libs <<<"$(sed -n 's/^LIB_FLAGS := //p' "$build/libs.mk")"
    c_flags=(-std=c11 -D_GNU_SOURCE -O1 -g -pthread -I"$root" -I"$root/cpu_device/include")
}

# compile PROGRAM WORD...: builds the program from the sources, objects and flags, and from the other modules that they use.
# Each source is compiled alone, so that ccache knows those that other tests have compiled. It must preprocess them, because
# otherwise it does not notice a new header in a folder that the compiler searches before that of the old one.
compile() {
    local word inputs=() flags=() new=()
    for word in "${@:2}"; do
        [[ $word != -* ]] || flags+=("$word")
    done
    for word in "${@:2}"; do
        if [[ $word == *.c ]]; then
            new+=("$1.${#inputs[@]}.o")
            CCACHE_NODIRECT=1 cc "${c_flags[@]}" "${flags[@]}" -c "$word" -o "${new[-1]}" || return
            word=${new[-1]}
        fi
        inputs+=("$word")
    done
    # -u takes shards.o out of its archive, although no program may call it.
    cc "${c_flags[@]}" "${inputs[@]}" -Wl,-u,remove_shards "$build"/{zoo/zoo.o,watch/watch.o,steps.a,common.a,libcpu_device.a} "${libs[@]}" -ldl -lm -o "$1" && rm -f "${new[@]}"
}

# compile_watched PROGRAM FILE...: the same with steps/watch.c, which wraps some calls and passes them on to __real_...
compile_watched() {
    local calls
    cc "${c_flags[@]}" -c "$root/tests/steps/watch.c" -o "$1.watch.o"
    mapfile -t calls < <(nm -u "$1.watch.o" | sed -n 's/.* __real_//p')
    [ ${#calls[@]} -ge 15 ]
    compile "$1" "${calls[@]/#/-Wl,--wrap=}" "$1.watch.o" "${@:2}"
}

# changed PROGRAM STEP FILE SED... [FILE SED...]: copies the step's files to changed/, makes these changes (see edit), and
# builds the program. A fault of the debugging lab, such as debug.4, is a change, too. $main names the source with main(), and $compiler is compile or compile_watched.
changed() {
    local folder file change source sources
    folder=$(basename "$root/0$2"_*)
    rm -rf changed && mkdir changed
    cp -r "$root/$folder" changed
    cd changed || return
    for change in "${@:3}"; do
        if [[ $change == debug.* ]]; then
            "$root/exercises/run.sh" cut "$change" "$PWD/$folder" || return
        elif [ -e "$folder/$change" ]; then
            file=$folder/$change
        else
            edit "$file" "$change" || return
        fi
    done
    cd .. || return
    sources=("changed/$folder/${main:-train}.c")
    for source in changed/"$folder"/*.h; do
        # The modules of step 1 belong to the ladder, and train.c uses none of them.
        [ "$2" = 1 ] || [ ! -e "${source%.h}.c" ] || sources+=("${source%.h}.c")
    done
    "${compiler:-compile}" "$1" -iquotechanged "${sources[@]}"
}

# same_curve CSV CSV: both files must have the same steps and epochs, with the same losses and accuracies except for
# rounding, and the same learning rates. Texts have one more column, which is not compared.
same_curve() {
    paste -d, <(cut -d, -f1-8 "$1") <(cut -d, -f1-8 "$2") | awk -F, '
        function differ(a, b) { return (a == "") != (b == "") || (a - b) ^ 2 > (1e-5 * a) ^ 2 }
        NR > 1 && ($1 != $9 || $3 != $11 || differ($2, $10) || differ($4, $12) || differ($5, $13) || $6 != $14 || $8 != $16) {
            print "differs: " $0
            wrong = 1
        }
        END { exit wrong || NR < 12 }'
}

# near STEPS BAND CSV CSV: both files must have this number of steps, and losses that differ by at most BAND.
near() {
    paste -d, <(cut -d, -f1-8 "$3") <(cut -d, -f1-8 "$4") | awk -F, -v wanted="$1" -v band="$2" 'NR > 1 && $2 != "" {
            steps++
            if ($1 != $9 || ($2 - $10) ^ 2 > band ^ 2) {
                print "differs: " $0
                wrong = 1
            }
        }
        END { exit wrong || steps != wanted }'
}

# start COMMAND...: starts the command in its own process group with no signal ignored, like a job of a terminal. Sets
# $pid, and writes the output to out and err. Reading $alive ends when all processes of the job have ended.
start() {
    rm -f alive && mkfifo alive
    set -m
    env --default-signal=HUP,INT,TERM,PIPE "$@" >out 2>err 3>&- 9>alive &
    pid=$!
    set +m
    exec {alive}<alive
}

# patience SECONDS: prints how long a test may wait for something that takes at most SECONDS on a quiet machine.
patience() {
    awk -v seconds="$1" -v cores="$(nproc)" '{ print int(seconds * (1 + $1 / cores)) + 1 }' /proc/loadavg
}

# until_true SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $(patience "$1")))
    until "${@:2}"; do
        [ $SECONDS -lt $end ] || { echo "waited in vain for ${*:2}"; cat out err 2>/dev/null; return 1; }
        sleep 0.05
    done
}

# find_ranks COUNT [ATTEMPT]: sets ranks to the pids of the job's ranks. Fails until all ranks of this attempt run.
find_ranks() {
    local child children variables
    ranks=()
    read -ra children <"/proc/$pid/task/$pid/children" || true
    for child in "${children[@]}"; do
        variables=$(tr '\0' '\n' <"/proc/$child/environ") || continue
        [ "$(sed -n 's/^TORCHELASTIC_RESTART_COUNT=//p' <<<"$variables")" = "${2:-0}" ] || continue
        ranks[$(sed -n 's/^RANK=//p' <<<"$variables")]=$child
    done 2>/dev/null
    [ ${#ranks[@]} = "$1" ]
}

# Returns 0 if rank 0 has reported more often than before: then all ranks train, and stop when a signal tells them to. Until
# then, a signal ends a rank.
trains_since() { # REPORTS
    [ "$(grep -c '^epoch ' out)" -gt "$1" ]
}

stopped() { # PID
    [[ $(cat "/proc/$1/stat") == *") T "* ]]
}

# Removes from these files the lines that the launcher prints in every run (the pids of its ranks), or on a busy machine
# (it waits for a rank to end, or for a node).
drop_pids() { # FILE...
    sed -i '/^launch: rank [0-9]* is pid .* on /d; /^launch: rank .* ha[vs]e* not ended 2 s after the signal/d
        /^launch: waiting for node /d; /^launch: node 0 has answered .* waits for other nodes$/d' "$@"
}

# All processes of the job must end soon (limit: seconds), and the started process with this code. all_err has the pids, too.
ends() { # CODE
    local code=0
    timeout "$(patience "${limit:-20}")" cat <&"$alive" || { echo "the job goes on" && tail -n 3 out err && return 1; }
    exec {alive}<&-
    wait "$pid" || code=$?
    cp err all_err
    drop_pids err
    [ $code = "$1" ] || { echo "ended with $code" && cat err && return 1; }
}

# restarted COUNT: the launcher must have started all ranks again so often. The rank that it names may be one that noticed
# the end of the killed one: a process closes its connections a moment before its parent can learn of its end.
restarted() {
    [ "$(grep -c '^launch: starting all ranks again: ' err)" = "$1" ] || { cat err && return 1; }
}

free_port() {
    local port
    until port=$((10000 + RANDOM % 22000)) && ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo $port
}

# start_ranks COUNT PROGRAM OPTION...: starts ranks without a launcher, which would end all ranks when one fails. Sets
# pids, and writes the output to out.RANK and err.RANK.
start_ranks() {
    local rank port
    port=$(free_port)
    pids=()
    for ((rank = 0; rank < $1; rank++)); do
        env RANK=$rank WORLD_SIZE="$1" LOCAL_RANK=$rank LOCAL_WORLD_SIZE="$1" MASTER_ADDR=127.0.0.1 \
            MASTER_PORT="$port" "$2" "${options[@]}" "${@:3}" >out.$rank 2>err.$rank 3>&- &
        pids+=($!)
    done
}

# Where the first process is no init, as in many containers, an ended process can stay as a zombie.
has_ended() { # PID
    ! kill -0 "$1" 2>/dev/null || [[ $(cat "/proc/$1/stat" 2>/dev/null) == *") Z "* ]]
}

# ranks_end SECONDS CODE RANK...: these ranks of start_ranks must end within this time, with this code.
ranks_end() {
    local rank code
    for rank in "${@:3}"; do
        until_true "$1" has_ended "${pids[rank]}" 2>/dev/null || { echo "rank $rank goes on" && return 1; }
        code=0
        wait "${pids[rank]}" || code=$?
        [ $code = "$2" ] || { echo "rank $rank ended with $code" && tail -n +1 err.* && return 1; }
    done
}

# rank_says RANK PATTERN: the rank must have written exactly one line to stderr, an error that begins with the pattern.
rank_says() {
    if [ "$(wc -l <"err.$1")" != 1 ] || ! grep -qE "^error \($(hostname), rank $1\): $2" "err.$1"; then
        echo "wanted one line of rank $1 with: $2" && cat "err.$1" && return 1
    fi
}

# build_sanitized SANITIZERS TARGET...: builds the targets, and sets $folder to build/asan or build/tsan.
build_sanitized() {
    folder=$root/build/${1:0:1}san # asan or tsan
    command -v clang >/dev/null || skip "clang is not installed"
    echo 'int main(void) { return 0; }' | clang "-fsanitize=$1" -x c - -o probe 2>/dev/null ||
        skip "clang's $1 sanitizer is not installed"
    mkdir -p "$folder"
    flock "$folder" make -C "$root" -j2 CC=clang DEVICE=cpu BUILD="${folder#"$root"/}" \
        CFLAGS="-O1 -g -fsanitize=$1 -fno-sanitize-recover=all" "${@:2}" >build.log 2>&1 ||
        { cat build.log && return 1; }
}
