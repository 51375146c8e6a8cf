"""Puts methods, properties and operators of the table on the Tensor class. The class itself imports no op."""

from __future__ import annotations

import sys

from mindtorch.core.tensor import Parameter, Tensor
from mindtorch.ops.table import SPACES


def bind() -> None:
    """Bind everything registered in namespace "Tensor" and every ``OPERATORS`` dict of a family file."""
    for name, fn in SPACES["Tensor"].items():
        if name == "__repr__":
            Tensor.__repr__ = fn  # type: ignore[method-assign]
            continue
        setattr(Tensor, name, fn)
    for mod in list(sys.modules.values()):
        if getattr(mod, "__name__", "").startswith("mindtorch.ops."):
            for name, fn in getattr(mod, "OPERATORS", {}).items():
                setattr(Tensor, name, fn)
    Parameter.__hash__ = object.__hash__  # type: ignore[method-assign]
