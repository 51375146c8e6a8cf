"""DistributedDataParallel as tutorials begin it: mp.spawn, setup, cleanup, checkpoints. Usage: example_spawn.py OUT_DIR"""

import json
import os
import socket
import sys

import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP

import torch


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo(rank, world_size, folder):
    setup(rank, world_size)
    torch.manual_seed(rank)
    model = ToyModel()
    ddp_model = DDP(model)
    path = os.path.join(folder, "model.checkpoint")
    if rank == 0:
        torch.save(ddp_model.state_dict(), path)
    dist.barrier()
    ddp_model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        g = torch.Generator().manual_seed(10 * step + rank)
        outputs = ddp_model(torch.randn(20, 10, generator=g))
        loss = loss_fn(outputs, torch.randn(20, 5, generator=g))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    dist.barrier()
    if rank == 0:
        # a checkpoint of DDP is one of the module when "module." is taken away, either way
        torch.save(ddp_model.state_dict(), path)
        alone = ToyModel()
        alone.load_state_dict({k.removeprefix("module."): v for k, v in torch.load(path, weights_only=True).items()})
        same = all(torch.equal(a, b) for a, b in zip(alone.parameters(), model.parameters()))
        ddp_model.module.load_state_dict(alone.state_dict())
        keys = sorted(ddp_model.state_dict())
        with open(os.path.join(folder, "seen.json"), "w") as f:
            json.dump([losses, same, keys, alone.net2.bias.tolist()], f)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(s.getsockname()[1])
    mp.spawn(demo, args=(2, sys.argv[1]), nprocs=2, join=True)
