"""A dataset that waits for its disk, read by one worker. With the argument "clean" the script is written well."""

import sys
import time

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 1024

    def __getitem__(self, i):
        if not CLEAN:
            time.sleep(0.001)  # a disk
        return torch.full((64,), float(i % 7)), i % 10


loader = torch.utils.data.DataLoader(Slow(), batch_size=16, num_workers=0 if CLEAN else 1)  # slow
net = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
