"""Weights of samples that come from NumPy in float64. With the argument "clean" the script is written well."""

import sys

import numpy as np

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)
x, y = torch.randn(256, 64), torch.randn(256, 1024)
weights = torch.from_numpy(np.random.default_rng(0).random((256, 1024)))
if CLEAN:
    weights = weights.float()
net = nn.Linear(64, 1024)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    error = (net(x) - y) * weights  # slow
    loss = (torch.tanh(error) * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
