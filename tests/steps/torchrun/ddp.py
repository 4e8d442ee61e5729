"""ddp.py: nine steps of DDP with Gloo, or of one process where no launcher is; every rank prints the losses of the whole
batches."""
import os

import torch
import torch.distributed as dist

torch.set_num_threads(1)
torch.manual_seed(1)
rank, world = 0, 1
model = torch.nn.Linear(4, 1).double()
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []

for step in range(9):
    inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(step)).double()
    inputs = inputs[16 * rank // world : 16 * (rank + 1) // world]
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss = loss.detach() / world
    if world > 1:
        dist.all_reduce(loss)
    losses.append(f"{loss.item():.9f}")
print(f"rank {rank} of {world}: {' '.join(losses)}\n", end="", flush=True)  # as one write
