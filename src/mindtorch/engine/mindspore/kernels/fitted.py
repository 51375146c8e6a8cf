"""MindSpore kernels of Bessel functions of the second kind and of Airy's function, by Chebyshev series in float64.

MindSpore's own are good to 1e-4, or absent. What is left of each function when its logarithm, its poles, its growth and its
oscillation are divided out is smooth; its series is fitted once, on first use, to SciPy's values (1e-14 of the largest).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.activations import number
from mindtorch.engine.mindspore.kernels.pointwise import _where, zeros

ms = door.load()
mint = ms.mint
_NEAR = 8.0  # from here on Bessel functions are a wave with slowly varying modulus and phase
_LOW, _HIGH = -6.0, 2.0  # Airy's function is a wave below, falls exponentially above


class Series:
    """A Chebyshev series on an interval, summed by Clenshaw's recurrence."""

    def __init__(self, fn: Callable[[np.ndarray], np.ndarray], low: float, high: float, degree: int) -> None:
        self.low, self.high = low, high
        self.terms = np.polynomial.chebyshev.chebinterpolate(lambda u: fn((u + 1) / 2 * (high - low) + low), degree).tolist()

    def __call__(self, t: Any) -> Any:
        u = mint.sub(mint.mul(t, number(4 / (self.high - self.low), t)), number(2 * (self.high + self.low) / (self.high - self.low), t))
        p = q = zeros(u)
        for c in self.terms[:0:-1]:
            p, q = mint.add(mint.sub(mint.mul(u, p), q), number(c, u)), p
        return mint.add(mint.sub(mint.mul(mint.mul(u, number(0.5, u)), p), q), number(self.terms[0], u))


@functools.cache
def _bessel(order: int) -> tuple[Series, Series, Series, Series]:
    """Of order 0 or 1: the even parts of J and of Y without its logarithm (and pole), then modulus and phase far away."""
    from scipy import special

    j, y = (special.j0, special.y0) if order == 0 else (special.j1, special.y1)

    def first(t: np.ndarray) -> np.ndarray:
        x = np.sqrt(t)
        return np.asarray(j(x) / x**order)

    def second(t: np.ndarray) -> np.ndarray:
        x = np.sqrt(t)
        pole = 2 / (math.pi * x) if order else 0.0
        return np.asarray((y(x) - 2 / math.pi * np.log(x) * j(x) + pole) / x**order)

    def far(even: bool) -> Callable[[np.ndarray], np.ndarray]:
        def part(z: np.ndarray) -> np.ndarray:
            x = _NEAR / np.sqrt(z)
            turn = x - math.pi / 4 - order * math.pi / 2
            scale = np.sqrt(math.pi * x / 2)
            if even:
                return np.asarray(scale * (j(x) * np.cos(turn) + y(x) * np.sin(turn)))
            return np.asarray(scale * (y(x) * np.cos(turn) - j(x) * np.sin(turn)) * x / _NEAR)

        return part

    return Series(first, 0, _NEAR**2, 26), Series(second, 0, _NEAR**2, 26), Series(far(True), 0, 1, 16), Series(far(False), 0, 1, 16)


def _second_kind(order: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        if x.dtype not in (ms.float32, ms.float64) or 0 in x.shape:
            raise Unsupported(f"dtype {x.dtype}, or nothing")
        even, rest, modulus, phase = _bessel(order)
        a = x.astype(ms.float64)
        beyond, inside = mint.greater(a, number(_NEAR, a)), mint.greater(a, zeros(a))
        one = mint.add(zeros(a), number(1, a))
        s = _where(mint.logical_and(inside, mint.logical_not(beyond)), a, one)
        t = mint.mul(s, s)
        near = mint.add(mint.mul(mint.mul(mint.log(s), even(t)), number(2 / math.pi, s)), rest(t))
        if order:
            near = mint.sub(mint.mul(near, s), mint.div(number(2 / math.pi, s), s))
        far = _far(_where(mint.logical_and(beyond, mint.isfinite(a)), a, mint.mul(one, number(_NEAR, a))), order, modulus, phase)
        r = _where(beyond, far, near)
        edge = _where(mint.less(a, zeros(a)), mint.mul(one, number(np.nan, a)), mint.mul(one, number(-np.inf, a)))
        r = _where(inside, r, edge)
        return _where(mint.isfinite(a), r, mint.sub(a, a)).astype(x.dtype)  # undefined at infinity, as PyTorch has it

    return run


def _far(x: Any, order: int, modulus: Series, phase: Series) -> Any:
    w = mint.div(number(_NEAR, x), x)
    z = mint.mul(w, w)
    turn = mint.sub(x, number(math.pi / 4 + order * math.pi / 2, x))
    wave = mint.add(mint.mul(modulus(z), mint.sin(turn)), mint.mul(mint.mul(w, phase(z)), mint.cos(turn)))
    return mint.mul(wave, mint.sqrt(mint.div(number(2 / math.pi, x), x)))


kernel("bessel_y0")(_second_kind(0))
kernel("bessel_y1")(_second_kind(1))


@functools.cache
def _airy() -> tuple[Series, Series, Series, Series]:
    """Ai between; Ai without its fall, over 1/zeta; and the two parts of the wave, over 1/zeta^2."""
    from scipy import special

    def fall(w: np.ndarray) -> np.ndarray:
        x = (1.5 / w) ** (2 / 3)
        return np.asarray(special.airye(x)[0].real * x**0.25)

    def wave(even: bool) -> Callable[[np.ndarray], np.ndarray]:
        def part(z: np.ndarray) -> np.ndarray:
            zeta = 1 / np.sqrt(z)
            x = (1.5 * zeta) ** (2 / 3)
            ai, _, bi, _ = special.airy(-x)
            s, c = np.sin(zeta + math.pi / 4), np.cos(zeta + math.pi / 4)
            return np.asarray((ai * s + bi * c if even else (bi * s - ai * c) * zeta) * x**0.25)

        return part

    top = 1 / (2 / 3 * (-_LOW) ** 1.5)
    return (
        Series(lambda x: special.airy(x)[0], _LOW, _HIGH, 40), Series(fall, 0, 1 / (2 / 3 * _HIGH**1.5), 24),
        Series(wave(True), 0, top**2, 12), Series(wave(False), 0, top**2, 12),
    )  # fmt: skip


@kernel("airy_ai")
def _airy_ai(x: Any) -> Any:
    if x.dtype not in (ms.float32, ms.float64) or 0 in x.shape:
        raise Unsupported(f"dtype {x.dtype}, or nothing")
    between, fall, even, odd = _airy()
    a = x.astype(ms.float64)
    low, high, known = mint.less(a, number(_LOW, a)), mint.greater(a, number(_HIGH, a)), mint.isfinite(a)
    middle = between(_where(mint.logical_and(known, mint.logical_not(mint.logical_or(low, high))), a, zeros(a)))
    size = mint.abs(_where(mint.logical_and(known, mint.logical_or(low, high)), a, mint.add(zeros(a), number(-_LOW, a))))
    root = mint.sqrt(mint.sqrt(size))
    zeta = mint.mul(mint.mul(size, mint.sqrt(size)), number(2 / 3, a))
    w = mint.div(number(1, a), zeta)
    falling = mint.div(mint.mul(fall(w), mint.exp(mint.neg(zeta))), root)
    turn = mint.add(zeta, number(math.pi / 4, a))
    z = mint.mul(w, w)
    waving = mint.sub(mint.mul(even(z), mint.sin(turn)), mint.mul(mint.mul(odd(z), w), mint.cos(turn)))
    r = _where(high, falling, _where(low, mint.div(waving, root), middle))
    return _where(known, r, mint.sub(a, a)).astype(x.dtype)
