"""Folding batch normalisation in evaluation into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

import mindtorch.torch as torch

from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _need_eval(first: Any, bn: Any, what: str) -> None:
    if first.training or bn.training:
        raise AssertionError(f"Fusion only for eval! ({what} and batch norm must both be in evaluation mode)")


def _fold(w: Any, b: Any, mean: Any, var: Any, eps: float, bn_w: Any, bn_b: Any, shape: list[int]) -> tuple[Any, Any]:
    bias = torch.zeros_like(mean) if b is None else b
    bn_w = torch.ones_like(mean) if bn_w is None else bn_w
    bn_b = torch.zeros_like(mean) if bn_b is None else bn_b
    rstd = torch.rsqrt(var + eps)
    weight = (w * (bn_w * rstd).reshape(shape)).to(dtype=w.dtype)
    bias = ((bias - mean) * rstd * bn_w + bn_b).to(dtype=w.dtype if b is None else b.dtype)
    return Parameter(weight, w.requires_grad), Parameter(bias, True if b is None else b.requires_grad)


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Any, Any]:
    """Weight and bias of a convolution that does what convolution and batch norm did."""
    ones = [1] * (conv_w.dim() - 2)
    return _fold(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [1, -1, *ones] if transpose else [-1, 1, *ones])


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of ``conv`` with ``bn`` folded in. Both must be in evaluation mode."""
    _need_eval(conv, bn, "convolution")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fusion needs a batch norm that tracks running statistics")
    out = copy.deepcopy(conv)
    out.weight, out.bias = fuse_conv_bn_weights(
        out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return out


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Any, Any]:
    """Weight and bias of a linear layer that does what linear and batch norm did."""
    return _fold(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of ``linear`` with ``bn`` folded in. Both must be in evaluation mode."""
    _need_eval(linear, bn, "linear")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    out = copy.deepcopy(linear)
    out.weight, out.bias = fuse_linear_bn_weights(
        out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return out
