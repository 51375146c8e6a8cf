"""A PyTorch program as its author would have left it: nothing in it knows of mindtorch. Prints its losses as json."""

import json
import math
import tempfile

import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet18

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))))


class Words(nn.Module):
    def __init__(self, n=50, d=32):
        super().__init__()
        self.embed = nn.Embedding(n, d)
        self.register_buffer("place", torch.sin(torch.arange(12)[:, None] * torch.exp(-math.log(1e4) * torch.arange(d) / d)))
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.1, batch_first=True)
        self.encoder, self.out = nn.TransformerEncoder(layer, 2), nn.Linear(d, n)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.out(self.encoder(self.embed(x) + self.place, mask=mask, is_causal=True))


def lenet():
    torch.manual_seed(0)
    images, labels = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True, pin_memory=True)
    net = LeNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
    losses = []
    for _ in range(2):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            opt.zero_grad(set_to_none=True)
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
    with tempfile.TemporaryFile() as f:
        torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, f)
        f.seek(0)
        kept = torch.load(f, map_location=device)
    again = LeNet().to(device)
    again.load_state_dict(kept["net"])
    again.eval()
    with torch.inference_mode():
        losses.append(F.cross_entropy(again(images.to(device)), labels.to(device)).item())
    return losses


def resnet():
    torch.manual_seed(1)
    net = resnet18(num_classes=7).to(device, memory_format=torch.channels_last)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    x, y = torch.randn(4, 3, 32, 32).to(device, memory_format=torch.channels_last), torch.arange(4).to(device)
    losses = []
    for _ in range(3):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        losses.append(loss.item())
    return losses


def words():
    torch.manual_seed(2)
    net = Words().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    x = torch.randint(0, 50, (8, 13)).to(device)
    losses = []
    for _ in range(4):
        opt.zero_grad()
        loss = F.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    return losses


def mixed():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(32, 16).to(device), torch.randint(0, 4, (32,)).to(device)
    losses = []
    for _ in range(4):
        opt.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2)) if device.type == "cuda" else (None, None)
    if start:
        start.record()
    got = {f.__name__: f() for f in (lenet, resnet, words, mixed)}
    if start:
        end.record()
        torch.cuda.synchronize()
        assert start.elapsed_time(end) > 0 and torch.cuda.max_memory_allocated() > torch.cuda.memory_allocated()
    print(json.dumps({"device": device.type, **got}))
