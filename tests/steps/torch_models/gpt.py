"""gpt.py TRAINER TEXT WORK gpt OPTION...: trains --model gpt with our program and with PyTorch in double precision, from
the same initial parameters and with the same order of the sequences, and compares the losses of 20 steps of SGD and of
AdamW, and the gradients of the first step."""
import sys

import torch

from course import load_text, shuffle
from networks import flat_parameters, gpt, set_parameters
from training import SEED, STEPS, check, images as text, options, train_ours, train_torch

settings = [int(options[options.index(name) + 1]) for name in ("--layers", "--heads", "--width", "--context")]


def new_optimizer(name, network):
    if name == "sgd":
        return torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9, weight_decay=0.1)
    return torch.optim.AdamW(network.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)


OURS = {"sgd": ["--optimizer", "sgd", "--lr", "0.02", "--momentum", "0.9", "--weight-decay", "0.1"],
        "adamw": ["--optimizer", "adamw", "--lr", "1e-3", "--beta2", "0.95", "--weight-decay", "0.1"]}


def main():
    torch.set_num_threads(1)
    x, targets = load_text(text.removeprefix("text:"), settings[-1])
    # With so small a rate, a step changes no parameter in 4 bytes, and the velocity becomes the gradient.
    _, initial, gradients = train_ours("initial", "--max-steps", "1", "--lr", "1e-12", "--momentum", "0.9")
    good = True
    for name, more in OURS.items():
        network = gpt(*settings).double()
        set_parameters(network, initial.double())
        losses, last, *_ = train_ours(name, "--max-steps", str(STEPS), *more)
        torch_losses, torch_gradients = train_torch(new_optimizer(name, network), network, x, targets, shuffle(len(x), SEED, 0))
        largest = torch_gradients.abs().max()
        good &= check("gradients of step 1", ((gradients - torch_gradients).abs().max() / largest).item(), 1e-4)
        good &= check(f"{name} reduces the loss", losses[-1] / losses[0], 0.9)
        for step, (ours, theirs) in enumerate(zip(losses, torch_losses, strict=True), 1):
            good &= check(f"{name}, loss of step {step}, {ours:.7f}", abs(ours / theirs - 1), 1e-5)
        change = (flat_parameters(network) - initial).norm()
        good &= check(f"{name}, parameters", ((last - flat_parameters(network)).norm() / change).item(), 1e-2)
    return 0 if good else 1


sys.exit(main())
