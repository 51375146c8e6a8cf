"""Feeds damaged ckpt, safetensors and npz files to the readers: each must be turned down in words or read truthfully.

    python scripts/fuzz_weights.py --count 20000

Checked for each file: no other exception than those the readers promise, at most ``--seconds`` of time, memory below
``--memory`` MiB for the whole process, and, where the format has a checksum, no value that differs from the original.
Exit status 1 when something was found; the damaged file is kept.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mindtorch.formats import ckpt, npz, safetensors

PROMISED = (RuntimeError,)
"""What a reader may raise for bytes that are no valid file."""


def originals() -> dict[str, tuple[bytes, Callable[[bytes], dict[str, Any]], bool]]:
    """Valid files: bytes, reader, and whether a checksum covers the contents."""
    rng = np.random.default_rng(0)
    values = {f"layer.{i}.weight": rng.standard_normal((3, i + 1)).astype("f4") for i in range(4)}
    values.update(
        b=np.array([True, False]), h=np.ones(5, ml_dtypes.bfloat16), i=np.arange(6).reshape(2, 3), s=np.array(2.5)
    )

    def made(write: Callable[..., None], *args: Any, **kwargs: Any) -> bytes:
        out = io.BytesIO()
        write(out, *args, **kwargs)
        return out.getvalue()

    packed = io.BytesIO()
    np.savez_compressed(packed, a=values["i"], b=np.zeros((50, 4)))
    return {
        "ckpt": (made(ckpt.write, {**values, "t": "text"}), ckpt.read, False),
        "ckpt with checksum": (made(ckpt.write, values, crc=True), ckpt.read, True),
        "safetensors": (made(safetensors.write, values, {"k": "v"}), lambda b: safetensors.read(b)[0], False),
        "npz": (made(npz.write, values), npz.read, True),
        "npz compressed": (packed.getvalue(), npz.read, True),
    }


def mutated(data: bytes, rng: random.Random) -> bytes:
    """``data`` with one to four injuries: bits, bytes, cuts, splices, repeats, and numbers made extreme."""
    b = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(max(len(b), 1))
        kind = rng.randrange(8)
        n = rng.choice((1, 2, 4, 8, 16, 64))
        if kind <= 1 and b:
            b[at] ^= 1 << rng.randrange(8)
        elif kind == 2 and b:
            b[at] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 3:
            del b[at:]
        elif kind == 4:
            del b[at : at + n]
        elif kind == 5:
            b[at:at] = bytes(rng.randrange(256) for _ in range(n))
        elif kind == 6:
            start = rng.randrange(max(len(b), 1))
            b[at:at] = b[start : start + n * 4]
        else:
            size = rng.choice((1, 2, 4, 8))
            b[at : at + size] = rng.choice((0, 1, (1 << 8 * size) - 1, 1 << (8 * size - 1))).to_bytes(size, "little")
    return bytes(b)


def same(a: Any, b: Any) -> bool:
    """Whether a value is what it was."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


def problem(read: Callable[[bytes], dict[str, Any]], data: bytes, whole: dict[str, Any] | None, limit: float) -> str:
    """What is wrong with how a reader takes ``data``; empty when nothing is. ``whole``: the truth, if it must hold."""
    start = time.monotonic()
    try:
        got = read(data)
    except PROMISED:
        got = {}
    except Exception as e:  # the point of this program
        return f"{type(e).__name__}: {e}"
    seconds = time.monotonic() - start
    if seconds > limit:
        return f"took {seconds:.1f} s"
    for name, value in got.items():
        if isinstance(value, np.ndarray):
            value.sum() if value.dtype.kind in "iufb" and value.dtype.itemsize > 1 else value.tobytes()
        if whole is not None and not (name in whole and same(value, whole[name])):
            return f"{name!r} was read wrongly although there is a checksum"
    return ""


def main() -> int:
    """Exit status."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=20_000, help="damaged files of each kind")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--seconds", type=float, default=5.0, help="time that one file may take")
    p.add_argument("--memory", type=int, default=1500, help="MiB of address space")
    p.add_argument("--keep", default="fuzz-found.bin", help="where a file that a reader failed on is kept")
    o = p.parse_args()
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (o.memory << 20, o.memory << 20))
    for name, (data, read, checked) in originals().items():
        rng = random.Random(f"{o.seed} {name}")
        whole = read(data)
        for i in range(o.count):
            bad = mutated(data, rng)
            # A cut takes a ckpt's checksum away, since it comes last: what is left has none.
            holds = checked and not (name.startswith("ckpt") and bad[-17:-10] != b"crc_num")
            found = problem(read, bad, whole if holds else None, o.seconds)
            if found:
                pathlib.Path(o.keep).write_bytes(bad)
                print(f"{name}, file {i}: {found}; kept as {o.keep}")
                return 1
        print(f"{name}: {o.count} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
