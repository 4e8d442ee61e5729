#!/usr/bin/env bats
# bats file_tags=test-all
# Tests of the job scripts of slurm/, and of steps 4 and 5 when nodes, ranks and cables fail, under a real Slurm. Its four
# nodes share only a folder and a network. They differ from real nodes: they share this machine's cores, the shared folder
# does not depend on the network, and no node has a GPU.
# shellcheck disable=SC2054 # the commas are the trainer's
load helpers

tiny=(--data tiny --hidden 8,8 --batch 120 --epochs 4 --log-every 1)
long=(--data tiny --hidden 8,8 --batch 120 --epochs 100)

# Makes a job whose tasks print the GPUs that they see, and train with the given program. They write stderr and their exit
# codes to files of the given name. A task that fails does not end the others.
make_job() {
    cat >tasks.sbatch <<'END'
#!/bin/bash
#SBATCH --output=tasks.%j.out
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
srun --kill-on-bad-exit=0 bash -c 'echo "${CUDA_VISIBLE_DEVICES-all}" >"$1.gpus.$SLURM_PROCID"
    "${@:2}" 2>"$1.err.$SLURM_PROCID"
    echo $? >"$1.code.$SLURM_PROCID"' - "$@"
END
}

# Submits some seconds of training, mostly sleep, and waits for epoch 20, so that a test can disturb it.
submit_long() { # NAME [SBATCH ARGUMENTS] FILE
    CPU_DEVICE_CHAOS=1 submit "${@:2}" "${long[@]}" --snapshot "$1.bin"
    until_true 60 logged "$id" '^epoch 20/'
}

# The job must end with the weights of an undisturbed job.
same_weights() { # NAME
    if [ ! -e alone.bin ]; then
        submit slurm/step4.sbatch "${long[@]}" --snapshot alone.bin
        ended "$id" COMPLETED
    fi
    cmp "$1.bin" alone.bin
}

@test "every job script completes, with the loss curve of step 1" {
    declare -A job
    for script in slurm/*.sbatch; do
        name=$(basename "$script" .sbatch)
        case $name in
        doctor) submit "$script" ;;
        check) continue ;; # has a test of its own
        step6) submit "$script" --check-only ;;
        sweep) submit "$script" "${tiny[@]}" ;;
        *) submit "$script" "${tiny[@]}" --csv "$name.csv" ;;
        esac
        job[$name]=$id
    done
    "$TRAIN" "${tiny[@]}" --csv alone.csv
    until_true 100 all_ended
    for name in "${!job[@]}"; do
        echo "$name"
        ended "${job[$name]}" COMPLETED
        case $name in
        doctor | step6) ;;
        sweep)
            read -ra rates <<<"$(sed -n 's/^rates=(\(.*\))/\1/p' slurm/sweep.sbatch)"
            [ ${#rates[@]} -gt 1 ]
            for i in "${!rates[@]}"; do
                "$TRAIN" "${tiny[@]}" --lr "${rates[i]}" --csv rate.csv
                same_curve rate.csv "sweep.${job[sweep]}_$i.csv"
            done
            ;;
        *) same_curve alone.csv "$name.csv" ;;
        esac
    done
}

@test "make check SBATCH=1 checks an exercise in a job" {
    make -s exercise EX=2.1
    check() {
        run cluster exec env SBATCH_GPUS_PER_NODE=0 make -s check DEVICE=cpu SBATCH=1
        echo "$output"
    }
    check
    [[ $status != 0 && $output == *'is checked in a job'*'wrong  with 2 ranks'*'Exercise 2.1 is not solved yet'* ]]
    cp 02_multigpu_fork/train.c work/2.1
    check
    [[ $status = 0 && $output == *'Exercise 2.1 is solved.'* ]]
    rm -r work
}

@test "one task per GPU works if it sees one GPU or all GPUs, on two and four nodes" {
    ids=()
    make_job
    while read -r name options; do
        # shellcheck disable=SC2086 # words
        submit $options tasks.sbatch "$name" 04_multinode/train "${tiny[@]}" --csv "$name.csv"
        ids+=("$id")
    done <<'END'
2x2.own --nodes=2 --ntasks-per-node=2 --gpus-per-task=1
2x2.all --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --gpu-bind=none
4x1.own --nodes=4 --ntasks-per-node=1 --gpus-per-task=1
4x1.all --nodes=4 --ntasks-per-node=1 --gpus-per-node=2 --gpu-bind=none
END
    "$TRAIN" "${tiny[@]}" --csv alone.csv
    until_true 60 all_ended "${ids[@]}"
    for name in 2x2.own 2x2.all 4x1.own 4x1.all; do
        echo "$name" && cat $name.err.*
        [ "$(cat $name.code.*)" = "$(printf '0\n0\n0\n0')" ]
        same_curve alone.csv $name.csv
    done
    [ "$(cat 2x2.own.gpus.*)" = "$(printf '0\n1\n0\n1')" ]
    [ "$(cat 4x1.own.gpus.* | grep -cx '[01]')" = 4 ]
    [ "$(cat 2x2.all.gpus.* 4x1.all.gpus.* | grep -cxE 'all|0,1')" = 8 ]
}

@test "job scripts use all GPUs of an exclusive node, and need nothing of the caller's environment" {
    submit --exclusive --gpus-per-node=1 slurm/step3.sbatch "${tiny[@]}" --csv all.csv
    all=$id
    submit --export=NONE slurm/step4.sbatch "${tiny[@]}" --csv bare.csv
    bare=$id
    "$TRAIN" "${tiny[@]}" --csv alone.csv
    until_true 60 all_ended "$all" "$bare"
    ended "$all" COMPLETED
    ended "$bare" COMPLETED
    logged "$all" "= 2 ranks x 60"
    same_curve alone.csv all.csv
    same_curve alone.csv bare.csv
}

@test "scancel ends a job and all its processes" {
    submit_long cancelled slurm/step4.sbatch
    cluster exec scancel "$id"
    until_true 10 all_ended "$id"
    [ "$(state "$id")" = CANCELLED ]
    until_true 10 nodes_clean
}

@test "a killed rank ends the job and all its processes within 10 s" {
    submit_long killed slurm/step4.sbatch
    one_token "$id"
    cluster exec -n "$(nodes "$id" | tail -n 1)" pkill -KILL --oldest -x train
    until_true 10 all_ended "$id"
    [ "$(state "$id")" = FAILED ]
    until_true 10 nodes_clean
}

# The test sends SIGUSR1 as Slurm would 90 s before the time is up.
@test "a chain of jobs continues after its time limit, and ends with the same weights" {
    submit_long chain slurm/chain.sbatch
    cluster exec scancel --batch --signal=USR1 "$id"
    ended "$id" COMPLETED
    logged "$id" '^resumed .* [2-9]. epochs'
    same_weights chain
}

# Slurm sends SIGUSR1 to the script, as its option --signal says, or without preempt_send_user_signal SIGTERM to the ranks.
@test "a preempted job continues afterwards, and ends with the same weights" {
    for signal in USR1 TERM; do
        [ $signal = USR1 ] || sed -i '/preempt_send_user_signal/d' "$CLUSTER_ROOT/cluster/slurm/slurm.conf"
        cluster exec scontrol reconfigure
        submit_long "preempted.$signal" slurm/chain.sbatch
        preempted=$id
        submit --partition=urgent --nodes=4 --exclusive slurm/step4-4x1.sbatch "${tiny[@]}" --csv urgent.csv
        ended "$id" COMPLETED
        [ "$(state "$preempted")" != COMPLETED ]
        ended "$preempted" COMPLETED
        logged "$preempted" '^resumed .* [2-9]. epochs'
        log "$preempted" | grep -q "$(text_of STOPPED_BY_SIGNAL); saved"
        same_weights "preempted.$signal"
    done
}

@test "a network failure of 5 s does not end a run" {
    submit_long cable slurm/step4.sbatch
    node=$(nodes "$id" | tail -n 1)
    cluster unplug "$node"
    sleep 5
    cluster plug "$node"
    ended "$id" COMPLETED
    same_weights cable
}

# The rank must have ended with one line, which names the silent ranks and their node.
names_silent() { # NAME RANK SILENT
    cat "$1.err.$2"
    [ "$(cat "$1.code.$2")" = 1 ]
    [ "$(wc -l <"$1.err.$2")" = 1 ]
    grep -q "^error (node[1-4], rank $2): .*--step-timeout.* nothing heard for [5-9] s from $3, so " "$1.err.$2"
}

@test "a permanent network failure ends all ranks within the time-out, each with a line" {
    make_job
    CPU_DEVICE_CHAOS=1 submit --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 tasks.sbatch pulled \
        04_multinode/train "${long[@]}" --step-timeout 7
    until_true 60 logged "$id" '^epoch 20/'
    first=$(nodes "$id" | head -n 1) last=$(nodes "$id" | tail -n 1)
    cluster unplug "$last"
    until_true 12 test -e pulled.code.0 -a -e pulled.code.1 -a -e pulled.code.2 -a -e pulled.code.3
    names_silent pulled 0 "rank 2, rank 3 on $last"
    names_silent pulled 1 "rank 2, rank 3 on $last"
    names_silent pulled 2 "rank 0, rank 1 on $first"
    names_silent pulled 3 "rank 0, rank 1 on $first"
    cluster plug "$last"
    ended "$id" COMPLETED
    until_true 10 nodes_clean
}

# shards NAME: prints the number of shards of the snapshot NAME.bin, 0 if it is one file.
shards() {
    find . -name "$1.bin.e*" | wc -l
}

# Slurm sets the number of ranks per node in the form 2(x2) or 1(x4).
@test "steps 5, 7, 8 and 9 have the loss curve of step 1, with shards of all ranks or of a node, with stages or with parts" {
    ids=()
    declare -A shards=([full2x2]=4 [hybrid2x2]=2 [full4x1]=4 [hybrid4x1]=0 [stages2x2]=2 [parts2x2]=4)
    for name in "${!shards[@]}"; do
        step=5 strategy=() options=()
        [[ $name != hybrid* ]] || step=7 strategy=(--strategy hybrid)
        [[ $name != stages* ]] || step=8
        [[ $name != parts* ]] || step=9
        [[ $name != *4x1 ]] || options=(--nodes=4 --ntasks-per-node=1 --gpus-per-node=1)
        submit "${options[@]}" slurm/step$step.sbatch "${tiny[@]}" --csv "$name.csv" --snapshot "$name.bin" "${strategy[@]}"
        ids+=("$id")
    done
    "$TRAIN" "${tiny[@]}" --csv alone.csv
    for id in "${ids[@]}"; do
        ended "$id" COMPLETED
    done
    for name in "${!shards[@]}"; do
        echo "$name: $(shards "$name") shards"
        same_curve alone.csv "$name.csv"
        [ "$(shards "$name")" = "${shards[$name]}" ]
    done
}

# A node without power does not answer. Slurm would notice after SlurmdTimeout (300 s by default), so the test tells it. The
# undisturbed run uses the other nodes at the same time, and saves one file.
@test "a sharded run whose node loses power continues on other nodes, with the same weights" {
    submit_long shards --requeue slurm/step5.sbatch
    lost=$id node=$(nodes "$id" | tail -n 1)
    cluster poweroff "$node"
    cluster exec scontrol update nodename="$node" state=down reason=power
    submit slurm/step7.sbatch "${long[@]}" --snapshot whole.bin --save full
    ended "$id" COMPLETED
    ended "$lost" COMPLETED
    [[ " $(nodes "$lost") " != *" $node "* ]]
    cluster poweron "$node"
    logged "$lost" '^resumed .* [2-9]. epochs'
    [ "$(shards shards)" = 4 ]
    [ "$(shards whole)" = 0 ]

    # Step 1 has nothing left to do, and saves one file.
    "$TRAIN" "${long[@]}" --snapshot shards.bin
    [ "$(shards shards)" = 0 ]
    cmp shards.bin whole.bin
}

@test "the job script of fault debug.11 fails as its text says, and its cure trains" {
    mkdir fault
    exercises/run.sh cut debug.11 fault
    cp fault/step4-launcher.sbatch fault.sbatch
    run submit fault.sbatch "${tiny[@]}"
    [[ $output == *"Invalid node name specified"* ]]
    sed -i 's/^\(#SBATCH --nodelist=\).*/\1node1,node2/' fault.sbatch
    submit fault.sbatch "${tiny[@]}"
    ended "$id" FAILED
    logged "$id" 'no network interface with an address, of those that NCCL_SOCKET_IFNAME allows: bond7'
    sed -i '/NCCL_SOCKET_IFNAME/d; /NCCL_IB_DISABLE/d' fault.sbatch
    submit fault.sbatch "${tiny[@]}"
    ended "$id" COMPLETED
    logged "$id" '^epoch 4/4 .*accuracy'
    rm -r fault fault.sbatch
}
