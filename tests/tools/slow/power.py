"""pow where an op of its own exists. With the argument "clean" the script is written well."""

import sys

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)
x, y = torch.randn(256, 128), torch.randn(256, 512)
net = nn.Sequential(nn.Linear(128, 512), nn.Tanh())
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    difference = net(x) - y
    if CLEAN:
        loss = torch.square(torch.square(difference)).mean()
    else:
        loss = torch.pow(difference, 4).mean()  # slow
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
