#!/usr/bin/env python3
"""Estimates the training of large transformers on paper, with the rates of a modelled GPU. Nothing runs. A training step takes
the times of computing, of communication that does not hide behind it, of waiting in the pipeline, and of the update. Only data
parallelism can hide: it sends layer by layer. tools/formulas.py has the formulas with their sources. docs/which.md says what
they leave out, and docs/measurements.md compares them with published runs. Prints tables in Markdown."""
import argparse
import itertools
import math
import sys
from typing import NamedTuple

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
import formulas as f  # noqa: E402

GPUS_PER_NODE, WAYS_GPUS = 8, 64  # WAYS_GPUS: of the table that compares ways
LLAMA_TOKENS = 15 * 10 ** 12  # for the days of the table scaling
# The share of the rate of large matrix products that a whole training step reaches on one node. It stands for everything
# that the formulas leave out: kernels that are not products, products of other shapes, the host. It is the one number that
# is fitted: 459.5 TFLOP/s in the row "7b, 2048, 8 GPUs" of llm-foundry (see PUBLISHED), at 794 TFLOP/s for products.
KERNELS = 459.5 / 794
# Bytes that the Adam update of a parameter reads and writes in mixed precision: a gradient of 2 bytes, three floats read
# and written, and a parameter of 2 bytes.
UPDATE_BYTES = 2 + 12 + 12 + 2
# 419 unexpected interruptions in 54 days on 16,384 GPUs: https://arxiv.org/abs/2407.21783, section 3.3.4.
SECONDS_TO_FAILURE = 54 * 86400 * 16384 / 419
SAVE_RATE = 2e9  # bytes per second that a node writes to the file system; an assumption


class Model(NamedTuple):
    parameters: int
    layers: int
    width: int
    key_value_width: int
    vocabulary: int


def gpt(layers, width):
    """A model of GPT-3: table 2.1 of https://arxiv.org/abs/2005.14165."""
    return Model(f.gpt_parameters(layers, width, 50257, 2048), layers, width, width, 50257)


def llama(layers, width, feed_forward):
    """A model of Llama 3: table 3 of https://arxiv.org/abs/2407.21783."""
    return Model(f.llama_parameters(layers, width, feed_forward, 1024, 128256), layers, width, 1024, 128256)


MODELS = {"125M": gpt(12, 768), "1.3B": gpt(24, 2048), "8B": llama(32, 4096, 14336), "70B": llama(80, 8192, 28672),
          "405B": llama(126, 16384, 53248)}


class Layout(NamedTuple):
    """How a model is trained. gpus = tensor x pipeline x context x data ranks."""
    gpus: int
    sequence: int  # tokens
    batch: int  # sequences of a training step, on all GPUs
    data: str = "zero3"  # a key of STRATEGIES
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    chunks: int = 1  # of layers on each stage of the pipeline
    micro: int = 1  # sequences that go through the model at a time
    recompute: bool = False

    def data_ranks(self):
        return self.gpus // (self.tensor * self.pipeline * self.context)

    def micro_batches(self):
        return self.batch // (self.data_ranks() * self.micro)

    def possible(self, model):
        """Whether all parts are whole. A pipeline with chunks takes micro-batches in groups of its length."""
        return self.gpus % (self.tensor * self.pipeline * self.context) == 0 and \
            self.batch % (self.data_ranks() * self.micro) == 0 and self.pipeline <= model.layers and \
            (self.chunks == 1 or self.micro_batches() % self.pipeline == 0)

    def shards(self):
        """Ranks that share one copy of the model's states. Ranks with other tokens of the same sequences count, too."""
        ranks = self.data_ranks() * self.context
        return min(ranks, GPUS_PER_NODE // self.tensor) if self.data == "hsdp" else ranks

    def name(self):
        parts = [STRATEGIES[self.data][1]] if self.shards() > 1 or self.gpus == 1 else []
        parts += [f"{short} {n}" for short, n in (("TP", self.tensor), ("PP", self.pipeline), ("CP", self.context)) if n > 1]
        return ", ".join(parts)


# Name: (stage of ZeRO, text).
STRATEGIES = {"ddp": (0, "DDP"), "zero1": (1, "ZeRO-1"), "zero2": (2, "ZeRO-2"), "zero3": (3, "FSDP (ZeRO-3)"),
              "hsdp": (3, "HSDP")}


class Estimate(NamedTuple):
    states: float  # bytes of a GPU
    gathered: float
    activations: float
    sent: float  # bytes that a GPU sends in a training step
    computing: float  # seconds of a training step
    tensor: float
    context: float
    data: float  # that does not hide behind computing
    bubble: float
    update: float
    flops: float  # of the model, on all GPUs

    def memory(self):
        return self.states + self.gathered + self.activations

    def step(self):
        return self.computing + self.tensor + self.context + self.data + self.bubble + self.update


def memory(model, layout):
    """(states, gathered units, activations), in bytes of the GPU that needs the most."""
    stage, local = STRATEGIES[layout.data][0], model.parameters / (layout.tensor * layout.pipeline)
    unit = model.parameters / model.layers / layout.tensor
    gathered = 2 * 4 * unit if stage == 3 and layout.shards() > 1 else 0
    tokens = layout.micro * layout.sequence / layout.context
    layers = model.layers / layout.pipeline
    # The first stage of a pipeline begins p micro-batches before the first one comes back; with chunks, a few more.
    waiting = min(layout.pipeline, layout.micro_batches())
    if layout.pipeline > 1 and layout.chunks > 1:
        waiting *= 1 + (layout.pipeline - 1) / (layout.pipeline * layout.chunks)
    activations = waiting * f.transformer_activation_bytes(layers, model.width, tokens, layout.tensor, layout.recompute)
    if layout.recompute:
        activations += f.transformer_activation_bytes(1, model.width, tokens, layout.tensor)
    # The outputs of the vocabulary in fp32, and their gradient in bf16. In a pipeline, they are on the last stage, which has
    # fewer other activations.
    outputs = 6 * tokens * model.vocabulary / layout.tensor
    activations = max(activations, outputs) if layout.pipeline > 1 else activations + outputs
    return f.zero_bytes(stage, layout.shards()) * local, gathered, activations


def data_parallel(model, layout, forward, backward, gpu):
    """(bytes that a GPU sends, seconds that do not hide) for gradients and gathered parameters. forward, backward: seconds of
    computing of a micro-batch, behind which communication hides."""
    local, layers = model.parameters / (layout.tensor * layout.pipeline), model.layers / layout.pipeline
    shards, ranks = layout.shards(), layout.data_ranks() * layout.context
    per_node = min(ranks, GPUS_PER_NODE // layout.tensor)
    inside = min(shards, per_node)

    def ring(size):  # over the ranks that share the states; one collective for each layer
        return layers * f.cluster_ring_seconds(1, size / layers, shards // inside, inside, gpu)

    def all_reduce(size, nodes, gpus_per_node):
        return layers * f.all_reduce_seconds(size / layers, nodes, gpus_per_node, gpu)

    if ranks == 1:
        return 0, 0
    scatter, gather = ring(4 * local), ring(2 * local)  # gradients are summed in fp32, parameters are gathered in bf16
    if layout.data == "ddp":
        return f.all_reduce_bytes(4 * local, ranks), \
            f.shown_seconds(all_reduce(4 * local, ranks // per_node, per_node), backward)
    if layout.data in ("zero1", "zero2"):  # the gather of the updated parameters hides behind the next forward
        return (4 + 2) * local * (ranks - 1) / ranks, f.shown_seconds(scatter, backward) + f.shown_seconds(gather, forward)
    parts = layout.micro_batches()
    sent = parts * 8 * local * (shards - 1) / shards
    shown = parts * (f.shown_seconds(gather, forward) + f.shown_seconds(gather + scatter, backward))
    if layout.data == "hsdp" and ranks > shards:
        sent += f.all_reduce_bytes(4 * local / shards, ranks // shards)
        shown += f.shown_seconds(gather + scatter + all_reduce(4 * local / shards, ranks // shards, 1), backward) - \
            f.shown_seconds(gather + scatter, backward)
    return sent, shown


def estimate(model, layout, gpu):
    """gpu: a value of formulas.gpus()."""
    tokens, parts = layout.batch * layout.sequence, layout.micro_batches()
    flops = f.training_flops(model.parameters, tokens) + f.attention_flops(model.layers, model.width, layout.sequence, tokens)
    computing = flops / (layout.gpus * gpu["bf16"] * KERNELS)
    forward, backward = computing / 3, computing * 2 / 3
    if layout.recompute:
        backward += forward
        computing += forward
    layers, here = model.layers / layout.pipeline, layout.micro * layout.sequence / layout.context  # tokens of a micro-batch
    tensor = sent = context = 0
    if layout.tensor > 1:
        count = 6 if layout.recompute else 4  # all-reduces of a layer
        size = 2 * here * model.width
        tensor = parts * layers * count * f.cluster_ring_seconds(2, size, 1, layout.tensor, gpu)
        sent += parts * f.tensor_parallel_bytes(layers, model.width, here, layout.tensor) * count / 4
    if layout.context > 1:
        width = model.key_value_width / layout.tensor
        size = 2 * 2 * here * layout.context * width
        nodes = max(1, layout.context * layout.tensor // GPUS_PER_NODE)
        context = parts * layers * 3 * f.cluster_ring_seconds(1, size, nodes, layout.context // nodes, gpu)
        sent += parts * f.context_parallel_bytes(layers, width, here * layout.context, layout.context)
    if layout.pipeline > 1:
        sent += parts * f.pipeline_bytes(model.width, here / layout.tensor) * layout.chunks
    busy = computing + tensor + context
    idle = f.bubble(layout.pipeline, parts, layout.chunks)
    bytes_sent, data = data_parallel(model, layout, forward / parts, backward / parts, gpu)
    states, gathered, activations = memory(model, layout)
    stage, local = STRATEGIES[layout.data][0], model.parameters / (layout.tensor * layout.pipeline)
    update = UPDATE_BYTES * local / (layout.shards() if stage else 1) / gpu["memory"]
    return Estimate(states, gathered, activations, sent + bytes_sent, computing, tensor, context, data,
                    busy * idle / (1 - idle), update, flops)


def fits(guess, gpu):
    """The memory of a GPU also holds CUDA, NCCL and pieces that are too small to use: 8 % are left for them."""
    return guess.memory() <= 0.92 * gpu["capacity"]


def best(model, gpus, sequence, batch, gpu, strategies=tuple(STRATEGIES), tensors=(1, 2, 4, 8), pipelines=(1, 2, 4, 8, 16)):
    """(layout, estimate) of the fastest layout that fits, or None. Of layouts that are equally fast, to three digits, it is
    the one that sends the least. Tensor parallelism stays inside a node."""
    found, best_key = None, None
    for data, tensor, pipeline, micro, recompute in itertools.product(strategies, tensors, pipelines, (1, 2, 4, 8, 16),
                                                                      (False, True)):
        for chunks in {1, max(1, model.layers // pipeline) if pipeline > 1 else 1}:
            layout = Layout(gpus, sequence, batch, data, tensor, pipeline, 1, chunks, micro, recompute)
            if not layout.possible(model):
                continue
            guess = estimate(model, layout, gpu)
            key = float(f"{guess.step():.3g}"), guess.sent
            if fits(guess, gpu) and (not found or key < best_key):
                found, best_key = (layout, guess), key
    return found


# ---- Published runs ----


def mpt(parameters, layers, width):
    return Model(parameters, layers, width, width, 50368)


def run_of_mpt(text, model, gpus, micro, parts, recompute, rate):
    return (f"MPT {text}", model, Layout(gpus, 2048, gpus * micro * parts, micro=micro, recompute=recompute), rate)


def torchtitan_rate(tokens):
    """TFLOP/s of a GPU, from its tokens per second with Llama 3.1 8B."""
    model = MODELS["8B"]
    return (f.training_flops(model.parameters, tokens) + f.attention_flops(model.layers, model.width, 8192, tokens)) / 1e12


MPT_7B, MPT_13B = mpt(6658859008, 32, 4096), mpt(12853954560, 40, 5120)
MPT_30B, MPT_70B = mpt(29975214080, 48, 7168), mpt(64862437376, 80, 8192)
# Name, model, layout, TFLOP/s of a GPU; all with H100.
# MPT: https://github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md, table "H100 80GB BF16".
# torchtitan: benchmarks/llama3_h100_202412_torchtitan.md of https://github.com/pytorch/torchtitan, "FSDP + torch.compile".
# Llama 3: table 4 of https://arxiv.org/abs/2407.21783. It has no number of chunks; 8 is one layer per chunk.
PUBLISHED = [
    run_of_mpt("7B", MPT_7B, 8, 6, 1, False, 459.5),
    run_of_mpt("13B", MPT_13B, 8, 2, 1, False, 393.7),
    run_of_mpt("13B", MPT_13B, 64, 2, 1, False, 394.4),
    run_of_mpt("30B", MPT_30B, 8, 3, 21, True, 377.1),
    run_of_mpt("30B", MPT_30B, 32, 14, 3, True, 434.6),
    run_of_mpt("70B", MPT_70B, 32, 2, 16, True, 357.7),
    run_of_mpt("70B", MPT_70B, 64, 8, 4, True, 421.3),
    ("Llama 3.1 8B, torchtitan", MODELS["8B"], Layout(8, 8192, 16, micro=2), torchtitan_rate(6667)),
    ("Llama 3.1 8B, torchtitan", MODELS["8B"], Layout(128, 8192, 256, micro=2), torchtitan_rate(6514)),
    ("Llama 3 405B", MODELS["405B"], Layout(8192, 8192, 2048, "zero2", 8, 16, 1, 8), 430),
    ("Llama 3 405B", MODELS["405B"], Layout(16384, 8192, 2048, "zero2", 8, 16, 1, 8), 400),
    ("Llama 3 405B, 131,072 tokens", MODELS["405B"], Layout(16384, 131072, 128, "zero2", 8, 16, 16, 8), 380),
]


# ---- Tables ----


def print_table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def rate_of(guess, gpus):
    """TFLOP/s of a GPU."""
    return guess.flops / guess.step() / gpus / 1e12


def utilisation(guess, gpus, options):
    return f"{100 * f.mfu(guess.flops, guess.step(), gpus, f.PEAK_BF16[options.gpu]):.1f} %"


def shares(guess):
    """The shares of a step in which GPUs only send, and wait in the pipeline."""
    sending = guess.tensor + guess.context + guess.data
    return f"{100 * sending / guess.step():.1f} %", f"{100 * guess.bubble / guess.step():.1f} %"


def digits(number):
    """Three digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.{max(0, 2 - math.floor(math.log10(number)))}f}" if number else "0"


# Ways to divide the work, as (text, strategies, ranks of tensor parallelism, stages of a pipeline).
WAYS = [("DDP", "ddp", 1, 1), ("ZeRO-1", "zero1", 1, 1), ("ZeRO-2", "zero2", 1, 1), ("FSDP (ZeRO-3)", "zero3", 1, 1),
        ("HSDP", "hsdp", 1, 1), ("TP 8, DDP", "ddp", 8, 1), ("TP 8, FSDP", "zero3", 8, 1), ("PP 8, ZeRO-1", "zero1", 1, 8),
        ("TP 8, PP 8", "ddp", 8, 8)]


def print_ways(options, gpu):
    """A row for each way and a column for each model, on WAYS_GPUS GPUs: the states of a GPU, and the share of a training step in
    which it does not compute the model."""
    rows = []
    for text, data, tensor, pipeline in WAYS:
        row = [text]
        for model in MODELS.values():
            states = memory(model, Layout(WAYS_GPUS, 1, WAYS_GPUS, data, tensor, pipeline))[0]
            found, lost = best(model, WAYS_GPUS, options.sequence, options.batch, gpu, (data,), (tensor,), (pipeline,)), "no"
            if found:
                layout, guess = found
                useful = guess.computing * (0.75 if layout.recompute else 1)
                lost = f"{100 * (1 - useful / guess.step()):.0f} %" + (", R" if layout.recompute else "")
            row.append(f"{digits(states / 1e9)} GB, {lost}")
        rows.append(row)
    print_table(["", *MODELS], rows)


def print_scaling(options, gpu):
    model, rows = MODELS[options.model], []
    for gpus in (8, 64, 256, 1024, 2048, 4096, 8192, 16384):
        found = best(model, gpus, options.sequence, options.batch, gpu)
        if not found:
            rows.append([f"{gpus:,}", "none"] + ["-"] * 6)
            continue
        layout, guess = found
        days = LLAMA_TOKENS / (options.batch * options.sequence) * guess.step() / 86400
        rows.append([f"{gpus:,}", layout.name() + (", recomputed" if layout.recompute else ""), f"{guess.memory() / 1e9:.0f} GB",
                     f"{digits(guess.step())} s", *shares(guess), utilisation(guess, gpus, options), digits(days)])
    print_table(("GPUs", "fastest layout that fits", "memory", "step", "sending", "bubble", "MFU", "days"), rows)


def print_published(_options, gpu):
    rows = []
    for name, model, layout, rate in PUBLISHED:
        guess = estimate(model, layout, gpu)
        mine = rate_of(guess, layout.gpus)
        rows.append((name, f"{layout.gpus:,}", layout.name(), f"{rate:.0f}", f"{mine:.0f}", f"{100 * (mine / rate - 1):+.0f} %",
                     f"{guess.memory() / 1e9:.0f} GB"))
    print_table(("run", "GPUs", "layout", "published", "on paper", "difference", "memory on paper"), rows)


def plan(gpus, name, batch, options, gpu):
    """The rows of a plan, as a dictionary."""
    model = MODELS[name]
    layout, guess = best(model, gpus, options.sequence, batch, gpu)
    tokens, nodes = 20 * model.parameters, gpus // GPUS_PER_NODE
    seconds = tokens / (batch * options.sequence) * guess.step()
    failure = f.seconds_between_failures(gpus, SECONDS_TO_FAILURE)
    snapshot = 12 * model.parameters  # three floats for each parameter
    save = snapshot / (nodes * SAVE_RATE)
    interval = f.snapshot_interval(save, failure)
    return {
        "model": f"{digits(model.parameters / 1e9)} billion parameters",
        "tokens: 20 for each parameter": f"{digits(tokens / 1e9)} billion",
        "batch": f"{batch:,} sequences, {batch * options.sequence / 1e6:.1f} M tokens",
        "layout": layout.name() + (", recomputed" if layout.recompute else ""),
        "replicas": f"{layout.data_ranks()}, with {layout.batch // layout.data_ranks()} sequences each",
        "states on a GPU": f"{digits(guess.states / 1e9)} GB",
        "activations, gathered units": f"{digits(guess.activations / 1e9)} GB, {digits(guess.gathered / 1e9)} GB",
        "a GPU sends in a step": f"{digits(guess.sent / 1e9)} GB",
        "time of a step": f"{guess.step():.2f} s",
        "MFU": utilisation(guess, gpus, options),
        "whole run": f"{digits(seconds / 86400)} days",
        "time between failures": f"{digits(failure / 3600)} hours",
        "failures in the run": f"{seconds / failure:.1f}",
        "snapshot": f"{digits(snapshot / 1e9)} GB, saved in {save:.0f} s",
        "interval of snapshots": f"{digits(interval / 60)} minutes",
    }


def print_plan(options, gpu):
    plans = [plan(8, "1.3B", 256, options, gpu), plan(64, "8B", 1024, options, gpu), plan(1024, "70B", 1024, options, gpu)]
    print_table(("", "8 GPUs", "64 GPUs", "1,024 GPUs"), [[row, *(p[row] for p in plans)] for row in plans[0]])


COMMANDS = {"ways": print_ways, "scaling": print_scaling, "published": print_published, "plan": print_plan}


def positive(text):
    if not text.isdecimal() or not 0 < int(text) <= 10 ** 15:
        raise argparse.ArgumentTypeError(f"{text}: want a number above 0")
    return int(text)


def main():
    gpus = f.gpus()
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("table", choices=COMMANDS)
    parser.add_argument("--model", choices=MODELS, default="8B", help="of the table scaling (%(default)s)")
    parser.add_argument("--gpu", choices=gpus, default="h100", help="%(default)s")
    parser.add_argument("--sequence", type=positive, default=4096, help="tokens of a sequence (%(default)s)")
    parser.add_argument("--batch", type=positive, default=1024, help="sequences of a training step (%(default)s)")
    options = parser.parse_args()
    COMMANDS[options.table](options, gpus[options.gpu])


if __name__ == "__main__":
    main()
