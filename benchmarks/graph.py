"""Eager against graph (and PyTorch's eager mode): ``python benchmarks/graph.py [rounds] [--torch] [--mindspore]``.

For each network: the first call as a graph, then medians of inference (``no_grad``) and of a training step (forward,
backward, SGD), the sides asked in turn. ``--mindspore`` adds the ms.jit backend where it can compile the network.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any


def networks(torch: Any) -> dict[str, tuple[Any, Any]]:
    """name -> (module, input)."""
    nn = torch.nn
    lenet = nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip

    def layer(width: int) -> Any:
        return nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)

    return {
        "MLP 64-64-10, batch 16": (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), torch.randn(16, 64)),
        "MLP 784-512-10, batch 128": (nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)), torch.randn(128, 784)),
        "LeNet, batch 32": (lenet, torch.randn(32, 1, 28, 28)),
        "encoder 2x32, 4x10 tokens": (nn.TransformerEncoder(layer(32), 2), torch.randn(4, 10, 32)),
        "encoder 2x128, 8x64 tokens": (nn.TransformerEncoder(layer(128), 2), torch.randn(8, 64, 128)),
    }


def infer(torch: Any, call: Any, x: Any) -> Callable[[], Any]:
    """One forward pass without gradients."""

    def run() -> None:
        with torch.no_grad():
            call(x)

    return run


def train(torch: Any, module: Any, call: Any, x: Any) -> Callable[[], Any]:
    """One training step."""
    opt = torch.optim.SGD(module.parameters(), 1e-4)

    def run() -> None:
        opt.zero_grad()
        call(x).square().mean().backward()
        opt.step()

    return run


def medians(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, asked in turn after five warm-up calls."""
    times: dict[str, list[float]] = {k: [] for k in runs}
    for i in range(rounds + 5):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if i >= 5:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {k: statistics.median(v) for k, v in times.items()}


def measure(name: str, args: argparse.Namespace, libs: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Times of one network: kind of run -> side -> milliseconds."""
    import mindtorch

    torch = libs["ours"]
    module, x = networks(torch)[name]
    module.train()
    sides: dict[str, tuple[Any, Any, Any, Any]] = {"eager": (torch, module, module, x)}
    graph = mindtorch.graph(module, backend="host")
    sides["graph"] = (torch, module, graph, x)
    if args.mindspore:
        sides["graph (ms.jit)"] = (torch, module, mindtorch.graph(module, backend="mindspore"), x)
    if args.torch:
        theirs, xt = networks(libs["torch"])[name]
        sides["PyTorch eager"] = (libs["torch"], theirs.train(), theirs, xt)
    start = time.perf_counter()
    graph(x)
    first = {"graph": 1e3 * (time.perf_counter() - start)}
    return {
        "first call": first,
        "inference": medians({k: infer(t, c, x) for k, (t, _, c, x) in sides.items()}, args.rounds),
        "training": medians({k: train(t, m, c, x) for k, (t, m, c, x) in sides.items()}, args.rounds),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("--torch", action="store_true", help="measure PyTorch's eager mode too")
    parser.add_argument("--mindspore", action="store_true", help="measure the ms.jit backend too")
    args = parser.parse_args()
    libs = {"ours": importlib.import_module("mindtorch.torch")}
    if args.torch:
        libs["torch"] = importlib.import_module("torch")
        libs["torch"].set_num_threads(1)
    for name in networks(libs["ours"]):
        print(name)
        for kind, times in measure(name, args, libs).items():
            print(f"  {kind:<11}" + "".join(f"{k} {v:9.3f} ms   " for k, v in times.items()))


if __name__ == "__main__":
    main()
