"""The shares of the FLOPs of four stages. stage-costs.txt holds what the commands below the figure in docs/slides/5-language-models.md
print."""
import re

from drawing import COMPUTE, HOST, Figure


def draw(table):
    with open(table, encoding="utf-8") as file:
        text = file.read()
    stages = [(layers, int(share)) for layers, share in re.findall(r"([\d-]+) \((\d+) %\)", text)]
    most = max(share for _, share in stages)
    f = Figure("The FLOPs of each stage of a pipeline", "Shares of the FLOPs. " + " ".join(
        f"Layers {layers}: {share} %." for layers, share in stages), 70 * len(stages) + 4)
    for i, (layers, share) in enumerate(stages):
        f.bar(260, 6 + 70 * i, 54, 700 / most, [(share, COMPUTE, f"{share} %"), (most - share, HOST, "waits")],
              name=f"stage {i}, layers {layers}")
    return f
