"""Sources of small nets that run in either framework: ``torch`` is whichever the test binds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NETS = '''
import dataclasses
nn, F = torch.nn, torch.nn.functional

@dataclasses.dataclass
class Out:
    logits: object
    hidden: object

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x, *, scale=None):
        y = self.fc(x)
        return {"y": y if scale is None else y * scale, "x": x}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2)
        self.relu = nn.ReLU()
        self.inner = Inner()
        self.head = nn.Linear(8, 3)
    def forward(self, x):
        x = self.relu(self.bn(self.conv(x)))
        x = F.max_pool2d(x, 2).flatten(1)
        x = self.relu(self.inner(x, scale=torch.full((8,), 0.5))["y"])
        return Out(self.head(x), x)
'''


def nets(torch: Any, source: str = NETS) -> SimpleNamespace:
    """The classes of a source, on one framework."""
    scope: dict[str, Any] = {"torch": torch, "__name__": "nets"}
    exec(compile(source, "<nets>", "exec", dont_inherit=True), scope)
    return SimpleNamespace(**scope)
