"""Overhead of 24 small operations, mindtorch against PyTorch on one thread: ``python benchmarks/overhead.py``."""

from __future__ import annotations

import math
import sys
from typing import Any

from side_by_side import compare, serve, write_json


def build(torch: Any) -> dict[str, Any]:
    """The operations on 8x16 to 16x32 tensors."""
    F = __import__(torch.__name__ + ".nn.functional", fromlist=["x"])
    torch.manual_seed(0)
    x, y, w, b = torch.randn(16, 32), torch.randn(16, 32), torch.randn(24, 32), torch.randn(24)
    m, v = torch.randn(32, 16), torch.randn(32)
    idx, lab, cond = torch.tensor([3, 1, 2, 0]), torch.randint(0, 32, (16,)), x > 0
    table, words = torch.randn(50, 16), torch.randint(0, 50, (4, 8))
    z = torch.zeros(16, 32)
    row = torch.randn(1, 32)
    net = torch.nn.Sequential(
        torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )

    def mlp_backward() -> None:
        net.zero_grad()
        net(x).sum().backward()

    return {
        "add": lambda: x + y, "mul": lambda: x * y, "getitem": lambda: x[1:3], "view": lambda: x.view(-1),
        "matmul": lambda: x @ m, "sum": lambda: x.sum(), "softmax": lambda: F.softmax(x, -1),
        "layer_norm": lambda: F.layer_norm(x, (32,), v, v), "linear": lambda: F.linear(x, w, b), "relu": lambda: F.relu(x),
        "cat": lambda: torch.cat([x, y]), "stack": lambda: torch.stack([x, y]), "where": lambda: torch.where(cond, x, y),
        "index_select": lambda: torch.index_select(x, 0, idx), "copy_": lambda: z.copy_(x), "add_": lambda: z.add_(y),
        "mean": lambda: x.mean(-1), "exp": lambda: x.exp(), "transpose": lambda: x.transpose(0, 1),
        "unsqueeze": lambda: x.unsqueeze(0), "expand": lambda: row.expand(16, 32), "cross_entropy": lambda: F.cross_entropy(x, lab),
        "embedding": lambda: F.embedding(words, table), "mlp_backward": mlp_backward,
    }  # fmt: skip


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve(build)
        sys.exit()
    got = compare(__file__, 1)
    ratios = {k: a / b for k, (a, b) in got.items()}
    for k, (a, b) in sorted(got.items(), key=lambda kv: -ratios[kv[0]]):
        print(f"{k:14s} mindtorch {a * 1e6:8.2f} us   PyTorch {b * 1e6:8.2f} us   ratio {ratios[k]:.2f}")
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    print(f"geometric mean {mean:.2f}, worst {max(ratios.values()):.2f}")
    cases = {k: {"mindtorch": a, "pytorch": b, "ratio": ratios[k]} for k, (a, b) in got.items()}
    write_json("overhead", {"geometric_mean": mean, "worst": max(ratios.values()), "cases": cases})
