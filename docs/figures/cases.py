"""The cases in which to look for a fault, from the smallest one on."""
from questions import flow


def draw():
    return flow("Start with the smallest case", (
        ("1. One GPU: 04_multinode/train --max-steps 20", "fails", "the program, the driver, the data"),
        ("2. One node: launcher, --nproc-per-node 2", "fails", "NVLink, PCIe, the launcher"),
        ("3. Two nodes, one rank each", "fails", "addresses, ports, the interface"),
        ("4. Two nodes, all GPUs: slurm/doctor.sbatch", "fails", "cards, rails: NCCL_DEBUG=INFO"),
        ("5. In the middle of training", "hangs", "numbers of the collectives")), "Then go on to more nodes.", ("works", "works"), 600)
