"""Counting hits element by element. With the argument "clean" the script is written well."""

import sys

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)
x, y = torch.randn(512, 64), torch.randint(0, 10, (512,))
net = nn.Linear(64, 10)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    guess = out.argmax(1)
    if CLEAN:
        hits = (guess == y).sum().item()
    else:
        hits = 0
        for i in range(len(y)):
            hits += guess[i].item() == y[i].item()  # slow
