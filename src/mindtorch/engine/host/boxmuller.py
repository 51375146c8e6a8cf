"""Normal draws as PyTorch's CPU makes them: Box-Muller in blocks of 16, and one by one in pairs of doubles.

The block path of float32 depends on the machine, in PyTorch as here: with AVX2 it uses the Cephes single-precision
polynomials with fused multiply-adds, elsewhere (AVX-512, no AVX2) the C library's float functions. Both are reproduced
bit for bit: the first from the published Cephes coefficients, the second from the coefficients of ARM's optimized
routines (MIT licence), which glibc uses.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.mt19937 import CHUNK, HELPERS, M24, Stream, chunks, stream_of

F = np.float32
TWO_PI = 2.0 * math.pi


def _flavour() -> str:
    """``cephes`` where PyTorch would run its AVX2 kernels, ``libm`` otherwise."""
    wish = os.environ.get("ATEN_CPU_CAPABILITY", "").lower()
    if wish in ("default", "avx512"):
        return "libm"
    from numpy.core._multiarray_umath import __cpu_features__ as have

    if have.get("AVX512_SKX") and wish != "avx2":
        return "libm"
    return "cephes" if have.get("AVX2") and have.get("FMA3") else "libm"


FLAVOUR = _flavour()

# ------------------------------------------------------------------------------------------ Cephes, float32
LOG_P = tuple(
    F(c)
    for c in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
LOG_Q1, LOG_Q2 = F(-2.12194440e-4), F(0.693359375)
SQRT_HALF = F(0.707106781186547524)
FOUR_OVER_PI = F(1.27323954473516)
REDUCE = (F(-0.78515625), F(-2.4187564849853515625e-4), F(-3.77489497744594108e-8))
COS_P = (F(2.443315711809948e-5), F(-1.388731625493765e-3), F(4.166664568298827e-2))
SIN_P = (F(-1.9515295891e-4), F(8.3321608736e-3), F(-1.6666654611e-1))


def _fma(a: Any, b: Any, c: Any) -> np.ndarray:
    """float32 ``a * b + c`` with one rounding: the product is exact in float64."""
    p = np.multiply(a, b, dtype=np.float64)
    return np.add(p, c, out=np.empty(p.shape, F), casting="same_kind")


def _cephes_log(x: np.ndarray) -> np.ndarray:
    m, e = np.frexp(x)
    e = e.astype(F)
    small = m < SQRT_HALF
    e -= small
    x = np.where(small, (m - F(1)) + m, m - F(1))
    z = x * x
    y: Any = LOG_P[0]
    for p in LOG_P[1:]:
        y = _fma(y, x, p)
    y = _fma(y * x, z, e * LOG_Q1) - z * F(0.5)
    return (x + y) + e * LOG_Q2


def _cephes_sincos(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    j = ((x * FOUR_OVER_PI).astype(np.int32) + 1) & ~1
    y: Any = j.astype(F)
    for d in REDUCE:
        x = _fma(y, d, x)
    z = x * x
    y = _fma(_fma(COS_P[0], z, COS_P[1]), z, COS_P[2])
    c = _fma(y * z, z, z * F(-0.5)) + F(1)
    y = _fma(_fma(SIN_P[0], z, SIN_P[1]), z, SIN_P[2])
    s = _fma(y * z, x, x)
    swap = (j & 2) != 0
    return (
        np.where(swap, c, s) * np.where(j & 4, F(-1), F(1)),
        np.where(swap, s, c) * np.where((j - 2) & 4, F(1), F(-1)),
    )


# ------------------------------------------------------------------------------------------ the C library's floats
_hex = float.fromhex
LOG_INV = np.array(
    [
        _hex(v)
        for v in (
            "0x1.661ec79f8f3bep+0 0x1.571ed4aaf883dp+0 0x1.49539f0f010b0p+0 0x1.3c995b0b80385p+0 0x1.30d190c8864a5p+0 "
            "0x1.25e227b0b8ea0p+0 0x1.1bb4a4a1a343fp+0 0x1.12358f08ae5bap+0 0x1.0953f419900a7p+0 0x1.0000000000000p+0 "
            "0x1.e608cfd9a47acp-1 0x1.ca4b31f026aa0p-1 0x1.b2036576afce6p-1 0x1.9c2d163a1aa2dp-1 0x1.886e6037841edp-1 "
            "0x1.767dcf5534862p-1"
        ).split()
    ]
)
LOG_TAB = np.array(
    [
        _hex(v)
        for v in (
            "-0x1.57bf7808caadep-2 -0x1.2bef0a7c06ddbp-2 -0x1.01eae7f513a67p-2 -0x1.b31d8a68224e9p-3 "
            "-0x1.6574f0ac07758p-3 -0x1.1aa2bc79c8100p-3 -0x1.a4e76ce8c0e5ep-4 -0x1.1973c5a611cccp-4 "
            "-0x1.252f438e10c1ep-5 0x0.0p+0 0x1.aa5aa5df25984p-5 0x1.c5e53aa362eb4p-4 0x1.526e57720db08p-3 "
            "0x1.bc2860d224770p-3 0x1.1058bc8a07ee1p-2 0x1.4043057b6ee09p-2"
        ).split()
    ]
)
LN2 = math.log(2.0)
LA0, LA1, LA2 = _hex("-0x1.00ea348b88334p-2"), _hex("0x1.5575b0be00b6ap-2"), _hex("-0x1.ffffef20a4123p-2")
C1, C2 = _hex("-0x1.ffffffd0c621cp-2"), _hex("0x1.55553e1068f19p-5")
C3, C4 = _hex("-0x1.6c087e89a359dp-10"), _hex("0x1.99343027bf8c3p-16")
S1, S2, S3 = _hex("-0x1.555545995a603p-3"), _hex("0x1.1107605230bc4p-7"), _hex("-0x1.994eb3774cf24p-13")
HALF_PI = math.pi / 2


def _libm_log(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.int32)
    t = bits - np.int32(0x3F330000)
    i = (t >> 19) & 15
    r = (bits - (t & np.int32(-0x800000))).view(F).astype(np.float64) * LOG_INV[i] - 1.0
    r2 = r * r
    return ((LA0 * r2 + (LA1 * r + LA2)) * r2 + ((LOG_TAB[i] + (t >> 23) * LN2) + r)).astype(F)


def _libm_sincos(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x = angle.astype(np.float64)
    n = np.rint(x * (2.0 / math.pi)).astype(np.int32)
    x -= n * HALF_PI
    x2 = x * x
    x3, x4 = x * x2, x2 * x2
    s = (x + x3 * S1) + x3 * x2 * (S2 + x2 * S3)
    c = ((1.0 + x2 * C1) + x4 * C2) + x4 * x2 * (C3 + x2 * C4)
    odd = (n & 1) != 0
    return (
        (np.where(odd, c, s) * np.where(n & 2, -1.0, 1.0)).astype(F),
        (np.where(odd, s, c) * np.where((n + 1) & 2, -1.0, 1.0)).astype(F),
    )


# ------------------------------------------------------------------------------------------ blocks of 16
def _blocks32(st: np.ndarray, out: np.ndarray, mean: Any, std: Any) -> None:
    s = stream_of(st)
    for i in range(0, out.size, CHUNK):
        part = out[i : i + CHUNK].reshape(-1, 2, 8)
        u = ((s.raw(part.size) & M24).astype(F) * F(2.0**-24)).reshape(-1, 2, 8)
        if FLAVOUR == "cephes":
            r = np.sqrt(F(-2) * _cephes_log(F(1) - u[:, 0]))
            sin, cos = _cephes_sincos(u[:, 1] * F(TWO_PI))
        else:
            r = np.sqrt(F(-2) * _libm_log(F(1) - u[:, 0]))
            sin, cos = _libm_sincos((u[:, 1].astype(np.float64) * TWO_PI).astype(F))
        np.multiply(r, cos, out=part[:, 0])
        np.multiply(r, sin, out=part[:, 1])
        if mean != 0 or std != 1:
            part[:] = _fma(part, std, mean)


def cephes_radius(x):  # type: ignore[no-untyped-def]
    """sqrt(-2 log(x)) of a float32 in (0, 1]; inside fused kernels only."""
    bits = f2i(x)  # noqa: F821 - predefined
    e = F(np.int32((bits >> np.int32(23)) - np.int32(126)))
    x = i2f(np.int32((bits & np.int32(0x7FFFFF)) | np.int32(0x3F000000)))  # noqa: F821
    low = x < SQRT_HALF
    e = e - F(1.0) if low else e
    x = (x - F(1.0)) + x if low else x - F(1.0)
    z = x * x
    y = fma32(LOG_P[0], x, LOG_P[1])  # noqa: F821
    y = fma32(y, x, LOG_P[2])  # noqa: F821
    y = fma32(y, x, LOG_P[3])  # noqa: F821
    y = fma32(y, x, LOG_P[4])  # noqa: F821
    y = fma32(y, x, LOG_P[5])  # noqa: F821
    y = fma32(y, x, LOG_P[6])  # noqa: F821
    y = fma32(y, x, LOG_P[7])  # noqa: F821
    y = fma32(y, x, LOG_P[8])  # noqa: F821
    y = fma32(y * x, z, e * LOG_Q1) - z * F(0.5)  # noqa: F821
    return math.sqrt(F(-2.0) * ((x + y) + e * LOG_Q2))


def cephes_sincos(x):  # type: ignore[no-untyped-def]
    """(sin, cos) of a float32 in [0, 2 pi); inside fused kernels only."""
    k = np.int32(np.int32(np.int32(x * FOUR_OVER_PI) + np.int32(1)) & np.int32(-2))
    y = F(k)
    x = fma32(y, REDUCE[0], x)  # noqa: F821
    x = fma32(y, REDUCE[1], x)  # noqa: F821
    x = fma32(y, REDUCE[2], x)  # noqa: F821
    z = x * x
    y = fma32(fma32(COS_P[0], z, COS_P[1]), z, COS_P[2]) * z  # noqa: F821
    c = fma32(y, z, z * F(-0.5)) + F(1.0)  # noqa: F821
    y = fma32(fma32(SIN_P[0], z, SIN_P[1]), z, SIN_P[2]) * z  # noqa: F821
    s = fma32(y, x, x)  # noqa: F821
    swap = np.int32(k & np.int32(2)) != np.int32(0)
    sin = c if swap else s
    cos = s if swap else c
    sin = -sin if np.int32(k & np.int32(4)) != np.int32(0) else sin
    cos = cos if np.int32(np.int32(k - np.int32(2)) & np.int32(4)) != np.int32(0) else -cos
    return sin, cos


@fused(_blocks32, helpers=(*HELPERS, cephes_radius, cephes_sincos), weight=8)
def _cephes32(st, out, mean, std):  # type: ignore[no-untyped-def]
    # long unit-stride loops over scratch arrays: LLVM vectorises these, not the blocks of 8 in place
    buf = np.empty(8192, np.uint32)
    radius = np.empty(4096, np.float32)
    angle = np.empty(4096, np.float32)
    total = out.size
    for start in range(0, total, 8192):
        m = min(8192, total - start)
        words(st, buf, m)  # noqa: F821 - helper
        for b in range(0, m, 16):
            for j in range(8):
                radius[(b >> 1) + j] = F(np.int32(buf[b + j] & np.uint32(0xFFFFFF)))
                angle[(b >> 1) + j] = F(np.int32(buf[b + 8 + j] & np.uint32(0xFFFFFF)))
        for i in range(m >> 1):
            radius[i] = cephes_radius(F(1.0) - radius[i] * F(5.9604644775390625e-08))
        for i in range(m >> 1):
            r = radius[i]
            sin, cos = cephes_sincos(angle[i] * F(5.9604644775390625e-08) * F(TWO_PI))
            radius[i] = fma32(r * cos, std, mean)  # noqa: F821
            angle[i] = fma32(r * sin, std, mean)  # noqa: F821
        for b in range(0, m, 16):
            for j in range(8):
                out[start + b + j] = radius[(b >> 1) + j]
                out[start + b + 8 + j] = angle[(b >> 1) + j]


@fused(_blocks32, helpers=HELPERS, weight=8, exact=True)
def _libm32(st, out, mean, std):  # type: ignore[no-untyped-def]
    buf = np.empty(8192, np.uint32)
    total = out.size
    for start in range(0, total, 8192):
        m = min(8192, total - start)
        words(st, buf, m)  # noqa: F821 - helper
        for b in range(0, m, 16):
            for j in range(8):
                u = F(1.0) - F(np.int32(buf[b + j] & np.uint32(0xFFFFFF))) * F(5.9604644775390625e-08)
                bits = f2i(u)  # noqa: F821
                t = np.int32(bits - np.int32(0x3F330000))
                i = (t >> np.int32(19)) & np.int32(15)
                q = np.float64(i2f(np.int32(bits - (t & np.int32(-0x800000))))) * LOG_INV[i] - 1.0  # noqa: F821
                q2 = q * q
                y = (LA0 * q2 + (LA1 * q + LA2)) * q2 + ((LOG_TAB[i] + np.float64(t >> np.int32(23)) * LN2) + q)
                r = math.sqrt(F(-2.0) * F(y))
                v = F(np.int32(buf[b + 8 + j] & np.uint32(0xFFFFFF))) * F(5.9604644775390625e-08)
                x = np.float64(F(np.float64(v) * TWO_PI))
                n = np.int64(x * (2.0 / math.pi) + 0.5)
                x = x - np.float64(n) * HALF_PI
                x2 = x * x
                x3 = x * x2
                x4 = x2 * x2
                s = (x + x3 * S1) + x3 * x2 * (S2 + x2 * S3)
                c = ((1.0 + x2 * C1) + x4 * C2) + x4 * x2 * (C3 + x2 * C4)
                sin = c if n & 1 else s
                cos = s if n & 1 else c
                sin = -sin if n & 2 else sin
                cos = -cos if (n + 1) & 2 else cos
                out[start + b + j] = fma32(r * F(cos), std, mean)  # noqa: F821
                out[start + b + 8 + j] = fma32(r * F(sin), std, mean)  # noqa: F821


blocks32 = _cephes32 if FLAVOUR == "cephes" else _libm32
"""``blocks32(st, out, mean, std)``: fill flat float32 ``out``, a multiple of 16 long, one draw per element."""


def fma64(a: Any, b: Any, c: Any) -> np.ndarray:
    """float64 ``a * b + c`` with one rounding, by exact splitting of product and sum."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    p = a * b
    split = 134217729.0
    ah = a * split
    ah = ah - (ah - a)
    bh = b * split
    bh = bh - (bh - b)
    al, bl = a - ah, b - bh
    err = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    s = p + c
    t = s - p
    r = s + (((p - (s - t)) + (c - t)) + err)
    return np.where(np.isfinite(r), r, s)


def _blocks64(st: np.ndarray, out: np.ndarray) -> None:
    s = stream_of(st)
    for i in range(0, out.size, CHUNK):
        part = out[i : i + CHUNK].reshape(-1, 2, 8)
        u = s.unit(part.size).reshape(-1, 2, 8)
        r = np.sqrt(-2.0 * np.log(1.0 - u[:, 0]))
        angle = TWO_PI * u[:, 1]
        np.multiply(r, np.cos(angle), out=part[:, 0])
        np.multiply(r, np.sin(angle), out=part[:, 1])


@fused(_blocks64, helpers=HELPERS, weight=4, exact=True)
def blocks64(st, out):  # type: ignore[no-untyped-def]
    """Fill flat float64 ``out``, a multiple of 16 long, two draws per element."""
    buf = np.empty(32, np.uint32)
    unit = np.empty(16, np.float64)
    for b in range(0, out.size, 16):
        words(st, buf, 32)  # noqa: F821 - helper
        for j in range(16):
            w = (np.int64(buf[2 * j] & np.uint32(0x1FFFFF)) << 32) | np.int64(buf[2 * j + 1])
            unit[j] = np.float64(w) * 1.1102230246251565e-16
        for j in range(8):
            r = math.sqrt(-2.0 * math.log(1.0 - unit[j]))
            angle = TWO_PI * unit[8 + j]
            out[b + j] = r * math.cos(angle)
            out[b + 8 + j] = r * math.sin(angle)


def _log_draws(st: np.ndarray, out: np.ndarray, factor: float) -> None:
    s = stream_of(st)
    for c in chunks(out.size):
        out[c] = factor * np.log1p(-s.unit(out[c].size))


@fused(_log_draws, helpers=HELPERS, weight=2, exact=True)
def log_draws(st, out, factor):  # type: ignore[no-untyped-def]
    """Fill flat float64 ``out`` with ``factor * log(1 - D)``, two draws per element."""
    buf = np.empty(2048, np.uint32)
    for start in range(0, out.size, 1024):
        m = min(1024, out.size - start)
        words(st, buf, 2 * m)  # noqa: F821 - helper
        for j in range(m):
            w = (np.int64(buf[2 * j] & np.uint32(0x1FFFFF)) << 32) | np.int64(buf[2 * j + 1])
            out[start + j] = factor * math.log1p(np.float64(w) * -1.1102230246251565e-16)


# ------------------------------------------------------------------------------------------ pairs
def pairs(s: Stream, n: int) -> np.ndarray:
    """``n`` standard normals one by one: pairs of doubles, the second of each kept in the stream for the next call."""
    out = np.empty(n)
    i = 0
    if n and s.spare[0]:
        out[0] = s.spare[1]
        s.spare[0] = 0.0
        i = 1
    k = (n - i + 1) // 2
    if k == 0:
        return out
    if k <= 24:  # Python's math is the C library's, and quicker here than NumPy's calls
        flat: list[float] = []
        w = s.bg.random_raw(4 * k).tolist()
        for j in range(0, 4 * k, 4):
            angle = TWO_PI * ((((w[j] << 32) | w[j + 1]) & 0x1FFFFFFFFFFFFF) * 2.0**-53)
            r = math.sqrt(-2.0 * math.log1p((((w[j + 2] << 32) | w[j + 3]) & 0x1FFFFFFFFFFFFF) * -(2.0**-53)))
            flat += (r * math.cos(angle), r * math.sin(angle))
        both = np.array(flat)
    else:
        u = s.unit(2 * k)
        r = np.sqrt(-2.0 * np.log1p(-u[1::2]))
        angles = TWO_PI * u[0::2]
        both = np.empty(2 * k)
        both[0::2] = r * np.cos(angles)
        both[1::2] = r * np.sin(angles)
    out[i:] = both[: n - i]
    if (n - i) % 2:
        s.spare[:] = 1.0, both[-1]
    return out
