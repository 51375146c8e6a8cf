"""Clipping gradients by norm or by value."""

from __future__ import annotations

import types
import warnings
from typing import Any

import mindtorch.torch as torch
from mindtorch import log

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def _grads(parameters: Any) -> list[Any]:
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    generator = isinstance(parameters, types.GeneratorType)
    parameters = list(parameters)
    if generator and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    return [p.grad for p in parameters if p.grad is not None]


def _foreach(name: str, foreach: bool | None) -> None:
    log.without_effect(f"torch.nn.utils.{name}", "the numbers are the same", quietly=True, foreach=(foreach, None))


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Any:
    """Norm of all tensors together as if they were one vector: a tensor (). ``foreach`` does not change the numbers."""
    _foreach("get_total_norm", foreach)
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return torch.tensor(0.0)
    with torch.no_grad():
        first = tensors[0].device
        norms = [torch.linalg.vector_norm(t, norm_type).to(first) for t in tensors]
        total = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    if error_if_nonfinite and bool(torch.logical_or(total.isnan(), total.isinf())):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
            "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def _scale(grads: list[Any], max_norm: float, total_norm: Any) -> None:
    with torch.no_grad():
        # clamped, not branched on: the value need not be known here
        factor = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        for g in grads:
            g.mul_(factor.to(g.device))


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """Scale gradients in place so that ``total_norm``, which they have, becomes at most ``max_norm``."""
    _foreach("clip_grads_with_norm_", foreach)
    grads = _grads(parameters)
    if grads:
        _scale(grads, max_norm, total_norm)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scale gradients in place so that their total norm is at most ``max_norm``. Returns the norm before, a tensor ()."""
    grads = _grads(parameters)
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    if grads:
        _scale(grads, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Old name of :func:`clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clip each gradient element to [-clip_value, clip_value] in place."""
    _foreach("clip_grad_value_", foreach)
    value = float(clip_value)
    with torch.no_grad():
        for g in _grads(parameters):
            g.clamp_(min=-value, max=value)
