"""How published runs divide their GPUs: tensor x pipeline x replicas = GPUs, so on a logarithmic scale the parts add up.

GPT: https://arxiv.org/abs/2104.04473. Megatron-Turing: https://arxiv.org/abs/2201.11990. BLOOM:
https://arxiv.org/abs/2211.05100. Llama 3: https://arxiv.org/abs/2407.21783. DeepSeek-V3: https://arxiv.org/abs/2412.19437."""
import math

from drawing import COMMUNICATE, COPY, FOURTH, Figure

RUNS = (("GPT, 1 trillion", "A100", 8, 64, 6, ""), ("Megatron-Turing, 530 B", "A100", 8, 35, 8, ""),
        ("BLOOM, 176 B", "A100", 4, 12, 8, "ZeRO-1"), ("Llama 3, 405 B", "H100", 8, 16, 128, "sharded states"),
        ("DeepSeek-V3, 671 B", "H800", 1, 16, 128, "64 ranks share experts"))
LEFT, TOP, PITCH, HEIGHT, SCALE = 250, 64, 74, 50, 33


def draw():
    f = Figure("Layouts of published runs", " ".join(
        f"{name}: {t * p * d:,} {gpu}, tensor {t}, pipeline {p}, replicas {d}{', ' * bool(more)}{more}."
        for name, gpu, t, p, d, more in RUNS), TOP + PITCH * len(RUNS))
    f.legend(LEFT, 24, (("tensor", COMMUNICATE), ("pipeline", COPY), ("replicas", FOURTH)))
    f.text(1100, 24, "logarithmic: the lengths add up to the GPUs", 18, "end")
    for i, (name, gpu, t, p, d, more) in enumerate(RUNS):
        y = TOP + i * PITCH
        f.bar(LEFT, y, HEIGHT, SCALE, [(math.log2(count), colour, f"{count}") for count, colour in
                                       ((t, COMMUNICATE), (p, COPY), (d, FOURTH)) if count > 1],
              f"= {t * p * d:,} {gpu}" + (f"; {more}" if more else ""), name=name)
    return f
