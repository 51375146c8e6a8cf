"""Which tensors an optimiser may update on their memory (see `mindtorch.engine.host.updates`), and the note it leaves.

Public tensor ops give the same numbers and remain the path for everything else: complex, half precision,
differentiable steps, tensors that are not plain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.tensor import Tensor, cell_of


def arrays(p: Any, *others: Any) -> list[np.ndarray] | None:
    """The memory of ``p`` and tensors like it (0-d as 1-d); None unless all are plain floats of one dtype and shape."""
    if not isinstance(p, Tensor) or not p.k.ff:
        return None
    k, shape, out = p.k, p.a.shape, [p.a]
    for t in others:
        if not isinstance(t, Tensor) or t.k is not k or t.a.shape != shape:
            return None
        out.append(t.a)
    return out if shape else [a.reshape(1) for a in out]


def written(p: Any, *state: Any) -> None:
    """Note an in-place change, so that a graph that saved the old values of the parameter says so."""
    cell_of(p).bump()
    for t in state:
        if t.v is not None:
            t.v.bump()
