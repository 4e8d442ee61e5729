#!/usr/bin/env bats
# Tests of tools/rehearse.py, which times runs on modelled GPUs.
load ../helpers
programs=(03_multigpu_launcher/launch {07_large_models,09_tensor}/train)
needs=(python3)
unset CPU_DEVICE_MODEL

# rehearse ARGUMENT...: writes to the folder out.
rehearse() {
    ${on_cores:+taskset -c "$on_cores"} python3 -B "$root/tools/rehearse.py" --build "$build" --out out "$@"
}

# refused TEXT ARGUMENT...: the rehearsal ends with an error, and the last line has the text.
refused() {
    run rehearse "${@:2}"
    if [ "$status" = 0 ] || [[ ${lines[-1]} != *"$1"* ]] || [[ $output == *Traceback* ]]; then
        printf '%s\n' "wanted: $1" "$output" && return 1
    fi
}

# column NAME: prints a column of out/rehearse.csv, on one line.
column() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next } { printf "%s%s", s, $c; s = " " }' out/rehearse.csv
}

# changed_model SED...: makes my.model from h100.model, and uses it.
changed_model() {
    sed "$@" "$root/cpu_device/h100.model" >my.model
    refute cmp -s my.model "$root/cpu_device/h100.model"
    export CPU_DEVICE_MODEL=$PWD/my.model
}

@test "a rehearsal prints the same table each time, and all times are marked as modelled" {
    rehearse --gpus 1,4,16 --strategies full,hybrid --hidden 2048 >first
    cp out/rehearse.csv first.csv
    CPU_DEVICE_CHAOS=3 rehearse --gpus 1,4,16 --strategies full,hybrid --hidden 2048 >second
    diff first second
    diff first.csv out/rehearse.csv
    grep -q '^These times are modelled: h100 GPUs, 8 per node. No GPU runs' first
    [ "$(grep -c '^--strategy .*(modelled)$' first)" = 2 ]
    [ "$(column clock | tr ' ' '\n' | sort -u)" = modelled ]
    [ "$(column gpus)" = '1 4 16 1 4 16' ]
    [ "$(column batch)" = '256 1024 4096 256 1024 4096' ]
    read -ra efficiency <<<"$(column efficiency)"
    [ "${efficiency[0]}" = 100.00 ]
    [ "${efficiency[3]}" = 100.00 ]
}

# The parts of a matrix are in a node, and the stages in several. Each row ends with the layout.
@test "a rehearsal of step 9 divides layers and matrices, so each GPU needs less memory" {
    rehearse --gpus 1,4,8 --gpus-per-node 4 --strategies pipeline,tensor --hidden 2048,2048,2048 >table
    [ "$(grep -oE '[0-9]+ x [0-9]+ x [0-9]+$' table | tr '\n' ,)" = '1 x 1 x 1,1 x 4 x 1,1 x 4 x 2,1 x 1 x 1,4 x 1 x 1,4 x 2 x 1,' ]
    [ "$(grep -c 'tensor x stages x replicas$' table)" = 2 ]
    column memory_bytes | awk '{ exit !($1 == $4 && $2 < 0.6 * $1 && $5 < 0.5 * $1 && $6 < $5) }'
    refused '--tensor 4: want a divisor of the 2050 outputs' --gpus 4 --strategies tensor --hidden 2050
}

@test "a model that does not fit on few GPUs is reported, and the first run that fits is the base" {
    changed_model 's/^capacity .*/capacity 0.4/'
    rehearse --gpus 1,8 --strategies none,full --hidden 4096,4096,4096 >table
    [ "$(column bound | cut -d' ' -f1-3)" = 'memory memory memory' ]
    [ "$(grep -c 'memory: it does not fit$' table)" = 3 ]
    read -ra efficiency <<<"$(awk -F, 'NR == 5 { print $6 }' out/rehearse.csv)"
    [ "${efficiency[0]}" = 100.00 ]
    [ "$(column memory_bytes | wc -w)" = 4 ]
}

@test "wrong arguments are refused with a reason" {
    refused '--strategy is not for a rehearsal' --strategy full
    refused 'want numbers from 1 to 64' --gpus 2,1
    refused '--gpus 12: not a whole number of nodes of 8 GPUs' --gpus 12
    refused '--batch 100: not divisible by 8 GPUs' --strong --batch 100 --gpus 8
    refused 'zero: the strategies are: none, full, grad, hybrid' --strategies zero
    CPU_DEVICE_MODEL=h999 refused 'h999' --gpus 1
}

@test "ranks that share a core get more time" {
    mkdir -p slow/03_multigpu_launcher
    cat >slow/03_multigpu_launcher/launch <<'END'
#!/bin/sh
echo "error: $CPU_DEVICE_TIMEOUT" $*
exit 1
END
    chmod +x slow/03_multigpu_launcher/launch
    build=slow on_cores=0 refused '--join-timeout 3840 --step-timeout 7680' --gpus 64 --strategies none
    [[ $output == *'error: 19200 '* ]]
}

@test "the command in docs/seeing.md prints its tables, and a full disk is reported" {
    arguments=$(sed -n 's/^make rehearse ARGS="\(.*\)"$/\1/p' "$root/docs/seeing.md")
    [[ $arguments == *--gpus* ]]
    # shellcheck disable=SC2086 # a list of words
    rehearse $arguments >table
    [ "$(grep -c ^--strategy table)" = 2 ]
    ln -sf /dev/full out/rehearse.csv
    refused 'out/rehearse.csv: No space left on device' --gpus 1 --strategies none --hidden 8
}
