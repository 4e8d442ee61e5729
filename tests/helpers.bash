# What the end-to-end tests share. Each test works in a folder of its own, which bats removes.
bats_require_minimum_version 1.5.0
root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

# need_train [PROGRAM...]: step 1 for the CPU device, and other programs such as 02_multigpu_fork/train, built
# here unless the runner has built them all and says where step 1 is.
need_train() {
    [ -n "${TRAIN:-}" ] && return
    export TRAIN=$root/build/test/01_single_gpu/train
    make -C "$root" DEVICE=cpu BUILD=build/test WERROR=1 build/test/01_single_gpu/train "${@/#/build/test/}"
}

# fails CODE TEXT COMMAND...: exits with the code, and says so in one line on stderr that has the text.
fails() {
    local code=$1 text=$2
    run --separate-stderr "${@:3}"
    # shellcheck disable=SC2154 # bats sets stderr and stderr_lines
    if [ "$status" != "$code" ] || [ ${#stderr_lines[@]} != 1 ] || [[ $stderr != *"$text"* ]]; then
        printf '%s\n' "wanted status $code and one line with: $text" "command: ${*:3}" "status: $status" \
            "stderr: $stderr"
        return 1
    fi
}

# refute COMMAND...: fails. Unlike after run !, it runs in this shell, so that what it starts is known afterwards.
refute() {
    ! "$@" || { echo "succeeded: $*" && return 1; }
}

# A terminal for the program under test.
need_terminal() {
    script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "script cannot make a terminal here"
}

# All files below the working folder with their contents, to see what a command changed.
contents() {
    find . -type f -exec sha256sum {} + | sort -k 2
}

# flip FILE OFFSET: inverts one byte.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf '%b' "\\0$(printf %o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# idx_header LENGTH...: the header of an IDX file of bytes with these dimensions.
idx_header() {
    local length
    printf '\0\0\b%b' "\\0$#"
    for length; do
        printf '%b' "$(printf %08x "$length" | sed 's/../\\x&/g')"
    done
}

# tiny_data FOLDER [TRAINING TEST]: 640 training and 100 test images of 2 x 4 pixels, or so many, the digits of their own
# number; the last digit is the label. A run on them takes milliseconds.
tiny_data() {
    local split count
    mkdir -p "$1"
    for split in train:"${2:-640}" t10k:"${3:-100}"; do
        count=${split#*:} split=${split%:*}
        { idx_header "$count" 2 4 && seq -f %07g "$count"; } >"$1/$split-images-idx3-ubyte"
        { idx_header "$count" && seq "$count" | sed 's/.*\(.\)/\1/' | tr -d '\n' | tr 0-9 '\000-\011'; } \
            >"$1/$split-labels-idx1-ubyte"
    done
}

# edit FILE SED...: makes each of these changes (for sed -E); one that finds nothing to change is an error, as the test
# would try something else than it says.
edit() {
    local before change
    for change in "${@:2}"; do
        before=$(<"$1")
        sed -i -E "$change" "$1"
        [ "$(<"$1")" != "$before" ] || { echo "nothing to change in $1 for: $change" && return 1; }
    done
}

# Copies the tree as a fresh clone would have it, new files included, into the folder (data may be a link).
copy_tree() {
    mkdir -p "$1"
    git -C "$root" ls-files -z -co --exclude-standard -- ':!data' | tar -C "$root" -c --null -T - | tar -C "$1" -x
}

# What the next three compile with: as the programs of $TRAIN.
set_build() {
    build=${TRAIN%/01_single_gpu/train}
    read -ra libs <<<"$(sed -n 's/^LIB_FLAGS := //p' "$build/libs.mk")"
    c_flags=(-std=c11 -D_GNU_SOURCE -O1 -g -pthread -I"$root" -I"$root/cpu_device/include")
}

# compile PROGRAM FILE...: of the files, and of the modules that they use and that are not among them.
compile() {
    cc "${c_flags[@]}" "${@:2}" "$build/steps.a" "$build/common.a" "${libs[@]}" -ldl -lm -o "$1"
}

# compile_watched PROGRAM FILE...: with steps/watch.c, which takes the place of the calls that it passes on to __real_...
compile_watched() {
    local calls
    cc "${c_flags[@]}" -c "$root/tests/steps/watch.c" -o "$1.watch.o"
    mapfile -t calls < <(nm -u "$1.watch.o" | sed -n 's/.* __real_//p')
    [ ${#calls[@]} -ge 15 ]
    compile "$1" "${calls[@]/#/-Wl,--wrap=}" "$1.watch.o" "${@:2}"
}

# changed PROGRAM STEP FILE SED... [FILE SED...]: the step after these changes (see edit) to its files, which are copied
# to changed/. $main names the source with main(), and $compiler is compile or compile_watched.
changed() {
    local folder file change source sources
    folder=$(basename "$root/0$2"_*)
    rm -rf changed && mkdir changed
    cp -r "$root/$folder" changed
    cd changed || return
    for change in "${@:3}"; do
        if [ -e "$folder/$change" ]; then
            file=$folder/$change
        else
            edit "$file" "$change" || return
        fi
    done
    cd .. || return
    sources=("changed/$folder/${main:-train}.c")
    for source in changed/"$folder"/*.h; do
        [ ! -e "${source%.h}.c" ] || sources+=("${source%.h}.c")
    done
    "${compiler:-compile}" "$1" -iquote changed "${sources[@]}"
}

# same_curve CSV CSV: the same steps and epochs, with the same losses and accuracies but for rounding.
same_curve() {
    paste -d, "$1" "$2" | awk -F, '
        function differ(a, b) { return (a == "") != (b == "") || (a - b) ^ 2 > (1e-5 * a) ^ 2 }
        NR > 1 && ($1 != $8 || $3 != $10 || differ($2, $9) || differ($4, $11) || differ($5, $12) || $6 != $13) {
            print "differs: " $0
            wrong = 1
        }
        END { exit wrong || NR < 12 }'
}

# start COMMAND...: in a process group of its own and with no signal ignored, like a job of a terminal. Its process
# is $pid, its output in out and err; $alive can be read to its end when all processes of the job have ended.
start() {
    rm -f alive && mkfifo alive
    set -m
    env --default-signal=HUP,INT,TERM "$@" >out 2>err 3>&- 9>alive &
    pid=$!
    set +m
    exec {alive}<alive
}

# patience SECONDS: how long a test may wait for what takes less than that on a quiet machine.
patience() {
    awk -v seconds="$1" -v cores="$(nproc)" '{ print int(seconds * (1 + $1 / cores)) + 1 }' /proc/loadavg
}

# until_true SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $(patience "$1")))
    until "${@:2}"; do
        [ $SECONDS -lt $end ] || { echo "waited in vain for ${*:2}"; cat out err; return 1; }
        sleep 0.01
    done
}

# find_ranks COUNT [ATTEMPT]: the pids of the job's ranks, when all of this attempt have been started.
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

# All ranks of this attempt have a function for SIGUSR1, which would end them else.
await_signals() { # COUNT ATTEMPT
    local rank
    find_ranks "$1" "$2" || return
    for rank in "${ranks[@]}"; do
        (((0x$(sed -n 's/^SigCgt:\t//p' "/proc/$rank/status") >> 9) & 1)) || return
    done
}

stopped() { # PID
    [[ $(cat "/proc/$1/stat") == *") T "* ]]
}

# Takes out of these files what the launcher writes in every run, the pids of its ranks; and, as on a busy machine,
# that one takes its time to end, or a node to come.
drop_pids() { # FILE...
    sed -i '/^launch: rank [0-9]* is pid .* on /d; /^launch: rank .* ha[vs]e* not ended 2 s after SIGTERM/d
        /^launch: waiting for node /d; /^launch: node 0 has answered .* waits for other nodes$/d' "$@"
}

# All processes of the job end soon, and the one that was started with this code.
ends() { # CODE
    local code=0
    timeout "$(patience 20)" cat <&"$alive" || { echo "the job goes on" && tail -n 3 out err && return 1; }
    exec {alive}<&-
    wait "$pid" || code=$?
    drop_pids err
    [ $code = "$1" ] || { echo "ended with $code" && cat err && return 1; }
}

# Tests may run in a job, which has variables of its own.
unset_job() {
    local variable
    for variable in $(compgen -e | grep -E '^(RANK$|WORLD_SIZE$|(LOCAL|MASTER|SLURM|OMPI|PMIX?|PALS|MPI|TORCHELASTIC)_)'); do
        unset "$variable"
    done
}

free_port() {
    local port
    until port=$((20000 + RANDOM % 10000)) && ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo $port
}

# start_ranks COUNT PROGRAM OPTION...: without a launcher, which would end them all when one fails. Their processes
# are in pids, and what they write in out.RANK and err.RANK.
# shellcheck disable=SC2154 # options are the test's
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

# ranks_end SECONDS CODE RANK...: those that start_ranks has started end within that time, with that code.
ranks_end() {
    local rank code
    for rank in "${@:3}"; do
        until_true "$1" has_ended "${pids[rank]}" 2>/dev/null || { echo "rank $rank goes on" && return 1; }
        code=0
        wait "${pids[rank]}" || code=$?
        [ $code = "$2" ] || { echo "rank $rank ended with $code" && tail -n +1 err.* && return 1; }
    done
}

# rank_says RANK PATTERN: all that it has written on stderr is one error line, which begins so.
rank_says() {
    if [ "$(wc -l <"err.$1")" != 1 ] || ! grep -qE "^error \($(hostname), rank $1\): $2" "err.$1"; then
        echo "wanted one line of rank $1 with: $2" && cat "err.$1" && return 1
    fi
}

# build_sanitized SANITIZERS TARGET...: the programs in $folder, which is build/asan or build/tsan.
build_sanitized() {
    folder=$root/build/${1:0:1}san # asan or tsan
    command -v clang >/dev/null || skip "clang is not installed"
    echo 'int main(void) { return 0; }' | clang "-fsanitize=$1" -x c - -o probe 2>/dev/null ||
        skip "clang's $1 sanitizer is not installed"
    mkdir -p "$folder"
    flock "$folder" make -C "$root" -j2 CC=clang DEVICE=cpu BUILD="${folder#"$root"/}" WERROR=1 \
        CFLAGS="-O1 -g -fsanitize=$1 -fno-sanitize-recover=all" "${@:2}" >build.log 2>&1 ||
        { cat build.log && return 1; }
}
