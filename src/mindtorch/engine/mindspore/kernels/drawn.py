"""MindSpore kernels with random numbers: the mask is drawn on the host, from PyTorch's CPU stream, and moved; the rest is not."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, host, kernel, np_dtype
from mindtorch.engine.mindspore.kernels.moves import const

ms = door.load()
mint = ms.mint


@kernel("native_dropout")
def _native_dropout(x: Any, p: float, train: Any) -> Any:
    if 0 in x.shape or str(x.dtype).startswith(("Complex", "BFloat", "Float16")):
        raise Unsupported("nothing to drop, or halves and complex numbers")
    if train is False:
        return x, const(np.ones(tuple(x.shape), bool))
    noise, mask = host("native_dropout")(np.ones(tuple(x.shape), np_dtype(x)), p, train)
    return mint.mul(x, const(noise)), const(mask)
