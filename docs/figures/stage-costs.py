"""The shares of the FLOPs of four stages: what the commands below the figure in docs/slides/5-language-models.md print."""
import re

from drawing import COMPUTE, HOST, bars


def draw(text):
    stages = [(layers, int(share)) for layers, share in re.findall(r"([\d-]+) \((\d+) %\)", text)]
    most = max(share for _, share in stages)
    return bars("The FLOPs of each stage of a pipeline", "Shares of the FLOPs, in percent.", [
        (f"stage {i}, layers {layers}", [(share, COMPUTE, f"{share} %"), (most - share, HOST, "waits")], "")
        for i, (layers, share) in enumerate(stages)], 260, 700)
