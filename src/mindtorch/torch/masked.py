"""``torch.masked``: reductions and normalisations that leave out the elements a boolean mask marks False.

Every function takes ``mask``, broadcast to the input; a masked-out element stands for the identity of the operation (0 for
sums, 1 for products, the smallest value for maxima ...). Integer sums and products are int64. The ``MaskedTensor`` class,
a prototype in PyTorch, is not here: pass a tensor and its mask.
"""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
from mindtorch.core.errors import check, wrap_dim

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

_HIGHEST = {"amin", "argmin", "softmin"}
_LOWEST = {"amax", "argmax", "softmax", "log_softmax", "logsumexp", "logaddexp"}


def _identity(name: str, dtype: Any) -> Any:
    """What a masked-out element of ``dtype`` counts as in the operation ``name``."""
    if name not in _HIGHEST and name not in _LOWEST:
        return 1 if name in ("prod", "cumprod") else 0
    check(
        not dtype.is_complex and dtype is not torch.bool,
        NotImplementedError,
        f"identity of {name} on {dtype} input: give input.to(torch.uint8), or a real dtype",
    )
    if dtype.is_floating_point:
        return float("inf") if name in _HIGHEST else float("-inf")
    return torch.iinfo(dtype).max if name in _HIGHEST else torch.iinfo(dtype).min


def _mask_of(input: Any, mask: Any) -> Any:
    """``mask`` as booleans that broadcast to ``input``. IndexError when it has more dimensions."""
    for what, t in (("input", input), ("mask", mask)):
        check(isinstance(t, torch.Tensor), TypeError, f"torch.masked: {what} must be a Tensor, not {type(t).__name__}")
    check(
        mask.ndim <= input.ndim,
        IndexError,
        "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input): mask of shape "
        f"{tuple(mask.shape)}, input of shape {tuple(input.shape)}",
    )
    return mask.to(torch.bool).expand(input.shape)


def _fill(name: str, input: Any, mask: Any, identity: Any = None) -> Any:
    """``input`` with masked-out elements replaced by the identity of ``name``."""
    identity = _identity(name, input.dtype) if identity is None else identity
    if mask is None:
        check(isinstance(input, torch.Tensor), TypeError, f"torch.masked.{name}: input must be a Tensor, not {type(input).__name__}")
        return input
    return torch.where(_mask_of(input, mask), input, torch.tensor(identity, dtype=input.dtype))


def _dims(input: Any, dim: Any) -> tuple[int, ...]:
    """Dimensions to reduce, sorted; None and () mean all."""
    if dim is None or dim == ():
        return tuple(range(input.ndim))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    dims = sorted(wrap_dim(d, input.ndim) for d in given)
    for d in dims:
        check(dims.count(d) == 1, RuntimeError, f"dim={d} appears multiple times in the list of dims")
    return tuple(dims)


def _whole(dtype: Any, input: Any) -> Any:
    """Result dtype of a sum or product: int64 for integers and booleans."""
    if dtype is not None:
        return dtype
    return input.dtype if input.is_floating_point() or input.is_complex() else torch.int64


def _float_of(name: str, input: Any, dtype: Any) -> Any:
    dtype = input.dtype if dtype is None else dtype
    check(
        dtype.is_floating_point or dtype.is_complex,
        ValueError,
        f"{name}(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {dtype}",
    )
    return dtype


def _count(input: Any, dims: tuple[int, ...], mask: Any) -> Any:
    """How many elements take part in each result, kept as size-one dimensions."""
    ones = torch.ones(input.shape, dtype=torch.int64, device=input.device) if mask is None else _mask_of(input, mask).to(torch.int64)
    return _over(torch.sum, ones, dims)


def _over(fn: Any, input: Any, dims: tuple[int, ...]) -> Any:
    return fn(input, dims, keepdim=True) if dims else fn(input)


# ------------------------------------------------------------------------------------------ reductions
def sum(input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None) -> Any:  # noqa: A001
    """Sum of the elements in the mask; 0 where there are none."""
    dims, dtype = _dims(input, dim), _whole(dtype, input)
    return torch.sum(_fill("sum", input, mask).to(dtype), dims, keepdim=bool(keepdim))


def prod(input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None) -> Any:
    """Product of the elements in the mask; 1 where there are none."""
    dims, r = _dims(input, dim), _fill("prod", input, mask).to(_whole(dtype, input))
    for d in reversed(dims):
        r = torch.prod(r, d, keepdim=bool(keepdim))
    return r


def mean(input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None) -> Any:
    """Mean of the elements in the mask; nan where there are none. ValueError for integers without ``dtype``."""
    dtype = _float_of("mean", input, dtype)
    dims = _dims(input, dim)
    total = sum(input, dims, keepdim=True, dtype=dtype, mask=mask)
    return _squeezed(total / _count(input, dims, mask), dims, keepdim)


def _squeezed(r: Any, dims: tuple[int, ...], keepdim: Any) -> Any:
    return r if keepdim or not dims else r.squeeze(dims)


def _extreme(name: str) -> Any:
    def extreme(input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None) -> Any:
        dims = _dims(input, dim)
        r = getattr(torch, name)(_fill(name, input, mask), dims, keepdim=bool(keepdim))
        return r if dtype is None else r.to(dtype)

    extreme.__name__ = extreme.__qualname__ = name
    kind = "Largest" if name == "amax" else "Smallest"
    extreme.__doc__ = f"{kind} element in the mask; the identity of {name} (an infinity, or an integer's limit) where there is none."
    return extreme


amax, amin = _extreme("amax"), _extreme("amin")


def _position(name: str) -> Any:
    def position(input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None) -> Any:
        r = getattr(torch, name)(_fill(name, input, mask), dim, keepdim=bool(keepdim))
        return r.to(input.dtype if dtype is None else dtype)

    position.__name__ = position.__qualname__ = name
    position.__doc__ = f"``torch.{name}`` among the elements in the mask. As in PyTorch, the index has the input's dtype."
    return position


argmax, argmin = _position("argmax"), _position("argmin")


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Lower median of the elements in the mask along ``dim``; nan where there are none (ValueError for integers)."""
    input = input if dtype is None else input.to(dtype)
    if mask is None:
        return torch.median(input, dim, keepdim=keepdim).values
    taken = _mask_of(input, mask)
    if input.is_floating_point():
        return torch.nanmedian(_fill("median", input, mask, float("nan")), dim, keepdim=keepdim).values
    n = taken.sum(dim, keepdim=True)
    check(bool((n > 0).all()), ValueError, "masked median expects no fully masked out rows if dtype is not floating point")
    # the masked-out elements go to the end, then the middle of the rest is read: exact for any integer
    ordered = _fill("median", input, mask, torch.iinfo(input.dtype).max).sort(dim).values
    r = ordered.gather(dim, (n - 1) // 2)
    return r if keepdim else r.squeeze(dim)


def logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """log of the sum of exponentials of the elements in the mask; -inf where there are none. Returns the input's dtype."""
    dtype = input.dtype if dtype is None else dtype
    return torch.logsumexp(_fill("logsumexp", input, mask), _dims(input, dim), keepdim=bool(keepdim)).to(dtype)


def norm(
    input: Any, ord: Any = 2.0, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Vector norm of order ``ord`` of the elements in the mask."""
    identity = float("inf") if ord == float("-inf") else 0
    filled = _fill("norm", input, mask, identity)
    return torch.linalg.vector_norm(filled, ord, _dims(input, dim), keepdim=bool(keepdim), dtype=dtype)


def _variance(
    input: Any, dim: Any, unbiased: Any, correction: Any, keepdim: Any, dtype: Any, mask: Any, root: bool
) -> Any:
    check(
        unbiased is None or correction is None,
        AssertionError,
        "Only one of unbiased and correction may be given",
    )
    correction = (1 if unbiased in (None, True) else 0) if correction is None else correction
    dtype = input.dtype if dtype is None else dtype
    wide = dtype if dtype.is_floating_point or dtype.is_complex else torch.float32
    dims = _dims(input, dim)
    n = _count(input, dims, mask)
    away = input - sum(input, dims, keepdim=True, dtype=wide, mask=mask) / n
    square = away * away.conj() if wide.is_complex else away * away
    total = sum(square.to(wide), dims, keepdim=bool(keepdim), mask=mask)
    n = _squeezed(n, dims, keepdim)
    r = total / ((n - correction).clamp(min=0) if correction else n)
    return (r.sqrt() if root else r).to(wide)


def var(
    input: Any, dim: Any = None, unbiased: Any = None, *, correction: Any = None, keepdim: Any = False, dtype: Any = None,
    mask: Any = None,
) -> Any:  # fmt: skip
    """Variance of the elements in the mask, divided by their count less ``correction`` (1, or 0 for ``unbiased=False``)."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask, False)


def std(
    input: Any, dim: Any = None, unbiased: Any = None, *, correction: Any = None, keepdim: Any = False, dtype: Any = None,
    mask: Any = None,
) -> Any:  # fmt: skip
    """Square root of :func:`var`."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask, True)


# ------------------------------------------------------------------------------------------ same-shape functions
def _along(name: str, doc: str) -> Any:
    def along(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
        dim = wrap_dim(dim, input.ndim)
        filled = _fill(name, input, mask)
        if name in ("cumsum", "cumprod"):
            dtype = input.dtype if dtype is None else dtype
            return getattr(torch, name)(filled, dim, dtype=dtype)
        return getattr(torch.nn.functional, name)(filled, dim, dtype=dtype)

    along.__name__ = along.__qualname__ = name
    along.__doc__ = doc
    return along


softmax = _along("softmax", "Softmax over the elements in the mask; 0 at the others, nan where none is left.")
log_softmax = _along("log_softmax", "Logarithm of the masked softmax; -inf at masked-out elements.")
softmin = _along("softmin", "Softmax of the negated elements in the mask; 0 at the others.")
cumsum = _along("cumsum", "Running sum that skips masked-out elements; keeps the input's dtype.")
cumprod = _along("cumprod", "Running product that skips masked-out elements; keeps the input's dtype.")


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """Elements in the mask divided by their norm of order ``ord`` (at least ``eps``); 0 at the others."""
    dim = wrap_dim(dim, input.ndim)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _fill("normalize", input, mask) / torch.maximum(size, torch.tensor(eps, dtype=size.dtype))


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """log(exp(input) + exp(other)); a masked-out element of either counts as -inf."""
    a, b = _fill("logaddexp", input, input_mask), _fill("logaddexp", other, other_mask)
    r = torch.logaddexp(a, b)
    return r if dtype is None else r.to(dtype)
