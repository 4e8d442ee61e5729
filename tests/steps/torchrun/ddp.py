"""ddp.py [STATE [VICTIM]]: nine steps of DDP with Gloo, or of one process where no launcher is; every rank
prints the losses of the whole batches. It saves to STATE after each step, and resumes from there. The rank
VICTIM kills itself before the sixth step of the first attempt."""
import os
import signal
import sys

import torch
import torch.distributed as dist

state_path = sys.argv[1] if len(sys.argv) > 1 else None
victim = int(sys.argv[2]) if len(sys.argv) > 2 else None
torch.set_num_threads(1)
torch.manual_seed(1)
rank, world = 0, 1
model = torch.nn.Linear(4, 1).double()
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
first, losses = 0, []
if state_path and os.path.exists(state_path):
    first, parameters, momentum, losses = torch.load(state_path)
    model.load_state_dict(parameters)
    optimizer.load_state_dict(momentum)
    print(f"rank {rank} resumes after {first} steps\n", end="", flush=True)

for step in range(first, 9):
    if rank == victim and step == 5 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
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
    if state_path and rank == 0:
        torch.save((step + 1, model.state_dict(), optimizer.state_dict(), losses), state_path + ".new")
        os.replace(state_path + ".new", state_path)
    if state_path and world > 1:
        dist.barrier()  # no rank goes on, or dies, before the step is saved
print(f"rank {rank} of {world}: {' '.join(losses)}\n", end="", flush=True)  # as one write
