"""torch_models.py MODEL DATA BATCH STEPS: trains --model MODEL of the course (cnn, or resnet of depth 8, 14, 18 or 20,
such as resnet8) with PyTorch, with random order, and prints images per second of each tenth of the steps."""
import sys
import time

import torch
from torch import nn

from torch_mnist import load_normalised, setup


def cnn(channels, size):
    """https://github.com/pytorch/examples/blob/main/mnist/main.py"""
    return nn.Sequential(nn.Conv2d(channels, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Dropout(0.25), nn.Flatten(), nn.Linear(64 * ((size - 4) // 2) ** 2, 128), nn.ReLU(),
                         nn.Dropout(0.5), nn.Linear(128, 10))


class Block(nn.Module):
    """A residual block with group normalisation."""

    def __init__(self, inputs, outputs, stride, groups):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(groups, outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(groups, outputs))
        self.shortcut = nn.Sequential() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(groups, outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet(channels, depth, width=None, groups=8):
    stages = 4 if depth == 18 else 3
    width = width or (64 if depth == 18 else 16)
    layers = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.GroupNorm(groups, width), nn.ReLU()]
    inputs = width
    for stage in range(stages):
        for block in range((depth - 2) // (2 * stages)):
            layers.append(Block(inputs, width << stage, 2 if stage and not block else 1, groups))
            inputs = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def main():
    name, folder, batch, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5])
    setup()
    x, y = load_normalised(folder)
    x = x.view(-1, 1, 28, 28)
    model = cnn(1, 28) if name == "cnn" else resnet(1, int(name[len("resnet"):]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
    order = torch.randperm(len(x))
    model.train()
    for part in range(10):
        start = time.monotonic()
        for step in range(part * steps // 10, (part + 1) * steps // 10):
            rows = order[step * batch % len(x):][:batch]
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        print(f"part {part}  {time.monotonic() - start:.2f} s  "
              f"{steps // 10 * batch / (time.monotonic() - start):.0f} images/s", flush=True)


if __name__ == "__main__":
    main()
