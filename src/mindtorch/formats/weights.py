"""Named weights of any checkpoint file, whatever its format: one way to read, one to write, one to list."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mindtorch.formats import ckpt, npz, pth, pth_arrays, safetensors
from mindtorch.formats.detect import KINDS, SUFFIXES, kind_of
from mindtorch.formats.source import as_pairs, from_pairs, opened

Progress = Callable[[int], Any]


@dataclass
class Weights:
    """What a file holds: arrays, numbers and texts by name, in the file's order."""

    kind: str
    values: dict[str, Any]
    metadata: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Names of what is neither an array, a number nor a text."""

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The tensors alone."""
        return {k: v for k, v in self.values.items() if isinstance(v, np.ndarray)}


# ------------------------------------------------------------------------------------------ nested checkpoints


def _is_leaf(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic, str, bytes, bool, int, float, complex)) or x is None


def _children(obj: Any) -> list[tuple[str, Any]]:
    return [] if _is_leaf(obj) else list(pth.children(obj))


def walk(
    obj: Any, name: str = "", above: tuple[int, ...] = (), visits: pth.Visits | None = None
) -> Iterator[tuple[str, Any]]:
    """``(dotted name, leaf)`` of a nested checkpoint; containers that are empty or unknown come as leaves too."""
    children = _children(obj)
    if not children:
        yield name, obj
        return
    if id(obj) in above or len(above) > 100:
        raise RuntimeError(f"the object in the file contains itself, or is nested too deeply, at {name!r}")
    visits = visits or pth.Visits()
    visits.note(obj, len(children))
    for key, child in children:
        yield from walk(child, f"{name}.{key}" if name and key else name or key, (*above, id(obj)), visits)


def _flat(obj: Any) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    left: list[str] = []
    for name, leaf in walk(obj):
        if isinstance(leaf, np.generic):
            leaf = leaf.item()
        if isinstance(leaf, (np.ndarray, str, bool, int, float, complex)):
            if name in values:
                raise RuntimeError(f"two entries of the nested checkpoint have the name {name!r}")
            values[name] = leaf
        elif not isinstance(leaf, (dict, list, tuple)):
            left.append(name)
    return values, left


def select(obj: Any, path: str) -> Any:
    """The part of a nested checkpoint at a dotted path (keys may contain dots themselves). KeyError if there is none."""
    if not path:
        return obj
    for key, child in _children(obj):
        if path == key:
            return child
        if path.startswith(f"{key}."):
            try:
                return select(child, path[len(key) + 1 :])
            except KeyError:
                continue
    raise KeyError(path)


def _is_nested(obj: Any) -> bool:
    return isinstance(obj, (dict, list, tuple)) and any(not _is_leaf(v) and _children(v) for _, v in _children(obj))


def _nested_error(obj: Any) -> ValueError:
    parts = []
    for key, child in _children(obj)[:13]:
        n = sum(isinstance(leaf, np.ndarray) for _, leaf in walk(child))
        parts.append(f"{key} ({n} tensors)" if not _is_leaf(child) else key)
    shown = ", ".join(parts[:12]) + (", ..." if len(parts) > 12 else "")
    return ValueError(
        f"the checkpoint is nested: {shown}. Take one part of it (select, --select NAME) or all under dotted names "
        "(flatten, --flatten)"
    )


def weights_of(tree: Any, kind: str, *, flatten: bool = False, part: str | None = None) -> Weights:
    """Named weights out of the object of a PyTorch file. ValueError when it is nested and neither option is given."""
    if part is not None:
        try:
            tree = select(tree, part)
        except KeyError:
            names = ", ".join(k for k, _ in _children(tree)) or "nothing"
            raise ValueError(f"the checkpoint has no part {part!r}; it has {names[:300]}") from None
        if isinstance(tree, np.ndarray):
            tree = {(part or "").rpartition(".")[2]: tree}
    if isinstance(tree, np.ndarray):
        tree = {"tensor": tree}
    if not flatten and _is_nested(tree):
        raise _nested_error(tree)
    values, left = _flat(tree)
    return Weights(kind, values, {}, left)


# ------------------------------------------------------------------------------------------ reading


class _Counting(io.RawIOBase):
    """An open file that reports what is read from it."""

    def __init__(self, file: Any, progress: Progress) -> None:
        super().__init__()
        self.file = file
        self.progress = progress

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        before = self.file.tell()
        at = self.file.seek(offset, whence)
        # A short way back is what a reader does who has looked too far ahead: these bytes will be read again.
        if 0 < before - at <= 1 << 16:
            self.progress(at - before)
        return at

    def read(self, n: int | None = -1) -> bytes:
        data = self.file.read(-1 if n is None else n)
        self.progress(len(data))
        return data

    def readline(self, n: int | None = -1) -> bytes:
        return self.file.readline(-1 if n is None else n)

    def readinto(self, buffer: Any) -> int:
        view, n = memoryview(buffer), 0
        # In pieces, so that a bar moves while one large tensor is read.
        while n < len(view):
            got = self.file.readinto(view[n : n + (8 << 20)])
            if not got:
                break
            self.progress(got)
            n += got
        return n


def tree_of(f: Any, progress: Progress | None = None) -> Any:
    """The object of a PyTorch file (path or binary file), TorchScript archives too, with arrays for tensors."""
    if progress is None or not isinstance(f, (str, os.PathLike)):
        return pth.load_arrays(f, unknown="keep", script=True)
    with open(f, "rb") as file:
        return pth.load_arrays(_Counting(file, progress), unknown="keep", script=True)


def read(f: Any, *, flatten: bool = False, part: str | None = None, progress: Progress | None = None) -> Weights:
    """The weights of a file (path or binary file) of any known format.

    ``flatten`` joins the names of nested PyTorch checkpoints with dots, ``part`` takes one part. ``progress(n)`` is
    called as bytes are read. RuntimeError (or UnpicklingError) for broken files, ValueError for nested ones.
    """
    kind = kind_of(f)
    if kind in ("pth", "torchscript"):
        tree = tree_of(f, progress)
        if kind == "pth" and isinstance(tree, (dict, list, tuple, np.ndarray)):
            return weights_of(tree, kind, flatten=flatten, part=part)
        # A module: its names are nested by nature, and what is no tensor in it is no weight.
        found = weights_of(tree, kind, flatten=True, part=part)
        if not found.arrays and kind == "torchscript":
            raise RuntimeError(
                "the TorchScript archive has no parameters or buffers: it was frozen, which made them constants of its "
                "code. Export the model without torch.jit.freeze"
            )
        return Weights(kind, dict(found.arrays))
    if kind == "safetensors":
        values, metadata = safetensors.read(f, progress)
        return Weights(kind, from_pairs(values), metadata)
    return Weights(kind, (ckpt if kind == "ckpt" else npz).read(f, progress))


@dataclass(frozen=True)
class Row:
    """One tensor in a listing; ``dtype`` is PyTorch's (NumPy's) name."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


def describe(f: Any) -> tuple[str, list[Row], dict[str, str]]:
    """Kind, tensors and metadata of a file. Contents are read only where the format leaves no choice."""
    kind = kind_of(f)
    if kind in ("pth", "torchscript"):
        return kind, [Row(*e) for e in pth.describe(f)], {}
    if kind == "npz":
        return kind, [Row(k, v.dtype.name, v.shape, v.nbytes) for k, v in Weights(kind, npz.read(f)).arrays.items()], {}
    with opened(f) as data:
        if kind == "ckpt":
            found = ckpt.scan(data, check=False).values()
            return kind, [Row(e.name, ckpt.TYPES[e.kind].name, e.shape, e.nbytes) for e in found if e.kind != "str"], {}
        entries, metadata, _ = safetensors.parse(data)
        rows = [
            Row(e.name, safetensors.TYPES[e.kind].name if e.kind in safetensors.TYPES else e.kind, e.shape, e.nbytes)
            for e in sorted(entries.values(), key=lambda e: e.name)
        ]
        return kind, rows, metadata


# ------------------------------------------------------------------------------------------ writing


def kind_for(path: Any) -> str:
    """The format a path asks for by its suffix. ValueError when it asks for none."""
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{os.fspath(path)}: the suffix must be one of {', '.join(SUFFIXES)}, or name the format (--to)"
        )
    return SUFFIXES[suffix]


def write(
    f: Any,
    weights: Weights,
    kind: str,
    *,
    complex: str = "refuse",
    crc: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Write weights to ``f`` (path or binary file) in a format; returns the names that the format has no place for.

    safetensors holds no numbers and texts (they are left out) and no complex128. ``complex`` and ``crc`` are explained
    at `ckpt.write`; ``complex="pairs"`` serves safetensors as well. TypeError for dtypes the format lacks.
    """
    if kind not in KINDS or kind == "torchscript":
        raise ValueError(f"cannot write {kind!r}: the formats are pth, safetensors, npz and ckpt")
    if kind == "pth":
        pth_arrays.write(f, weights.values, progress)
    elif kind == "npz":
        npz.write(f, weights.values, progress)
    elif kind == "ckpt":
        plain = {k: v for k, v in weights.values.items() if type(v).__name__ != "complex"}
        ckpt.write(f, plain, crc=crc, complex=complex, progress=progress)
        return [k for k in weights.values if k not in plain]
    else:
        arrays = as_pairs(weights.arrays) if complex == "pairs" else weights.arrays
        safetensors.write(f, arrays, weights.metadata or None, progress)
        return [k for k, v in weights.values.items() if not isinstance(v, np.ndarray)]
    return []
