# check.bash CHECK: runs the check of an exercise. run.sh sets EXERCISE, TASK, MINE (the folder with the attendee's
# sources), COURSE (the root) and SCRATCH (an empty folder). A check is a list of calls of the functions below. Each prints
# a line that begins with "ok" or "wrong"; the first that is wrong explains what it observed, and ends the check. The
# attendee's sources are compiled before these calls.
set -u
cd "$COURSE" || exit 1
device=${DEVICE:-$(nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)}
build=${BUILD:-build/$device}
launcher=$build/03_multigpu_launcher/launch
. exercises/shared.bash
unset_job
# Ranks meet in a folder below TMPDIR. One that is killed leaves its folder there.
export TMPDIR=$SCRATCH
# A rank that waits for another gives up soon, and the CPU device says who waits for whom in which call.
export CPU_DEVICE_TIMEOUT=${CPU_DEVICE_TIMEOUT:-5} OMP_NUM_THREADS=1 NCCL_SOCKET_IFNAME=lo
# oneDNN generates the code of its matrix products when a program starts. With small models, this takes longer than
# everything else, and it takes the least time for the instructions of old processors.
export DNNL_MAX_CPU_ISA=SSE41

# small: a model and data on which a run takes a moment. The low rate keeps rounding from growing. An epoch has 21 training
# steps, so these runs end before it.
# shellcheck disable=SC2054 # the comma is the option's
small=(--data "$SCRATCH/data" --hidden 32,32 --batch 120 --lr 0.01 --max-steps 20 --log-every 1)

ok() {
    printf 'ok     %s\n' "$*"
}

skip() {
    printf 'skip   %s\n' "$*"
}

# costs WHAT: the answer is right, but does more than is needed.
costs() {
    printf 'ok     right, and it costs %s\n' "$*"
}

# cannot_say [WHY]: if a disk is full, or for this reason, the check ends without a verdict.
cannot_say() {
    local folder full why=${1:-}
    for folder in "$SCRATCH" "$build/exercises"; do
        full=$( (mkdir -p "$folder" && head -c 4M /dev/zero >"$folder/room.$$") 2>&1)
        rm -f "$folder/room.$$"
        [ -z "$full" ] || why="4 MB cannot be written to $folder (${full##*: })"
    done
    [ "$why" ] || return 0
    echo "error: $why, so this check cannot say whether your answer is right" >&2
    exit 2
}

# wrong WHAT [LINE...]: the lines explain it. Empty ones are left out. Then come the lines that the attendee prints, and the
# last command.
wrong() {
    cannot_say
    printf 'wrong  %s\n' "$1"
    printf '%s\n' "${@:2}" | sed 's/^ \{7,\}//; /^$/d; s/^/       /'
    own_lines | grep -vxFf <(printf '%s\n' "$@") | sed '1i It prints:' | sed 's/^/       /'
    [ -z "$command_line" ] || printf '       To repeat it: %s\n' "$command_line"
    exit 1
}

# Of the last run: lines that the course does not print.
own_lines() {
    cat "$SCRATCH"/out{,.*} "$SCRATCH"/err{,.*} 2>/dev/null | grep -vE "^($course_words) |^(step|stopped|crash) |^launch: |check.bash: line |error|note|wait|^ |^\$" |
        head -n 5 | cut -c 1-200
}
course_words='[0-6]|ladder|rung|a step|costs|data  |device|epoch|launcher|loader|memory|model|profile|ranks|resumed|saved|sharding|told|training'

# limited COMMAND...: runs it for at most $limit seconds, and returns 124 if it had not ended. Ctrl-C ends it, because a shell
# that waits handles signals at once.
limited() {
    local status=0 began=$SECONDS
    remember "$@"
    set -m # in a process group of its own; otherwise it would ignore Ctrl-C
    timeout -k 1 "$limit" "$@" </dev/null &
    set +m
    wait $! || status=$?
    [[ $status != 137 || $((SECONDS - began)) -lt $limit ]] || status=124 # it ignored SIGTERM
    return $status
}

# What a message shows to repeat this command.
command_line='' program='' main=''
remember() {
    local name value words='' each=() before='' scratch
    printf -v scratch %q "$SCRATCH"
    # A run that continues repeats only after the run that has saved.
    [[ ! -e $SCRATCH/s || "$*" != *"--snapshot $SCRATCH/s"* ]] || before="$command_line; "
    for name in "${!CPU_DEVICE@}" OBSERVE_{SEED,CLOCK} CUDA_VISIBLE_DEVICES RANK LOCAL_RANK WORLD_SIZE \
        "${!MASTER_@}" "${!TORCHELASTIC_@}" log; do
        if [[ -v $name && ${!name@a} == *x* ]]; then
            printf -v value %q "${!name}"
            words+="$name=$value "
        fi
    done
    while [ $# != 0 ]; do
        if [[ $1 == --* && " ${*:2} " == *" $1 "* ]]; then # the program takes the last one
            [[ $2 == --* ]] || shift
        else
            each+=("$1")
        fi
        shift
    done
    printf -v value '%q ' "${each[@]}"
    words+=${value//"$program"/"$MINE/${main##*/}"}
    words=${words/"--csv $scratch/csv "/}
    words=${words//"$scratch/data"/$images}
    words=${words//"$scratch/"/'$folder/'}
    words=${words//'\,'/,}
    [[ $before || $words != *'$folder/'* ]] || before='folder=$(mktemp -d); '
    command_line=$before${words% }
}

interrupted() { # SIGNAL
    local pids
    mapfile -t pids < <(jobs -p)
    kill "${pids[@]}"
    wait
    trap - "$1"
    kill "-$1" $$
} 2>/dev/null
for signal in INT TERM HUP; do
    # shellcheck disable=SC2064 # this signal
    trap "interrupted $signal" $signal
done

# build_mine: makes $program in $build from the attendee's sources and those of the step, the program $reference and the
# launcher. What make prints is in $SCRATCH/build.
build_mine() {
    local sources
    main=$(sed -n "s/^program //p" "$TASK")
    program=$build/$MINE/${main##*/}
    sources=$(cksum "$MINE"/*.c* 2>/dev/null)
    if [ "$sources" != "$(cat "$build/$MINE/sources" 2>/dev/null)" ]; then
        rm -f "$build/$MINE"/*.o # also if a file has an older date than before
    fi
    makes MINE="$MINE" MAIN="$main" "$program" "$build/$reference" "$launcher" && echo "$sources" >"$build/$MINE/sources"
}

# makes WORD...: runs make with these variables and goals. What it prints is in $SCRATCH/build.
makes() {
    make -s DEVICE="$device" BUILD="$build" "$@" >"$SCRATCH/build" 2>&1
}

# makes_course PROGRAM...: programs without sources of the attendee.
makes_course() {
    makes "${@/#/$build/}" || wrong 'the step does not compile' "$(tail -n 3 "$SCRATCH/build")"
}

# makes_caller PROGRAM MAIN [FOLDER]: a program of this check that calls functions of the attendee.
makes_caller() {
    makes MINE="${3:-$MINE}" MAIN="$2" "$1" && return
    cat "$SCRATCH/build"
    wrong 'it compiles, but the check cannot call its functions' 'Have their parameters changed?'
}

# Compiles the attendee's sources with those of the step, and shows the compiler's messages as they are.
compiles() {
    if ! build_mine; then
        cat "$SCRATCH/build"
        wrong 'it does not compile'
    fi
    ln -srf "$program" "$MINE" # the attendee starts it as work/2.1/train
    # Below the line of a warning, the compiler quotes the source in indented lines.
    awk -v mine="$MINE/" '!/^ / { shown = index($0, mine) == 1 && /: warning: / } shown' "$SCRATCH/build"
    ok 'it compiles'
}

# A fault of the debugging lab that nobody has worked on yet: its check shows the symptom, and does not explain it.
untouched() {
    local file
    [[ $EXERCISE == debug.* ]] || return
    while IFS= read -r file; do
        awk -v task="$TASK" -v file="$file" -f exercises/replace.awk "$file" | cmp -s - "$MINE/${file##*/}" || return
    done < <(sed -n 's/^file //p' "$TASK")
}

# first_error [FILE]: of the last run, or of another file in $SCRATCH.
first_error() {
    grep -m 1 error "$SCRATCH/${1:-err}" | cut -c 1-300
}

# within SECONDS COMMAND...: waits until the command succeeds. Fails after that time.
within() {
    local end=$((SECONDS + $1))
    until "${@:2}"; do
        [ $SECONDS -le $end ] || return
        sleep 0.05
    done
}

# limit: how many seconds a run may take. LIMIT gives a busy machine more.
limit=${LIMIT:-20}

# how_it_ended STATUS: adds to the errors of the last run what the program could not print.
how_it_ended() {
    [ "$1" != 124 ] || echo "error: the program had not ended after $limit s" >>"$SCRATCH/err"
    [ "$1" -le 128 ] || echo "error: signal $(($1 - 128)) ended the program" >>"$SCRATCH/err"
}

# enough_devices RANKS: on GPUs, each rank needs one of its own.
enough_devices() {
    local count
    [ "$device" = gpu ] || return 0
    count=$(nvidia-smi -L 2>/dev/null | wc -l)
    [ "$count" -ge "$1" ] ||
        cannot_say "the check with $(ranks "$1") needs a GPU for each, and this machine has $count (make check DEVICE=cpu needs none)"
}

# run_ranks RANKS OPTION...: runs the program. Its output is in $SCRATCH/out and err, the losses of
# its steps in $SCRATCH/csv, and the calls of all ranks in $SCRATCH/calls.
run_ranks() {
    local command status
    : >"$SCRATCH/csv"
    : >"$SCRATCH/calls"
    enough_devices "$1"
    case $main in
    01_*) command=("$program") ;;
    02_* | 06_*) command=("$program" --nproc "$1") ;;
    *) command=("$launcher" --nproc-per-node "$1" "${starter[@]}" "$program") ;;
    esac
    # The shell reports a crash to the stderr of the braces.
    {
        CPU_DEVICES=$1 OBSERVE=$SCRATCH/calls limited "${command[@]}" "${small[@]}" "${also[@]}" \
            "${options[@]}" --csv "$SCRATCH/csv" "${@:2}" >"$SCRATCH/out" 2>"$SCRATCH/err"
        status=$?
    } 2>/dev/null
    how_it_ended $status
    return $status
}

# starter: the command with which the launcher starts each rank of the program, if any.
starter=()

# options: those of the program in all runs of a check. also: those of step 1 as well, which the messages name.
options=()
also=()

# errors: for a part of an error message, what a learner should know about it: 'signal 11|There is no next layer ...'. The
# messages of messages.h have names: '{NOT_FINITE}|Device memory holds ...'.
errors=()

# The lines of a text that is indented in the source of a check.
unindented() {
    sed 's/^ *//' < <(echo "$1")
}

# The first errors of the last run, and what they mean.
explain_errors() {
    local error text
    # If calls differ, the last part of the line is an earlier call, whose end the watchdog has not seen.
    grep -E 'error|wait' "$SCRATCH/err" | sed "/$(text_of CALLS_DIFFER)/s/ (step [0-9]*, collective.*//" | head -n 3 | cut -c 1-400
    untouched && return
    crash_line
    for error in "${errors[@]}"; do
        text=$(with_texts "${error%%|*}")
        ! grep -qF "$text" "$SCRATCH/err" || unindented "${error#*|}"
    done
}

# Where the last run crashed, if it did: crash.c prints the addresses. A function of the course may crash because of what the
# attendee's code gives it.
crash_line() {
    local calls at mine
    calls=$(sed -n 's/^crash //p' "$SCRATCH/err" | head -n 20 | xargs addr2line -f -i -e "$program" 2>/dev/null |
        paste -d ' ' - - | sed 's/ (discriminator.*//; /?/d')
    at=$(head -n 1 <<<"$calls")
    mine=$(grep -m 1 "/$MINE/" <<<"$calls")
    [ -n "$mine" ] || return 0
    [ "$at" != "$mine" ] || at=
    echo "It crashes in ${at:+${at%% *}, ${at##*/}. The call that leads there is in }${mine%% *}, $MINE/${mine##*/}."
}

# must_run RANKS OPTION...: runs the program; if it fails, the check ends.
must_run() {
    run_ranks "$@" || program_fails "$(ranks "$1")" "$@"
}

# program_fails NAME [RANKS OPTION...]: the check ends, and says why the last run failed. A race may show as any other
# error, so this looks for one in a run with RANKS.
program_fails() {
    local lines race=()
    mapfile -t lines < <(explain_errors)
    [ $# = 1 ] || find_race "${@:2}"
    [ ${#race[@]} = 0 ] || lines=("${race[@]}")
    wrong "with $1, the program fails" "${lines[@]}"
}

# ranks RANKS OPTION...: how a message names a run.
ranks() {
    local how=${also[*]:+ and ${also[*]}}${2:+ and ${*:2}}${CPU_DEVICE_CHAOS:+ and CPU_DEVICE_CHAOS=$CPU_DEVICE_CHAOS}
    how=${how//"$SCRATCH/"/}
    [ "$1" = 1 ] && echo "1 rank$how" || echo "$1 ranks$how"
}

# Of a CSV file: the losses of the training steps, lines "step,loss".
losses() {
    awk -F, '$2 != "" { print $1 "," $2 }'
}

# reference: the program that has the right losses with one rank. Messages name its folder.
reference=01_single_gpu/train

# kept WORD...: $kept is the path of a file with what the program $reference did with these options. It stays for other
# checks. Succeeds if it is there, and not older than the program.
kept() {
    kept=$(printf '%s' "$HOSTNAME $reference ${images##*/} ${small[*]:2} ${also[*]} $*" | sha256sum)
    kept=$build/exercises/kept.${kept%% *}
    [ "$kept" -nt "$build/$reference" ]
}

# keep FILE: its copy is $kept. A copy that a full disk cuts off gets no name.
keep() {
    cp "$1" "$kept.$$" 2>/dev/null && mv "$kept.$$" "$kept" && return
    rm -f "$kept.$$"
    cannot_say "$kept cannot be written"
}

# reference_runs OPTION...: $kept is the path of the CSV file that it writes with these options.
reference_runs() {
    local why
    kept "$@" && return
    # Step 1 refuses the variables of a launcher.
    why=$(unset_job && env -u CPU_DEVICE_CHAOS "$build/$reference" "${small[@]}" "${also[@]}" --csv "$SCRATCH/reference" "$@" 2>&1 >/dev/null) ||
        cannot_say "$build/$reference fails ($why)"
    keep "$SCRATCH/reference"
}

# first_difference CSV [FIRST]: $at is "STEP LOSS LOSS" where the losses of the last run and of the CSV file first differ by
# more than rounding, from training step FIRST on, or empty. At least one loss is compared.
first_difference() {
    : >>"$SCRATCH/csv"
    read -ra at < <(awk -F, -v first="${2:-1}" '
        FNR == 1 || $2 == "" || $1 < first { next }
        FILENAME == ARGV[1] { step[++n] = $1; right[$1] = $2; next }
        { mine[$1] = $2 }
        n && !($1 in right) && !extra { extra = $1 }
        END {
            for (i = 1; i <= n; i++) {
                a = mine[step[i]]
                b = right[step[i]]
                if (a !~ /^[0-9]/ || (a - b) ^ 2 > (1e-5 * b) ^ 2) { print step[i], a == "" ? "missing" : a, b; exit }
            }
            if (n) print extra ? extra " " mine[extra] " none" : "same"
        }' "$1" "$SCRATCH/csv")
    [ ${#at[@]} != 0 ] || cannot_say "$1 has no loss to compare with"
    [ "${at[0]}" != same ] || at=()
}

# right_losses: whether the losses of the last run are those of step 1.
right_losses() {
    local at
    reference_runs
    first_difference "$kept"
    [ ${#at[@]} = 0 ]
}

# holds CONDITION MINE RIGHT: whether the condition holds, such as 'mine <= 1.1 * right'. RIGHT must be a number above 0. If MINE
# is no number, nothing holds.
holds() {
    [[ $3 =~ ^[0-9.]*[1-9] ]] || cannot_say "there is no number to compare yours with ($1)"
    [[ $2 =~ ^-?[0-9] ]] && awk -v mine="$2" -v right="$3" "BEGIN { exit !($1) }"
}

# suspects: for options of step 1, the mistake that makes the program train like that. "--lr 0.005|The sum is half ..."
suspects=()

# otherwise: what to say about losses that are not those of a suspect.
otherwise=

# first_loss: what to say about a wrong loss of training step 1.
first_loss='No update comes before this loss: look at the samples, the start, or the way the losses are added.'

# about_loss RANKS STEP LOSS RIGHT: what the first wrong loss tells.
about_loss() {
    if awk -v ranks="$1" -v loss="$3" -v right="$4" 'BEGIN {
        exit !(ranks > 1 && (loss - ranks * right) ^ 2 < (1e-4 * loss) ^ 2) }'; then
        echo "It is $1 times as large, as if the losses of $1 ranks were divided by the number of samples of one rank."
    elif [ "$otherwise" ]; then
        echo "$otherwise"
    elif [ "$2" = 1 ]; then
        unindented "$first_loss"
    elif [ "$2" = 2 ]; then
        echo 'The loss of training step 1 is right, so it is the first update that is wrong.'
    fi
}

# same_losses RANKS... OPTION...: with each of these numbers of ranks, the program trains as step 1 does.
same_losses() {
    local number numbers=()
    while [[ ${1:-} == [0-9]* ]]; do
        numbers+=("$1")
        shift
    done
    for number in "${numbers[@]}"; do
        same_losses_with "$number" "$@"
    done
}

same_losses_with() { # RANKS OPTION...
    local at=() race=() suspect lines=() status=0 right
    run_ranks "$@" || status=$?
    reference_runs
    right=$kept
    first_difference "$right"
    if [ ${#at[@]} = 0 ] && [ $status = 0 ]; then
        ok "with $(ranks "$@"), the losses of $(grep -c '^[0-9]*,[0-9]' "$right") training steps are those of ${reference%%/*}"
        return
    fi
    untouched || for suspect in "${suspects[@]}"; do
        # shellcheck disable=SC2086 # options
        reference_runs ${suspect%%|*}
        ! (first_difference "$kept" && [ ${#at[@]} = 0 ]) || lines=("${suspect#*|}")
    done
    [ $status = 0 ] || mapfile -t -O ${#lines[@]} lines < <(explain_errors)
    find_race "$@"
    [ ${#race[@]} = 0 ] || lines=("${race[@]}")
    [ ${#lines[@]} != 0 ] || [ ${#at[@]} = 0 ] || untouched || lines=("$(about_loss "$1" "${at[@]}")")
    if [ $status = 0 ] && [ "${at[1]}" = missing ]; then
        wrong "with $(ranks "$@"), the program does not report the loss of training step ${at[0]}" \
            'It must write the loss of each training step to the file of --csv, because --log-every is 1.'
    fi
    if [ ${#at[@]} = 0 ] || [ "${at[1]}" = missing ]; then
        wrong "with $(ranks "$@"), the program fails" "${lines[@]}"
    fi
    wrong "with $(ranks "$@"), the loss of training step ${at[0]} is ${at[1]}; ${at[2]} is right (${reference%%/*})" \
        "${lines[@]}"
}

# same_losses_delayed RANKS OPTION...: the program trains as step 1 does, whatever the delays between operations.
same_losses_delayed() {
    local seed
    for seed in ${CHAOS:-1 2 3}; do
        export CPU_DEVICE_CHAOS=$seed
        same_losses "$@"
    done
    unset CPU_DEVICE_CHAOS
}

# Whether the last run ended because it waited in vain. No race explains that.
hangs() {
    grep -qE 'waited [0-9]+ s|had not ended' "$SCRATCH/err"
}

# find_race RANKS OPTION...: after a run that went wrong, $race is what the checker of ordering of the CPU device reports of
# such a run, if anything. Then its run is the one to repeat.
find_race() {
    local before=$command_line
    race=()
    [ "$device" = cpu ] && ! untouched && ! hangs || return 0
    CPU_DEVICE_CHECK=1 run_ranks "$@" || mapfile -t race < <(report_of_race)
    [ ${#race[@]} != 0 ] || command_line=$before
}

# Of the last run: the report of the checker of ordering, if any.
report_of_race() {
    grep -m 1 -A 3 'CPU_DEVICE_CHECK: ' "$SCRATCH/err" | cut -c 1-400
}

# seldom: options of no_race. With each loss, the host waits for all operations, so none could reach the next training step.
seldom=(--log-every 10)

# no_race RANKS OPTION...: the checker of ordering of the CPU device finds nothing.
no_race() {
    local lines
    [ "$device" = cpu ] || { skip 'the checker of ordering needs the CPU device: make check DEVICE=cpu' && return; }
    if ! CPU_DEVICE_CHECK=1 run_ranks "$@" "${seldom[@]}"; then
        mapfile -t lines < <(report_of_race)
        [ ${#lines[@]} = 0 ] ||
            wrong "with $(ranks "$@"), an operation does not wait for the data that it needs" "${lines[@]}"
        program_fails "$(ranks "$1")"
    fi
    ok "with $(ranks "$@"), every operation waits for the data that it needs"
}

# expect_calls FUNCTION TYPE COUNT WHAT_FOR [LINE...]: the ranks made so many of these calls. The lines explain a mistake.
expect_calls() {
    local calls
    calls=$(calls "$1" "$2")
    [ "$calls" = "$3" ] ||
        wrong "the ranks call $1 with values of type $2 $calls times" "Expected: $3 times, $4." "${@:5}"
    ok "the ranks call $1 with values of type $2 $3 times: $4"
}

# calls FUNCTION[|FUNCTION] TYPE: how many of these calls all ranks of the last run made together. A type of - is
# none.
calls() {
    awk -v names="^($1)$" -v type="$2" '$1 ~ names && $2 == type { n += $3 }
        END { print n + 0 }' "$SCRATCH/calls"
}

# expect_bytes FUNCTION[|FUNCTION] TYPE BYTES WHAT [LINE...]: the ranks gave these calls so many bytes. The type may be any.
expect_bytes() {
    local bytes
    bytes=$(bytes "$1" "$2")
    [ "$bytes" = "$3" ] || wrong "the ranks give ${1/|/ or } $bytes bytes" "Expected: $3 bytes, $4." "${@:5}"
    ok "the ranks give ${1/|/ or } $3 bytes: $4"
}

# bytes FUNCTION[|FUNCTION] TYPE: how many the ranks of the last run gave these calls.
bytes() {
    awk -v names="^($1)$" -v type="$2" '$1 ~ names && (type == "any" || $2 == type) { n += $4 }
        END { printf "%.0f", n }' "$SCRATCH/calls"
}

# all_watched FUNCTION[|FUNCTION] TYPE: in the last run, the watchdog watched all these calls.
all_watched() {
    local calls watched
    read -r calls watched < <(awk -v names="^($1)$" -v type="$2" '$1 ~ names && $2 == type { n += $3; watched += $6 }
        END { print n + 0, watched + 0 }' "$SCRATCH/calls")
    [ "$calls" != 0 ] || wrong "the ranks make no call of ${1/|/ or }"
    [ "$watched" = "$calls" ] || wrong "the watchdog watches only $watched of $calls calls of ${1/|/ or }" \
        'It cannot report that one of the others never ends. The macro COLLECTIVE tells it of a call, with the stream in which' \
        'the call is. For a group, end_collective does, with the result of ncclGroupEnd.'
    ok "the watchdog watches each call of ${1/|/ or }"
}

# parameters: of the model, as the last run printed them.
parameters() {
    sed -n 's/^model .* \([0-9]*\) parameters$/\1/p' "$SCRATCH/out"
}

# each_sample_once RANKS train|test COUNT: the ranks together use each of the COUNT samples of a batch, or of the
# test set, once.
each_sample_once() {
    local lines
    must_run "$1"
    mapfile -t lines < <(awk -v kind="$2" -v count="$3" '
        $1 == kind {
            step = kind == "train" ? ++calls[$2] : 1
            if (step > steps) steps = step
            if ($2 > last) last = $2
            for (i = $3; i < $3 + $4; i++) user[step, i] = user[step, i] " rank " $2
            if (!((step, $2) in first)) first[step, $2] = $3
            if ($3 + $4 > most[step]) most[step] = $3 + $4
            end[step, $2] = $3 + $4
        }
        function complain(what) {
            print (kind == "train" ? "training step " step ": " : "evaluation: ") what
            printf "Used:"
            for (rank = 0; rank <= last; rank++)
                printf "%s rank %d samples %d to %d", rank ? "," : "", rank, first[step, rank], end[step, rank] - 1
            printf "\nExpected: each of the samples %d to %d once\n", begin, begin + count - 1
            exit
        }
        END {
            for (step = 1; step <= steps; step++) {
                begin = (step - 1) * count
                for (i = begin; i < begin + count || i < most[step]; i++) {
                    n = split(user[step, i], word, " ") / 2
                    if (n == 0 && i < begin + count) complain("no rank uses sample " i)
                    if (n == 1 && i >= begin + count) complain("rank " word[2] " uses sample " i)
                    a = word[2] < word[4] ? word[2] : word[4]
                    if (n > 1 && word[2] == word[4]) complain("rank " a " uses sample " i " twice")
                    if (n > 1) complain("rank " a " and rank " word[2] + word[4] - a " both use sample " i)
                }
            }
            if (!steps) print "no rank uses any sample"
        }' "$SCRATCH/calls")
    [ ${#lines[@]} = 0 ] || wrong "${lines[@]}"
    ok "with $(ranks "$1"), each sample of $([ "$2" = train ] && echo a batch || echo the test set) is used once"
}

# data_set TRAIN TEST ROWS COLUMNS: from now on, the programs train on so many images of this size, and test on so many.
data_set() {
    use_data write_images "$@"
}

# use_data WRITE WORD...: from now on, the programs read what the function WRITE FOLDER WORD... writes. Checks use the data of
# earlier ones again: making them takes longer than a run.
use_data() {
    local new
    images=$build/exercises/data.$(printf '%s' "$* $(declare -f "$1")" | cksum | tr ' ' .)
    if [ ! -d "$images" ]; then
        mkdir -p "$build/exercises"
        new=$(mktemp -d "$build/exercises/new.XXXXXX")
        if ! "$1" "$new" "${@:2}"; then
            rm -rf "$new"
            cannot_say "the data cannot be written to $build/exercises"
        fi
        mv -T "$new" "$images" 2>/dev/null || rm -r "$new" # another check was faster
    fi
    ln -sfn "$(readlink -f "$images")" "$SCRATCH/data" || cannot_say "$SCRATCH/data cannot be made"
}

# They are read faster than those of --data synthetic are made.
write_images() { # FOLDER TRAIN TEST ROWS COLUMNS
    local name count
    for name in train t10k; do
        count=$([ $name = train ] && echo "$2" || echo "$3")
        { idx_header "$count" "$4" "$5" && awk -v count="$count" -v pixels=$(($4 * $5)) 'BEGIN {
            for (i = 1; i <= count; i++) {
                for (s = ""; length(s) < pixels;) s = s sprintf("%08d%08d", i * 7919 % 1e8, i * 104729 % 1e8)
                printf "%s", substr(s, 1, pixels)
            } }' | tr 0-9 '\000\034\070\124\160\214\250\304\340\374'; } >"$1/$name-images-idx3-ubyte" &&
        { idx_header "$count" && seq "$count" | sed 's/.*\(.\)/\1/' | tr -d '\n' | tr 0-9 '\000-\011'; } \
            >"$1/$name-labels-idx1-ubyte" || return
    done 2>/dev/null
}

# small_epoch: from now on, an epoch has 20 training steps, and the test set has 101 samples.
small_epoch() {
    data_set 2400 101 2 4
}

# same_evaluation RANKS: after an epoch, the program prints the test loss and the accuracy of step 1.
same_evaluation() {
    local loss accuracy right right_accuracy
    must_run "$1"
    reference_runs
    read -r loss accuracy < <(evaluation "$SCRATCH/csv")
    read -r right right_accuracy < <(evaluation "$kept")
    [ "${right:-}" ] || cannot_say "no epoch ends in this run (small_epoch makes epochs short, and --max-steps ends the run)"
    if ! holds '(mine - right) ^ 2 <= (1e-5 * right) ^ 2' "${loss:=none}" "$right" || [ "$accuracy" != "$right_accuracy" ]; then
        wrong "with $(ranks "$1"), the test loss and the accuracy are $loss, $accuracy %; $right, $right_accuracy % are right (01_single_gpu)" \
            "${@:2}"
    fi
    ok "with $(ranks "$1"), the test loss and the accuracy are those of step 1"
}

# evaluation CSV: the test loss and the accuracy of the first epoch.
evaluation() {
    awk -F, 'NR > 1 && $3 { print $5, $6; exit }' "$1"
}

small_images=(2520 1000 8 8)
data_set "${small_images[@]}"
! compgen -G "$MINE/*.c*" >/dev/null || compiles # a job script is none of these
# shellcheck disable=SC1090 # the check of an exercise
. "$1"
