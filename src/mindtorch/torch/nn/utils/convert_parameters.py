"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mindtorch.torch as torch

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_device(device: Any, p: Any) -> Any:
    if device is not None and p.device != device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return p.device


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """All parameters flattened and joined: (total)."""
    device = None
    parts = []
    for p in parameters:
        device = _check_device(device, p)
        parts.append(p.reshape(-1))
    return torch.cat(parts)


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Make the parameters share the memory of ``vec`` (total), cut in order. TypeError unless ``vec`` is a Tensor."""
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {torch.typename(vec)}")
    device = None
    at = 0
    for p in parameters:
        device = _check_device(device, p)
        n = p.numel()
        p.data = vec[at : at + n].view_as(p).data
        at += n
