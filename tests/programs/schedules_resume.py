"""Schedules (warm-up, cosine, plateau) and a checkpoint: the run is stopped in the middle, saved, and resumed elsewhere."""

import json
import os
import tempfile

from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, ReduceLROnPlateau, SequentialLR

import torch
from torch import nn


def build():
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.SiLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
    warm = LinearLR(optimizer, start_factor=0.1, total_iters=5)
    scheduler = SequentialLR(optimizer, [warm, CosineAnnealingLR(optimizer, T_max=25)], milestones=[5])
    return model, optimizer, scheduler


def train(model, optimizer, scheduler, data, steps, losses, rates):
    x, y = data
    loss_fn = nn.SmoothL1Loss()
    for _ in range(steps):
        pick = torch.randint(0, len(x), (32,))
        loss = loss_fn(model(x[pick]).squeeze(-1), y[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        rates.append(optimizer.param_groups[0]["lr"])


torch.manual_seed(2024)
x = torch.randn(256, 10)
data = (x, (x[:, 0] * x[:, 1] + x[:, 2].sin()).detach())
model, optimizer, scheduler = build()
losses, rates = [], []
train(model, optimizer, scheduler, data, 12, losses, rates)
path = os.path.join(tempfile.mkdtemp(), "checkpoint.pth.tar")
torch.save(
    {
        "step": 12,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng": torch.get_rng_state(),
    },
    path,
)
torch.manual_seed(0)
model, optimizer, scheduler = build()
saved = torch.load(path, map_location="cpu", weights_only=False)
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
scheduler.load_state_dict(saved["scheduler"])
torch.set_rng_state(saved["rng"])
train(model, optimizer, scheduler, data, 30 - saved["step"], losses, rates)
plateau = ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
for value in (1.0, 1.0, 1.0, 0.5, 0.6, 0.6):
    plateau.step(value)
    rates.append(optimizer.param_groups[0]["lr"])
model.eval()
with torch.no_grad():
    error = (model(x).squeeze(-1) - data[1]).abs().mean().item()
os.remove(path)
print(json.dumps({"losses": losses, "final": [error, *rates]}))
