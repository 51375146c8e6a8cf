"""What recording costs: a ResNet18 training step plain, with a statistics-only dump, and with a full dump; and more calls.

    python benchmarks/dump_cost.py [--frame mindtorch|pytorch] [--batch 8] [--size 64] [--rounds 5]

Plain and recorded steps take turns, so that a busy machine slows both; the medians are compared.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from typing import Any


def load(frame: str) -> Any:
    """torch of a framework."""
    if frame == "mindtorch":
        from mindtorch.tools import mstorch_enable  # noqa: F401 - import torch means mindtorch from here on
    import torch

    return torch


def resnet18(torch: Any) -> Any:
    """The network, written with ``torch.nn`` alone: torchvision need not be installed."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, wide: int, out: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(wide, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
            self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
            self.relu = nn.ReLU(inplace=True)
            self.down = None
            if stride > 1:
                self.down = nn.Sequential(nn.Conv2d(wide, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + (x if self.down is None else self.down(x)))

    blocks, wide = [], 64
    for out, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        blocks.append(Block(wide, out, stride))
        wide = out
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def resnet_step(torch: Any, batch: int, size: int) -> tuple[Any, Any]:
    """The net, and one training step of it."""
    torch.manual_seed(0)
    net = resnet18(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return net, step


def timed(work: Any) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratios(net: Any, step: Any, rounds: int, folder: str) -> None:
    """Print the plain step and each kind of dump beside it."""
    from mindtorch.tools import migrator

    for _ in range(3):
        step()
    for kind in ("statistics", "all"):
        plain, recorded = [], []
        for n in range(rounds):
            plain.append(timed(step))
            migrator.api_dump_init(net, f"{folder}/{kind}{n}", retain_backward=True)
            migrator.api_dump_start(dump_type=kind)
            recorded.append(timed(step))
            migrator.api_dump_stop()
            shutil.rmtree(f"{folder}/{kind}{n}")
        a, b = statistics.median(plain), statistics.median(recorded)
        print(f"{kind:10}  plain {a * 1e3:8.1f} ms   recorded {b * 1e3:8.1f} ms   {b / a:5.2f} times")


def growth(torch: Any, folder: str) -> None:
    """Print the time of a call for more and more calls in one dump."""
    from mindtorch.tools import migrator

    x = torch.ones(4, 4)
    for calls in (1000, 4000, 16000):
        migrator.api_dump_init(torch.nn.Identity(), f"{folder}/n{calls}", retain_backward=False)
        migrator.api_dump_start(dump_type="statistics")

        def work(calls: int = calls) -> None:
            for _ in range(calls):
                torch.relu(x)

        seconds = timed(work) + timed(migrator.api_dump_stop)
        print(f"{calls:6} calls  {seconds / calls * 1e6:7.1f} us a call")


def main() -> None:
    """Measure and print."""
    p = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    p.add_argument("--frame", choices=("mindtorch", "pytorch"), default="mindtorch")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--rounds", type=int, default=5)
    o = p.parse_args()
    torch = load(o.frame)
    print(f"{o.frame}, ResNet18, batch {o.batch}, {o.size} x {o.size}, Python {sys.version.split()[0]}")
    folder = tempfile.mkdtemp(prefix="dump-cost-")
    try:
        net, step = resnet_step(torch, o.batch, o.size)
        ratios(net, step, o.rounds, folder)
        growth(torch, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
