"""torch_mnist.py DATA BATCH EPOCHS LR MOMENTUM: step 1's training in PyTorch, as fast as plain PyTorch
goes: the whole data set is one float tensor in memory, without a DataLoader. Prints which BLAS is loaded
and a line per epoch like the trainer's; no epoch includes an evaluation."""
import ctypes
import gzip
import os
import sys
import time

import torch


def read(path, header):
    with gzip.open(path) as f:
        return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)


def load(folder):
    if folder == "synthetic":  # noise, as only the speed counts then
        return torch.randint(256, (60000, 784)).to(torch.uint8), torch.randint(10, (60000,))
    images = read(f"{folder}/train-images-idx3-ubyte.gz", 16).view(-1, 784)
    return images, read(f"{folder}/train-labels-idx1-ubyte.gz", 8).long()


def loaded_blas():
    """The libblas.so.3 that PyTorch calls; where that is OpenBLAS's, the library with its kernels."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "blas" in line}
    blas = next(path for path in paths if "/libblas." in path)
    for path in paths:
        if path.startswith(os.path.dirname(blas) + "/libopenblas"):
            config = ctypes.CDLL(path).openblas_get_config
            config.restype = ctypes.c_char_p
            return f"{path}: {config().decode()}"
    return blas


def setup():
    """Prints the versions. The same seed gives all processes the same weights and the same order."""
    torch.manual_seed(1)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    print("PyTorch", torch.__version__, flush=True)
    print("BLAS", loaded_blas(), flush=True)


def load_normalised(folder):
    images, y = load(folder)
    x = images.float().div_(255)
    del images
    return x.sub_(x.mean()).div_(x.std()), y


def new_model():
    return torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512),
                               torch.nn.ReLU(), torch.nn.Linear(512, 10))


def train(model, x, y, batch, epochs, lr, momentum, rank=0, ranks=1):
    """Trains on this rank's part of each batch; rank 0 prints, the images of all ranks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum, foreach=True)
    steps, part = len(x) // batch, batch // ranks
    for epoch in range(1, epochs + 1):
        start = time.monotonic()
        total = torch.zeros(())
        order = torch.randperm(len(x))
        for step in range(steps):
            rows = order[step * batch + rank * part:][:part]
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.detach()
        mean = total.item() / steps
        elapsed = time.monotonic() - start
        if rank == 0:
            print(f"epoch {epoch}/{epochs}  loss {mean:.4f}  {elapsed:.2f} s  "
                  f"{steps * batch / elapsed:.0f} images/s", flush=True)


def arguments():
    folder, batch, epochs, lr, momentum = sys.argv[1:6]
    return folder, int(batch), int(epochs), float(lr), float(momentum)


if __name__ == "__main__":
    folder, *options = arguments()
    setup()
    x, y = load_normalised(folder)
    train(new_model(), x, y, *options)
