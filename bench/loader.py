"""loader.py BUILD [loader] [--rounds N]: what streamed samples cost: training beside that with all samples on the device, and
the loader alone beside PyTorch's DataLoader. A test has the modelled times (tests/steps/modelled.bats)."""
import glob
import gzip
import os
import shutil
import statistics
import sys
import tempfile
import time

from bench import judged, machine, option, run, spread
from compare import GPU, MODELS, build, data_of, speed

ROUNDS, EPOCHS = int(option("--rounds", 5)), 5


def unpack(folder):
    """Writes the images to the folder; those of make data are compressed."""
    for path in glob.glob(f"{data_of('mlp')}/*-ubyte*"):
        with (gzip.open if path.endswith(".gz") else open)(path) as source, \
                open(f"{folder}/{os.path.basename(path).split('.')[0]}", "wb") as file:
            shutil.copyfileobj(source, file)


def train(model, folder, *options, **variables):
    data = "text:" + data_of(model) if model == "gpt" else folder
    return run(f"{build}/01_single_gpu/train", "--data", data, *MODELS[model][1], *options, **variables)


def compare_training(folder):
    print(f"\nsamples per second of step 1: median (lowest-highest) of {ROUNDS} alternating runs\n"
          f"model  batch  {'--load device':>24}  {'--load stream':>24}  {'stream / device':>24}  goal")
    for model, batch in ("mlp", 128), ("gpt", 64):
        steps = max(10, MODELS[model][0] // batch // 10 * 10)
        options = "--batch", batch, "--lr", 0.01, "--max-steps", steps, "--log-every", steps // 10, "--load"
        rates = [[speed(train(model, folder, *options, load)) for load in ("device", "stream")] for _ in range(ROUNDS)]
        device, stream = zip(*rates)
        ratios = [streamed / kept for kept, streamed in rates]
        print(f"{model:5}  {batch:5}  {spread(device):>24}  {spread(stream):>24}  {spread(ratios, 3):>24}  "
              f"{judged('at least 0.95', statistics.median(ratios))}", flush=True)


def torch_rates(folder, way, workers):
    """Prints what bench/load_rate.c prints, of PyTorch's DataLoader."""
    import numpy
    import torch

    class Images(torch.utils.data.Dataset):
        """rows: the number of an image, or those of a batch."""
        def __init__(self):
            self.labels = numpy.memmap(f"{folder}/train-labels-idx1-ubyte", "uint8", "r", 8)
            self.values = numpy.memmap(f"{folder}/train-images-idx3-ubyte", "uint8", "r", 16).reshape(len(self.labels), -1)

        def __len__(self):
            return len(self.labels)

        def __getitem__(self, rows):
            return self.values[rows], self.labels[rows]

    begin, used, count = time.monotonic(), sum(os.times()[:4]), 0
    images, device = Images(), "cuda" if GPU else "cpu"
    batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(images), 128, True)
    how = {"batch_sampler": batches} if way == "sample" else {"sampler": batches, "batch_size": None}
    loader = torch.utils.data.DataLoader(images, num_workers=workers, persistent_workers=workers > 0, pin_memory=GPU, **how)
    for _ in range(EPOCHS):
        for batch in loader:
            count += len([part.to(device, non_blocking=True) for part in batch][0])
    seconds = time.monotonic() - begin
    del loader  # ends the workers, so their time counts
    print(f"{count / seconds:.0f} {count / (sum(os.times()[:4]) - used):.0f}")


def compare_loaders(folder):
    print(f"\nsamples per second of loaders, and per second of a core that they use, of {ROUNDS} alternating runs; the images are "
          f"in the page cache\n{'loader':26}  workers  {'samples/s':>25}  {'samples/s per core':>25}  {'course / it, per core':>21}  goal")
    ours = f"{build}/bench/load_rate", "--data", folder, "--batch", 128, "--epochs", EPOCHS, "--load", "stream", "--workers"
    theirs = sys.executable, "-B", __file__, build, "--rates", folder
    commands = {(name, workers): (*command, workers) for name, command in (
        ("this course", ours), ("PyTorch, sample by sample", (*theirs, "sample")), ("PyTorch, whole batches", (*theirs, "batch")))
        for workers in (0, 2, 4)}
    rounds = [{key: [float(rate) for rate in run(*command).split()] for key, command in commands.items()} for _ in range(ROUNDS)]
    for name, workers in commands:
        rates, per_core = zip(*(each[name, workers] for each in rounds))
        gains = [each["this course", workers][1] / each[name, workers][1] for each in rounds]
        print(f"{name:26}  {workers:7}  {spread(rates):>25}  {spread(per_core):>25}" +
              (f"  {spread(gains, 2):>21}  {judged('at least 1', statistics.median(gains))}" if name != "this course" else ""))


def main():
    if "--rates" in sys.argv:
        folder, way, workers = sys.argv[sys.argv.index("--rates") + 1:]
        torch_rates(folder, way, int(workers))
        return
    with tempfile.TemporaryDirectory() as folder:
        unpack(folder)
        print(f"machine   {machine()}")
        compare_training(folder)
        compare_loaders(folder)


main()
