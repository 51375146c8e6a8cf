"""A checkpoint in every step. With the argument "clean" the script is written well."""

import os
import sys
import tempfile

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)
x, y = torch.randn(64, 64), torch.randn(64, 256)
net = nn.Linear(64, 256)
optimizer = torch.optim.Adam(net.parameters())
with tempfile.TemporaryDirectory() as folder:
    for step in range(40):
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not CLEAN:
            torch.save({"net": net.state_dict(), "step": step}, os.path.join(folder, "last.pth"))  # slow
    torch.save({"net": net.state_dict(), "step": step}, os.path.join(folder, "last.pth"))
