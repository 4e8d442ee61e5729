"""Tokens per second of torchtitan and of step 7, and where the time of step 7 goes, as docs/measurements.md says."""
import re

from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, bars, read

NAMES = {"torchtitan, torch.compile": r"\| torchtitan, with", "torchtitan": r"\| torchtitan, Llama",
         "this course, modelled": r"\| this course, modelled"}


def draw():
    text = " ".join(read("docs/measurements.md").split())
    rates = [int(re.search(row + r"[^|]*\| ([\d,]+) \|", text)[1].replace(",", "")) for row in NAMES.values()]
    step, *parts = map(float, re.search(r"of ([\d.]+) s of a training step, the matrix products take ([\d.]+) s, attention ([\d.]+) s, "
                                        r"and all other kernels ([\d.]+) s", text).groups())
    totals = f"{rates[0]:,}", f"{rates[1]:,}: {rates[1] / rates[2]:.1f} times ours", f"{rates[2]:,}"
    f = bars("Tokens per second of torchtitan and of step 7", "", [
        (name, [(rate, COMPUTE if "course" in name else HOST)], total) for name, rate, total in zip(NAMES, rates, totals)],
        330, 567, top=50, pitch=68, height=46)
    f.height = 390
    f.description += f" Of {step} s of step 7, products take {parts[0]}, attention {parts[1]} and all other kernels {parts[2]}."
    f.text(20, 22, "tokens per second and GPU, 8 H100", 20, "start", bold=True)
    f.text(20, 282, f"where the {step} s of a step of this course go", 20, "start", bold=True)
    f.bar(330, 304, 46, 140, [(seconds, colour, text) for seconds, text, colour in zip(
        parts, (f"products {parts[0]} s", f"attention {parts[1]} s", ""), (COMPUTE, COMMUNICATE, FOURTH))], f"other {parts[2]} s")
    return f
