"""How published runs divide their GPUs: tensor x pipeline x replicas = GPUs, so on a logarithmic scale the parts add up.

GPT: https://arxiv.org/abs/2104.04473. Megatron-Turing: https://arxiv.org/abs/2201.11990. BLOOM:
https://arxiv.org/abs/2211.05100. Llama 3: https://arxiv.org/abs/2407.21783. DeepSeek-V3: https://arxiv.org/abs/2412.19437."""
import math

from drawing import COMMUNICATE, COPY, FOURTH, bars

RUNS = (("GPT, 1 trillion", "A100", 8, 64, 6, ""), ("Megatron-Turing, 530 B", "A100", 8, 35, 8, ""),
        ("BLOOM, 176 B", "A100", 4, 12, 8, "ZeRO-1"), ("Llama 3, 405 B", "H100", 8, 16, 128, "sharded states"),
        ("DeepSeek-V3, 671 B", "H800", 1, 16, 128, "64 ranks share experts"))
PARTS = (("tensor", COMMUNICATE), ("pipeline", COPY), ("replicas", FOURTH))


def draw():
    f = bars("Layouts of published runs", "Powers of two.", [
        (name, [(math.log2(count), colour, f"{count}") for count, (_, colour) in zip(counts, PARTS) if count > 1],
         f"= {math.prod(counts):,} {gpu}" + (f"; {more}" if more else "")) for name, gpu, *counts, more in RUNS],
        250, 462, PARTS, 64, 74, 50)
    f.text(1100, 24, "logarithmic: the lengths add up to the GPUs", 18, "end")
    return f
