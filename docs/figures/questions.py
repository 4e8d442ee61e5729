"""Questions in their order: those before a second GPU (session 1), the cases in which to look for a fault, from the smallest one on, and
which way to divide a model, from the simplest one on (docs/which.md)."""
from drawing import COMPUTE, HOST, UPDATE, Figure


def flow(title, rows, end, words=("no", "yes"), split=560):
    """Questions from top to bottom. rows: (question, answer that leaves the way, what to do then). words: of the way down."""
    f = Figure(title, " ".join(f"{question}: {leave}: {action}." for question, leave, action in rows) + f" {end}.", 84 * len(rows) + 76)
    for i, (question, leave, action) in enumerate(rows):
        y = 4 + 84 * i
        f.box(10, y, split, 56, question, COMPUTE, size=20, bold=True)
        f.arrow((split + 16, y + 28), (split + 104, y + 28))
        f.text(split + 54, y + 14, leave, 18)
        f.box(split + 110, y, 1000 - split, 56, action, HOST, size=20)
        f.arrow((70, y + 60), (70, y + 82))
        f.text(90, y + 70, words[leave == words[0]], 18, "start")
    f.box(10, 4 + 84 * len(rows), split, 60, end, UPDATE, solid=True, size=22, bold=True)
    return f


def draw():
    return flow("Five questions before a second GPU", (
        ("1. Does the model fit on one GPU?", "no", "more GPUs: session 4"),
        ("2. Is the GPU idle? A trace shows it.", "yes", "fewer calls and waits, faster data"),
        ("3. Is the step on the launch floor?", "yes", "a larger batch, or a smaller GPU"),
        ("4. Does a larger batch still learn well?", "yes", "it is cheaper than a GPU"),
        ("5. Does each GPU compute longer than it sends?", "no", "more images for each GPU")), "More GPUs help.")


pictures = {
    "cases": lambda: flow("Start with the smallest case", (
        ("1. One GPU: 04_multinode/train --max-steps 20", "fails", "the program, the driver, the data"),
        ("2. One node: launcher, --nproc-per-node 2", "fails", "NVLink, PCIe, the launcher"),
        ("3. Two nodes, one rank each", "fails", "addresses, ports, the interface"),
        ("4. Two nodes, all GPUs: slurm/doctor.sbatch", "fails", "cards, rails: NCCL_DEBUG=INFO"),
        ("5. In the middle of training", "hangs", "numbers of the collectives")), "Then go on to more nodes.", ("works", "works"), 600),
    "simplest": lambda: flow("Begin with the simplest way", (
        ("Does everything fit on one GPU?", "yes", "DDP"),
        ("Do the states fit, if all ranks share them?", "yes", "ZeRO-1, then FSDP"),
        ("Must gathers stay inside a node?", "yes", "HSDP"),
        ("Fewer sequences than GPUs?", "yes", "tensor and sequence parallelism in a node"),
        ("Still too large?", "yes", "a pipeline between nodes")), "Long sequences: context. Experts: expert parallelism.", split=600)}
