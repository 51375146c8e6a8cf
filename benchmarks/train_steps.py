"""Whole training steps, mindtorch against PyTorch, each at its better of one and two threads: ``python benchmarks/train_steps.py``."""

from __future__ import annotations

import sys
from typing import Any

from side_by_side import compare, serve


def _step(torch: Any, net: Any, make_loss: Any, opt: Any) -> Any:
    def step() -> None:
        opt.zero_grad()
        make_loss().backward()
        opt.step()

    return step


def build(torch: Any) -> dict[str, Any]:
    """MLP, LeNet (batch 64), a 2-layer encoder, an LSTM, ResNet18 (64x64, batch 8)."""
    nn = torch.nn
    torch.manual_seed(0)
    ce = nn.CrossEntropyLoss()
    mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    xm, ym = torch.randn(32, 64), torch.randint(0, 10, (32,))
    lenet = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    xl, yl = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True), 2)
    xe = torch.randn(16, 64, 128)
    lstm, head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)
    xs, ys = torch.randn(16, 32, 32), torch.randint(0, 10, (16,))
    tv = __import__("mindtorch.torchvision" if torch.__name__.startswith("mindtorch") else "torchvision_free", fromlist=["x"])
    resnet = tv.models.resnet18(num_classes=10)
    xr, yr = torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
    sgd = torch.optim.SGD
    both = list(lstm.parameters()) + list(head.parameters())
    return {
        "mlp": _step(torch, mlp, lambda: ce(mlp(xm), ym), torch.optim.Adam(mlp.parameters())),
        "lenet": _step(torch, lenet, lambda: ce(lenet(xl), yl), sgd(lenet.parameters(), 0.01)),
        "transformer": _step(torch, enc, lambda: enc(xe).pow(2).mean(), torch.optim.Adam(enc.parameters(), 1e-4)),
        "lstm": _step(torch, lstm, lambda: ce(head(lstm(xs)[0][:, -1]), ys), sgd(both, 0.01)),
        "resnet18": _step(torch, resnet, lambda: ce(resnet(xr), yr), sgd(resnet.parameters(), 0.01)),
    }


if __name__ == "__main__":
    if "--serve" in sys.argv:
        if sys.argv[2] == "torch":
            import importlib
            import types

            import torch  # noqa: F401 - loaded so that its modules can be renamed

            # torchvision cannot be installed beside this PyTorch: our resnet file, which is plain PyTorch code, runs on it.
            names = [n for n in sys.modules if n == "torch" or n.startswith("torch.")]
            sys.modules.update({f"mindtorch.{n}": sys.modules[n] for n in names})
            holder = types.ModuleType("torchvision_free")
            holder.models = importlib.import_module("mindtorch.torchvision.models")  # type: ignore[attr-defined]
            sys.modules["torchvision_free"] = holder
        serve(build)
        sys.exit()
    best: dict[str, list[float]] = {}
    for threads in (1, 2):
        for k, (a, b) in compare(__file__, threads, 0.2, 7).items():
            old = best.get(k, [9e9, 9e9])
            best[k] = [min(old[0], a), min(old[1], b)]
    for k, (a, b) in best.items():
        print(f"{k:12s} mindtorch {a * 1e3:8.2f} ms   PyTorch {b * 1e3:8.2f} ms   ratio {a / b:.2f}")
