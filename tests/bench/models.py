"""models.py BUILD [--rounds N] [--accuracy]: the image models and transformers of step 1 on the CPU device, as a table: speed
compared with PyTorch on the same cores; with --accuracy, which takes about half an hour, also the test accuracy."""
import os
import re
import statistics
import sys

from bench import (compiler, data_here, has_images, machine, option, products, ratio, run, show, spread)

ROUNDS, STEPS, BATCH = int(option("--rounds", 5)), 60, 64
TORCH_MODELS, TORCH_GPT = (("/usr/bin/python3", "-B", os.path.join(os.path.dirname(__file__), name))
                           for name in ("torch_models.py", "torch_gpt.py"))
MODELS = {"cnn": ("--model", "cnn"), "resnet8": ("--model", "resnet", "--depth", 8)}
TRANSFORMERS = {"tiny": 16, "small": 4}  # the batch of each --size
trainer = f"{sys.argv[1]}/01_single_gpu/train"
threads = str(os.cpu_count())


def rate(output):
    """Images or tokens per second: the median of a run's ten parts, without the first one, which warms up."""
    return statistics.median([float(each) for each in re.findall(r"(\d+) (?:images|tokens)/s", output)][1:10])


def speed_table(data):
    ours, torch = {name: [] for name in MODELS}, {name: [] for name in MODELS}
    for _ in range(ROUNDS):
        for name, options in MODELS.items():
            ours[name].append(rate(run(trainer, *options, "--data", data, "--batch", BATCH, "--lr", 0.01,
                                       "--max-steps", STEPS, "--log-every", STEPS // 10)[0]))
            torch[name].append(rate(run(*TORCH_MODELS, name, data, BATCH, STEPS, OMP_NUM_THREADS=threads)[0]))
    print(f"\nmedian (lowest-highest) of {ROUNDS} alternating runs of {STEPS} steps of batch {BATCH};")
    print("ratios: median of the rounds (of the best runs, which other work disturbed least)")
    show("", MODELS, "goal")
    show("trainer, images/s", [spread(ours[name]) for name in MODELS])
    show("PyTorch, images/s", [spread(torch[name]) for name in MODELS])
    show("trainer, s per epoch", [spread([60000 / each for each in ours[name]], 1) for name in MODELS])
    show("PyTorch, s per epoch", [spread([60000 / each for each in torch[name]], 1) for name in MODELS])
    show("trainer / PyTorch, time", [ratio(torch[name], ours[name], max) for name in MODELS], "at most 1.5")


def transformer_table():
    ours, torch = {size: [] for size in TRANSFORMERS}, {size: [] for size in TRANSFORMERS}
    for _ in range(ROUNDS):
        for size, batch in TRANSFORMERS.items():
            steps = {"tiny": 100, "small": 10}[size]
            ours[size].append(rate(run(trainer, "--model", "gpt", "--size", size, "--data", "text", "--batch", batch,
                                       "--optimizer", "adamw", "--max-steps", steps, "--log-every", steps // 10)[0]))
            torch[size].append(rate(run(*TORCH_GPT, size, batch, steps, OMP_NUM_THREADS=threads)[0]))
    print(f"\nTransformers, with AdamW: median (lowest-highest) of {ROUNDS} alternating runs")
    show("", [f"gpt {size}" for size in TRANSFORMERS], "goal")
    show("trainer, tokens/s", [spread(ours[size]) for size in TRANSFORMERS])
    show("PyTorch, tokens/s", [spread(torch[size]) for size in TRANSFORMERS])
    show("trainer / PyTorch, time", [ratio(torch[size], ours[size], max) for size in TRANSFORMERS], "at most 1")


def accuracies(*options):
    output, _ = run(trainer, *options)
    return float(re.findall(r"accuracy ([\d.]+)%", output)[-1])


def accuracy_table():
    adadelta = ("--model", "cnn", "--optimizer", "adadelta", "--lr", 1, "--schedule", "step", "--gamma", 0.7,
                "--batch", 64)
    print("\nTest accuracy in % after the last epoch")
    if has_images("data/mnist"):
        seeds = [accuracies("--data", "data/mnist", *adadelta, "--epochs", 3, "--seed", seed) for seed in (1, 2, 3)]
        print(f"cnn, MNIST, 3 epochs        {statistics.mean(seeds):.2f}, seeds 1 to 3: {seeds}   goal at least 99.0",
              flush=True)
    fashion = next((f for f in ("data/fashion-mnist", "/usr/share/datasets/fashion-mnist") if has_images(f)), None)
    if fashion:
        print(f"cnn, Fashion-MNIST, 5 epochs {accuracies('--data', fashion, *adadelta, '--epochs', 5):.2f}   "
              "goal at least 91", flush=True)
    shapes = ("--data", "shapes", "--batch", 64)
    resnet = accuracies(*shapes, "--model", "resnet", "--depth", 8, "--epochs", 5)
    print(f"resnet8, shapes, 5 epochs   {resnet:.2f}   goal at least 95", flush=True)
    for hidden, lr, decay in ("512,512", 0.01, 0.005), ("2048", 0.02, 0), ("1024,1024,1024", 0.02, 0):
        mlp = accuracies(*shapes, "--model", "mlp", "--hidden", hidden, "--lr", lr, "--weight-decay", decay,
                         "--epochs", 15)
        print(f"mlp {hidden}, lr {lr}, weight decay {decay}, shapes, 15 epochs   {mlp:.2f}   goal below 60",
              flush=True)


def main():
    data = data_here()
    print(f"machine   {machine()}")
    print(f"compiler  {compiler(trainer)}; threads {threads}; products {products(trainer)}")
    versions, _ = run(*TORCH_MODELS, "cnn", data, BATCH, 10, OMP_NUM_THREADS=threads)
    print(f"PyTorch   {re.search(r'PyTorch (.*)', versions)[1]}")
    if "--accuracy" in sys.argv:
        accuracy_table()
    speed_table(data)
    transformer_table()


main()
