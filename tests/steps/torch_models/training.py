"""training.py TRAINER DATA WORK MODEL [OPTION VALUE...]: trains a model with our program and with PyTorch, from the same
initial parameters and with the same order of the samples, and compares the losses of all steps, the gradients of the
first one and the last parameters. A text is trained with SGD and with AdamW, in PyTorch in double precision."""
import csv
import subprocess
import sys

import torch
from torch import nn

from course import load_images, load_text, read_snapshot, shuffle
from networks import BLOCKS, Net, ResNet, flat_gradients, flat_parameters, gpt, set_parameters

STEPS, BATCH, SEED = 20, 64, 7
trainer, data, work, model, *options = sys.argv[1:]
settings = {name: int(value) for name, value in zip(options[::2], options[1::2])}

# A ReLU that switches because of rounding changes a gradient by 1e-3 of its length and more, and those of the next steps.
# PyTorch's own gradients differ as much from those that it computes in double precision. Which ReLUs switch depends on the
# processor; a mistake in a layer changes the gradients by a large part of their length. At larger rates than this one,
# round-off grows from step to step until it exceeds the limit for the losses.
RUNS = [("sgd", {"--lr": 2e-4, "--momentum": 0.9, "--weight-decay": 1e-3})]
LIMITS = 1e-2, 1e-4, 5e-2  # of the gradients, the losses and the change of the parameters
if model == "gpt":
    RUNS = [("sgd", {"--lr": 0.02, "--momentum": 0.9, "--weight-decay": 0.1}),
            ("adamw", {"--lr": 1e-3, "--beta2": 0.95, "--weight-decay": 0.1})]
    LIMITS = 1e-4, 1e-5, 1e-2


def train_ours(name, *more):
    """Losses, parameters and each state of the optimizer, such as velocities, after training with our program."""
    snapshot, losses = f"{work}/{name}.snapshot", f"{work}/{name}.csv"
    subprocess.run([*trainer.split(), "--data", data, "--model", model, *options, "--batch", str(BATCH), "--seed",
                    str(SEED), "--log-every", "1", "--snapshot", snapshot, "--csv", losses, *map(str, more)],
                   check=True, stdout=subprocess.DEVNULL)
    with open(losses) as file:
        return [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]], *read_snapshot(snapshot)


def new_network(shape):
    if model == "gpt":
        return gpt(*(settings[name] for name in ("--layers", "--heads", "--width", "--context"))).double()
    if model == "cnn":
        return Net(*shape, dropout=(0, 0))
    return ResNet(shape[0], settings["--width"], BLOCKS[settings["--depth"]])


def new_optimizer(name, chosen, network):
    decay = chosen["--weight-decay"]
    if name == "sgd":
        return torch.optim.SGD(network.parameters(), chosen["--lr"], chosen["--momentum"], weight_decay=decay)
    return torch.optim.AdamW(network.parameters(), chosen["--lr"], (0.9, chosen["--beta2"]), weight_decay=decay)


def train_torch(optimizer, network, x, labels, order):
    """The losses of all steps, and the gradients of the first one. Changes the network. A sample may have several
    labels."""
    losses, first_gradients = [], None
    for step in range(STEPS):
        rows = order[step * BATCH:][:BATCH]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x[rows]).flatten(0, -2), labels[rows].flatten())
        loss.backward()
        if first_gradients is None:
            first_gradients = flat_gradients(network)
        optimizer.step()
        losses.append(loss.item())
    return losses, first_gradients


def check(what, value, most):
    """Prints a number and its limit. Returns whether it is below the limit; nan is not."""
    good = value <= most
    print(f"{'ok ' if good else 'BAD'} {what}: {value:.2g}, at most {most:.2g}")
    return good


def distance(ours, theirs):
    """The length of the difference of two arrays, relative to that of theirs."""
    return ((ours - theirs).norm() / theirs.norm()).item()


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    x, labels = load_text(data.removeprefix("text:"), settings["--context"]) if model == "gpt" else load_images(data)
    # With so small a rate, a step changes no parameter in 4 bytes, and the velocity becomes the gradient.
    _, initial, gradients = train_ours("initial", "--max-steps", 1, "--lr", 1e-12, "--momentum", 0.9)
    good = True
    for name, chosen in RUNS:
        network = new_network(x.shape[1:])
        set_parameters(network, initial)
        losses, last, *_ = train_ours(name, "--max-steps", STEPS, "--optimizer", name, *sum(chosen.items(), ()))
        torch_losses, torch_gradients = train_torch(new_optimizer(name, chosen, network), network, x, labels,
                                                    shuffle(len(x), SEED, 0))
        good &= check(f"{name}, gradients of step 1", distance(gradients, torch_gradients), LIMITS[0])
        for step, (ours, theirs) in enumerate(zip(losses, torch_losses, strict=True), 1):
            good &= check(f"{name}, loss of step {step}, {ours:.7f}", abs(ours / theirs - 1), LIMITS[1])
        change = flat_parameters(network) - initial
        good &= check(f"{name}, change of the parameters", distance(last - initial, change), LIMITS[2])
        if model == "gpt":
            good &= check(f"{name} reduces the loss", losses[-1] / losses[0], 0.9)
    return 0 if good else 1


sys.exit(main())
