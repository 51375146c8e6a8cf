"""Whole training steps, mindtorch against PyTorch: time, each at its better of one and two threads, and peak memory.

``python benchmarks/train_steps.py [--json FILE]``. Memory is measured in a process per program and side: the peak resident
size of 30 steps, in all and above what was resident once everything the program needs was imported (for mindtorch that
includes MindSpore and numba where the program used them).
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

from side_by_side import argument, compare, serve, write_json

BOUNDS = {"mlp": 0.8, "lenet": 1.5, "transformer": 1.4, "lstm": 2.0, "resnet18": 2.5}
"""Largest time ratio aimed at; for memory it is 1.5 everywhere."""
MEMORY_BOUND = 1.5
Step = Callable[[], None]


def _step(net: Any, make_loss: Any, opt: Any) -> Step:
    def step() -> None:
        opt.zero_grad()
        make_loss().backward()
        opt.step()

    return step


def mlp(torch: Any) -> Step:
    """Three linear layers, batch 32, Adam."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    x, y, ce = torch.randn(32, 64), torch.randint(0, 10, (32,)), nn.CrossEntropyLoss()
    return _step(net, lambda: ce(net(x), y), torch.optim.Adam(net.parameters()))


def lenet(torch: Any) -> Step:
    """LeNet, batch 64, SGD."""
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    x, y, ce = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)), nn.CrossEntropyLoss()
    return _step(net, lambda: ce(net(x), y), torch.optim.SGD(net.parameters(), 0.01))


def transformer(torch: Any) -> Step:
    """Encoder of two layers, d=128, 64 positions, batch 16, Adam."""
    nn = torch.nn
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True), 2)
    x = torch.randn(16, 64, 128)
    return _step(net, lambda: net(x).pow(2).mean(), torch.optim.Adam(net.parameters(), 1e-4))


def lstm(torch: Any) -> Step:
    """LSTM of 64 units over 32 steps, batch 16, SGD."""
    nn = torch.nn
    net, head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)
    x, y, ce = torch.randn(16, 32, 32), torch.randint(0, 10, (16,)), nn.CrossEntropyLoss()
    both = list(net.parameters()) + list(head.parameters())
    return _step(net, lambda: ce(head(net(x)[0][:, -1]), y), torch.optim.SGD(both, 0.01))


def resnet18(torch: Any) -> Step:
    """ResNet18 on 64x64 images, batch 8, SGD."""
    models = importlib.import_module("mindtorch.torchvision" if torch.__name__.startswith("mindtorch") else "torchvision_free").models
    net, ce = models.resnet18(num_classes=10), torch.nn.CrossEntropyLoss()
    x, y = torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
    return _step(net, lambda: ce(net(x), y), torch.optim.SGD(net.parameters(), 0.01))


PROGRAMS = {"mlp": mlp, "lenet": lenet, "transformer": transformer, "lstm": lstm, "resnet18": resnet18}


def build(torch: Any) -> dict[str, Step]:
    """Every program's step."""
    out = {}
    for name, make in PROGRAMS.items():
        torch.manual_seed(0)
        out[name] = make(torch)
    return out


def _models_for_pytorch() -> None:
    """torchvision cannot be installed beside this PyTorch: our resnet file, which is plain PyTorch code, runs on it."""
    importlib.import_module("torch")
    names = [n for n in sys.modules if n == "torch" or n.startswith("torch.")]
    sys.modules.update({f"mindtorch.{n}": sys.modules[n] for n in names})
    holder = types.ModuleType("torchvision_free")
    holder.models = importlib.import_module("mindtorch.torchvision.models")  # type: ignore[attr-defined]
    sys.modules["torchvision_free"] = holder


# ------------------------------------------------------------------------------------------ memory
def _resident(key: str) -> float:
    """``VmRSS`` or ``VmHWM`` of this process in MB."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key)) / 1024


def _engines(load: str) -> None:
    if "mindspore" in load:
        importlib.import_module("mindtorch.engine.mindspore.door").load()
    if "numba" in load:
        importlib.import_module("mindtorch.engine.host.jit")._load()


def _memory_child(package: str, program: str, load: str, threads: str) -> None:
    """Print what is resident: after the imports in ``load`` (no program), or at the peak of 30 steps."""
    torch = importlib.import_module(package)
    torch.set_num_threads(int(threads))
    if program == "none":
        _engines(load)
        print(json.dumps({"resident": _resident("VmRSS")}))
        return
    if package == "torch" and program == "resnet18":
        _models_for_pytorch()
    torch.manual_seed(0)
    step = PROGRAMS[program](torch)
    for _ in range(30):
        step()
    used = [name for name in ("mindspore", "numba") if name in sys.modules and package != "torch"]
    print(json.dumps({"resident": _resident("VmHWM"), "used": used}))


def _ask(package: str, program: str, load: str, threads: int) -> dict[str, Any]:
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    cmd = [sys.executable, __file__, "--memory", package, program, load, str(threads)]
    return json.loads(subprocess.run(cmd, env=env, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def memory() -> dict[str, dict[str, Any]]:
    """Per program, on one and on two threads (two may choose MindSpore's convolution): peaks and imports in MB, ratios."""
    out: dict[str, dict[str, Any]] = {}
    for threads in (1, 2):
        bases: dict[str, float] = {"torch": _ask("torch", "none", "", threads)["resident"]}
        for name in PROGRAMS:
            ours, theirs = _ask("mindtorch.torch", name, "", threads), _ask("torch", name, "", threads)["resident"]
            load = "+".join(ours["used"])
            if load not in bases:
                bases[load] = _ask("mindtorch.torch", "none", load, threads)["resident"]
            above = ours["resident"] - bases[load], theirs - bases["torch"]
            out[f"{name}/{threads}"] = {
                "mindtorch": ours["resident"], "mindtorch_imports": bases[load], "engines": load, "pytorch": theirs,
                "pytorch_imports": bases["torch"], "ratio_total": ours["resident"] / theirs, "ratio_above_imports": above[0] / above[1],
            }  # fmt: skip
    return out


# ------------------------------------------------------------------------------------------ the table
def times(rounds: int = 9) -> dict[str, list[float]]:
    """Seconds of (mindtorch, PyTorch), each at its better of one and two threads."""
    best: dict[str, list[float]] = {}
    for threads in (1, 2):
        for k, (a, b) in compare(__file__, threads, 0.1, rounds, statistic=min).items():
            old = best.get(k, [9e9, 9e9])
            best[k] = [min(old[0], a), min(old[1], b)]
    return best


def main() -> None:
    """Print both tables and write them when ``--json FILE`` is given."""
    result: dict[str, Any] = {"time": {}, "memory": {}}
    if "--memory-only" not in sys.argv:
        for k, (a, b) in times().items():
            result["time"][k] = {"mindtorch": a, "pytorch": b, "ratio": a / b, "bound": BOUNDS[k]}
            print(f"{k:12s} mindtorch {a * 1e3:8.2f} ms   PyTorch {b * 1e3:8.2f} ms   ratio {a / b:.2f} (bound {BOUNDS[k]})")
    if "--no-memory" not in sys.argv:
        result["memory"] = memory()
        print(f"peak resident memory, MB (imports in brackets); the bound of {MEMORY_BOUND} is on the total")
        for k, m in result["memory"].items():
            print(
                f"{k:12s} mindtorch {m['mindtorch']:7.0f} ({m['mindtorch_imports']:.0f} {m['engines'] or 'NumPy only'})   "
                f"PyTorch {m['pytorch']:7.0f} ({m['pytorch_imports']:.0f})   ratio {m['ratio_total']:.2f}, above imports "
                f"{m['ratio_above_imports']:.2f}"
            )
    write_json("train_steps", result)


if __name__ == "__main__":
    if "--serve" in sys.argv:
        if argument("--serve") == "torch":
            _models_for_pytorch()
        serve(build)
    elif "--memory" in sys.argv:
        _memory_child(*sys.argv[2:6])
    else:
        main()
