"""Feeds damaged files of every checkpoint format to the readers: each must be turned down in words or read truthfully.

    python scripts/fuzz_weights.py --count 20000 [--only zip,ckpt]

Checked for each file: no other exception than those the readers promise, at most ``--seconds`` of time, memory below
``--memory`` MiB more than at the start, and, where the format has a checksum, no value that differs from the original.
Exit status 1 when something was found; the damaged file is kept. PyTorch writes the valid checkpoints.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import pathlib
import pickle
import random
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import mindtorch.torch as mt
from mindtorch.formats import ckpt, npz, pth, safetensors

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/formats"))
from old_files import tar_checkpoint, version_040_checkpoint  # noqa: E402

PROMISED = (RuntimeError, pickle.UnpicklingError, EOFError)
"""What a reader may raise for bytes that are no valid file; ValueError too when it is about the byte order."""
def _mapped(data: bytes) -> Any:
    """Read as a user does who maps the file. A change of the contents is not noticed then, a broken outline is."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as file:
        file.write(data)
        file.flush()
        return mt.load(file.name, mmap=True)


_PTH = (lambda b: mt.load(io.BytesIO(b)), lambda b: pth.load_arrays(io.BytesIO(b)))


class Original(NamedTuple):
    """A valid file, its readers (taken in turn), and whether a checksum covers the contents."""

    data: bytes
    readers: tuple[Callable[[bytes], Any], ...]
    checked: bool


def checkpoints() -> dict[str, Original]:
    """PyTorch's files, with a little of everything they hold."""
    import torch

    torch.manual_seed(0)
    x = torch.arange(24.0).reshape(4, 6)
    state = {
        "x": x, "view": x.t(), "half": torch.ones(3).bfloat16(), "model": torch.nn.Linear(3, 2).state_dict(),
        "p": torch.nn.Parameter(torch.ones(2)), "n": [1, 2.5, "text", (None, True), {1, 2}],
        "c": torch.ones(2, dtype=torch.complex64), "size": torch.Size([1, 2]), "d": torch.float16,
    }  # fmt: skip
    plain, stream, packed = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save({**state, "u": torch.arange(3).to(torch.uint16)}, plain)
    torch.save(state, stream, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    old_file = version_040_checkpoint({"w": np.arange(6, dtype=np.float32).reshape(2, 3)})
    return {
        "zip": Original(plain.getvalue(), _PTH, True),
        "zip mapped": Original(plain.getvalue(), (_mapped,), False),
        "zip deflated": Original(packed.getvalue(), _PTH, True),
        "zip 0.4.0": Original(old_file, _PTH, True),
        "legacy": Original(stream.getvalue(), _PTH, False),
        "tar": Original(tar_checkpoint().getvalue(), _PTH, False),
    }


def weights() -> dict[str, Original]:
    """Files of the other formats."""
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
        "ckpt": Original(made(ckpt.write, {**values, "t": "text"}), (ckpt.read,), False),
        "ckpt with checksum": Original(made(ckpt.write, values, crc=True), (ckpt.read,), True),
        "safetensors": Original(
            made(safetensors.write, values, {"k": "v"}), (lambda b: safetensors.read(b)[0],), False
        ),
        "npz": Original(made(npz.write, values), (npz.read,), True),
        "npz compressed": Original(packed.getvalue(), (npz.read,), True),
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


def plain(value: Any) -> Any:
    """A comparable form of what was read; it touches every byte of the arrays."""
    if isinstance(value, mt.Tensor):
        value = value.detach().a
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, np.ascontiguousarray(value).tobytes()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value)


def _hang(*_: Any) -> None:
    raise TimeoutError("it takes too long")


def problem(read: Callable[[bytes], Any], data: bytes, whole: Any, limit: int) -> tuple[bool, str]:
    """Whether ``data`` was read, and what is wrong with that (empty: nothing). ``whole``: the truth, if it must hold."""
    signal.alarm(limit)
    try:
        got = plain(read(data))
    except PROMISED:
        return False, ""
    except Exception as e:  # the point of this program
        told = isinstance(e, ValueError) and "endianness" in str(e)
        return False, "" if told else f"{type(e).__name__}: {e}"
    finally:
        signal.alarm(0)
    if whole is None or got == whole:
        return True, ""
    # Archives of arrays may lose members, which no checksum covers; a pickle names all of its tensors.
    few = read not in _PTH and all(name in whole and whole[name] == value for name, value in got.items())
    return True, "" if few else "wrong contents although there is a checksum"


def fuzz(name: str, original: Original, o: argparse.Namespace) -> str:
    """What was found with ``o.count`` injured copies; empty when nothing was."""
    rng, data, loaded = random.Random(f"{o.seed} {name}"), original.data, 0
    wholes = [plain(read(data)) for read in original.readers]
    for i in range(o.count):
        bad, n = mutated(data, rng), i % len(wholes)
        # A cut takes a ckpt's checksum away, since it comes last: what is left has none.
        holds = original.checked and not (name.startswith("ckpt") and bad[-17:-10] != b"crc_num")
        read, found = problem(original.readers[n], bad, wholes[n] if holds else None, o.seconds)
        loaded += read
        if found:
            pathlib.Path(o.keep).write_bytes(bad)
            return f"{name}, file {i}: {found}; kept as {o.keep}"
    print(f"{name}: {o.count} files, {loaded} still read", flush=True)
    return ""


def main() -> int:
    """Exit status."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=20_000, help="damaged files of each kind")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--only", default="", help="first words of the kinds, with commas: zip,legacy,tar,ckpt,safetensors,npz")
    p.add_argument("--seconds", type=int, default=5, help="time that one file may take")
    p.add_argument("--memory", type=int, default=1500, help="MiB of address space beyond the start")
    p.add_argument("--keep", default="fuzz-found.bin", help="where a file that a reader failed on is kept")
    o = p.parse_args()
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _hang)
    files = {**checkpoints(), **weights()}
    for original in files.values():
        plain(original.readers[0](original.data))  # what is loaded on first use is loaded before memory is limited
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (o.memory << 20), resource.RLIM_INFINITY))
    found = [fuzz(n, f, o) for n, f in files.items() if not o.only or n.split()[0] in o.only.split(",")]
    print(*filter(None, found), sep="\n", end="")
    return 1 if any(found) else 0


if __name__ == "__main__":
    sys.exit(main())
