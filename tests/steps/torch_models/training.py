"""training.py TRAINER IMAGES WORK MODEL [OPTION...]: trains a model with our program and with PyTorch, from the same
initial parameters and with the same order of the samples, and compares the losses of all steps, the gradients of the
first one and the last parameters."""
import csv
import subprocess
import sys

import torch
from torch import nn

from course import load_images, read_snapshot, shuffle
from networks import BLOCKS, Net, ResNet, flat_gradients, flat_parameters, set_parameters

# At a small rate: at larger ones, round-off grows from step to step until it exceeds the limit for the losses.
STEPS, BATCH, LR, MOMENTUM, WEIGHT_DECAY, SEED = 20, 64, 2e-4, 0.9, 1e-3, 7
trainer, images, work, model, *options = sys.argv[1:]


def train_ours(name, *more):
    """Losses, parameters and each state of the optimizer, such as velocities, after training with our program."""
    snapshot, losses = f"{work}/{name}.snapshot", f"{work}/{name}.csv"
    subprocess.run([*trainer.split(), "--data", images, "--model", model, *options, "--batch", str(BATCH), "--seed",
                    str(SEED), "--log-every", "1", "--snapshot", snapshot, "--csv",
                    losses, *more], check=True, stdout=subprocess.DEVNULL)
    with open(losses) as file:
        return [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]], *read_snapshot(snapshot)


def new_network(shape):
    if model == "cnn":
        return Net(*shape, dropout=(0, 0))
    settings = dict(zip(options[::2], options[1::2]))
    return ResNet(shape[0], int(settings["--width"]), BLOCKS[int(settings["--depth"])])


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
    x, labels = load_images(images)
    network = new_network(x.shape[1:])
    # With so small a rate, a step changes no parameter in 4 bytes, and the velocity becomes the gradient.
    _, initial, gradients = train_ours("initial", "--max-steps", "1", "--lr", "1e-12", "--momentum", str(MOMENTUM))
    losses, last, _ = train_ours("trained", "--max-steps", str(STEPS), "--lr", str(LR), "--weight-decay",
                                 str(WEIGHT_DECAY), "--momentum", str(MOMENTUM))
    set_parameters(network, initial)
    good = True
    optimizer = torch.optim.SGD(network.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
    torch_losses, torch_gradients = train_torch(optimizer, network, x, labels, shuffle(len(x), SEED, 0))
    # A ReLU that switches because of rounding changes a gradient by 1e-3 of its length and more, and those of the next
    # steps. PyTorch's own gradients differ as much from those that it computes in double precision. Which ReLUs switch
    # depends on the processor; a mistake in a layer changes the gradients by a large part of their length.
    good &= check("gradients of step 1", distance(gradients, torch_gradients), 1e-2)
    for step, (ours, theirs) in enumerate(zip(losses, torch_losses, strict=True), 1):
        good &= check(f"loss of step {step}, {ours:.6f}", abs(ours / theirs - 1), 1e-4)
    torch_last = flat_parameters(network)
    good &= check("change of the parameters", distance(last - initial, torch_last - initial), 5e-2)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
