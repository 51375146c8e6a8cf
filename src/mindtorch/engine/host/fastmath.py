"""Float32 elementary functions that LLVM vectorises inside fused kernels, and the NumPy erf for when numba is absent.

``build(numba)`` compiles them and returns the names kernels may use. Each is within about one unit in the last place.
The polynomials were fitted for this project (weighted least squares in extended precision).
"""

from __future__ import annotations

from typing import Any

import numpy as np

F = np.float32
"""Float32 literals inside kernels: a bare Python literal would widen the loop to float64."""


def exp32(x):  # type: ignore[no-untyped-def]
    """exp of a float32: overflow gives inf, underflow denormals then 0, nan stays nan."""
    x = min(max(x, F(-104.0)), F(89.0))
    m = x * F(1.4426950408889634) + F(12582912.0)
    n = m - F(12582912.0)
    r = x - n * F(0.693145751953125)
    r = r - n * F(1.42860682030941723212e-6)
    p = F(1.98756915e-4)
    p = p * r + F(1.39819994e-3)
    p = p * r + F(8.33345205e-3)
    p = p * r + F(4.16657962e-2)
    p = p * r + F(1.66666657e-1)
    p = p * r + F(0.5)
    p = p * (r * r) + r + F(1.0)
    k = f2i(m) - np.int32(0x4B400000)  # noqa: F821
    h = k >> np.int32(1)
    a = i2f((h + np.int32(127)) << np.int32(23))  # noqa: F821
    b = i2f((k - h + np.int32(127)) << np.int32(23))  # noqa: F821
    return p * a * b


def expm1_32(x):  # type: ignore[no-untyped-def]
    """exp(x) - 1 of a float32, accurate near 0."""
    z = min(max(x, F(-0.34)), F(0.34))
    p = F(2.4801587e-5)
    p = p * z + F(1.98412698e-4)
    p = p * z + F(1.38888889e-3)
    p = p * z + F(8.33333333e-3)
    p = p * z + F(4.16666667e-2)
    p = p * z + F(1.66666667e-1)
    p = p * z + F(0.5)
    near = p * (z * z) + z
    far = exp32(x) - F(1.0)
    return near if z == x else far


def tanh32(x):  # type: ignore[no-untyped-def]
    """tanh of a float32 through exp(2x) - 1, accurate near 0."""
    e = expm1_32(min(max(x, F(-9.1)), F(9.1)) * F(2.0))
    return e / (e + F(2.0))


def erf32(x):  # type: ignore[no-untyped-def]
    """erf of a float32 as x * P(x^2) / Q(x^2) on [-4, 4], where it has reached 1."""
    x = min(max(x, F(-4.0)), F(4.0))
    z = x * x
    p = F(1.986686129384907e-06)
    p = p * z + F(0.00028454166022129357)
    p = p * z + F(0.003882862627506256)
    p = p * z + F(0.053100235760211945)
    p = p * z + F(0.19353580474853516)
    p = p * z + F(1.1283791065216064)
    q = F(3.741788896149956e-05)
    q = q * z + F(0.0011854287004098296)
    q = q * z + F(0.01520630531013012)
    q = q * z + F(0.11534591764211655)
    q = q * z + F(0.5048491954803467)
    q = q * z + F(1.0)
    return min(max(x * (p / q), F(-1.0)), F(1.0))


def log1p32(u):  # type: ignore[no-untyped-def]
    """log(1 + u) of a float32 u in [0, 1], through the odd series in u / (2 + u)."""
    s = u / (F(2.0) + u)
    z = s * s
    p = F(2.0 / 15.0)
    p = p * z + F(2.0 / 13.0)
    p = p * z + F(2.0 / 11.0)
    p = p * z + F(2.0 / 9.0)
    p = p * z + F(2.0 / 7.0)
    p = p * z + F(0.4)
    p = p * z + F(2.0 / 3.0)
    return s * z * p + s + s


def erf(x: np.ndarray) -> np.ndarray:
    """erf of a float array: the rational form in float32 (SciPy's is scalar, 24 times slower), SciPy's in float64."""
    if x.dtype != np.float32:
        from scipy.special import erf as exact

        return np.asarray(exact(x))
    x = np.minimum(np.maximum(x, F(-4.0)), F(4.0))
    z = x * x
    p = z * F(1.986686129384907e-06)
    q = z * F(3.741788896149956e-05)
    steps = (
        (0.00028454166022129357, 0.0011854287004098296),
        (0.003882862627506256, 0.01520630531013012),
        (0.053100235760211945, 0.11534591764211655),
        (0.19353580474853516, 0.5048491954803467),
    )
    for a, b in steps:
        p += F(a)
        p *= z
        q += F(b)
        q *= z
    p += F(1.1283791065216064)
    q += F(1.0)
    p /= q
    p *= x
    return np.asarray(np.minimum(np.maximum(p, F(-1.0)), F(1.0)))


def build(numba: Any) -> dict[str, Any]:
    """Names for sources: ``f2i``/``i2f`` (bit casts), ``fma32`` (rounds once), ``exp32``, ``erf32`` ... ``F``."""
    import math
    import types

    from llvmlite import ir
    from numba.extending import intrinsic

    @intrinsic
    def f2i(typingctx, value):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.bitcast(args[0], ir.IntType(32))

        return numba.int32(numba.float32), generate

    @intrinsic
    def i2f(typingctx, value):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.bitcast(args[0], ir.FloatType())

        return numba.float32(numba.int32), generate

    @intrinsic
    def fma32(typingctx, a, b, c):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.fma(*args)

        return numba.float32(numba.float32, numba.float32, numba.float32), generate

    @intrinsic
    def fma64(typingctx, a, b, c):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.fma(*args)

        return numba.float64(numba.float64, numba.float64, numba.float64), generate

    names: dict[str, Any] = {"f2i": f2i, "i2f": i2f, "fma32": fma32, "fma64": fma64, "F": F, "np": np, "math": math}
    for source in (exp32, expm1_32, tanh32, erf32, log1p32):
        twin = types.FunctionType(source.__code__, names, source.__name__)
        names[source.__name__] = numba.njit(forceinline=True, fastmath={"contract"})(twin)
    return names
