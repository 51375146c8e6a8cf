"""Flatten and Unflatten."""

from __future__ import annotations

from typing import Any

from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Dimensions ``start_dim`` to ``end_dim`` as one."""

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        """(N, a, b) -> (N, a * b) by default."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Settings."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension ``dim`` split into ``unflattened_size`` (a tuple of ints)."""

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten takes an int as dim, got {type(dim).__name__}: named tensors are not supported")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}")
        for i, n in enumerate(unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(n).__name__} at pos {i}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Any) -> Any:
        """(N, a * b) -> (N, a, b)."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Settings."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
