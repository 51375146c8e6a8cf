"""A copy that nobody needs. With the argument "clean" the script is written well."""

import sys

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)
x, y = torch.randn(1024, 1024), torch.randn(1024, 1)
net = nn.Linear(1024, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    batch = x if CLEAN else x.clone()  # slow
    loss = nn.functional.mse_loss(net(batch), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
