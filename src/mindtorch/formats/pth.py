"""Reading and writing PyTorch checkpoints (``.pth``, ``.pt``), without PyTorch and without a tensor class.

`load` and `save` leave to the caller what a storage and a rebuilt tensor are (`Hooks`). For NumPy there are

- `load_arrays`: the whole object of the file, with every tensor as an array (name, nesting and order as in the file);
- `state_dict`: a flat ``{name: array}`` out of any file: state dicts, whole modules, TorchScript archives;
- `describe`: ``(name, dtype, shape, bytes)`` of the tensors of a file, without reading their contents where possible.

A tensor becomes an ndarray of the dtype it was saved with: bfloat16 and float8 are types of ``ml_dtypes``. Views of one
memory share it. Nothing of the file is ever run. Files that are no checkpoint, broken or hostile raise RuntimeError,
``pickle.UnpicklingError``, ValueError (unknown byte order) or EOFError (empty).
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from mindtorch.formats.pth_hooks import SAFE_BUILTINS, Hooks
from mindtorch.formats.pth_load import load, unsafe_globals
from mindtorch.formats.pth_pickle import Unknown
from mindtorch.formats.pth_save import save
from mindtorch.formats.pth_storage import StorageData
from mindtorch.formats.pth_zip import is_zip

__all__ = [
    "SAFE_BUILTINS",
    "Entry",
    "Hooks",
    "StorageData",
    "Unknown",
    "children",
    "describe",
    "load",
    "load_arrays",
    "save",
    "state_dict",
    "unsafe_globals",
]


class Entry(NamedTuple):
    """One tensor of a file; ``dtype`` is PyTorch's name without "torch.", ``nbytes`` counts its elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


def load_arrays(f: Any, *, mmap: bool = False, unknown: str = "refuse", script: bool = False) -> Any:
    """The object in ``f`` (a path or a seekable binary file) with every tensor and parameter as a NumPy array.

    Devices, dtypes and layouts become text, ``torch.Size`` a tuple, sparse and quantized tensors dicts of their parts.
    ``mmap`` maps a zip file copy-on-write instead of reading it (its checksums are then not verified). With
    ``unknown="keep"`` objects of other classes become inert `Unknown`s; by default they raise UnpicklingError.
    ``script`` admits TorchScript archives (which need ``unknown="keep"``).
    """
    return load(f, Hooks(unknown), mmap=mmap, script=script)


def state_dict(f: Any, *, mmap: bool = False) -> dict[str, np.ndarray]:
    """All tensors of ``f`` under the names a ``state_dict()`` gives them; nested containers are joined with dots.

    Reads state dicts, checkpoints that hold them (``model.0.weight``), pickled modules whose class is not here, and
    TorchScript archives (whose non-persistent buffers cannot be told from the others and are listed too).
    """
    found: dict[str, np.ndarray] = {}
    _collect(load_arrays(f, mmap=mmap, unknown="keep", script=True), "", found, set(), Visits())
    return found


def describe(f: Any) -> list[Entry]:
    """Names, dtypes, shapes and sizes of the tensors that `state_dict` finds. A zip file at a path is only mapped."""
    mapped = isinstance(f, (str, os.PathLike)) and is_zip(f)
    try:
        arrays = state_dict(f, mmap=mapped)
    except RuntimeError:
        if not mapped:
            raise
        arrays = state_dict(f)  # compressed records cannot be mapped
    return [Entry(name, a.dtype.name, a.shape, a.nbytes) for name, a in arrays.items()]


class Visits:
    """Counts what is met in containers that were met before: a small file can repeat itself to more than can be listed."""

    def __init__(self, limit: int = 100_000) -> None:
        self.seen: set[int] = set()
        self.left = limit

    def note(self, container: Any, children: int) -> None:
        """``container``, which must stay alive, is about to be gone through. RuntimeError when that was once too often."""
        if id(container) in self.seen:
            self.left -= children
            if self.left < 0:
                raise RuntimeError("the object in the file holds the same containers so often that it cannot be listed")
        self.seen.add(id(container))


def _collect(obj: Any, name: str, found: dict[str, np.ndarray], above: set[int], visits: Visits) -> None:
    """Put the arrays below ``obj`` into ``found``; ``above`` holds what encloses ``obj``, against cycles."""
    if isinstance(obj, np.ndarray):
        found[name] = obj
        return
    below = list(children(obj))
    if not below:
        return
    if id(obj) in above or len(above) > 200:
        raise RuntimeError(f"the object in the file contains itself, or is nested too deeply, at {name!r}")
    visits.note(obj, len(below))
    above.add(id(obj))
    for key, child in below:
        _collect(child, f"{name}.{key}" if name and key else name or key, found, above, visits)
    above.remove(id(obj))


def children(obj: Any) -> Any:
    """``(name, child)`` of a container or of an unknown object; nothing for anything else. Modules give what their
    ``state_dict()`` has.
    """
    if isinstance(obj, dict):
        return ((str(k), v) for k, v in obj.items())
    if isinstance(obj, (list, tuple)):
        return ((str(i), v) for i, v in enumerate(obj))
    if not isinstance(obj, Unknown):
        return ()
    state = obj.state if isinstance(obj.state, dict) else {}
    if "_parameters" not in state or "_modules" not in state:
        return [*children(state), *children(obj.entries), *children(obj.items)]
    skipped = state.get("_non_persistent_buffers_set") or ()
    buffers = {k: v for k, v in (state.get("_buffers") or {}).items() if k not in skipped}
    return [(str(k), v) for part in (state["_parameters"], buffers, state["_modules"]) for k, v in part.items()]
