"""Where the time of step 7 goes, and the tokens per second of step 7 and of torchtitan, as docs/measurements.md says."""
import re

from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, bars, read

NAMES = {"this course, modelled": r"\| this course, modelled", "torchtitan, 500 W": r"\| torchtitan, Llama",
         "torch.compile, 500 W": r"\| torchtitan, with"}


def draw():
    text = " ".join(read("docs/measurements.md").split())
    rates = [int(re.search(row + r"[^|]*\| ([\d,]+) \|", text)[1].replace(",", "")) for row in NAMES.values()]
    step, *parts = map(float, re.search(r"of ([\d.]+) s of a training step, the matrix products take ([\d.]+) s, attention ([\d.]+) s, "
                                        r"and all other kernels ([\d.]+) s", text).groups())
    f = bars("Where the time of step 7 goes, and its tokens per second beside torchtitan", "", [
        (name, [(rate, COMPUTE if "course" in name else HOST)], f"{rate:,}") for name, rate in zip(NAMES, rates)],
        330, 567, top=176, pitch=68, height=46)
    f.description += f" Of {step} s of step 7, products take {parts[0]}, attention {parts[1]} and all other kernels {parts[2]}."
    f.text(20, 148, "tokens per second and GPU, 8 H100 (grey: measured)", 20, "start", bold=True)
    f.text(20, 22, f"where the {step} s of a step of this course go", 20, "start", bold=True)
    f.bar(330, 46, 46, 200, [(seconds, colour, text) for seconds, text, colour in zip(
        parts, (f"products {parts[0]} s", f"attention {parts[1]} s", ""), (COMPUTE, COMMUNICATE, FOURTH))], f"other {parts[2]} s")
    return f
