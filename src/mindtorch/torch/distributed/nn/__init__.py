"""Collectives with gradients."""

from __future__ import annotations

from .functional import all_gather, all_reduce, all_to_all_single, broadcast, reduce_scatter

__all__ = ["all_gather", "all_reduce", "all_to_all_single", "broadcast", "reduce_scatter"]
