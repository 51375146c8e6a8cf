"""Host kernels of the discrete Fourier transform (SciPy's pocketfft, which keeps single precision single).

``norm``: 0 no scaling, 1 by 1/sqrt(n), 2 by 1/n, whatever the direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")


_loaded: Any = None


def _fft() -> Any:
    """``scipy.fft``, loaded on first use."""
    global _loaded
    if _loaded is None:
        from scipy import fft

        _loaded = fft
    return _loaded


_COMPLEX = {"f": np.dtype(np.complex64), "d": np.dtype(np.complex128)}


def _small(a: np.ndarray) -> Any:
    """NumPy's transforms (always double) for small input, where SciPy's call costs three times as much."""
    return np.fft if a.size <= 4096 else _fft()


def c2c(a: np.ndarray, dim: Sequence[int], norm: int, forward: bool) -> np.ndarray:
    """Complex transform over ``dim``."""
    if not dim:
        return a.copy()
    if len(dim) == 1:
        fft = _small(a)
        r = (fft.fft if forward else fft.ifft)(a, axis=dim[0], norm=(_FORWARD if forward else _INVERSE)[norm])
        return r.astype(a.dtype, copy=False)
    fft = _fft()
    if forward:
        return fft.fftn(a, axes=dim, norm=_FORWARD[norm])
    return fft.ifftn(a, axes=dim, norm=_INVERSE[norm])


def r2c(a: np.ndarray, dim: Sequence[int], norm: int, onesided: bool) -> np.ndarray:
    """Forward transform of real input; ``onesided`` keeps the non-negative frequencies of the last of ``dim``."""
    if a.dtype.kind != "f":
        raise RuntimeError(f"rfft expects a real input tensor, but got {a.dtype.name}")
    if len(dim) == 1:
        fft = _small(a)
        r = (fft.rfft if onesided else fft.fft)(a, axis=dim[0], norm=_FORWARD[norm])
        return r.astype(_COMPLEX[a.dtype.char], copy=False)
    fft = _fft()
    return (fft.rfftn if onesided else fft.fftn)(a, axes=dim, norm=_FORWARD[norm])


def c2r(a: np.ndarray, dim: Sequence[int], norm: int, last: int) -> np.ndarray:
    """Inverse transform of a half-Hermitian array to ``last`` real elements along the last of ``dim``."""
    if len(dim) == 1:
        r = _small(a).irfft(a, last, axis=dim[0], norm=_INVERSE[norm])
        return r.astype(a.real.dtype, copy=False)
    fft = _fft()
    sizes = [a.shape[d] for d in dim[:-1]] + [last]
    return fft.irfftn(a, s=sizes, axes=dim, norm=_INVERSE[norm])
