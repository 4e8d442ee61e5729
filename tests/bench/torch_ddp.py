"""torch_ddp.py DATA BATCH EPOCHS LR MOMENTUM RANKS: torch_mnist.py's training by several processes, through
PyTorch's DistributedDataParallel with Gloo; BATCH is that of all together."""
import os
import sys
import tempfile

import torch

from torch_mnist import arguments, load_normalised, new_model, setup, train


def run(rank, ranks, meeting, folder, *options):
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    if rank > 0:
        sys.stdout = open(os.devnull, "w")
    setup()
    x, y = load_normalised(folder)
    # Gradients that lie in the buckets of the all-reduce need not be copied there.
    model = torch.nn.parallel.DistributedDataParallel(new_model(), gradient_as_bucket_view=True)
    train(model, x, y, *options, rank, ranks)


if __name__ == "__main__":
    ranks = int(sys.argv[6])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, (ranks, f"{folder}/meeting", *arguments()), ranks)
