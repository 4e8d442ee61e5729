"""torch_curve.py DATA START STEPS OPTION=VALUE...: trains the network 8-32-22-14-10 on all images of DATA at
once, in PyTorch and in doubles. START is a snapshot with the initial parameters. Prints the loss and the
learning rate of each step. Each step is an epoch, and the options are those of the trainers."""
import sys

import torch
from torch.optim import lr_scheduler

from course import load_images, read_snapshot
from networks import set_parameters

WIDTHS = [8, 32, 22, 14, 10]
options = dict(word.split("=") for word in sys.argv[4:])


def number(name, default):
    return float(options.get(name, default))


def new_optimizer(parameters):
    kind = options.get("optimizer", "sgd")
    decay = number("weight-decay", 0)
    if kind == "sgd":
        return torch.optim.SGD(parameters, number("lr", 0.05), number("momentum", 0.9), weight_decay=decay,
                               nesterov=options.get("nesterov") == "1")
    # Their own defaults must be those of the trainers.
    defaults = {"lr": number("lr", 0), "eps": number("epsilon", 0)}
    defaults = {name: value for name, value in defaults.items() if value}
    if kind == "adadelta":
        return torch.optim.Adadelta(parameters, rho=number("rho", 0.9), weight_decay=decay, **defaults)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](
        parameters, betas=(number("beta1", 0.9), number("beta2", 0.999)), weight_decay=decay, **defaults)


def new_schedules(optimizer, steps):
    """Returns schedulers to be called after each step, which is an epoch."""
    kind, warmup = options.get("schedule", "constant"), int(number("warmup", 0))
    rise = lr_scheduler.LinearLR(optimizer, 1 / warmup, total_iters=warmup - 1) if warmup else None
    schedules = [rise] if rise and kind != "cosine" else []
    if kind == "step":
        schedules.append(lr_scheduler.StepLR(optimizer, int(number("step-epochs", 1)), number("gamma", 0.7)))
    elif kind == "cosine":
        fall = lr_scheduler.CosineAnnealingLR(optimizer, steps - warmup)
        schedules = [lr_scheduler.SequentialLR(optimizer, [rise, fall], [warmup]) if rise else fall]
    elif kind == "onecycle":
        highest = optimizer.param_groups[0]["lr"]
        schedules = [lr_scheduler.OneCycleLR(optimizer, highest, steps, cycle_momentum=False)]
    return schedules


def rate(optimizer):
    return optimizer.param_groups[0]["lr"]


def load_model(path):
    layers = [torch.nn.Linear(*sizes) for sizes in zip(WIDTHS, WIDTHS[1:])]
    model = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU())))[:-1].double()
    set_parameters(model, read_snapshot(path)[0])
    return model


def train(folder, start, steps):
    x, y = load_images(folder)
    x = x.flatten(1).double()
    model = load_model(start)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=number("label-smoothing", 0))
    optimizer = new_optimizer(model.parameters())
    schedules = new_schedules(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        print(f"{loss.item():.9g} {rate(optimizer):.12g}")
        optimizer.step()
        for schedule in schedules:
            schedule.step()


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], int(sys.argv[3]))
