"""The data of the course, the order of its samples and its snapshots, for PyTorch programs that train as ours do."""
import gzip
import os
import struct

import torch

M = 2**64 - 1


def rng_bits(seed, index):
    """Output number index of SplitMix64, as in common/base/rng.h."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & M
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M
    return z ^ z >> 31


def shuffle(count, seed, epoch):
    """The order of the samples, as in common/data/data.c."""
    key = rng_bits(seed, M ^ epoch)
    order = list(range(count))
    for i in range(count, 1, -1):
        j = rng_bits(key, i) % i
        order[j], order[i - 1] = order[i - 1], order[j]
    return order


def read_idx(path):
    with gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb") as file:
        values = file.read()
    shape = struct.unpack_from(f">{values[3]}I", values, 4)
    return torch.frombuffer(bytearray(values), dtype=torch.uint8, offset=4 + 4 * values[3]).view(shape)


def load_images(folder):
    """The training images [count, channels, height, width] with mean 0 and deviation 1, and their labels."""
    x = read_idx(f"{folder}/train-images-idx3-ubyte").double() / 255
    x = (x - x.mean()) / x.std(unbiased=False)
    return x.float().unsqueeze(1), read_idx(f"{folder}/train-labels-idx1-ubyte").long()


def load_text(path, context):
    """The sequences [count, context] of the first nine tenths of the text, and their targets, the next tokens."""
    with open(path, "rb") as file:
        values = torch.tensor(list(file.read()))
    values = values[:len(values) - len(values) // 10]
    count = (len(values) - 1) // context
    return values[:count * context].view(count, context), values[1:count * context + 1].view(count, context)


def read_snapshot(path):
    """The parameters, and each state of the optimizer, such as velocities."""
    with open(path, "rb") as file:
        header, values = file.read(1256), file.read()
    count, state_size = struct.unpack_from("<2q", header, 216)
    assert header[:8] == b"SNAPSHOT" and len(values) == 4 * (count + state_size) + 4, "another format"
    return torch.frombuffer(bytearray(values[:-4]), dtype=torch.float).split(count)
