"""The checksum of zip records (CRC-32) at the speed of memory, with NumPy only.

``x**91639 + x**41678 + 1`` is a multiple of the checksum's polynomial, and so, raised to the sixteenth power, is
``x**(16*91639) + x**(16*41678) + 1``. Hence a byte may be dropped when it is added (exclusive or) to the bytes
2 * 49,961 and 2 * 91,639 places further on: that folds a message to its last 183,278 bytes, whose checksum zlib
computes. The sixteenth power is the fastest: stretches are long enough for NumPy and short enough for the cache.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

FAR = 2 * 91639
NEAR = FAR - 2 * 41678
_STEP = NEAR // 64 * 64
_ROUND = 16 * _STEP
SMALL = 4 * FAR
"""Below this many bytes zlib alone is as fast."""


class Crc32:
    """The checksum of ``data`` (flat uint8), which may still be filled: `advance` says how far it is."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.done = 0
        # e[:FAR] are the last folded bytes: what they owe to later bytes is not paid yet.
        self.e = np.zeros(FAR + _ROUND, np.uint8) if data.size >= SMALL else None

    def advance(self, filled: int) -> None:
        """Fold what can be folded when ``data[:filled]`` is final."""
        e, data, xor = self.e, self.data, np.bitwise_xor
        if e is None:
            return
        while self.done < filled - FAR:
            part = data[self.done : min(self.done + _ROUND, filled - FAR)]
            end = FAR + part.size
            for at in range(FAR, end, _STEP):
                to = min(at + _STEP, end)
                out = e[at:to]
                xor(part[at - FAR : to - FAR], e[at - NEAR : to - NEAR], out)
                if self.done == 0 and at == FAR:
                    # The register starts as all ones: the same as four inverted bytes and a register of zeros.
                    out[:4] ^= 0xFF
                xor(out, e[at - FAR : to - FAR], out)
            e[:FAR] = e[part.size : end].copy()
            self.done += part.size

    def value(self) -> int:
        """The checksum, all of ``data`` being final."""
        if self.e is None:
            return zlib.crc32(self.data)
        self.advance(self.data.size)
        left = self.data[self.done :] ^ self.e[:FAR]
        left[:NEAR] ^= self.e[FAR - NEAR : FAR]
        return zlib.crc32(left, 0xFFFFFFFF)


def crc32(data: Any) -> int:
    """The checksum of bytes or of a contiguous array."""
    view = memoryview(data)
    return Crc32(np.frombuffer(view, np.uint8)).value() if view.nbytes else 0
