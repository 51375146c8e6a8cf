"""Window functions (``torch.hann_window`` ..., ``torch.signal.windows``) and the short-time Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor, constant
from mindtorch.ops.table import SPACES, composite, put


# ------------------------------------------------------------------------------------------ torch.*_window
def _finish(a: np.ndarray, d: D.dtype, device: Any, requires_grad: bool) -> Tensor:
    t = constant(np.ascontiguousarray(a.astype(d.np)))
    if device is not None:
        t = t.to(device)
    return t.requires_grad_(True) if requires_grad else t


def _strided(name: str, layout: Any) -> None:
    check(
        layout is None or str(layout) == "torch.strided",
        ValueError,
        f"{name} is implemented for strided tensors only, got: {layout}",
    )


def _window(name: str, formula: Callable[..., np.ndarray], *extra: tuple[str, float]) -> Callable[..., Tensor]:
    """``name(window_length, periodic=True, *extra)`` from a formula of positions and the last position."""
    names = [n for n, _ in extra]

    def window(
        window_length: int,
        periodic: bool = True,
        *args: float,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **kwargs: float,
    ) -> Tensor:
        d = D.get_default_dtype() if dtype is None else dtype
        _strided(name, layout)
        check(d.is_floating_point, RuntimeError, f"{name} expects floating point dtypes, got: {d}")
        check(
            window_length >= 0,
            RuntimeError,
            f"{name} requires non-negative window_length, got window_length={window_length}",
        )
        unknown = sorted(set(kwargs) - set(names))
        check(
            not unknown and len(args) <= len(names), TypeError, f"{name}() got unexpected arguments {unknown or args}"
        )
        values = {**dict(extra), **dict(zip(names, args)), **kwargs}
        if window_length <= 1:
            return _finish(np.ones(window_length), d, device, requires_grad)
        work = np.dtype(np.float32) if d.itemsize <= 4 else np.dtype(np.float64)
        n = window_length + 1 if periodic else window_length
        return _finish(formula(np.arange(n, dtype=work), n - 1, **values)[:window_length], d, device, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = (
        f"The {name.split('_')[0]} window of ``window_length`` points; ``periodic`` drops the last of one more."
    )
    return window


def _cosines(k: np.ndarray, last: int, *weights: float) -> np.ndarray:
    """``sum_i (-1)^i weights[i] cos(2 pi i k / last)`` in the dtype of ``k``."""
    t = k.dtype.type
    w = k * t(2 * math.pi / last)
    r = np.full(k.shape, weights[0], k.dtype)
    for i, a in enumerate(weights[1:], 1):
        r = r + np.cos(w * t(i)) * t(a if i % 2 == 0 else -a)
    return r


def _bartlett(k: np.ndarray, last: int) -> np.ndarray:
    r = k * k.dtype.type(2 / last)
    half = (last >> 1) + 1
    r[half:] = k.dtype.type(2) - r[half:]
    return r


def _kaiser(k: np.ndarray, last: int, beta: float) -> np.ndarray:
    half = last / 2
    inside = np.maximum(0.0, 1 - ((k.astype(np.float64) - half) / half) ** 2)
    return np.i0(beta * np.sqrt(inside)) / np.i0(beta)


hann_window = _window("hann_window", lambda k, last: _cosines(k, last, 0.5, 0.5))
hamming_window = _window(
    "hamming_window",
    lambda k, last, alpha, beta: _cosines(k, last, alpha, beta),
    ("alpha", 0.54),
    ("beta", 0.46),
)
blackman_window = _window("blackman_window", lambda k, last: _cosines(k, last, 0.42, 0.5, 0.08))
bartlett_window = _window("bartlett_window", _bartlett)
kaiser_window = _window("kaiser_window", lambda k, last, beta: _kaiser(k, last, beta), ("beta", 12.0))
put(
    "torch",
    hann_window=hann_window,
    hamming_window=hamming_window,
    blackman_window=blackman_window,
    bartlett_window=bartlett_window,
    kaiser_window=kaiser_window,
)


# ------------------------------------------------------------------------------------------ torch.signal.windows
def _signal(name: str, formula: Callable[..., np.ndarray], required: tuple[str, ...] = (), **defaults: Any) -> Any:
    """``name(M, *, <parameters>, sym=True, dtype=None, ...)`` from a formula of positions, last position, parameters."""

    def window(
        M: int,
        *,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **kwargs: Any,
    ) -> Tensor:
        d = D.get_default_dtype() if dtype is None else dtype
        _strided(name, layout)
        check(M >= 0, ValueError, f"{name} requires non-negative window length, got M={M}")
        check(
            d in (D.float32, D.float64),
            ValueError,
            f"{name} expects float32 or float64 dtypes, got: {d}",
        )
        for r in required:
            check(r in kwargs, TypeError, f"{name}() missing 1 required keyword-only argument: '{r}'")
        unknown = sorted(set(kwargs) - set(defaults) - set(required))
        check(not unknown, TypeError, f"{name}() got an unexpected keyword argument {unknown}")
        values = {**defaults, **kwargs}
        if M == 0:
            return _finish(np.empty(0), d, device, requires_grad)
        last = M - 1 if sym else M
        a = formula(np.arange(M, dtype=d.np), last, sym=sym, m=M, **values)
        return _finish(a, d, device, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"The {name.replace('_', ' ')} window of ``M`` points; ``sym=False`` is the periodic form."
    return window


def _general_cosine(k: np.ndarray, last: int, sym: bool, m: int, a: Iterable[float]) -> np.ndarray:
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    check(weights, ValueError, "Coefficients cannot be empty")
    return np.ones(1) if m == 1 else _cosines(k, last, *weights)


def _general_hamming(k: np.ndarray, last: int, sym: bool, m: int, alpha: float) -> np.ndarray:
    return _general_cosine(k, last, sym, m, (alpha, 1 - alpha))


def _sig_bartlett(k: np.ndarray, last: int, sym: bool, m: int) -> np.ndarray:
    return np.ones(1) if m == 1 else 1 - np.abs(k * k.dtype.type(2 / last) - 1)


def _sig_cosine(k: np.ndarray, last: int, sym: bool, m: int) -> np.ndarray:
    if m == 1:
        return np.ones(1)
    count = m if sym else m + 1
    return np.sin((k + k.dtype.type(0.5)) * k.dtype.type(math.pi / count))


def _sig_exponential(k: np.ndarray, last: int, sym: bool, m: int, center: float | None, tau: float) -> np.ndarray:
    check(tau > 0, ValueError, f"Tau must be positive, got: {tau} instead.")
    check(not (sym and center is not None), ValueError, "Center must be None for symmetric windows")
    middle = last / 2 if center is None else center
    return np.ones(1) if m == 1 else np.exp(-np.abs(k - k.dtype.type(middle)) / k.dtype.type(tau))


def _sig_gaussian(k: np.ndarray, last: int, sym: bool, m: int, std: float) -> np.ndarray:
    check(std > 0, ValueError, f"Standard deviation must be positive, got: {std} instead.")
    if m == 1:
        return np.ones(1)
    z = (k - k.dtype.type(last / 2)) * k.dtype.type(1 / (std * math.sqrt(2)))
    return np.exp(-(z * z))


def _sig_kaiser(k: np.ndarray, last: int, sym: bool, m: int, beta: float) -> np.ndarray:
    check(beta >= 0, ValueError, f"beta must be non-negative, got: {beta} instead.")
    return np.ones(1) if m == 1 else _kaiser(k, last, beta)


def _sums(*weights: float) -> Callable[..., np.ndarray]:
    return lambda k, last, sym, m: _general_cosine(k, last, sym, m, weights)


put(
    "signal",
    bartlett=_signal("bartlett", _sig_bartlett),
    blackman=_signal("blackman", _sums(0.42, 0.5, 0.08)),
    cosine=_signal("cosine", _sig_cosine),
    exponential=_signal("exponential", _sig_exponential, center=None, tau=1.0),
    gaussian=_signal("gaussian", _sig_gaussian, std=1.0),
    general_cosine=_signal("general_cosine", _general_cosine, required=("a",)),
    general_hamming=_signal("general_hamming", _general_hamming, alpha=0.54),
    hamming=_signal("hamming", _sums(0.54, 0.46)),
    hann=_signal("hann", _sums(0.5, 0.5)),
    kaiser=_signal("kaiser", _sig_kaiser, beta=12.0),
    nuttall=_signal("nuttall", _sums(0.3635819, 0.4891775, 0.1365995, 0.0106411)),
)


# ------------------------------------------------------------------------------------------ short-time Fourier transform
_PAD = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded(x: Tensor, n: int, mode: str) -> Tensor:
    """``x`` (batch, length) with ``n`` more samples at both ends."""
    if mode == "constant":
        zeros = x.new_zeros((x.a.shape[0], n))
        return SPACES["torch"]["cat"]([zeros, x, zeros], 1)
    check(mode in _PAD, NotImplementedError, f"stft: pad_mode {mode!r} is not one of constant, {', '.join(_PAD)}")
    length = x.a.shape[1]
    check(
        mode != "reflect" or n < length,
        RuntimeError,
        f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({n}, {n}) at "
        f"dimension 2 of input {[1, *x.a.shape]}",
    )
    return x.index_select(1, constant(np.pad(np.arange(length), n, mode=_PAD[mode])))  # type: ignore[call-overload]


def _full_window(x: Tensor, window: Tensor | None, win_length: int, n_fft: int) -> Tensor:
    """The window centred in ``n_fft`` samples."""
    if window is None:
        real = D.float64 if x.dtype in (D.float64, D.complex128) else D.float32
        window = constant(np.ones(win_length, real.np))
    check(
        window.a.ndim == 1 and window.a.size == win_length,
        RuntimeError,
        f"stft: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
        f"{list(window.a.shape)}",
    )
    if win_length == n_fft:
        return window
    left = (n_fft - win_length) // 2
    return window.new_zeros((n_fft,)).slice_scatter(window, 0, left, left + win_length)


def _frame_lengths(name: str, n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    check(hop > 0, RuntimeError, f"{name}: expected hop_length > 0, but got hop_length={hop}")
    check(
        0 < win <= n_fft,
        RuntimeError,
        f"{name}: expected 0 < win_length <= n_fft, but got win_length={win} and n_fft={n_fft}",
    )
    return hop, win


_STFT = (
    "stft(T input, int n_fft, int? hop_length=None, int? win_length=None, T? window=None, bool center=True, "
    "str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None, "
    "bool? align_to_window=None)"
)


@composite(_STFT)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Spectra of overlapping frames: (batch?, frequencies, frames), complex or with a last dimension of 2."""
    hop, win = _frame_lengths("stft", n_fft, hop_length, win_length)
    has_complex = input.k.cat == D.COMPLEX or (window is not None and window.k.cat == D.COMPLEX)
    if return_complex is None:
        return_complex = has_complex
        check(
            has_complex,
            RuntimeError,
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release.",
        )
    check(input.a.ndim in (1, 2), RuntimeError, f"stft: expected a 1D or 2D tensor, got {input.a.ndim}D")
    check(
        align_to_window is None or not center,
        RuntimeError,
        "stft align_to_window should only be set when center = false",
    )
    x = input.unsqueeze(0) if input.a.ndim == 1 else input
    if center:
        x = _padded(x, n_fft // 2, pad_mode)
    elif align_to_window:
        x = _padded(x, (n_fft - win) // 2, "constant")
    check(
        0 < n_fft <= x.a.shape[1],
        RuntimeError,
        f"stft: expected 0 < n_fft <= {x.a.shape[1]}, but got n_fft={n_fft}",
    )
    full = _full_window(x, window, win, n_fft)
    frames = x.unfold(1, n_fft, hop)
    if window is not None or win != n_fft:
        frames = frames * full
    half = (not has_complex) if onesided is None else onesided
    check(not (half and has_complex), RuntimeError, "Cannot have onesided output if window or input is complex")
    fft = SPACES["fft"]["rfft" if half else "fft"]
    spectra = fft(frames, norm="ortho" if normalized else None).transpose(1, 2)
    if input.a.ndim == 1:
        spectra = spectra.squeeze(0)
    return spectra if return_complex else SPACES["torch"]["view_as_real"](spectra)


def _overlap_add(frames: Tensor, hop: int) -> Tensor:
    """(batch, count, n) frames summed at steps of ``hop``: (batch, n + hop * (count - 1))."""
    batch, count, n = frames.a.shape
    at = (np.arange(count)[:, None] * hop + np.arange(n)).reshape(-1)
    return frames.new_zeros((batch, n + hop * (count - 1))).index_add(1, constant(at), frames.reshape(batch, count * n))


_ISTFT = (
    "istft(T input, int n_fft, int? hop_length=None, int? win_length=None, T? window=None, bool center=True, "
    "bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False)"
)


@composite(_ISTFT)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose ``stft`` is closest to ``input``, a complex (batch?, frequencies, frames) tensor."""
    check(
        input.k.cat == D.COMPLEX,
        RuntimeError,
        "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.",
    )
    check(
        input.a.ndim in (2, 3), RuntimeError, f"istft: expected a tensor with 2 or 3 dimensions, but got {input.a.ndim}"
    )
    check(input.a.size > 0, RuntimeError, "istft: input tensor cannot be empty.")
    hop, win = _frame_lengths("istft", n_fft, hop_length, win_length)
    x = (input.unsqueeze(0) if input.a.ndim == 2 else input).transpose(1, 2)
    bins = x.a.shape[2]
    half = bins != n_fft if onesided is None else onesided
    want = n_fft // 2 + 1 if half else n_fft
    check(
        bins == want,
        RuntimeError,
        f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when "
        f"onesided=True (n_fft when False), but got {bins}, expected {want}",
    )
    check(not (return_complex and half), RuntimeError, "Cannot have onesided output if window or input is complex")
    full = _full_window(x, window, win, n_fft)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = SPACES["fft"]["ifft"](x, norm=norm)
    else:  # a real signal is determined by the first half of its spectrum
        frames = SPACES["fft"]["irfft"](x if half else x[..., : n_fft // 2 + 1], n_fft, norm=norm)
    y = _overlap_add(frames * full, hop)
    weight = _overlap_add((full * full).expand(1, x.a.shape[1], n_fft), hop)
    start = n_fft // 2 if center else 0
    total = y.a.shape[1]
    end = start + length if length is not None else total - n_fft // 2 if center else total
    y, weight = y[:, start : min(end, total)], weight[:, start : min(end, total)]
    lowest = float(np.abs(weight.a).min()) if weight.a.size else 1.0
    check(lowest > 1e-11, RuntimeError, f"istft: window overlap add min: {lowest}")
    y = y / weight
    if end > total:
        y = SPACES["torch"]["cat"]([y, y.new_zeros((y.a.shape[0], end - total))], 1)
    return y.squeeze(0) if input.a.ndim == 2 else y
