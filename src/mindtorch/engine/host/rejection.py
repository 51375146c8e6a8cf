"""Samplers that reject: gamma (Marsaglia and Tsang 2000), Poisson and binomial (Hoermann 1993; inversion when small).

One source serves both bodies: in Python ``unit`` and ``gauss`` take draws from a :class:`Draws`, in compiled kernels
helpers of the same names take them from the shared state. PyTorch's order of draws and its mixture of float32 and
float64 constants are kept, so results are equal bit for bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.engine.host.boxmuller import TWO_PI
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.mt19937 import Stream, stream_of, twist

F = np.float32
THIRD = F(1.0) / F(3.0)
SQUEEZE = float(F(0.0331))
STIRLING = np.array(
    [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ]
)


class Draws:
    """Draws for Python loops: words are fetched many at a time, and those not used are given back."""

    def __init__(self, s: Stream, expect: int) -> None:
        self.s = s
        self.size = min(max(64, 6 * expect), 65536)
        self._fetch()

    def _fetch(self) -> None:
        self.mark = self.s.st.copy()
        self.words = self.s.raw(self.size).tolist()
        self.at = 0

    def unit(self) -> float:
        """One float64 in [0, 1)."""
        i = self.at
        if i + 2 > self.size:
            self._fetch()
            i = 0
        self.at = i + 2
        return (((self.words[i] << 32) | self.words[i + 1]) & 0x1FFFFFFFFFFFFF) * 2.0**-53

    def close(self) -> None:
        """Leave the stream just behind the last draw used."""
        self.s.st[:] = self.mark
        if self.at:
            self.s.bg.random_raw(self.at)


def unit(d: Any) -> float:
    """One float64 in [0, 1)."""
    return d.unit()


def _compiled_unit(st: Any) -> Any:
    r = np.int64(0)
    for _ in range(2):
        p = np.int64(st[624])
        if p >= 624:
            twist(st)
            p = np.int64(0)
        y = st[p]
        y = y ^ (y >> np.uint32(11))
        y = y ^ ((y << np.uint32(7)) & np.uint32(0x9D2C5680))
        y = y ^ ((y << np.uint32(15)) & np.uint32(0xEFC60000))
        y = np.uint32(y ^ ((y & np.uint32(0xFFFFFFFF)) >> np.uint32(18)))
        st[624] = np.uint32(p + 1)
        r = (r << 32) | np.int64(y)
    return np.float64(r & 0x1FFFFFFFFFFFFF) * 1.1102230246251565e-16


_compiled_unit.__name__ = "unit"


def gauss(d, spare):  # type: ignore[no-untyped-def]
    """One standard normal; the second of a pair waits in ``spare``."""
    if spare[0] != 0.0:
        spare[0] = 0.0
        return spare[1]
    a = unit(d)
    b = unit(d)
    r = math.sqrt(-2.0 * math.log1p(-b))
    spare[0] = 1.0
    spare[1] = r * math.sin(TWO_PI * a)
    return r * math.cos(TWO_PI * a)


def gamma_one(d, spare, alpha, single):  # type: ignore[no-untyped-def]
    """One gamma variate of shape ``alpha`` and scale 1; ``single``: parameters are kept in float32."""
    if alpha == 0.0:
        return 0.0
    scale = 1.0
    if alpha < 1.0:
        power = float(F(1.0) / F(alpha)) if single else 1.0 / alpha
        scale = math.pow(1.0 - unit(d), power)
        alpha = float(F(alpha) + F(1.0)) if single else alpha + 1.0
    k = float(F(alpha) - THIRD) if single else alpha - float(THIRD)
    c = 1.0 / math.sqrt(9.0 * k)
    while True:
        x = gauss(d, spare)
        y = 1.0 + c * x
        while y <= 0.0:
            x = gauss(d, spare)
            y = 1.0 + c * x
        v = y * y * y
        u = 1.0 - unit(d)
        xx = x * x
        if u < 1.0 - SQUEEZE * xx * xx:
            return scale * k * v
        if math.log(u) < 0.5 * xx + k * (1.0 - v + math.log(v)):
            return scale * k * v


def poisson_one(d, rate):  # type: ignore[no-untyped-def]
    """One Poisson count: transformed rejection from a rate of 10 up, products of uniforms below."""
    if rate == 0.0:
        return 0.0
    if rate < 10.0:
        floor = math.exp(-rate)
        n = 0.0
        prod = unit(d)
        while prod > floor:
            n += 1.0
            prod *= unit(d)
        return n
    root = math.sqrt(rate)
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inv_alpha = 1.1239 + 1.1328 / (b - 3.4)
    vr = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = unit(d) - 0.5
        v = unit(d)
        us = 0.5 - abs(u)
        k = float(math.floor((2.0 * a / us + b) * u + rate + 0.43))
        if us >= 0.07 and v <= vr:
            return k
        if k < 0.0 or (us < 0.013 and v > us):
            continue
        left = math.log(v) + math.log(inv_alpha) - math.log(a / (us * us) + b)
        if left <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return k


def tail(k):  # type: ignore[no-untyped-def]
    """Rest of Stirling's series for log(k!)."""
    if k <= 9.0:
        return STIRLING[int(k)]
    kk = (k + 1.0) * (k + 1.0)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / kk) / kk) / (k + 1.0)


def binomial_half(d, n, p):  # type: ignore[no-untyped-def]
    """One binomial count for p <= 1/2: geometric gaps when n p < 10, transformed rejection above."""
    if n * p < 10.0:
        gaps = 0.0
        hits = 0.0
        log_q = math.log1p(-p)
        while True:
            u = unit(d)
            gaps += math.ceil(math.log(u) / log_q) if u > 0.0 else n + 1.0
            if gaps > n:
                return hits
            hits += 1.0
    sd = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * sd
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    vr = 0.92 - 4.2 / b
    r = p / (1.0 - p)
    alpha = (2.83 + 5.1 / b) * sd
    m = float(math.floor((n + 1.0) * p))
    while True:
        u = unit(d) - 0.5
        v = unit(d)
        us = 0.5 - abs(u)
        k = float(math.floor((2.0 * a / us + b) * u + c))
        if us >= 0.07 and v <= vr:
            return k
        if k < 0.0 or k > n:
            continue
        v = math.log(v * alpha / (a / (us * us) + b)) if v > 0.0 else -np.inf
        bound = (
            (m + 0.5) * math.log((m + 1.0) / (r * (n - m + 1.0)))
            + (n + 1.0) * math.log((n - m + 1.0) / (n - k + 1.0))
            + (k + 0.5) * math.log(r * (n - k + 1.0) / (k + 1.0))
            + tail(m)
            + tail(n - m)
            - tail(k)
            - tail(n - k)
        )
        if v <= bound:
            return k


def binomial_one(d, n, p):  # type: ignore[no-untyped-def]
    """One binomial count of ``n`` trials of probability ``p``."""
    if n <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return n
    if p <= 0.5:
        return binomial_half(d, n, p)
    return n - binomial_half(d, n, 1.0 - p)


# ------------------------------------------------------------------------------------------ over arrays
def _gamma(st: np.ndarray, spare: np.ndarray, alpha: np.ndarray, out: np.ndarray, single: bool) -> None:
    d = Draws(stream_of(st), alpha.size)
    pair = spare.tolist()
    out[:] = [gamma_one(d, pair, a, single) for a in alpha.tolist()]
    spare[:] = pair
    d.close()


def _poisson(st: np.ndarray, rate: np.ndarray, out: np.ndarray) -> None:
    d = Draws(stream_of(st), rate.size)
    out[:] = [poisson_one(d, r) for r in rate.tolist()]
    d.close()


def _binomial(st: np.ndarray, count: np.ndarray, p: np.ndarray, out: np.ndarray) -> None:
    d = Draws(stream_of(st), p.size)
    out[:] = [binomial_one(d, n, q) for n, q in zip(count.tolist(), p.tolist())]
    d.close()


@fused(_gamma, helpers=(twist, _compiled_unit, gauss, gamma_one), exact=True, weight=100)
def gamma(st, spare, alpha, out, single):  # type: ignore[no-untyped-def]
    """Flat float64 ``out`` of gamma variates of the shapes ``alpha`` (float64)."""
    for i in range(out.size):
        out[i] = gamma_one(st, spare, alpha[i], single)


@fused(_poisson, helpers=(twist, _compiled_unit, poisson_one), exact=True, weight=100)
def poisson(st, rate, out):  # type: ignore[no-untyped-def]
    """Flat float64 ``out`` of Poisson counts."""
    for i in range(out.size):
        out[i] = poisson_one(st, rate[i])


@fused(_binomial, helpers=(twist, _compiled_unit, tail, binomial_half, binomial_one), exact=True, weight=100)
def binomial(st, count, p, out):  # type: ignore[no-untyped-def]
    """Flat float64 ``out`` of binomial counts."""
    for i in range(out.size):
        out[i] = binomial_one(st, count[i], p[i])


def gamma_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d x / d a of a gamma sample ``x`` of shape ``a``: -(dF/da) / f, the derivative of F by central differences."""
    from scipy import special

    with np.errstate(all="ignore"):
        h = 1e-3 * a
        upper = x > a
        density = np.exp((a - 1.0) * np.log(x) - x - special.gammaln(a))

        def log_mass(b: np.ndarray) -> Any:
            return np.log(np.where(upper, special.gammaincc(b, x), special.gammainc(b, x)))

        slope = (8.0 * (log_mass(a + h) - log_mass(a - h)) - (log_mass(a + 2 * h) - log_mass(a - 2 * h))) / (12.0 * h)
        mass = np.where(upper, -special.gammaincc(a, x), special.gammainc(a, x))
        return np.asarray(-slope * mass / density)


def dirichlet_slope(x: np.ndarray, a: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Slope of a coordinate ``x`` of a Dirichlet sample in its own concentration ``a``, divided by 1 - x.

    The coordinate alone is a Beta(a, total - a) sample; its distribution function is differentiated as for the gamma.
    """
    from scipy import special

    with np.errstate(all="ignore"):
        b = total - a
        h = 1e-3 * a
        upper = x > a / total
        density = np.exp((a - 1.0) * np.log(x) + (b - 1.0) * np.log1p(-x) - special.betaln(a, b))

        def log_mass(c: np.ndarray) -> Any:
            return np.log(np.where(upper, special.betainc(b, c, 1.0 - x), special.betainc(c, b, x)))

        slope = (8.0 * (log_mass(a + h) - log_mass(a - h)) - (log_mass(a + 2 * h) - log_mass(a - 2 * h))) / (12.0 * h)
        mass = np.where(upper, -special.betainc(b, a, 1.0 - x), special.betainc(a, b, x))
        return np.asarray(-slope * mass / density / (1.0 - x))
