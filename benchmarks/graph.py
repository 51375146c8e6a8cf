"""Eager against graph (and PyTorch's eager mode): ``python benchmarks/graph.py [rounds] [--torch] [--mindspore] [--only NAME]``.

For each network: the first call as a graph, then inference (``no_grad``), a training step whose model is a
graph (forward, backward, SGD), and a training step that is one graph as a whole; the sides are asked in turn.
``--mindspore`` adds the ms.jit backend. ``auto`` is what the default backend settled on.
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


def whole(torch: Any, module: Any, x: Any, wrap: Callable[[Any], Any]) -> Callable[[], Any]:
    """One training step as one function, given to ``wrap``."""
    opt = torch.optim.SGD(module.parameters(), 1e-4)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    call = wrap(step)
    return lambda: call(x)


def steady(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Milliseconds of each, asked in turn after the calls that capture, compile and choose.

    The lower quartile: other work on the machine only ever adds. The order changes from round to round.
    """
    times: dict[str, list[float]] = {k: [] for k in runs}
    names = list(runs)
    for i in range(rounds + 12):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            start = time.perf_counter()
            runs[name]()
            if i >= 12:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {k: statistics.quantiles(v, n=4)[0] for k, v in times.items()}


def first(call: Callable[[], Any]) -> float:
    """Milliseconds until a graph answers from its program: the call that captures, and the one that compiles."""
    start = time.perf_counter()
    call()
    call()
    return 1e3 * (time.perf_counter() - start)


def measure(name: str, args: argparse.Namespace, libs: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Times of one network: kind of run -> side -> milliseconds."""
    import mindtorch

    torch = libs["ours"]
    module, x = networks(torch)[name]
    module.train()
    backends = ["host", *(["mindspore"] if args.mindspore else []), "auto"]
    graphs = {b: mindtorch.graph(module, backend=b) for b in backends}
    steps = {b: whole(torch, module, x, lambda f, b=b: mindtorch.graph(f, backend=b)) for b in backends}
    sides: dict[str, tuple[Any, Any, Any, Any]] = {"eager": (torch, module, module, x)}
    sides.update((b, (torch, module, g, x)) for b, g in graphs.items())
    at_once: dict[str, Callable[[], Any]] = {"eager": whole(torch, module, x, lambda f: f), **steps}
    if args.torch:
        theirs, xt = networks(libs["torch"])[name]
        sides["PyTorch"] = (libs["torch"], theirs.train(), theirs, xt)
        at_once["PyTorch"] = whole(libs["torch"], theirs, xt, lambda f: f)
    out = {"first calls": {b: first(infer(torch, graphs[b], x)) for b in backends if b != "auto"}}
    out["first steps"] = {b: first(steps[b]) for b in backends if b != "auto"}
    out["inference"] = steady({k: infer(t, c, x) for k, (t, _, c, x) in sides.items()}, args.rounds)
    out["training"] = steady({k: train(t, m, c, x) for k, (t, m, c, x) in sides.items()}, args.rounds)
    out["whole step"] = steady(at_once, args.rounds)
    return out


def main() -> None:
    """Print the times, network by network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("--torch", action="store_true", help="measure PyTorch's eager mode too")
    parser.add_argument("--mindspore", action="store_true", help="measure the ms.jit backend too")
    parser.add_argument("--only", default="", help="only networks whose name contains this")
    args = parser.parse_args()
    libs = {}
    if args.torch:  # first: libgomp is its own
        libs["torch"] = importlib.import_module("torch")
        libs["torch"].set_num_threads(1)
    libs["ours"] = importlib.import_module("mindtorch.torch")
    for name in networks(libs["ours"]):
        if args.only in name:
            print(name, flush=True)
            for kind, times in measure(name, args, libs).items():
                print(f"  {kind:<11}" + "".join(f"{k} {v:9.3f} ms   " for k, v in times.items()), flush=True)


if __name__ == "__main__":
    main()
