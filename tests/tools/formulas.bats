#!/usr/bin/env bats
# Tests of tools/formulas.py: its values are those that the programs print, and those that others have published.
load ../helpers
programs=(03_multigpu_launcher/launch 06_allreduce_demo/allreduce 07_large_models/train)
needs=(python3)
export CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0

# value EXPRESSION: prints the value of a Python expression that may use all formulas.
value() {
    PYTHONPATH=$root/tools python3 -B -c "from formulas import *; print($1)"
}

# is EXPRESSION WANTED: both, which may be several numbers, are the same.
is() {
    local got
    got=$(value "$1")
    [ "${got:-none}" = "$2" ] || { echo "$1 is $got, but should be $2" && return 1; }
}

# near EXPRESSION NUMBER SHARE: their difference is at most this share of the number.
near() {
    local got
    got=$(value "$1")
    awk -v a="$got" -v b="$2" -v most="$3" 'BEGIN { exit !(b + 0 && (a - b) ^ 2 <= (most * b) ^ 2) }' ||
        { echo "$1 is $got, but should be near $2" && return 1; }
}

@test "parameters, data and FLOPs are those of step 1" {
    "$TRAIN" --data blank:512 --hidden 64,32 --batch 128 --max-steps 2 --trace trace.json >out
    is 'mlp_parameters(784, 64, 32, 10)' "$(sed -n 's/^model .* \([0-9]*\) parameters$/\1/p' out)"
    is 'mlp_parameters(784, 512, 512, 10)' 669706
    is 'f"{data_bytes(512, 86, 784) / 1000:.1f} KB"' "$(sed -n 's/^memory    data \([^,]*\),.*/\1/p' out)"
    is '2 * mlp_flops(128, 784, 64, 32, 10)' \
        "$(python3 -c 'import json; print(sum(e["args"]["flops"] for e in json.load(open("trace.json"))["traceEvents"]
            if e.get("cat") == "product"))')"
}

# row NAME: prints the measured bytes of a row in the table of costs.
row() {
    sed -n "s/^  $1 *\([0-9]*\) .*/\1/p" out
}

# costs STRATEGY OPTIMIZER BF16 ACCUMULATE: runs step 7 on four ranks, in two nodes. The device counts these bytes.
costs() {
    local units='mlp_layers(784, 33, 50, 10)' options precision=fp32
    [ "$3" = 0 ] || precision=bf16
    CPU_DEVICE_TOPOLOGY=2x2 "$build/03_multigpu_launcher/launch" --nproc-per-node 4 \
        "$root/exercises/checks/on_small_node.sh" "$build/07_large_models/train" --data blank:480 --hidden 33,50 --batch 96 \
        --max-steps 1 --strategy "$1" --optimizer "$2" --precision $precision --accumulate "$4" >out
    options="$units, '$1', 4, 2, bf16=$3, accumulate=$4"
    is "memory_per_rank($options, optimizer='$2')" \
        $(($(row parameters) + $(row gradients) + $(row optimizer) + $(row gathered)))
    is "int(sent_per_step($options))" "$(row 'sent \/ step')"
    # The device also holds the sums of the loss, of 24624 bytes.
    is "mlp_activation_bytes(96 // 4 // $4, 784, 33, 50, 10)" $(($(row activations) - 24624))
}

@test "memory and bytes sent are those that step 7 counts, for each strategy" {
    costs none adam 0 1
    costs grad sgd 0 1
    costs full adam 0 1
    costs hybrid adamw 0 1
    costs none sgd 1 2
    costs grad adam 1 1
    costs full adadelta 1 3
    costs hybrid sgd 1 2
}

@test "the bytes of a ring are those of step 6" {
    CPU_DEVICES=3 "$build/06_allreduce_demo/allreduce" --nproc 3 --count 3000 --op all --min-bytes 3M --max-bytes 3M --warmup 0 \
        --iters 1 --csv table.csv >out
    is 'int(all_reduce_bytes(12000, 3)), int(reduce_scatter_bytes(12000, 3)) + int(all_gather_bytes(12000, 3))' \
        "$(awk '$1 == "ring" && NF == 7 { print $4, $5 }' out)"
}

@test "the time of a ring is that of the model, without what the formula leaves out" {
    while read -r topology op trips; do
        nodes=${topology%x*} gpus=${topology#*x}
        CPU_DEVICE_TOPOLOGY=$topology NCCL_ALGO=Ring "$build/06_allreduce_demo/allreduce" --nproc $((nodes * gpus)) --count 4 \
            --op "$op" --min-bytes 16M --max-bytes 16M --warmup 0 --iters 1 --csv table.csv >out
        time=$(sed -n 's/^.*,in,\([0-9.]*\),.*/\1e-6/p' table.csv)
        # A call, its start and its end (10.2 us), the fixed time of a collective (8.4 us), and slower first 2.3 MB of chunks
        # (gpu_collectives.c).
        near "cluster_ring_seconds($trips, 2 ** 24, $nodes, $gpus, gpus()['h100']) + 18.6e-6 +
            $trips * ($nodes * $gpus - 1) * 0.65 * 2.3e6 / min(gpus()['h100']['link'], $nodes > 1 and $gpus * 48e9 or 1e99)" \
            "$time" 1e-3
    done <<'END'
1x4 allreduce 2
2x2 allreduce 2
2x2 allgather 1
END
    near "cluster_ring_seconds(2, 1e9, 1, 4, gpus()['h100'])" "$(value '2 * 3 * (3.4e-6 + 1e9 / 4 / 371e9)')" 1e-12
    is "cluster_ring_seconds(2, 1e9, 1, 1, gpus()['h100'])" 0
}

@test "the rates of the H100 are those of cpu_device/h100.model" {
    PYTHONPATH=$root/tools python3 -B - "$root/cpu_device/h100.model" <<'END'
import re
import sys
from formulas import gpus
scale = {"capacity": 2 ** 30, "kernel": 1e-6, "product": 1e-6, "fp32": 1e12, "tf32": 1e12, "bf16": 1e12, "mma": 1e12, "instructions": 1e12, "threads": 1e3, "wait": 1e-6}
found, rows = gpus(), re.findall(r"^(\w+) ([0-9.]+)", open(sys.argv[1], encoding="utf-8").read(), re.M)
for name, value in rows:
    is_time = name in ("wake", "gap", "graph_gap", "graph_node") or name.endswith(("call", "latency"))
    got, want = found["h100"][name], float(value) * scale.get(name, 1e-6 if is_time else 1e9)
    assert abs(got - want) <= 1e-12 * want, (name, got, want)
assert len(rows) == len(found["h100"]) == 28 and len(found) == 5, (rows, found)
END
}

@test "published numbers come out" {
    # The models on https://huggingface.co/openai-community/gpt2 and https://huggingface.co/meta-llama.
    is 'gpt_parameters(12, 768, 50257, 1024)' 124439808
    is 'llama_parameters(32, 4096, 14336, 1024, 128256)' 8030261248
    is 'llama_parameters(80, 8192, 28672, 1024, 128256)' 70553706496
    is 'llama_parameters(126, 16384, 53248, 1024, 128256)' 405853388800
    # ZeRO, figure 1: 7.5 billion parameters on 64 GPUs.
    is '[round(7.5 * zero_bytes(stage, 64), 1) for stage in range(4)]' '[120.0, 31.4, 16.6, 1.9]'
    # Llama 3, section 3.2: 3.8e25 FLOPs for 15.6e12 tokens.
    is 'f"{training_flops(405e9, 15.6e12):.1e}"' 3.8e+25
    # Megatron-LM (https://arxiv.org/abs/1909.08053): 8 b s h (t - 1) / t elements for each layer.
    is 'tensor_parallel_bytes(1, 12288, 2048, 8, element=1)' "$(value '8 * 2048 * 12288 * 7 / 8')"
}

@test "formulas agree with hand-made numbers" {
    is 'bubble(4, 8)' "$(value '3 / 11')"
    is 'bubble(4, 8, chunks=2)' "$(value '3 / 19')"
    is 'bubble(1, 8)' 0.0
    is 'mfu(4e14, 2, 1, 1e15)' 0.2
    is 'shown_seconds(3, 2), shown_seconds(2, 3)' '1 0'
    is 'tokens_to_hide(6, 800e12, 400e9)' 2000.0
    is 'attention_flops(2, 10, 100, 1)' 24000
    is 'linear_rate(0.1, 512, 128), sqrt_rate(0.1, 512, 128)' '0.4 0.2'
    is 'steps_factor(100, 300), samples_factor(100, 300)' "$(value '4.0, 1 + 1 / 3')"
    is 'fewest_steps(100, 400, 300, 200), noise_scale(100, 400, 300, 200)' '100.0 300.0'
    is 'snapshot_interval(30, seconds_between_failures(6, 36000))' 600.0
    is 'pipeline_bytes(10, 5)' 200
    is 'context_parallel_bytes(2, 4, 100, 2)' 4800.0
    is 'transformer_activation_bytes(2, 10, 5, tensor=2), transformer_activation_bytes(2, 10, 5, recompute=True)' '1700.0 200.0'
    is "round(launch_seconds(20, 10, gpus()['h100']) * 1e6)" 215
    is "round(fixed_seconds(20, 10, gpus()['h100']) * 1e6)" 140
}
