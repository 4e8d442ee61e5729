"""Which way to divide a model, from the simplest one on: docs/which.md."""
from questions import flow


def draw():
    return flow("Begin with the simplest way", (
        ("Does everything fit on one GPU?", "yes", "DDP"),
        ("Do the states fit, if all ranks share them?", "yes", "ZeRO-1, then FSDP"),
        ("Must gathers stay inside a node?", "yes", "HSDP"),
        ("Fewer sequences than GPUs?", "yes", "tensor and sequence parallelism in a node"),
        ("Still too large?", "yes", "a pipeline between nodes")), "Long sequences: context. Experts: expert parallelism.", split=600)
