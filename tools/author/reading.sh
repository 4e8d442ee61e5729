#!/bin/bash
# reading.sh: prints the files of each step that readers must read in addition to the changes of train.c, with numbers of lines,
# and how many other lines the files of its folder have. Exits with 1 if a step asks for more than 450 lines, or for more than 25 minutes at a first
# reading, if a function in the folder of a step has more than 40 lines, or if a file or function is missing.
# reading.sh --write puts the lists into the READMEs.
set -u
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
most_lines=450 most_minutes=25 most_in_function=40

# Each row is an entry: step, file, functions (all: the whole file), and what a reader finds there. Readers read the entries
# in this order, and may skip the other sources of the step. The file "changes" stands for the output of make diffNM. With
# the entries of the first table and its text, a step takes at most 25 minutes. The second table is for a second reading.
# shellcheck disable=SC2016 # the backticks are for Markdown
first='
1|01_single_gpu/train.c|forward,backward,train_step,read_stats|a training step
1|common/layers/dense.c|dense_forward,dense_backward|one layer; `matmul` is one call of cuBLAS
1|01_single_gpu/train.c|main,train,train_epoch,evaluate,save|the program around it; begin with `main` at the end
2|changes|diff12|ranks, the all-reduce, which rank saves, and when all stop
2|02_multigpu_fork/meet_by_memory.c|all|the ranks get the id from rank 0
3|changes|diff23|a rank finds its place
3|03_multigpu_launcher/environment.h|all|what a rank knows about itself
3|03_multigpu_launcher/environment.c|find_place,choose_device|the variables of the launchers
3|03_multigpu_launcher/local_ranks.c|tell_rank,start_rank,reap|how a rank starts, and how it ends
3|03_multigpu_launcher/launch.c|start_next_attempt|whether all ranks start again
4|changes|diff34|the rendezvous, and a watchdog for every collective
4|04_multinode/meet_by_tcp.c|collect_ranks,reach_rank0,visit_rank0|rank 0 waits for the other ranks, and they connect
4|04_multinode/watchdog.c|begin_collective,end_collective,look,check_limit,give_up|how a thread notices a stuck collective and ends the process
5|changes|diff45|the shards replace the parameters of the trainer
5|05_fsdp/fsdp.c|comm_waits,start_gather,fsdp_gather,fsdp_scatter|gather and scatter
6|06_allreduce_demo/allreduce.c|gather_broadcast,ring,scatter_gather,expected,compare_by_hand,measure|all-reduce by hand, checked and timed
7|07_large_models/train.c|forward,backward,clip_gradients,train_step|the training loop, with all options
7|07_large_models/units.h|all|units of layers and groups of ranks
8|08_pipeline/pipeline.h|all|what a stage stores, and what it sends
8|08_pipeline/train.c|run_forwards,run_batch,backward|the three loops, and the sum of all micro-batches
8|08_pipeline/pipeline.c|count_forwards,exchange|how many forwards come first, and how two stages exchange values
9|09_tensor/divided.h|all|what a part is
9|09_tensor/pair.c|first_forward,second_forward,first_backward,second_backward|what a part of a pair computes, and where the parts sum their shares
9|09_tensor/tensor.c|wait_for_others,sum_parts|the sum
9|changes|diff89|the trainer builds one part of the model
'
# shellcheck disable=SC2016
second='
1|01_single_gpu/train.c|load,setup,start|what a run needs, and how it begins
1|common/snapshots/snapshot.h|all|what a snapshot holds
2|02_multigpu_fork/ranks.h|all|the contract of the next file
2|02_multigpu_fork/ranks.c|start_ranks,wait_for_ranks,report_end|one process per GPU, from start to end
3|03_multigpu_launcher/meet_by_file.c|all|the ranks get the id from rank 0
3|03_multigpu_launcher/local_ranks.h|all|what the launcher can do with its ranks
3|03_multigpu_launcher/local_ranks.c|become_program,start_local_ranks,stop_local_ranks,check_local_ranks|all ranks start and end
3|03_multigpu_launcher/launch.c|end_run,wait_for_events,main|the loop that waits for events
4|04_multinode/meet_by_tcp.c|hold_rendezvous,admit,give_up_waiting|which ranks rank 0 accepts, and what it says at the deadline
4|04_multinode/watchdog.h|all|what the watchdog promises
4|04_multinode/watchdog.c|watchdog,set_limit,start_watchdog,end_watchdog|the thread, from start to end
4|04_multinode/launch.c|count_nodes,order_next_attempt,decide|how the launchers of several nodes agree
5|05_fsdp/fsdp.h|all|what a rank stores, and what it can ask for
5|05_fsdp/fsdp.c|fsdp_build,fsdp_join,fsdp_allocate,fsdp_initialise,fsdp_finish,fsdp_save|divide, allocate and save
7|changes|diff57|what each option adds
7|07_large_models/units.c|all|which rank stores which shard, and gathering in bfloat16
7|07_large_models/saving.c|all|one file from many shards
8|changes|diff48|a stage computes micro-batches
8|08_pipeline/pipeline.c|cut_layers,divide_layers|how the model is cut
9|09_tensor/divided.c|begins_pair,divide,shard_layer|which layers are a pair, and which parameters a part has
9|09_tensor/tensor.h|all|what a rank knows of the other parts
9|09_tensor/tensor.c|next_copy,sum_copies|the parameters that all parts have
'
entries=$first$second

# extents FILE FUNCTIONS: a line "name lines lines-with-comment" for each function that is asked for, or for every
# function of the file (all). A function begins with the comment above it, and ends with a brace in the first column.
# shellcheck disable=SC2016 # the dollars are those of awk
extents() {
    awk -v wanted="$2" '
        BEGIN { n = split(wanted, list, ","); for (i = 1; i <= n; i++) want[list[i]] = 1 }
        inside {
            if (!/^}/) next
            if (wanted == "all" || name in want) print name, NR - first + 1, NR - top + 1
            inside = top = first = 0
            next
        }
        /^\/\// { if (!top) top = NR; next }
        !first && !/^[A-Za-z_]/ { top = 0; next }
        !first { first = NR; signature = ""; if (!top) top = NR }
        { signature = signature " " $0 }
        /\{( *\/\/.*)?$/ {
            name = signature
            gsub(/__attribute__\(\(([^()]|\([^()]*\))*\)\)/, "", name)
            inside = name ~ /^[^=]*\(/
            sub(/ *\(.*/, "", name); sub(/.*[^A-Za-z0-9_]/, "", name)
        }
        !inside && /[;{}]( *\/\/.*)?$/ { top = first = 0 }' "$1"
}

lines_of() { # FILE FUNCTIONS
    if [ "$2" = all ]; then wc -l <"$1"; else extents "$1" "$2" | awk '{ sum += $3 } END { print sum + 0 }'; fi
}

lines_of_changes() { # TARGET, such as diff12: prints the number of added and removed lines
    git diff --no-index --minimal --numstat 0"${1:4:1}"_*/train.c 0"${1:5:1}"_*/train.c | awk '{ print $1 + $2 }'
}

# Readers take a minute for ten lines of C, and for 200 words. The result is rounded, so small changes of a file do not
# change a README.
minutes() { # LINES [WORDS]
    awk -v lines="$1" -v words="${2:-0}" 'BEGIN {
        minutes = lines / 10 + words / 200
        print minutes < 1.5 ? 1 : minutes < 3.5 ? 2 : minutes < 7.5 ? 5 : 5 * int(minutes / 5 + 0.5)
    }'
}

of_list='^($|\*\*To read|\*\*At a second|[0-9]+\. |   |You may skip )' # the lines of a list of files

# Prints the number of words in the prose and tables of a text, without its list of files to read.
words_of() { # README
    awk '/^```/ { code = !code; next }
        /^\*\*To read\*\*/ { list = 1 }
        list && /'"$of_list"'/ { next }
        { list = 0 }
        !code && !/^(<!--|!\[)/ { words += NF }
        END { print words + 0 }' "$1"
}

join() { # WORD...: "a", "a and b" or "a, b and c"
    printf '%s' "$1" && shift
    while [ $# -gt 1 ]; do printf ', %s' "$1" && shift; done
    [ $# = 0 ] || printf ' and %s' "$1"
}

skipped_files() { # FOLDER: prints its sources that are no entry
    local file
    for file in "$1"/*.[ch]; do
        [ "${file##*/}" = train.c ] || [[ $entries == *"|$file|"* ]] || echo "$file"
    done
}

show_entries() { # STEP ENTRIES: sets text to their list in Markdown, and total to the number of their lines
    local step file functions what name lines number=0
    text='' total=0
    while IFS='|' read -r step file functions what; do
        [ "$step" = "$1" ] || continue
        name=\`${file##*/}\`
        [ "${file%%/*}" = "$folder" ] || [ "$file" = changes ] || name=\`$file\`
        number=$((number + 1))
        if [ "$file" = changes ]; then
            lines=$(lines_of_changes "$functions") name="\`make $functions\`"
        else
            lines=$(lines_of "$file" "$functions")
            [ "$functions" = all ] || name="$name: \`${functions//,/\`, \`}\`"
        fi
        total=$((total + lines))
        text="$text$(fold -s -w 118 <<<"$number. $name: $what ($(minutes "$lines") min)" | sed 's/ *$//; 2,$s/^/   /')"$'\n'
    done <<<"$2"
}

first_minutes() { minutes "$total" "$(words_of "$folder/README.md")"; } # after show_entries STEP "$first"

show() { # STEP: prints its list in Markdown
    local text total skipped=() modules=() name files file
    show_entries "$1" "$first"
    printf '**To read**, in this order, about %d minutes with this text:\n\n%s' "$(first_minutes)" "$text"
    show_entries "$1" "$second"
    [ -z "$text" ] || printf '\n**At a second reading**, about %d minutes more:\n\n%s' "$(minutes "$total")" "$text"
    ! grep "^$1|$folder/" <<<"$entries" | grep -qv '|all|\|/train\.c|' || skipped+=("the rest of these files")
    files=$(skipped_files "$folder")
    for file in $files; do
        if [[ $files != *"${file%.?}.c"*"${file%.?}.h"* ]]; then
            skipped+=("\`${file##*/}\`")
        elif [ "${file##*.}" = c ]; then # a contract and its body
            name=${file##*/} && modules+=("\`${name%.c}\`")
        fi
    done
    case ${#modules[@]} in
    0) ;;
    1) skipped+=("the module ${modules[0]}") ;;
    *) skipped+=("the modules $(join "${modules[@]}")") ;;
    esac
    [ ${#skipped[@]} = 0 ] || printf '\nYou may skip %s.\n' "$(join "${skipped[@]}")"
}

write() { # README: replaces its list, or puts the list below the title
    show "${folder:1:1}" >"$1.list"
    awk -v list="$1.list" '
        function put(line) { while ((getline line <list) > 0) print line; done = 1 }
        NR == 1 { print; next }
        /^\*\*To read\*\*/ { replacing = 1; if (!done) put(); next }
        replacing && /'"$of_list"'/ { next }
        replacing { print ""; replacing = 0 }
        { lines[++n] = $0; print }' "$1" >"$1.new"
    grep -q '^\*\*To read\*\*' "$1.new" ||
        { sed -n 1p "$1" && echo && cat "$1.list" && sed 1d "$1"; } >"$1.new"
    mv "$1.new" "$1" && rm "$1.list"
}

if [ "${1:-}" = --write ]; then
    for folder in 0*_*; do write "$folder/README.md"; done
    exit
fi

failed=0
complain() { echo "error: $*" >&2; failed=1; }
check_functions() { # FILE
    while read -r name length _; do
        [ "${length:-0}" -le $most_in_function ] ||
            complain "$1: $name has $length lines; a function has at most $most_in_function"
    done < <(extents "$1" all)
}
echo 'step  must read  most  may skip  files to read (lines)'
for folder in 0*_*; do
    n=${folder:1:1} sum=0 read=0 files=''
    while IFS='|' read -r step file functions what; do
        if [ "$step" != "$n" ] || [ "$file" = changes ]; then continue; fi
        if [ ! -f "$file" ]; then
            complain "tools/author/reading.sh: there is no $file"
            continue
        fi
        lines=$(lines_of "$file" "$functions")
        found=$(extents "$file" "$functions")
        for name in $([ "$functions" = all ] || echo "${functions//,/ }"); do
            grep -q "^$name " <<<"$found" || complain "tools/author/reading.sh: $file has no function $name"
        done
        [[ $file != "$folder"/* || $file == */train.c ]] || read=$((read + lines))
        sum=$((sum + lines)) files="$files${files:+, }$file ($lines)"
    done <<<"$entries"
    for file in "$folder"/*.[ch]; do
        check_functions "$file"
    done
    skip=$(($(find "$folder" -maxdepth 1 -name '*.[ch]' ! -name train.c -exec cat {} + | wc -l) - read))
    printf '%4d %10d %5d %9d  %s\n' "$n" $sum $most_lines "$skip" "$files"
    show_entries "$n" "$first"
    [ "$(first_minutes)" -le $most_minutes ] || complain "step $n asks for $(first_minutes) minutes; the limit is $most_minutes"
    [ $sum -le $most_lines ] || complain "step $n asks for $sum lines of reading in addition to train.c; the limit is $most_lines"
done
exit $failed
