"""MindSpore kernels of discrete Fourier transforms: ``FFTWithSize`` along one dimension after the other."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.moves import chosen, complex_of, numbered

ms = door.load()
mint, ops = ms.mint, ms.ops
_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")
_REAL = (ms.float32, ms.float64)
_COMPLEX = (ms.complex64, ms.complex128)


@lru_cache(maxsize=256)
def _transform(inverse: bool, real: bool, norm: str, onesided: bool = True, size: int = 0) -> Any:
    sizes = {"signal_sizes": (size,)} if size else {}
    return ops.FFTWithSize(1, inverse, real, norm, onesided, **sizes)


def _last(x: Any, dim: int, run: Any) -> Any:
    """``run`` along ``dim`` moved last; MindSpore wants a batch dimension, so there is always one."""
    dim %= x.ndim
    y = x if dim == x.ndim - 1 else mint.transpose(x, dim, -1)
    lead = tuple(y.shape[:-1])
    r = run(y.reshape((-1, y.shape[-1])))
    r = r.reshape((*lead, r.shape[-1]))
    return r if dim == x.ndim - 1 else mint.transpose(r, dim, -1)


def _ready(x: Any, kinds: tuple[Any, ...]) -> None:
    if 0 in x.shape or not x.ndim or x.dtype not in kinds:
        raise Unsupported(f"transform of nothing, or of {x.dtype}")


@kernel("_fft_c2c")
def _c2c(x: Any, dim: Any, norm: int, forward: bool) -> Any:
    _ready(x, _COMPLEX)
    for d in dim:
        x = _last(x, d, _transform(not forward, False, (_FORWARD if forward else _INVERSE)[norm]))
    return x


def _whole(half: Any, n: int) -> Any:
    """The other frequencies of real input of ``n`` elements, by symmetry, along the last dimension."""
    m = half.shape[-1]
    rest = n - m
    if rest <= 0:
        return half
    at = numbered((half.shape[0], m))[:, 1 : rest + 1][:, ::-1]
    return ops.concat([half, ops.Conj()(chosen([half], at))], 1)


@kernel("_fft_r2c")
def _r2c(x: Any, dim: Any, norm: int, onesided: bool) -> Any:
    _ready(x, _REAL)
    if not dim:
        raise Unsupported("no dimension")
    n = x.shape[dim[-1]]
    if n == 1:
        y = complex_of(x, mint.mul(x, ms.Tensor(0, x.dtype)))
    else:
        run = _transform(False, True, _FORWARD[norm])
        y = _last(x, dim[-1], run if onesided else lambda t: _whole(run(t), n))
    return _c2c(y, dim[:-1], norm, True)


@kernel("_fft_c2r")
def _c2r(x: Any, dim: Any, norm: int, last: int) -> Any:
    _ready(x, _COMPLEX)
    x = _c2c(x, dim[:-1], norm, False)
    d = dim[-1]
    if last == 1:
        return mint.transpose(ops.Real()(mint.transpose(x, d, -1).narrow(-1, 0, 1)), d, -1)
    want = last // 2 + 1
    if x.shape[d] < want:
        raise Unsupported("fewer frequencies than the result needs")
    x = x if x.shape[d] == want else x.narrow(d, 0, want)
    return _last(x, d, _transform(True, True, _INVERSE[norm], True, last))
