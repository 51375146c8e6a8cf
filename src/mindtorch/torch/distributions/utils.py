"""Helpers shared by distributions: broadcasting of parameters, probabilities and logits, lazy attributes."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import mindtorch.torch as torch
import mindtorch.torch.nn.functional as F

Tensor = Any
euler_constant = 0.57721566490153286060
LOG_SQRT_2PI = math.log(math.sqrt(2 * math.pi))


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors among them."""
    for v in values:
        if not (isinstance(v, (torch.Tensor, Number)) or hasattr(v, "__torch_function__")):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                "__torch_function__."
            )
    if not all(isinstance(v, torch.Tensor) for v in values):
        options: dict[str, Any] = {"dtype": torch.get_default_dtype()}
        for v in values:
            if isinstance(v, torch.Tensor):
                options = {"dtype": v.dtype, "device": v.device}
                break
        values = tuple(v if isinstance(v, torch.Tensor) else torch.tensor(v, **options) for v in values)
    if len({v.shape for v in values}) == 1:
        return values
    return tuple(torch.broadcast_tensors(*values))


def batch_shape(parameter: Tensor, *given: Any) -> Any:
    """The shape of a batch of distributions with this (broadcast) parameter: () where only numbers were given."""
    return torch.Size() if all(isinstance(v, Number) for v in given) else parameter.size()


def standard_normal(shape: Any, dtype: Any, device: Any = None) -> Tensor:
    """Standard normals drawn as PyTorch's distributions draw them."""
    return torch.normal(torch.zeros(shape, dtype=dtype, device=device), torch.ones(shape, dtype=dtype, device=device))


_standard_normal = standard_normal


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: a sigmoid when binary, else a softmax over the last dimension."""
    return torch.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by one eps of their dtype."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities; the inverse of :func:`logits_to_probs` up to clamping."""
    p = clamp_probs(probs)
    return torch.log(p) - torch.log1p(-p) if is_binary else torch.log(p)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """Sum out the last ``dims`` dimensions."""
    return value if dims == 0 else value.reshape(value.shape[:-dims] + (-1,)).sum(-1)


_sum_rightmost = sum_rightmost


class lazy_property:  # noqa: N801 - public name
    """An attribute computed on first use, with gradients on."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle (up to diagonal ``diag``) of (..., n, n) as a vector, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    i = torch.arange(n)
    return mat[..., i < i[:, None] + (diag + 1)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """A vector (..., m) as the lower triangle of a matrix (..., n, n). ValueError when m is not triangular."""
    n = (-(1 + 2 * diag) + math.sqrt((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1))) / 2
    if abs(round(n) - n) > torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of "
            "a square D x D matrix."
        )
    n = round(n)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    i = torch.arange(n)
    mat[..., i < i[:, None] + (diag + 1)] = vec
    return mat
