"""Features collected by cat in every pass of a loop. With the argument "clean" the script is written well."""

import sys

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)
x = torch.randn(64, 32, 128)
net = nn.Linear(128, 128)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    out = net(x)
    with torch.no_grad():
        if CLEAN:
            features = torch.cat([part * 2 for part in out.split(1)])
        else:
            features = torch.empty(0, 32, 128)
            for part in out.split(1):
                features = torch.cat([features, part * 2])  # slow
    loss = out.mean() + features.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
