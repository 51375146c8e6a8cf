"""Weights saved with two dumps, compared by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.tools import values
from mindtorch.tools.compare.measure import Measured, Tolerance, measure
from mindtorch.tools.compare.read import Datum
from mindtorch.tools.dump.names import Item


class _Held(Datum):
    """A value that is in memory already."""

    def __init__(self, name: str, a: np.ndarray) -> None:
        s = values.statistics(a)
        super().__init__(
            Item("Weight", name, 0, "forward", "output", ""), f"torch.{a.dtype.name}", a.shape, s.max, s.min, s.mean, s.norm, "", ""
        )
        self._a = a

    def load(self) -> np.ndarray | None:
        """The values."""
        return self._a


def read_weights(path: str) -> dict[str, np.ndarray]:
    """Name -> array of a ``.pth`` file with a state dict; works without PyTorch."""
    import mindtorch.torch as torch

    state: Any = torch.load(path, map_location="cpu")
    return {name: values.to_array(t) for name, t in state.items() if values.is_tensor(t)}


def compare_weights(a: str, b: str, tolerance: Tolerance) -> list[tuple[str, str, Measured | None]]:
    """Rows by name; "None" and no numbers where a side lacks the name."""
    left, right = read_weights(a), read_weights(b)
    out: list[tuple[str, str, Measured | None]] = []
    for name, x in left.items():
        y = right.get(name)
        out.append((name, name, measure(_Held(name, x), _Held(name, y), tolerance)) if y is not None else (name, "None", None))
    return out + [("None", name, None) for name in right if name not in left]
