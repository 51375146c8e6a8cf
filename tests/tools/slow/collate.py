"""A collate function that goes through every element. With the argument "clean" the script is written well."""

import sys

import numpy as np

import torch
from torch import nn

CLEAN = "clean" in sys.argv[1:]
torch.manual_seed(0)


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = np.random.default_rng(0).standard_normal((1024, 64)).astype(np.float32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], i % 10


def together(batch):
    if CLEAN:
        return torch.from_numpy(np.stack([row for row, _ in batch])), torch.tensor([label for _, label in batch])
    rows = torch.tensor([[float(value) for value in row] for row, _ in batch])  # slow
    labels = torch.tensor([label for _, label in batch])
    return rows, labels


loader = torch.utils.data.DataLoader(Rows(), batch_size=64, collate_fn=together)
net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
