"""Damages valid checkpoints and loads them: ``python tests/formats/fuzz_checkpoints.py [--count 20000] [--seed 0]``.

Every format is damaged by bit flips, truncations and splices. A load may succeed or raise one of the documented errors;
it may not crash, hang (20 s), take more than 2 GB, or raise anything else. Where records carry checksums, a load that
succeeds must give the original contents.
"""

from __future__ import annotations

import argparse
import io
import pickle
import random
import resource
import signal
import sys
import zipfile
from typing import Any

import numpy as np
from old_files import tar_checkpoint, version_040_checkpoint

import mindtorch.torch as mt
import torch
from mindtorch.formats import pth

EXPECTED = (RuntimeError, pickle.UnpicklingError, EOFError)


def content() -> dict[str, Any]:
    """A little of everything a checkpoint holds."""
    torch.manual_seed(0)
    x = torch.arange(24.0).reshape(4, 6)
    net = torch.nn.Linear(3, 2)
    return {
        "x": x, "view": x.t(), "half": torch.ones(3).bfloat16(), "u": torch.arange(3).to(torch.uint16),
        "model": net.state_dict(), "p": torch.nn.Parameter(torch.ones(2)), "n": [1, 2.5, "text", (None, True), {1, 2}],
        "c": torch.ones(2, dtype=torch.complex64), "size": torch.Size([1, 2]), "d": torch.float16,
    }  # fmt: skip


def bases() -> dict[str, bytes]:
    """Valid files by format; names of those with checksums start with "zip"."""
    data = content()
    files = {}
    for name, kwargs in (("zip", {}), ("legacy", {"_use_new_zipfile_serialization": False})):
        out = io.BytesIO()
        torch.save({k: v for k, v in data.items() if k != "u" or name == "zip"}, out, **kwargs)
        files[name] = out.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(files["zip"])) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for n in old.namelist():
            new.writestr(n, old.read(n))
    files["zip deflated"] = packed.getvalue()
    files["zip 0.4.0"] = version_040_checkpoint({"w": np.arange(6, dtype=np.float32).reshape(2, 3)})
    files["tar"] = tar_checkpoint().getvalue()
    return files


def plain(value: Any) -> Any:
    """A comparable form of a loaded object."""
    if isinstance(value, mt.Tensor):
        value = value.detach().a
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, np.ascontiguousarray(value).tobytes()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value)


def damage(raw: bytes, rng: random.Random) -> bytes:
    """One to three flips, truncations or splices."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.random()
        if not data:
            break
        at = rng.randrange(len(data))
        if kind < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.6:
            data[at] = rng.choice((0, 255, 0x2E, 0x52, 0x7F))
        elif kind < 0.75:
            del data[at:]
        else:
            n, start = rng.randrange(1, 64), rng.randrange(len(data))
            end = at + (n if rng.random() < 0.5 else rng.randrange(64))
            data[at:end] = data[start : start + n]
    return bytes(data)


def load(raw: bytes, which: int) -> Any:
    """The file read as arrays or as tensors."""
    return pth.load_arrays(io.BytesIO(raw)) if which else mt.load(io.BytesIO(raw))


def _hang(*_: Any) -> None:
    raise TimeoutError("the load hangs")


def _limit_memory() -> None:
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (2 << 30), resource.RLIM_INFINITY))


def main() -> int:
    """Number of failures, printed one by one with the seed that repeats them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20000, help="mutations of each format")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, _hang)
    bad = 0
    files = bases()
    good = {name: [plain(load(raw, which)) for which in (0, 1)] for name, raw in files.items() if name != "tar"}
    good["tar"] = [plain(load(files["tar"], 0)), plain(load(files["tar"], 1))]
    _limit_memory()
    for name, raw in files.items():
        loaded = 0
        for i in range(args.count):
            rng = random.Random(f"{args.seed} {name} {i}")
            broken = damage(raw, rng)
            signal.alarm(20)
            try:
                got = plain(load(broken, i % 2))
                loaded += 1
                if name.startswith("zip") and got != good[name][i % 2]:
                    raise AssertionError("wrong data, and no error")
            except EXPECTED:
                pass
            except ValueError as e:
                if "endianness" not in str(e):
                    bad += 1
                    print(f"{name} #{i} (seed {args.seed}): {type(e).__name__} {e}", flush=True)
            except Exception as e:
                bad += 1
                print(f"{name} #{i} (seed {args.seed}): {type(e).__name__} {e}", flush=True)
            finally:
                signal.alarm(0)
        print(f"{name}: {args.count} damaged files, {loaded} still loaded", flush=True)
    return bad


if __name__ == "__main__":
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.exit(1 if main() else 0)
