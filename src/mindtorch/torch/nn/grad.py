"""Gradients of convolutions as functions: ``convNd_input`` and ``convNd_weight``."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from . import functional as F

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _wrt_input(conv: Any, size: Any, weight: Any, grad: Any, *settings: Any) -> Any:
    with torch.enable_grad():
        x = torch.zeros(tuple(size), dtype=grad.dtype, device=grad.device, requires_grad=True)
        out = conv(x, weight.detach(), None, *settings)
    return torch.autograd.grad(out, x, grad.detach())[0]


def _wrt_weight(conv: Any, input: Any, size: Any, grad: Any, *settings: Any) -> Any:
    with torch.enable_grad():
        w = torch.zeros(tuple(size), dtype=grad.dtype, device=grad.device, requires_grad=True)
        out = conv(input.detach(), w, None, *settings)
    return torch.autograd.grad(out, w, grad.detach())[0]


def conv1d_input(
    input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Gradient of conv1d with respect to an input of shape ``input_size``."""
    return _wrt_input(F.conv1d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Gradient of conv1d with respect to a weight of shape ``weight_size``."""
    return _wrt_weight(F.conv1d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Gradient of conv2d with respect to an input of shape ``input_size``."""
    return _wrt_input(F.conv2d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Gradient of conv2d with respect to a weight of shape ``weight_size``."""
    return _wrt_weight(F.conv2d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Gradient of conv3d with respect to an input of shape ``input_size``."""
    return _wrt_input(F.conv3d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Gradient of conv3d with respect to a weight of shape ``weight_size``."""
    return _wrt_weight(F.conv3d, input, weight_size, grad_output, stride, padding, dilation, groups)
