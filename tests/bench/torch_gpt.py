"""torch_gpt.py SIZE BATCH STEPS: trains --model gpt of the course (tiny or small) with PyTorch and AdamW on random tokens,
and prints tokens per second of each tenth of the steps."""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from torch_mnist import setup

TOKENS = 256
SIZES = {"tiny": (2, 4, 64, 64), "small": (6, 6, 384, 256)}  # layers, heads, width, context
LAYERS, HEADS, WIDTH, CONTEXT = SIZES[sys.argv[1]]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.inputs, self.outputs = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("later", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1))

    def attention(self, x):
        queries, keys, values = self.inputs(x).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):  # PyTorch 2
            seen = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        else:
            scores = queries @ keys.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
            seen = scores.masked_fill(self.later, float("-inf")).softmax(-1) @ values
        return self.outputs(seen.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.perceptron(self.norms[1](x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.Sequential(*[Block() for _ in range(LAYERS)], nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS))

    def forward(self, x):
        return self.layers(self.tokens(x) + self.places.weight)


def main():
    batch, steps = map(int, sys.argv[2:4])
    setup()
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    text = torch.randint(TOKENS, (batch, CONTEXT + 1))
    for part in range(10):
        start = time.monotonic()
        for _ in range(part * steps // 10, (part + 1) * steps // 10):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()).backward()
            optimizer.step()
        print(f"part {part}  {steps // 10 * batch * CONTEXT / (time.monotonic() - start):.0f} tokens/s", flush=True)


main()
