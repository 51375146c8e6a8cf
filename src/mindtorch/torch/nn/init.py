"""``torch.nn.init``: fills parameters in place, drawing from the generator in PyTorch's order.

All functions run without recording, return their tensor, and take ``generator=`` where they draw.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import mindtorch.torch as torch

Tensor = Any

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_LINEAR = {
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps variance through ``nonlinearity``; ``param`` is leaky_relu's slope."""
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


# ------------------------------------------------------------------------------------------ plain fills
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [a, b)."""
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with the given mean and standard deviation."""
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element ``val``."""
    with torch.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    with torch.no_grad():
        return tensor.zero_()


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal, redrawn where outside [a, b]; warns when the mean is more than two deviations away from it."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    inside = _cdf((b - mean) / std) - _cdf((a - mean) / std)
    with torch.no_grad():
        if inside > 0.3:
            _redraw_normal(tensor, mean, std, a, b, generator)
        else:
            _redraw_uniform(tensor, mean, std, a, b, generator)
    return tensor


def _cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _redraw_normal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    """Fresh normals for the whole tensor each round, taken where the old value is outside."""
    tensor.normal_(mean, std, generator=generator)
    while True:
        bad = (tensor < a) | (tensor > b)
        if not bad.any():
            return
        fresh = torch.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(torch.where(bad, fresh, tensor))


def _redraw_uniform(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    """Uniform proposals accepted in proportion to the density: quick where the interval holds little of the normal."""
    peak = (min(max(mean, a), b) - mean) ** 2

    def refused(x: Tensor) -> Tensor:
        u = torch.empty_like(x).uniform_(generator=generator)
        return u > torch.exp(((x - mean) ** 2 - peak) / (-2.0 * std * std))

    tensor.uniform_(a, b, generator=generator)
    bad = refused(tensor)
    while bad.any():
        fresh = torch.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(torch.where(bad, fresh, tensor))
        bad = bad & refused(tensor)


def eye_(tensor: Tensor) -> Tensor:
    """The identity, cut to the shape of a matrix. ValueError for other ranks."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with torch.no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights (out, in, ...) that pass as many channels through as they can, in each of ``groups``."""
    ndim = tensor.ndimension()
    if ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    shape = tensor.size()
    if shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = shape[0] // groups
    centre = tuple(n // 2 for n in shape[2:])
    with torch.no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(per_group, shape[1])):
                tensor[(g * per_group + d, d, *centre)] = 1
    return tensor


# ------------------------------------------------------------------------------------------ by fan
def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Inputs and outputs of one unit of a weight (out, in, ...). ValueError below two dimensions."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    shape = tensor.shape
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Fan in or fan out by name. ValueError for other names."""
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in +-gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal of deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform of deviation gain / sqrt(fan) (He et al. 2015); ``a`` is the slope of the leaky relu that follows."""
    if _empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    std = calculate_gain(nonlinearity, a) / math.sqrt(fan)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal of deviation gain / sqrt(fan) (He et al. 2015); ``a`` is the slope of the leaky relu that follows."""
    if _empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    return normal_(tensor, 0, calculate_gain(nonlinearity, a) / math.sqrt(fan), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """``gain`` times a (semi-)orthogonal matrix (Saxe et al. 2013); dimensions after the first are flattened."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
    with torch.no_grad():
        wide = rows < cols
        q, r = torch.linalg.qr(flat.t() if wide else flat)
        q = q * torch.diagonal(r).sign()
        tensor.copy_((q.t() if wide else q).reshape(tensor.shape))
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal columns of which a share ``sparsity`` is zero (Martens 2010)."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with torch.no_grad():
        tensor.normal_(0, std, generator=generator)
        for c in range(cols):
            tensor[torch.randperm(rows)[:zeros], c] = 0
    return tensor


# ------------------------------------------------------------------------------------------ names without underscore
def _deprecated(fn: Callable[..., Any]) -> Callable[..., Any]:
    new = fn.__name__
    old = new[:-1]

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        text = f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`."
        warnings.warn(text, FutureWarning, stacklevel=2)
        return fn(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Old name of ``{new}``."
    return call


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
