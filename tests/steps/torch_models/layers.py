"""layers.py PROGRAM: compares our layers, which PROGRAM (layers.c) runs, with those of PyTorch: outputs, gradients of
the inputs and gradients of the parameters. PyTorch computes in double precision, so all differences are ours."""
import subprocess
import sys

import torch
from torch import nn

from networks import Block, flat_gradients, parameters, set_parameters

MOST = 1e-5  # of the largest value of an array
HEIGHT, WIDTH, CHANNELS = 11, 14, 16
MANY = 400  # the windows of this many images exceed CONV_WORKSPACE


def convolutions():
    for size in 1, 2, 3, 5:
        for stride in 1, 2, 3:
            for padding in 0, 1, 2:
                for bias in 0, 1:
                    yield f"convolution:6,{size},{stride},{padding},{bias}", nn.Conv2d(
                        CHANNELS, 6, size, stride, padding, bias=bool(bias))
    yield "convolution_relu:7,3,1,1,1", nn.Sequential(nn.Conv2d(CHANNELS, 7, 3, padding=1), nn.ReLU())


def others():
    yield "max_pooling:2", nn.MaxPool2d(2)
    yield "max_pooling:3", nn.MaxPool2d(3)  # rows and columns are left over
    yield "mean_pooling", nn.AdaptiveAvgPool2d(1)
    yield "group_norm:8", nn.GroupNorm(8, CHANNELS), 3e-3  # the variances are about epsilon
    for groups in 1, 4, 8, 16:
        yield f"group_norm:{groups}", nn.GroupNorm(groups, CHANNELS)
        yield f"group_norm_relu:{groups}", nn.Sequential(nn.GroupNorm(groups, CHANNELS), nn.ReLU())
    dense = nn.Linear(CHANNELS * HEIGHT * WIDTH, 9)
    dense.image = CHANNELS, HEIGHT, WIDTH
    yield "dense:9", nn.Sequential(nn.Flatten(), dense)
    yield "dense_relu:9", nn.Sequential(nn.Flatten(), dense, nn.ReLU())


def blocks():
    for outputs, stride in (16, 1), (24, 1), (16, 2), (32, 2):
        shortcut = f"convolution:{outputs},1,{stride},0,0 group_norm:8 " if stride > 1 or outputs != CHANNELS else ""
        yield (f"residual convolution:{outputs},3,{stride},1,0 group_norm_relu:8 convolution:{outputs},3,1,1,0 "
               f"group_norm:8 shortcut {shortcut}end"), Block(CHANNELS, outputs, stride)


def run(program, images, words, *arrays):
    """The arrays that the program writes."""
    command = [program, str(images), str(HEIGHT), str(WIDTH), str(CHANNELS), *words.split()]
    floats = torch.cat([array.detach().float().flatten() for array in arrays])
    result = subprocess.run(command, input=floats.numpy().tobytes(), stdout=subprocess.PIPE, check=True)
    return torch.frombuffer(bytearray(result.stdout), dtype=torch.float).double()


def channels_last(images):
    return images.permute(0, 2, 3, 1) if images.dim() == 4 else images


def compare(program, images, words, network, scale=1):
    """Gives the layer normally distributed inputs with this deviation. Prints the largest differences. Returns whether
    they are small enough."""
    network.double().zero_grad()
    x = (torch.randn(images, CHANNELS, HEIGHT, WIDTH) * scale).double()
    values = torch.randn(sum(values.numel() for *_, values in parameters(network))).float()
    set_parameters(network, values.double())
    x.requires_grad_()
    y = network(x)
    dy = torch.randn(y.shape).double()
    y.backward(dy)
    got = run(program, images, words, values, channels_last(x), channels_last(dy))
    right = {"outputs": channels_last(y), "dx": channels_last(x.grad)}
    if len(values):
        right["gradients"] = flat_gradients(network)
    assert len(got) == sum(array.numel() for array in right.values()), f"{words}: {len(got)} values"
    errors = {}
    for name, array in right.items():
        ours, got = got[:array.numel()], got[array.numel():]
        errors[name] = ((ours - array.flatten()).abs().max() / array.abs().max()).item()
    good = all(error <= MOST for error in errors.values())  # false for nan
    print("ok " if good else "BAD", words, *(f"{name} {error:.1e}" for name, error in errors.items()))
    return good


torch.manual_seed(1)
torch.set_num_threads(1)
cases = [*convolutions(), *others(), *blocks()]
results = [compare(sys.argv[1], images, *case) for case in cases for images in (1, 5)]
results += [compare(sys.argv[1], MANY, "convolution_relu:7,3,1,1,1", nn.Sequential(
    nn.Conv2d(CHANNELS, 7, 3, padding=1), nn.ReLU()))]
print(f"{sum(results)} of {len(results)} comparisons are good")
sys.exit(not all(results))
