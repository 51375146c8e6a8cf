"""Evaluation that records a graph. With the argument "clean" the script is written well."""

import sys

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(640, 32), torch.randint(0, 4, (640,)))
loader = torch.utils.data.DataLoader(data, batch_size=32)
block = [nn.Linear(32, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.1)]
net = nn.Sequential(*[layer for _ in range(12) for layer in block], nn.Linear(32, 4))
net.eval()
hits = 0
with torch.set_grad_enabled(not CLEAN):
    for x, y in loader:
        hits += (net(x).argmax(1) == y).sum().item()  # slow
print(hits)
