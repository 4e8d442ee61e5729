"""Tokens per second of torchtitan and of step 7, and where the time of step 7 goes, as docs/which.md says."""
import os
import re

from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, Figure

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../which.md")
LEFT, TOP, PITCH, HEIGHT, SCALE = 330, 50, 68, 46, 0.085


def draw():
    with open(TEXT, encoding="utf-8") as file:
        text = " ".join(file.read().split())
    rates = [int(re.search(name + r"[^|]*\| ([\d,]+) \|", text)[1].replace(",", "")) for name in
             (r"\| torchtitan, with", r"\| torchtitan, Llama", r"\| this course, modelled")]
    names = ("torchtitan, torch.compile", "torchtitan", "this course, modelled")
    spent = re.search(r"of ([\d.]+) s of a training step, the matrix products take ([\d.]+) s, attention ([\d.]+) s, "
                      r"and all other kernels ([\d.]+) s", text)
    step, *parts = map(float, spent.groups())
    f = Figure("Tokens per second of torchtitan and of step 7", ", ".join(f"{name}: {rate:,}" for name, rate in zip(names, rates)) +
               f". Of {step} s of step 7, products take {parts[0]}, attention {parts[1]} and all other kernels {parts[2]}.", 390)
    f.text(20, 22, "tokens per second and GPU, 8 H100", 20, "start", bold=True)
    for i, (name, rate) in enumerate(zip(names, rates)):
        y = TOP + i * PITCH
        f.bar(LEFT, y, HEIGHT, SCALE, [(rate, COMPUTE if i == 2 else HOST)],
              f"{rate:,}" + (f": {rate / rates[2]:.1f} times ours" if i == 1 else ""), name=name)
    f.text(20, 282, f"where the {step} s of a step of this course go", 20, "start", bold=True)
    entries = list(zip(("products", "attention", "other"), (COMPUTE, COMMUNICATE, FOURTH)))
    f.bar(LEFT, 304, HEIGHT, 140, [(seconds, colour, f"{name} {seconds} s" if name != "other" else "") for seconds, (name, colour)
                                  in zip(parts, entries)], f"other {parts[2]} s")
    return f
