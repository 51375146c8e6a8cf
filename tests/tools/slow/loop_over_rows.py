"""A loss computed row by row. With the argument "clean" the script is written well."""

import sys

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)
x, y = torch.randn(128, 64), torch.randn(128, 16)
net = nn.Linear(64, 16)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    out = net(x)
    if CLEAN:
        loss = (out - y).abs().sum()
    else:
        loss = 0.0
        for i in range(out.shape[0]):  # slow
            difference = out[i] - y[i]
            loss = loss + difference.abs().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
