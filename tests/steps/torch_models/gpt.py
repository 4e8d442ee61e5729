"""gpt.py TRAINER TEXT WORK gpt OPTION...: trains --model gpt with our program and with PyTorch in double precision, from
the same initial parameters and with the same order of the sequences, and compares the losses of 20 steps of SGD and of
AdamW, and the gradients of the first step."""
import sys

import torch
from torch import nn

from networks import flat_parameters, parameters, set_parameters
from training import SEED, STEPS, check, images as text, options, shuffle, train_ours, train_torch

TOKENS = 256
settings = {name: int(value) for name, value in zip(options[::2], options[1::2])}
WIDTH, HEADS, CONTEXT = settings["--width"], settings["--heads"], settings["--context"]


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Parameter(torch.empty(TOKENS, WIDTH))
        self.places = nn.Parameter(torch.empty(CONTEXT, WIDTH))

    def forward(self, x):
        return self.tokens[x] + self.places


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inputs = nn.Linear(WIDTH, 3 * WIDTH)
        self.outputs = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        heads = self.inputs(self.norm(x)).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        queries, keys, values = heads
        scores = queries @ keys.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        later = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
        seen = scores.masked_fill(later, float("-inf")).softmax(-1) @ values
        return x + self.outputs(seen.transpose(1, 2).reshape(x.shape))


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inputs = nn.Linear(WIDTH, 4 * WIDTH)
        self.outputs = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.inputs(self.norm(x))
        # torch.nn.GELU("tanh"), which PyTorch has since 1.12
        y = y / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (y + 0.044715 * y ** 3)))
        return x + self.outputs(y)


def new_network():
    blocks = [part() for _ in range(settings["--layers"]) for part in (Attention, Perceptron)]
    return nn.Sequential(Embedding(), *blocks, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)).double()


def load():
    """The sequences of the first nine tenths of the text, and their targets, the next tokens."""
    with open(text.removeprefix("text:"), "rb") as file:
        values = torch.tensor(list(file.read()))
    values = values[:len(values) - len(values) // 10]
    count = (len(values) - 1) // CONTEXT
    return values[:count * CONTEXT].view(count, CONTEXT), values[1:count * CONTEXT + 1].view(count, CONTEXT)


def new_optimizer(name, network):
    decayed = [values for _, _, values in parameters(network) if values.dim() > 1]
    others = [values for _, _, values in parameters(network) if values.dim() == 1]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0}]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=0.02, momentum=0.9, weight_decay=0.1)
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)


OURS = {"sgd": ["--optimizer", "sgd", "--lr", "0.02", "--momentum", "0.9", "--weight-decay", "0.1"],
        "adamw": ["--optimizer", "adamw", "--lr", "1e-3", "--beta2", "0.95", "--weight-decay", "0.1"]}


def main():
    torch.set_num_threads(1)
    x, targets = load()
    # With so small a rate, a step changes no parameter in 4 bytes, and the velocity becomes the gradient.
    _, initial, gradients = train_ours("initial", "--max-steps", "1", "--lr", "1e-12", "--momentum", "0.9")
    good = True
    for name, more in OURS.items():
        network = new_network()
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
