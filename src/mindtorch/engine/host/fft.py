"""Host kernels of the discrete Fourier transform (SciPy's pocketfft, which keeps single precision single).

``norm``: 0 no scaling, 1 by 1/sqrt(n), 2 by 1/n, whatever the direction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindtorch.core.errors import check

_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")


def c2c(a: np.ndarray, dim: Sequence[int], norm: int, forward: bool) -> np.ndarray:
    """Complex transform over ``dim``."""
    from scipy import fft

    if not dim:
        return a.copy()
    if forward:
        return fft.fftn(a, axes=dim, norm=_FORWARD[norm])
    return fft.ifftn(a, axes=dim, norm=_INVERSE[norm])


def r2c(a: np.ndarray, dim: Sequence[int], norm: int, onesided: bool) -> np.ndarray:
    """Forward transform of real input; ``onesided`` keeps the non-negative frequencies of the last of ``dim``."""
    from scipy import fft

    check(a.dtype.kind == "f", RuntimeError, f"rfft expects a real input tensor, but got {a.dtype.name}")
    if onesided:
        return fft.rfftn(a, axes=dim, norm=_FORWARD[norm])
    return fft.fftn(a, axes=dim, norm=_FORWARD[norm])


def c2r(a: np.ndarray, dim: Sequence[int], norm: int, last: int) -> np.ndarray:
    """Inverse transform of a half-Hermitian array to ``last`` real elements along the last of ``dim``."""
    from scipy import fft

    sizes = [a.shape[d] for d in dim[:-1]] + [last]
    return fft.irfftn(a, s=sizes, axes=dim, norm=_INVERSE[norm])
