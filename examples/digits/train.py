"""A small CNN on the scikit-learn digits: plain PyTorch, nothing here knows about mindtorch.

    python -m mindtorch examples/digits/train.py        # on mindtorch
    python examples/digits/train.py                     # on PyTorch
"""

import argparse
import os
import struct
import sys
import time

import numpy as np
import torch.nn as nn
import torch.nn.functional as F
from rich.progress import Progress
from torch.utils.data import DataLoader

import torch
from torchvision import datasets, transforms

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")


def write_idx(path, array):
    """One MNIST-style idx file of unsigned bytes."""
    with open(path + ".part", "wb") as f:
        f.write(struct.pack(">BBBB", 0, 0, 8, array.ndim))
        f.write(struct.pack(f">{array.ndim}I", *array.shape))
        f.write(np.ascontiguousarray(array, dtype=np.uint8).tobytes())
    os.replace(path + ".part", path)


def prepare():
    """Write the digits once where torchvision's MNIST looks for them: every fifth sample is for testing."""
    raw = os.path.join(DATA, "MNIST", "raw")
    names = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
    paths = [os.path.join(raw, name) for name in names]
    if all(os.path.exists(p) for p in paths):
        return
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)
    test = np.arange(len(images)) % 5 == 0
    os.makedirs(raw, exist_ok=True)
    for path, array in zip(paths, [images[~test], digits.target[~test], images[test], digits.target[test]]):
        write_idx(path, array)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.drop = nn.Dropout(0.25)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = self.drop(torch.flatten(x, 1))
        return self.fc2(F.relu(self.fc1(x)))


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--losses", help="write the loss of every step to this file")
    args = parser.parse_args()

    prepare()
    torch.manual_seed(args.seed)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.3,), (0.35,))])
    train_set = datasets.MNIST(DATA, train=True, transform=transform)
    test_set = datasets.MNIST(DATA, train=False, transform=transform)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, num_workers=2)
    test_loader = DataLoader(test_set, batch_size=128, num_workers=2)

    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.4)

    losses = []
    start = time.time()
    with Progress(disable=not sys.stdout.isatty()) as bar:
        task = bar.add_task("training", total=args.epochs * len(train_loader))
        for epoch in range(1, args.epochs + 1):
            model.train()
            for x, y in train_loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                bar.advance(task)
            scheduler.step()
            mean = sum(losses[-len(train_loader):]) / len(train_loader)
            print(f"epoch {epoch:2d}  loss {mean:.4f}  test accuracy {evaluate(model, test_loader):.2%}")

    path = os.path.join(DATA, "digits.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    again = Net()
    again.load_state_dict(torch.load(path)["model"])
    accuracy = evaluate(again, test_loader)
    print(f"torch {torch.__version__}: {accuracy:.2%} of the test digits right, {time.time() - start:.1f} s")
    if args.losses:
        with open(args.losses, "w") as f:
            f.writelines(f"{v!r}\n" for v in losses)
    return 0 if accuracy >= 0.97 else 1


if __name__ == "__main__":
    sys.exit(main())
