"""The raw random stream: MT19937 as PyTorch's CPU generator uses it, in memory that NumPy and fused kernels share.

A :class:`Stream` owns a NumPy bit generator. ``st`` is a view of the generator's own memory: 624 state words and, at
index 624, the position. NumPy draws in C through the object, fused kernels draw in place through ``st``, and both leave
the other in step. ``spare`` holds the second normal of a pair: ``[valid, value]``.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from mindtorch.engine.host.jit import fused

CHUNK = 8192
"""Elements worked on at a time, so that raw words stay in the second-level cache."""
STATE_BYTES = 5056
"""Length of PyTorch's serialised CPU generator."""
M24 = np.array(0xFFFFFF, np.uint64)
M53 = np.array((1 << 53) - 1, np.uint64)
_32 = np.array(32, np.uint64)
_STEP24 = np.array(2.0**-24)
_STEP53 = np.array(2.0**-53)
_by_address: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()


class Stream:
    """State of one generator: raw words, unit doubles, PyTorch's 5,056 state bytes."""

    __slots__ = ("__weakref__", "bg", "seed", "spare", "st")

    def __init__(self, seed: int) -> None:
        self.bg = np.random.MT19937(0)
        address = self.bg.ctypes.state_address
        self.st = np.ctypeslib.as_array((ctypes.c_uint32 * 625).from_address(address))
        self.spare = np.zeros(2)
        _by_address[self.st.__array_interface__["data"][0]] = self
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Start over from the low 32 bits of ``seed``; the full value (mod 2**64) is what ``initial_seed`` tells."""
        self.seed = seed & 0xFFFFFFFFFFFFFFFF
        self.bg._legacy_seeding(seed & 0xFFFFFFFF)
        self.spare[0] = 0.0

    def raw(self, n: int) -> np.ndarray:
        """``n`` 32-bit words in a uint64 array."""
        return self.bg.random_raw(n)

    def longs(self, n: int) -> np.ndarray:
        """``n`` 64-bit words, each of two draws, high word first."""
        w = self.bg.random_raw(2 * n)
        return (w[0::2] << _32) | w[1::2]

    def unit(self, n: int) -> np.ndarray:
        """``n`` float64 in [0, 1) of 53 bits, two draws each."""
        w = self.longs(n)
        np.bitwise_and(w, M53, out=w)
        return np.multiply(w, _STEP53, casting="unsafe", dtype=np.float64)

    def unit32(self, n: int) -> np.ndarray:
        """``n`` float32 in [0, 1) of 24 bits, one draw each."""
        w = self.bg.random_raw(n)
        np.bitwise_and(w, M24, out=w)
        return np.multiply(w, _STEP24, dtype=np.float32, casting="unsafe")

    def one(self) -> float:
        """One float64 in [0, 1)."""
        a, b = self.bg.random_raw(2).tolist()
        return (((a << 32) | b) & 0x1FFFFFFFFFFFFF) * 2.0**-53

    # ------------------------------------------------------------------------------------ serialisation
    def state(self) -> bytes:
        """PyTorch's layout: seed, words left, seeded, next, 624 words of 64 bits, cached normal."""
        pos = int(self.st[624])
        a, b = int(self.st[0]), int(self.st[1])
        # only a state that was seeded and never drawn from still has the recurrence of the seeding in it
        untouched = pos == 624 and b == (1812433253 * (a ^ (a >> 30)) + 1) & 0xFFFFFFFF
        head = struct.pack("<Qiiq", self.seed, 625 - pos, 1, 0 if untouched else pos)
        words = self.st[:624].astype(np.uint64).tobytes()
        valid = int(self.spare[0] != 0)
        tail = struct.pack("<dddii", 0.0, float(self.spare[1]) if valid else 0.0, 0.0, valid, 0)
        return head + words + tail + bytes(8)

    def restore(self, state: bytes) -> None:
        """Take over a state made by :meth:`state` or by PyTorch. RuntimeError when the length is wrong."""
        if len(state) != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be "
                f"{len(state)}"
            )
        seed, left, seeded, nxt = struct.unpack_from("<Qiiq", state)
        if not (0 < left <= 624 and seeded == 1 and 0 <= nxt <= 624):
            raise RuntimeError("Invalid mt19937 state")
        self.st[:624] = np.frombuffer(state, np.uint64, 624, 24).astype(np.uint32)
        self.st[624] = 625 - left
        self.seed = seed
        _, y, _, valid, _ = struct.unpack_from("<dddii", state, 24 + 4992)
        self.spare[:] = (1.0, y) if valid else (0.0, 0.0)

    def clone(self) -> Stream:
        """An independent copy at the same place."""
        new = Stream(0)
        new.st[:] = self.st
        new.spare[:] = self.spare
        new.seed = self.seed
        return new


def stream_of(st: np.ndarray) -> Stream:
    """The stream whose memory ``st`` is: NumPy fallbacks of fused kernels draw through it."""
    return _by_address[st.__array_interface__["data"][0]]


def chunks(n: int) -> Iterator[slice]:
    """Slices of at most CHUNK elements that cover ``n``."""
    for i in range(0, n, CHUNK):
        yield slice(i, min(n, i + CHUNK))


# ------------------------------------------------------------------------------------------ compiled draws
def twist(st: Any) -> None:
    """The next 624 state words; inside fused kernels only."""
    for i in range(227):
        y = (st[i] & np.uint32(0x80000000)) | (st[i + 1] & np.uint32(0x7FFFFFFF))
        odd = (np.uint32(0) - (y & np.uint32(1))) & np.uint32(0x9908B0DF)
        st[i] = st[i + 397] ^ (y >> np.uint32(1)) ^ odd
    for i in range(227, 623):
        y = (st[i] & np.uint32(0x80000000)) | (st[i + 1] & np.uint32(0x7FFFFFFF))
        odd = (np.uint32(0) - (y & np.uint32(1))) & np.uint32(0x9908B0DF)
        st[i] = st[i - 227] ^ (y >> np.uint32(1)) ^ odd
    y = (st[623] & np.uint32(0x80000000)) | (st[0] & np.uint32(0x7FFFFFFF))
    st[623] = st[396] ^ (y >> np.uint32(1)) ^ ((np.uint32(0) - (y & np.uint32(1))) & np.uint32(0x9908B0DF))


def words(st: Any, buf: Any, n: int) -> None:
    """Fill ``buf[:n]`` (uint32) with draws; inside fused kernels only."""
    p = np.int64(st[624])
    i = np.int64(0)
    while i < n:
        if p >= 624:
            twist(st)
            p = np.int64(0)
        m = min(624 - p, n - i)
        for j in range(m):
            y = st[p + j]
            y = y ^ (y >> np.uint32(11))
            y = y ^ ((y << np.uint32(7)) & np.uint32(0x9D2C5680))
            y = y ^ ((y << np.uint32(15)) & np.uint32(0xEFC60000))
            buf[i + j] = y ^ (y >> np.uint32(18))
        p += m
        i += m
    st[624] = np.uint32(p)


HELPERS = (twist, words)


def _uniform32(st: np.ndarray, out: np.ndarray, low: Any, scale: Any) -> None:
    s = stream_of(st)
    for c in chunks(out.size):
        part = out[c]
        np.multiply((s.raw(part.size) & M24).astype(np.uint32), np.float32(2.0**-24), out=part, casting="unsafe")
        if low != 0 or scale != 1:
            part[:] = part.astype(np.float64) * float(scale) + float(low)


@fused(_uniform32, helpers=HELPERS)
def uniform32(st, out, low, scale):  # type: ignore[no-untyped-def]
    """Fill flat float32 ``out`` with ``low + scale * F``, one rounding; ``low`` and ``scale`` are float32."""
    buf = np.empty(8192, np.uint32)
    n = out.size
    for start in range(0, n, 8192):
        m = min(8192, n - start)
        words(st, buf, m)
        for j in range(m):
            u = np.float32(np.int32(buf[j] & np.uint32(0xFFFFFF))) * np.float32(5.9604644775390625e-08)
            out[start + j] = u * scale + low


def _uniform64(st: np.ndarray, out: np.ndarray) -> None:
    s = stream_of(st)
    for c in chunks(out.size):
        out[c] = s.unit(out[c].size)


@fused(_uniform64, helpers=HELPERS)
def uniform64(st, out):  # type: ignore[no-untyped-def]
    """Fill flat float64 ``out`` with 53-bit uniforms."""
    buf = np.empty(8192, np.uint32)
    n = out.size
    for start in range(0, n, 4096):
        m = min(4096, n - start)
        words(st, buf, 2 * m)
        for j in range(m):
            w = (np.int64(buf[2 * j] & np.uint32(0x1FFFFF)) << 32) | np.int64(buf[2 * j + 1])
            out[start + j] = np.float64(w) * 1.1102230246251565e-16


def _below(st: np.ndarray, out: np.ndarray, limit: int, yes: Any) -> None:
    s = stream_of(st)
    high, low = limit >> 32, limit & 0xFFFFFFFF
    for c in chunks(out.size):
        part = out[c]
        w = s.raw(2 * part.size)
        h = (w[0::2] & np.uint64(0x1FFFFF)).astype(np.int32)
        keep = h < high
        tie = h == high
        if tie.any():
            keep |= tie & (w[1::2] < low)
        np.multiply(keep, yes, out=part, casting="unsafe")


@fused(_below, helpers=HELPERS)
def below(st, out, limit, yes):  # type: ignore[no-untyped-def]
    """``out[i] = yes if D * 2**53 < limit else 0``: Bernoulli draws and scaled dropout masks, two draws each."""
    buf = np.empty(8192, np.uint32)
    n = out.size
    for start in range(0, n, 4096):
        m = min(4096, n - start)
        words(st, buf, 2 * m)
        for j in range(m):
            w = (np.int64(buf[2 * j] & np.uint32(0x1FFFFF)) << 32) | np.int64(buf[2 * j + 1])
            out[start + j] = yes if w < limit else yes * 0


def _modulo(st: np.ndarray, out: np.ndarray, n: int, base: int) -> None:
    s = stream_of(st)
    d = np.uint32(n)
    for c in chunks(out.size):
        w = s.raw(out[c].size).astype(np.uint32)
        w -= w // d * d  # NumPy divides by an invariant with multiplications; its remainder does not
        out[c] = w
        if base:
            out[c] += base


@fused(_modulo, helpers=HELPERS)
def modulo(st, out, n, base):  # type: ignore[no-untyped-def]
    """Fill flat int64 ``out`` with ``R % n + base``, n < 2**28, one draw each."""
    buf = np.empty(8192, np.uint32)
    inverse = 1.0 / np.float64(n)
    total = out.size
    for start in range(0, total, 8192):
        m = min(8192, total - start)
        words(st, buf, m)
        for j in range(m):
            w = np.float64(buf[j])
            r = w - math.floor(w * inverse) * np.float64(n)  # noqa: F821 - given by the fused name space
            r = r + np.float64(n) if r < 0.0 else r
            r = r - np.float64(n) if r >= np.float64(n) else r
            out[start + j] = np.int64(r) + base


def _shuffle(st: np.ndarray, out: np.ndarray) -> None:
    n = out.size
    z = (stream_of(st).raw(max(n - 1, 0)) % np.arange(n, 1, -1, dtype=np.uint64)).tolist()
    items = out.tolist()
    for i, k in enumerate(z):
        k += i
        items[i], items[k] = items[k], items[i]
    out[:] = items


@fused(_shuffle, helpers=HELPERS, weight=16)
def shuffle(st, out):  # type: ignore[no-untyped-def]
    """Forward Fisher-Yates of flat int64 ``out``, one draw for each element but the last."""
    buf = np.empty(8192, np.uint32)
    n = out.size
    for start in range(0, n - 1, 8192):
        m = min(8192, n - 1 - start)
        words(st, buf, m)
        for j in range(m):
            i = start + j
            k = i + np.int64(buf[j]) % (n - i)
            t = out[i]
            out[i] = out[k]
            out[k] = t
