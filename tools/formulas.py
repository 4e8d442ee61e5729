"""The formulas of the course, for texts, slides and tools/on_paper.py. Sizes are in bytes, times in seconds, rates in
bytes or floating-point operations (FLOPs) per second. The letters are those of the guides:

P  parameters of the model     n  ranks that take part     S  bytes of the longer buffer of a rank
L  layers of a transformer     d  its width                T  tokens of a sequence

tests/tools/formulas.bats compares the formulas with what the programs print, and with published numbers."""
import math
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# ---- Models ----


def mlp_layers(*widths):
    """The parameters of each dense layer, as a list: (inputs + 1) x outputs, where the 1 is for the biases. widths: the
    inputs, the hidden layers and the outputs, such as 784, 512, 512, 10. Source: append_dense in
    common/layers/dense.c."""
    return [(inputs + 1) * outputs for inputs, outputs in zip(widths, widths[1:])]


def mlp_parameters(*widths):
    """P of a multilayer perceptron with these widths. Source: mlp_layers."""
    return sum(mlp_layers(*widths))


def mlp_flops(samples, *widths):
    """FLOPs of the matrix products of a training step: 2 x inputs x outputs for each sample and product. Each layer has
    one product in forward and two in backward, but the first layer needs no gradient of its inputs. The additions of
    biases and the activation functions are left out. Source: dense_forward and dense_backward in
    common/layers/dense.c."""
    products = [inputs * outputs for inputs, outputs in zip(widths, widths[1:])]
    return 2 * samples * (3 * sum(products) - products[0])


def mlp_activation_bytes(samples, *widths):
    """Bytes of the activations of the steps: the inputs and the outputs of all layers, two gradients that are as wide as
    the widest layer's outputs, all as floats, and a label of one byte for each sample. The sums of the loss, which do
    not depend on the batch, are left out. Source: activation_bytes in 07_large_models/costs.c."""
    return samples * (4 * (sum(widths) + 2 * max(widths[1:])) + 1)


def data_bytes(training, test, pixels):
    """Bytes of the images on the device: a byte for each pixel and label, and the order of the training images, of 4
    bytes each. Source: the first lines of a training program ("data 55.2 MB")."""
    return (training + test) * (pixels + 1) + 4 * training


def gpt_parameters(layers, width, vocabulary, positions):
    """P of a transformer like GPT-2 and GPT-3: 12 d^2 + 13 d for each layer (attention 4 d^2 + 4 d, feed-forward 8 d^2 +
    5 d, two normalisations 4 d), the embeddings of the vocabulary and of the positions, and a last normalisation. The
    output layer shares the embeddings. Source: Radford et al. 2019 (GPT-2), with biases as in
    https://github.com/karpathy/llm.c, train_gpt2.c."""
    return layers * (12 * width ** 2 + 13 * width) + (vocabulary + positions + 2) * width


def llama_parameters(layers, width, feed_forward, key_value_width, vocabulary):
    """P of a transformer like Llama: for each layer, attention 2 d^2 + 2 d k (k: the width of the keys, which is smaller
    than d if heads share keys), three matrices of d x feed_forward, and two normalisations of d; embeddings, an output
    layer of the same size, and a last normalisation. Source: section 3.2 of https://arxiv.org/abs/2407.21783."""
    layer = 2 * width ** 2 + 2 * width * key_value_width + 3 * width * feed_forward + 2 * width
    return layers * layer + 2 * vocabulary * width + width


def training_flops(parameters, tokens):
    """FLOPs of training on this number of tokens (or samples of a model whose parameters each work once per sample): 6 P for
    each, 2 in forward and 4 in backward. Attention between tokens is left out: see attention_flops. Source: section 2.1
    of https://arxiv.org/abs/2001.08361."""
    return 6 * parameters * tokens


def attention_flops(layers, width, sequence, tokens):
    """FLOPs of the products of queries with keys, and of weights with values, in training: 12 L d T for each token. Source:
    appendix B of https://arxiv.org/abs/2204.02311."""
    return 12 * layers * width * sequence * tokens


# ---- Memory ----


def state_bytes(optimizer):
    """Bytes for each parameter of steps 1 to 4: a float for the parameter, one for its gradient, and one of SGD or two of the others."""
    return 4 * (2 + (1 if optimizer == "sgd" else 2))


def zero_bytes(stage, ranks):
    """Bytes for each parameter and rank with Adam in mixed precision: parameters and gradients of 2 bytes, and 12 bytes of
    optimizer state (a parameter and two states in fp32). stage 0 shards nothing (DDP), 1 the optimizer state, 2 also the
    gradients, 3 everything. Gathered parameters and activations are left out. Source: figure 1 of
    https://arxiv.org/abs/1910.02054."""
    whole, sharded = ((16, 0), (4, 12), (2, 14), (0, 16))[stage]
    return whole + sharded / ranks


def groups(strategy, ranks, local_ranks):
    """(shards, replicas) of step 7: the ranks of a group, which share one copy of the model, and the number of groups.
    Source: form_groups in 07_large_models/units.c."""
    shards = {"none": 1, "grad": ranks, "full": ranks, "hybrid": local_ranks}[strategy]
    return shards, ranks // shards


def shard_parameters(units, shards):
    """Parameters that a rank stores: each unit is divided into equal parts, so the last part may have padding. units: the
    parameters of each unit, such as mlp_layers(784, 512, 512, 10). Source: form_units in 07_large_models/units.c."""
    return sum(math.ceil(unit / shards) for unit in units)


def gathered_bytes(units, strategy, shards, bf16=False, accumulate=1):
    """Bytes of the buffers for whole units: two, used in turn, or with grad one for each unit. The gradients of a unit use
    the same buffer in fp32. Source: gathered_bytes in 07_large_models/costs.c."""
    whole = [4 * shards * math.ceil(unit / shards) for unit in units]
    if shards == 1 and not bf16 and accumulate == 1:
        return 0
    if strategy == "grad":
        return sum(whole)
    return max(whole[::2]) + max(whole[1::2], default=0)


def memory_per_rank(units, strategy, ranks, local_ranks=None, optimizer="adam", bf16=False, accumulate=1):
    """Bytes of the model on a rank of step 7, without activations and data: parameters, gradients and optimizer state in
    fp32 (1/N of them with N shards), and the gathered units. local_ranks: the ranks of a node, for hybrid. Source:
    print_costs in 07_large_models/costs.c."""
    shards, _ = groups(strategy, ranks, local_ranks)
    return state_bytes(optimizer) * shard_parameters(units, shards) + \
        gathered_bytes(units, strategy, shards, bf16, accumulate)


def transformer_activation_bytes(layers, width, tokens, tensor=1, recompute=False):
    """Bytes of the activations of a rank, in bf16: 34 d for each layer and token, which tensor parallelism with sequence
    parallelism divides by its number of ranks; with recomputation, only the inputs of each layer, 2 d. Attention must
    not store its weights (FlashAttention). The outputs of the vocabulary are left out. Source: table 2 of
    https://arxiv.org/abs/2205.05198."""
    return layers * tokens * width * (2 if recompute else 34) / tensor


# ---- What ranks send ----


def all_reduce_bytes(size, ranks):
    """Bytes that a rank sends in a ring: 2 (n - 1) / n S. Source: ring in 06_allreduce_demo/allreduce.c."""
    return 2 * size * (ranks - 1) / ranks


def reduce_scatter_bytes(size, ranks):
    """Bytes that a rank sends in a ring: (n - 1) / n S. S is the size of the whole input."""
    return size * (ranks - 1) / ranks


def all_gather_bytes(size, ranks):
    """Bytes that a rank sends in a ring: (n - 1) / n S. S is the size of the whole output."""
    return size * (ranks - 1) / ranks


def sent_per_step(units, strategy, ranks, local_ranks=None, bf16=False, accumulate=1):
    """Bytes that a rank of step 7 sends in a training step: in each of the parts of the batch, two gathers (grad: one) of
    4 bytes for each parameter (bf16: 2) and a reduce-scatter of 4 bytes; at the end, an all-reduce of the shards between
    the replicas. Source: print_costs in 07_large_models/costs.c."""
    shards, replicas = groups(strategy, ranks, local_ranks)
    stored = shard_parameters(units, shards)
    bytes_of_unit = (1 if strategy == "grad" else 2) * (2 if bf16 else 4) + 4
    return accumulate * bytes_of_unit * all_gather_bytes(stored * shards, shards) + \
        all_reduce_bytes(4 * stored, replicas)


def tensor_parallel_bytes(layers, width, tokens, ranks, element=2):
    """Bytes that a rank sends in a training step with tensor parallelism: for each layer, two all-reduces of the
    activations in forward and two in backward. element: bytes of a number. Source: section 3 of
    https://arxiv.org/abs/1909.08053."""
    return 4 * layers * all_reduce_bytes(element * tokens * width, ranks)


def pipeline_bytes(width, tokens, element=2):
    """Bytes that a stage in the middle of a pipeline sends in a training step: its outputs to the next stage, and the
    gradients of its inputs to the one before."""
    return 2 * element * tokens * width


def context_parallel_bytes(layers, key_value_width, tokens, ranks, element=2):
    """Bytes that a rank sends in a training step if the tokens of a sequence are divided among the ranks: for each layer,
    all ranks gather the keys and the values in forward and again in backward, and reduce-scatter their gradients. tokens:
    of the whole sequences. Source: section 3.3.2 of https://arxiv.org/abs/2407.21783."""
    return 3 * layers * all_gather_bytes(2 * element * tokens * key_value_width, ranks)


# ---- Times ----


def gpus():
    """The rates of the modelled GPUs, in bytes, FLOPs and seconds: gpus()["h100"]["bf16"]. They are read from
    cpu_device/src/gpu_rates.c; cpu_device/README.md has their sources."""
    with open(f"{ROOT}/cpu_device/src/gpu_rates.c", encoding="ascii") as file:
        text = file.read()
    names = re.findall(r'"(\w+)"', re.search(r"model_names\[MODELS\] = \{(.*)\}", text)[1])
    factors = {name: float(value) for name, value in re.findall(r"#define (\w+) ([0-9.e-]+)", text)}
    found = {name: {} for name in names}
    for rate, factor, values in re.findall(r'\{RATE\((\w+), "[^"]*", (\w+)\), +\{([^}]*)\}\}', text):
        for name, value in zip(names, values.split(",")):
            found[name][rate] = float(value) * factors[factor]
    return found


# Dense bf16 FLOPs per second in NVIDIA's data sheets (https://www.nvidia.com/en-us/data-center/), to which a published
# MFU refers. gpus() has lower rates, which were measured.
PEAK_BF16 = {"a100": 312e12, "h100": 989e12, "h200": 989e12, "b200": 2250e12, "l4": 121e12}


def cluster_ring_seconds(trips, size, nodes, gpus_per_node, gpu):
    """Seconds of the same ring on nodes of modelled GPUs. It enters each node once, over as many network interfaces as the
    node has GPUs. cpu_device/src/gpu_collectives.c also has trees, NVLS, another protocol for short messages, and a fixed
    time for each call. So this formula is for large messages. gpu: a value of gpus()."""
    ranks, rate = nodes * gpus_per_node, math.inf
    if ranks == 1:
        return 0
    if gpus_per_node > 1:
        rate = gpu["link"]
    if nodes > 1:
        rate = min(rate, gpus_per_node * gpu["network"])
    latency = (ranks - nodes) * gpu["link_latency"] + (nodes - 1) * gpu["network_latency"]
    return trips * (latency + (ranks - 1) / ranks * size / rate)


def cluster_tree_seconds(size, nodes, gpus_per_node, gpu):
    """Seconds of an all-reduce in a chain inside each node and a tree over the nodes: the bytes go up and down, at 0.92 of
    the links' rate. Source: tree in cpu_device/src/gpu_collectives.c, after src/graph/tuning.cc of
    https://github.com/NVIDIA/nccl."""
    rate = gpu["link"] if gpus_per_node > 1 else math.inf
    if nodes > 1:
        rate = min(rate, gpus_per_node * gpu["network"])
    latency = 2 * (gpus_per_node - 1) * gpu["link_latency"] + 2 * int(math.log2(nodes)) * gpu["network_latency"]
    return latency + 2 * size / (0.92 * rate)


def all_reduce_seconds(size, nodes, gpus_per_node, gpu):
    """Seconds of an all-reduce: the faster one of ring and tree. NCCL estimates both, too."""
    return min(cluster_ring_seconds(2, size, nodes, gpus_per_node, gpu),
               cluster_tree_seconds(size, nodes, gpus_per_node, gpu))


def shown_seconds(communication, computing):
    """Seconds of communication that add to a training step, if the rest hides behind this much computing."""
    return max(0, communication - computing)


def tokens_to_hide(sent, flops_rate, bytes_rate):
    """Tokens for each GPU and training step from which computing takes as long as sending. sent: bytes for each parameter,
    such as 8 for DDP in fp32. From 6 P t / flops_rate = sent P / bytes_rate; P does not matter. The factor (n - 1) / n
    is left out."""
    return sent * flops_rate / (6 * bytes_rate)


def launch_seconds(kernels, products, gpu):
    """The host's part of the launch floor: seconds to queue this many kernels and matrix products. A training step takes at
    least as long, unless it is a graph."""
    return kernels * gpu["launch_call"] + products * gpu["product_call"]


def fixed_seconds(kernels, products, gpu):
    """The GPU's part of the launch floor: seconds of the gaps and of the fixed times of kernels and matrix products."""
    return (kernels + products) * gpu["gap"] + kernels * gpu["kernel"] + products * gpu["product"]


def bubble(stages, micro_batches, chunks=1):
    """The share of a pipeline's time in which a stage is idle: (p - 1) / (m v + p - 1). chunks v: parts of the model that
    each stage holds (interleaved). Source: section 2.2 of https://arxiv.org/abs/2104.04473, which divides by the time
    without the bubble."""
    return (stages - 1) / (micro_batches * chunks + stages - 1)


def mfu(flops, seconds, number, peak):
    """Model FLOPs utilisation: the share of the data sheet's rate that training uses. flops: of the model, without
    recomputation. number: of GPUs. peak: FLOPs per second of one GPU. Source: appendix B of
    https://arxiv.org/abs/2204.02311."""
    return flops / (seconds * number * peak)


# ---- Batches and failures ----


def linear_rate(rate, batch, base_batch):
    """Learning rate for SGD with another batch. Source: https://arxiv.org/abs/1706.02677."""
    return rate * batch / base_batch


def sqrt_rate(rate, batch, base_batch):
    """Learning rate for Adam with another batch. Source: https://arxiv.org/abs/2205.10287."""
    return rate * math.sqrt(batch / base_batch)


def steps_factor(batch, noise):
    """How many times as many training steps as with an endless batch are needed: 1 + noise / batch. noise: the gradient
    noise scale in samples. Source: section 2 of https://arxiv.org/abs/1812.06162."""
    return 1 + noise / batch


def samples_factor(batch, noise):
    """How many times as many samples as with tiny batches are needed: 1 + batch / noise. Source: as above."""
    return 1 + batch / noise


def fewest_steps(batch, steps, batch2, steps2):
    """Training steps that a very large batch would need, from those that two batches needed. Source: steps_factor."""
    return (batch * steps - batch2 * steps2) / (batch - batch2)


def noise_scale(batch, steps, batch2, steps2):
    """The gradient noise scale, from the training steps that two batches needed. Source: steps_factor."""
    return batch * (steps / fewest_steps(batch, steps, batch2, steps2) - 1)


def seconds_between_failures(number, per_gpu):
    """Mean time between failures of a job on this number of GPUs. per_gpu: that of one GPU, which is assumed to fail
    independently of the others."""
    return per_gpu / number


def snapshot_interval(save_seconds, failure_seconds):
    """The interval between snapshots that loses the least time: sqrt(2 x the time to save x the time between failures).
    Source: Young 1974, https://doi.org/10.1145/361147.361115. The time to save must be much the shorter one."""
    return math.sqrt(2 * save_seconds * failure_seconds)
