"""``torch.fft``: the 22 transforms over three internal rows (complex, real to complex, complex to real), and
helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.signature import to_int, to_ints
from mindtorch.core.tensor import Tensor, constant
from mindtorch.engine.host import fft as K
from mindtorch.ops.table import SPACES, composite, op, put

# ------------------------------------------------------------------------------------------ rows
_c2c = op(
    "_fft_c2c(T input, ints dim, int norm, bool forward)",
    ns="_C",
    grad={"input": lambda g, dim, norm, forward: _c2c(g, dim, norm, not forward)},
)(K.c2c)


def _r2c_grad(g: Tensor, input: Tensor, dim: Any, norm: int, onesided: bool) -> Tensor:
    if onesided:
        d = dim[-1]
        missing = input.shape[d] - g.shape[d]
        if missing:
            shape = list(g.shape)
            shape[d] = missing
            g = SPACES["torch"]["cat"]([g, g.new_zeros(shape)], d)
    return _c2c(g, dim, norm, False).real


_r2c = op(
    "_fft_r2c(T input, ints dim, int norm, bool onesided)",
    ns="_C",
    grad={"input": lambda g, input, dim, norm, onesided: _r2c_grad(g, input, dim, norm, onesided)},
)(K.r2c)


def _c2r_grad(g: Tensor, dim: Any, norm: int, last: int) -> Tensor:
    r = _r2c(g, dim, norm, True)
    d = dim[-1] % g.a.ndim
    double = g.shape[d] - r.shape[d]
    weight = np.ones(r.shape[d], g.a.dtype)
    weight[1 : 1 + double] = 2
    return r * constant(weight.reshape([-1 if i == d else 1 for i in range(g.a.ndim)]))


_c2r = op(
    "_fft_c2r(T input, ints dim, int norm, int last)",
    ns="_C",
    grad={"input": lambda g, dim, norm, last: _c2r_grad(g, dim, norm, last)},
)(K.c2r)


# ------------------------------------------------------------------------------------------ arguments
def _norm(norm: Any, forward: bool) -> int:
    if norm is None or norm == "backward":
        return 0 if forward else 2
    if norm == "ortho":
        return 1
    if norm == "forward":
        return 2 if forward else 0
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _complex(x: Tensor) -> Tensor:
    if x.k.cat == D.COMPLEX:
        return x
    x = _real(x)
    return x.to(x.dtype.to_complex())


def _real(x: Tensor) -> Tensor:
    """Floating input; integers become the default dtype."""
    cat = x.k.cat
    if cat < D.FLOAT:
        return x.to(D.get_default_dtype())
    if cat == D.COMPLEX:
        raise RuntimeError(f"expected a real input tensor, but got {x.dtype}")
    if x.k.half:
        raise RuntimeError(
            f"Unsupported dtype {x.dtype}: Fourier transforms on the CPU need float32 or wider; convert with .float()"
        )
    return x


def _resize(x: Tensor, d: int, n: int) -> Tensor:
    """Cut off or pad with zeros to ``n`` elements along ``d``."""
    have = x.shape[d]
    check(n >= 1, RuntimeError, f"Invalid number of data points ({n}) specified")
    if n == have:
        return x
    if n < have:
        return x.narrow(d, 0, n)
    shape = list(x.shape)
    shape[d] = n - have
    return SPACES["torch"]["cat"]([x, x.new_zeros(shape)], d)


def _one(x: Tensor, n: Any, dim: Any) -> int:
    """The dimension of a one-dimensional transform. RuntimeError for scalars and when there is no point."""
    if x.a.ndim == 0:
        raise RuntimeError("Fourier transforms need a tensor of at least one dimension, got a scalar")
    d = wrap_dim(to_int(dim), x.a.ndim)
    points = x.a.shape[d] if n is None else to_int(n)
    if points < 1:
        raise RuntimeError(f"Invalid number of data points ({points}) specified")
    return d


def _many(x: Tensor, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    """Sizes and dimensions of an n-dimensional transform."""
    if dim is None:
        k = x.a.ndim if s is None else len(to_ints(s))
        check(
            k <= x.a.ndim, RuntimeError, f"Got shape with {k} values but input tensor only has {x.a.ndim} dimensions."
        )
        dims = list(range(x.a.ndim - k, x.a.ndim))
    else:
        dims = [wrap_dim(d, x.a.ndim) for d in to_ints(dim)]
        check(len(set(dims)) == len(dims), RuntimeError, "FFT dims must be unique")
    if s is None:
        return [x.shape[d] for d in dims], dims
    sizes = to_ints(s)
    check(len(sizes) == len(dims), RuntimeError, "When given, dim and shape arguments must have the same length")
    return [x.shape[d] if n == -1 else n for n, d in zip(sizes, dims)], dims


def _fit(x: Tensor, sizes: list[int], dims: list[int]) -> Tensor:
    for n, d in zip(sizes, dims):
        x = _resize(x, d, n)
    return x


# ------------------------------------------------------------------------------------------ bodies
def _fftn(x: Tensor, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    x = _complex(x)
    sizes, dims = _many(x, s, dim)
    return _c2c(_fit(x, sizes, dims), tuple(dims), _norm(norm, forward), forward) if dims else x


def _rfftn(x: Tensor, s: Any, dim: Any, norm: Any) -> Tensor:
    x = _real(x)
    sizes, dims = _many(x, s, dim)
    check(bool(dims), RuntimeError, "rfftn must transform at least one axis")
    return _r2c(_fit(x, sizes, dims), tuple(dims), _norm(norm, True), True)


def _half(x: Tensor, s: Any, dim: Any) -> tuple[Tensor, list[int], int]:
    """Complex input of a transform to real numbers, its dimensions, and the size of the last."""
    x = _complex(x)
    sizes, dims = _many(x, s, dim)
    check(bool(dims), RuntimeError, "irfftn must transform at least one axis")
    given = None if s is None else to_ints(s)[-1]
    last = 2 * (x.shape[dims[-1]] - 1) if given in (None, -1) else given
    check(last >= 1, RuntimeError, f"Invalid number of data points ({last}) specified")
    sizes[-1] = last // 2 + 1
    return _fit(x, sizes, dims), dims, last


def _irfftn(x: Tensor, s: Any, dim: Any, norm: Any) -> Tensor:
    x, dims, last = _half(x, s, dim)
    return _c2r(x, tuple(dims), _norm(norm, False), last)


def _hfftn(x: Tensor, s: Any, dim: Any, norm: Any) -> Tensor:
    x, dims, last = _half(x, s, dim)
    mode = _norm(norm, True)
    if dims[:-1]:
        x = _c2c(x, tuple(dims[:-1]), mode, True)
    return _c2r(x.conj(), (dims[-1],), mode, last)


def _ihfftn(x: Tensor, s: Any, dim: Any, norm: Any) -> Tensor:
    x = _real(x)
    sizes, dims = _many(x, s, dim)
    check(bool(dims), RuntimeError, "ihfftn must transform at least one axis")
    mode = _norm(norm, False)
    r = _r2c(_fit(x, sizes, dims), (dims[-1],), mode, True).conj()
    return _c2c(r, tuple(dims[:-1]), mode, False) if dims[:-1] else r


_BODIES = {
    "fft": lambda x, s, d, norm: _fftn(x, s, d, norm, True),
    "ifft": lambda x, s, d, norm: _fftn(x, s, d, norm, False),
    "rfft": _rfftn,
    "irfft": _irfftn,
    "hfft": _hfftn,
    "ihfft": _ihfftn,
}


_DIRECT: dict[str, Any] = {
    "fft": lambda x, d, norm: _c2c(_complex(x), d, _norm(norm, True), True),
    "ifft": lambda x, d, norm: _c2c(_complex(x), d, _norm(norm, False), False),
    "rfft": lambda x, d, norm: _r2c(_real(x), d, _norm(norm, True), True),
}
"""One-dimensional transforms of all points: nothing to cut or to pad."""


def _public(kind: str, body: Any) -> None:
    """The one-, two- and n-dimensional names of a transform."""

    def one(input: Tensor, n: Any = None, dim: Any = -1, norm: Any = None) -> Tensor:
        d = _one(input, n, dim)
        if n is None and kind in _DIRECT:
            return _DIRECT[kind](input, (d,), norm)
        return body(input, None if n is None else (to_int(n),), (d,), norm)

    def two(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: Any = None) -> Tensor:
        return body(input, s, dim, norm)

    def many(input: Tensor, s: Any = None, dim: Any = None, norm: Any = None) -> Tensor:
        return body(input, s, dim, norm)

    one.__doc__ = f"One-dimensional ``{kind}`` over ``dim``, of ``n`` points (cut or padded with zeros)."
    two.__doc__ = f"Two-dimensional ``{kind}`` over ``dim``, of sizes ``s``."
    many.__doc__ = f"``{kind}`` over ``dim`` (all dimensions when None), of sizes ``s``."
    composite(f"{kind}(T input, any n=None, any dim=-1, any norm=None)", ns="fft", out=True)(one)
    composite(f"{kind}2(T input, any s=None, any dim=(-2, -1), any norm=None)", ns="fft", out=True)(two)
    composite(f"{kind}n(T input, any s=None, any dim=None, any norm=None)", ns="fft", out=True)(many)


for _kind, _body in _BODIES.items():
    _public(_kind, _body)


# ------------------------------------------------------------------------------------------ helpers
def _factory(a: np.ndarray, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    d = D.get_default_dtype() if dtype is None else dtype
    t = constant(a.astype(d.np))
    if device is not None:
        t = t.to(device)
    return t.requires_grad_() if requires_grad else t


def _frequencies(name: str, bins: Callable[[int], np.ndarray], what: str) -> Callable[..., Tensor]:
    def make(
        n: int,
        d: float = 1.0,
        *,
        out: Tensor | None = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        del layout  # tensors here are always strided
        r = _factory(bins(n) * (1.0 / (n * d)), dtype, device, requires_grad)
        return r if out is None else out.resize_(r.shape).copy_(r)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{what} of the bins of an ``n``-point transform with sample spacing ``d``."
    return make


fftfreq = _frequencies(
    "fftfreq", lambda n: np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)]), "Frequencies"
)
rfftfreq = _frequencies("rfftfreq", lambda n: np.arange(n // 2 + 1), "Non-negative frequencies")
put("fft", fftfreq=fftfreq, rfftfreq=rfftfreq)


def _shift(x: Tensor, dim: Any, amount: Any) -> Tensor:
    dims = list(range(x.a.ndim)) if dim is None else [wrap_dim(d, x.a.ndim) for d in to_ints(dim)]
    return x.roll([amount(x.shape[d]) for d in dims], dims) if dims else x.clone()


@composite("fftshift(T input, any dim=None)", ns="fft")
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Zero frequency moved to the centre."""
    return _shift(input, dim, lambda n: n // 2)


@composite("ifftshift(T input, any dim=None)", ns="fft")
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Inverse of ``fftshift``."""
    return _shift(input, dim, lambda n: (n + 1) // 2)
