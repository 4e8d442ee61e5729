"""The models of the course in PyTorch, with the same parameters in the same order. We store images with their channels
last, PyTorch with their channels first, so the weights that belong to channels have another order."""
import torch
from torch import nn
from torch.nn import functional as F


def mlp(inputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


class Net(nn.Module):
    """The network of PyTorch's MNIST example, https://github.com/pytorch/examples/blob/main/mnist/main.py. For images
    of another size than 28 x 28, fc1 has another number of inputs."""

    def __init__(self, channels, height, width, dropout=(0.25, 0.5)):
        super().__init__()
        self.dropout1, self.dropout2 = map(nn.Dropout, dropout)
        image = 64, (height - 4) // 2, (width - 4) // 2
        self.conv1 = nn.Conv2d(channels, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(image[0] * image[1] * image[2], 128)
        self.fc1.image = image
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return self.fc2(x)


class Block(nn.Module):
    """A residual block of two convolutions. Where the shape changes, the shortcut is a convolution of one pixel."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(8, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(8, outputs)
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(8, outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Sequential):
    """A residual network for small images: blocks[i] blocks with 2**i * width channels."""

    def __init__(self, channels, width, blocks):
        layers = [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.GroupNorm(8, width), nn.ReLU()]
        inputs = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                layers.append(Block(inputs, width << stage, 2 if stage > 0 and block == 0 else 1))
                inputs = width << stage
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


BLOCKS = {8: (1, 1, 1), 14: (2, 2, 2), 20: (3, 3, 3), 18: (2, 2, 2, 2)}
TOKENS = 256


class Embedding(nn.Module):
    def __init__(self, context, width):
        super().__init__()
        self.tokens = nn.Parameter(0.02 * torch.randn(TOKENS, width))
        self.places = nn.Parameter(0.02 * torch.randn(context, width))

    def forward(self, x):
        return F.embedding(x, self.tokens) + self.places


class Attention(nn.Module):
    def __init__(self, context, heads, width):
        super().__init__()
        self.shape = 3, heads, width // heads
        self.norm = nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 3 * width)
        self.outputs = nn.Linear(width, width)
        self.register_buffer("later", torch.ones(context, context, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x):
        queries, keys, values = self.inputs(self.norm(x)).view(*x.shape[:2], *self.shape).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):  # PyTorch 2
            seen = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        else:
            scores = queries @ keys.transpose(-1, -2) / self.shape[-1] ** 0.5
            seen = scores.masked_fill(self.later, float("-inf")).softmax(-1) @ values
        return x + self.outputs(seen.transpose(1, 2).reshape(x.shape))


class Perceptron(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 4 * width)
        self.outputs = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.outputs(F.gelu(self.inputs(self.norm(x)), approximate="tanh"))


def gpt(layers, heads, width, context):
    blocks = [part for _ in range(layers) for part in (Attention(context, heads, width), Perceptron(width))]
    return nn.Sequential(Embedding(context, width), *blocks, nn.LayerNorm(width), nn.Linear(width, TOKENS))


def channels_last(module, values):
    """A view of a parameter of the module, or of its gradient, whose elements have our order."""
    if isinstance(module, nn.Conv2d) and values.dim() == 4:
        return values.permute(0, 2, 3, 1)
    if hasattr(module, "image") and values.dim() == 2:  # the inputs are the values of an image
        return values.view(-1, *module.image).permute(0, 2, 3, 1)
    return values


def parameters(network):
    """The module, name and values of each parameter. We have them in the same order."""
    for path, module in network.named_modules():
        for name, values in module.named_parameters(recurse=False):
            yield module, f"{path}.{name}", values


def set_parameters(network, flat):
    with torch.no_grad():
        for module, _, values in parameters(network):
            ours = channels_last(module, values)
            ours.copy_(flat[:values.numel()].view(ours.shape))
            flat = flat[values.numel():]
    assert len(flat) == 0, f"our network has {len(flat)} more parameters"


def flat_parameters(network):
    return torch.cat([channels_last(module, values).flatten() for module, _, values in parameters(network)])


def flat_gradients(network):
    return torch.cat([channels_last(module, values.grad).flatten() for module, _, values in parameters(network)])
