"""Padding layers."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module
from .utils import _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _PadNd(Module):
    """Pads the last ``_nd`` dimensions; ``padding``: one int, or (left, right[, top, bottom[, front, back]])."""

    __constants__ = ["padding"]
    _nd = 0
    _mode = ""

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._nd)(padding)

    def forward(self, input: Any) -> Any:
        """(*, sizes) -> (*, padded sizes)."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Padding."""
        return f"{self.padding}"


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]
    _nd = 0

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__()
        self.value = value
        self.padding = _ntuple(2 * self._nd)(padding)

    def forward(self, input: Any) -> Any:
        """(*, sizes) -> (*, padded sizes)."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Padding and value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Padding."""
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Any) -> Any:
        """(N, C, sizes) or (C, sizes) -> padded."""
        if input.dim() not in (self._nd + 1, self._nd + 2):
            raise ValueError(f"expected {self._nd + 1}D or {self._nd + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, self._mode)


class ConstantPad1d(_ConstantPadNd):
    """Pads 1 dimension with ``value``."""

    _nd = 1


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads 1 dimension with zeros."""


class ReflectionPad1d(_ReflectionPadNd):
    """Pads 1 dimension by mirroring about the edge element."""

    _nd = 1


class ReplicationPad1d(_ReplicationPadNd):
    """Pads 1 dimension with the edge element."""

    _nd = 1


class CircularPad1d(_CircularPadNd):
    """Pads 1 dimension by wrapping round."""

    _nd = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads 2 dimensions with ``value``."""

    _nd = 2


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads 2 dimensions with zeros."""


class ReflectionPad2d(_ReflectionPadNd):
    """Pads 2 dimensions by mirroring about the edge element."""

    _nd = 2


class ReplicationPad2d(_ReplicationPadNd):
    """Pads 2 dimensions with the edge element."""

    _nd = 2


class CircularPad2d(_CircularPadNd):
    """Pads 2 dimensions by wrapping round."""

    _nd = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads 3 dimensions with ``value``."""

    _nd = 3


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads 3 dimensions with zeros."""


class ReflectionPad3d(_ReflectionPadNd):
    """Pads 3 dimensions by mirroring about the edge element."""

    _nd = 3


class ReplicationPad3d(_ReplicationPadNd):
    """Pads 3 dimensions with the edge element."""

    _nd = 3


class CircularPad3d(_CircularPadNd):
    """Pads 3 dimensions by wrapping round."""

    _nd = 3
