"""MindSpore kernels that look at the bits of numbers, by a view of the tensor as whole numbers of the same width."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.array import cast
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.pointwise import _where, pair, zeros
from mindtorch.engine.mindspore.kernels.reductions import dims

ms = door.load()
mint, ops = ms.mint, ms.ops
_WHOLE = {ms.float32: ms.int32, ms.float64: ms.int64, ms.float16: ms.int16, ms.bfloat16: ms.int16}
_NARROW = (ms.float16, ms.bfloat16)


@kernel("nextafter")
def _nextafter(x: Any, y: Any) -> Any:
    """One more or one less in the bits, which count up away from zero for either sign."""
    x, y = pair(x, y)
    if x.dtype not in _WHOLE or 0 in x.shape or 0 in y.shape:
        raise Unsupported(f"neighbours of {x.dtype}, or of nothing")
    shape = np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    x, y = (t if tuple(t.shape) == shape else mint.broadcast_to(t, shape) for t in (x, y))
    dtype, whole = x.dtype, _WHOLE[x.dtype]
    wide = ms.int32 if dtype in _NARROW else whole
    a, b = (t.astype(ms.float32) if dtype in _NARROW else t for t in (x, y))
    bits = x.view(whole).astype(wide)
    one = ms.Tensor(1, wide)
    away = ops.equal(mint.greater(a, zeros(a)), mint.greater(b, a))
    moved = _where(away, mint.add(bits, one), mint.sub(bits, one))
    # From zero the first step is the smallest number with the sign of the target.
    least = ms.Tensor(np.iinfo(np.int16 if dtype in _NARROW else np.int32 if whole == ms.int32 else np.int64).min + 1, wide)
    first = _where(mint.less(b, zeros(b)), mint.broadcast_to(least, shape), mint.broadcast_to(one, shape))
    moved = _where(ops.equal(a, zeros(a)), first, moved)
    r = moved.astype(whole).view(dtype)
    r = _where(ops.equal(a, b), b, r.astype(a.dtype))
    return _where(mint.logical_or(mint.not_equal(a, a), mint.not_equal(b, b)), mint.add(a, b), r).astype(dtype)


@kernel("hash_tensor")
def _hash(x: Any, dim: Any, keepdim: bool, mode: int = 0) -> Any:
    """Exclusive or of the 64-bit patterns, halving the elements until one is left."""
    if 0 in x.shape or mode != 0 or "Complex" in str(x.dtype):
        raise Unsupported(f"a hash of {x.dtype}, of nothing, or of another mode")
    axes = dims(x, dim)
    wide = cast(x, np.dtype(np.float64)).view(ms.int64) if x.dtype in (*_NARROW, ms.float32, ms.float64) else x.astype(ms.int64)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    rest = [i for i in range(x.ndim) if i not in axes]
    v = (mint.permute(wide, (*axes, *rest)) if x.ndim else wide).reshape((-1, *[x.shape[i] for i in rest]))
    while v.shape[0] > 1:
        n = v.shape[0] // 2
        folded = ops.bitwise_xor(v.narrow(0, 0, n), v.narrow(0, n, n))
        v = ops.concat([folded, v.narrow(0, 2 * n, 1)], 0) if v.shape[0] % 2 else folded
    return v.reshape(shape if keepdim else tuple(n for i, n in enumerate(shape) if i not in axes)).astype(ms.uint64)
