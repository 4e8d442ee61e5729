"""Trains a model of the course with PyTorch, as its users write it, and prints what compare.py reads: samples per second
of each tenth of the steps, or the loss of each step (--start)."""
import argparse
import itertools
import os
import sys
import tempfile
import time

import torch
from torch.nn import functional as F

from course import load_images, load_text, read_snapshot, shuffle
from networks import BLOCKS, Net, ResNet, gpt, mlp, set_parameters

CONTEXT = 64  # of gpt's size tiny
WAYS = {"memory": "all data is in the memory of the device",
        "loader": "a DataLoader makes each batch",
        "compiled": "as memory, with torch.compile, which uses CUDA graphs on a GPU",
        "ddp": "as memory, with DistributedDataParallel",
        "fsdp": "as memory, with FullyShardedDataParallel"}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", choices=["mlp", "cnn", "resnet8", "gpt"], default="mlp")
    parser.add_argument("--way", choices=list(WAYS), default="memory",
                        help="; ".join(f"{name}: {text}" for name, text in WAYS.items()))
    parser.add_argument("--data", default="data/mnist", help="folder with images in MNIST's format; for gpt, a text")
    parser.add_argument("--batch", type=int, default=128, help="samples of all ranks together")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--ranks", type=int, default=1, help="processes, for ddp and fsdp")
    parser.add_argument("--start", help="snapshot with the initial parameters; no dropout, order of seed 1")
    return parser.parse_args()


def new_model(options):
    if options.model == "mlp":
        return mlp(28 * 28)
    if options.model == "cnn":
        return Net(1, 28, 28, (0, 0) if options.start else (0.25, 0.5))
    if options.model == "gpt":
        return gpt(2, 4, 64, CONTEXT)
    return ResNet(1, 16, BLOCKS[8])


def prepare(model, options, rank):
    """Moves the model to the device, and wraps it as the way demands."""
    device = f"cuda:{rank}" if DEVICE == "cuda" else DEVICE
    model = model.to(device)
    if options.way == "compiled":
        return torch.compile(model, mode="reduce-overhead"), device
    if options.way == "ddp":
        # Gradients that lie in the buckets of the all-reduce need not be copied there.
        return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True), device
    if options.way == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel
        return FullyShardedDataParallel(model), device
    return model, device


def batches(options, x, y, rank, device):
    """This rank's part of each batch, epoch after epoch."""
    part = options.batch // options.ranks
    if options.way != "loader":
        x, y = x.to(device), y.to(device)
    for epoch in itertools.count():
        order = torch.tensor(shuffle(len(x), 1, epoch)) if options.start else torch.randperm(len(x))
        if options.way == "loader":
            data = torch.utils.data.TensorDataset(x, y)
            for rows in torch.utils.data.DataLoader(data, options.batch, sampler=order.tolist(), drop_last=True,
                                                    pin_memory=DEVICE == "cuda"):
                yield [each.to(device, non_blocking=True) for each in rows]
        else:
            order = order.to(device)
            for first in range(rank * part, len(x) // options.batch * options.batch, options.batch):
                rows = order[first:first + part]
                yield x[rows], y[rows]


def train(model, optimizer, data, steps):
    """Trains, and returns the loss of each step."""
    losses = []
    for x, y in itertools.islice(data, steps):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measure(model, optimizer, data, options, rank):
    for tenth in range(10):
        wait()
        begin = time.monotonic()
        steps = (tenth + 1) * options.steps // 10 - tenth * options.steps // 10
        train(model, optimizer, data, steps)
        wait()
        if rank == 0:
            print(f"{steps * options.batch / (time.monotonic() - begin):.1f} samples/s", flush=True)


def print_losses(model, optimizer, data, options, rank):
    losses = train(model, optimizer, data, options.steps)
    if options.ranks > 1:  # each rank has the mean over its part of the batch
        torch.distributed.all_reduce(losses)
    if rank == 0:
        print("\n".join(f"loss {loss:.9g}" for loss in (losses / options.ranks).tolist()))


def run(rank, options, rendezvous):
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = False  # as PyTorch's default for all other products
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
    if rendezvous:
        torch.distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo", init_method=f"file://{rendezvous}",
                                             rank=rank, world_size=options.ranks)
    x, y = load_text(options.data, CONTEXT) if options.model == "gpt" else load_images(options.data)
    model = new_model(options)
    if options.start:
        set_parameters(model, read_snapshot(options.start)[0])
    model, device = prepare(model, options, rank)
    data = batches(options, x, y, rank, device)
    kind = torch.optim.AdamW if options.model == "gpt" and not options.start else torch.optim.SGD
    more = {} if kind is torch.optim.AdamW else {"momentum": 0.9}
    optimizer = kind(model.parameters(), options.lr, foreach=True, **more)
    return (print_losses if options.start else measure)(model, optimizer, data, options, rank)


def main():
    options = arguments()
    if options.way == "compiled" and not hasattr(torch, "compile"):
        sys.exit("unavailable: torch.compile came with PyTorch 2")
    if options.way == "fsdp" and DEVICE == "cpu" and torch.__version__ < "2":
        sys.exit("unavailable: FullyShardedDataParallel needs PyTorch 2 on a machine without a GPU")
    if options.ranks == 1:
        return run(0, options, None)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        return torch.multiprocessing.spawn(run, (options, f"{folder}/rendezvous"), options.ranks)


if __name__ == "__main__":
    main()
