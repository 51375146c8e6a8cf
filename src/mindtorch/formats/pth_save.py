"""Writing a checkpoint that PyTorch reads: what a storage is, and how classes are called, is said by `Hooks`."""

from __future__ import annotations

import io
import os
import pickle
import sys
from types import FunctionType
from typing import Any

import numpy as np

from mindtorch.formats import pth_legacy
from mindtorch.formats.files import atomic_write
from mindtorch.formats.pth_hooks import Hooks
from mindtorch.formats.pth_pickle import Global, NamingPickler
from mindtorch.formats.pth_storage import StorageData
from mindtorch.formats.pth_zip import ALIGNMENT, ZipWriter


def _dump(obj: Any, stream: Any, protocol: int, hooks: Hooks, pid_of: Any, pickle_module: Any) -> None:
    markers: dict[str, Global] = {}

    def persistent(value: Any) -> Any:
        data = hooks.storage_of(value)
        if data is None:
            return None
        module = "torch.storage" if data.name == "UntypedStorage" else "torch"
        return pid_of(markers.setdefault(data.name, Global(module, data.name)), data)

    base = pickle_module.Pickler
    if base is pickle.Pickler:
        pickler: Any = NamingPickler(stream, protocol, hooks.rename, persistent)
    elif issubclass(base, pickle._Pickler):  # type: ignore[attr-defined]
        kind = type("NamingPickler", (NamingPickler, base), {"dispatch": _table_over(base)})
        pickler = kind(stream, protocol, hooks.rename, persistent)
    else:
        raise TypeError(
            f"torch.save cannot use {base!r}: pickle_module must be the standard pickle or have a Pickler in Python "
            "(a subclass of pickle._Pickler, as dill has)"
        )
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(2 * limit)  # a pickler in Python takes more of it for each object than PyTorch's, which is in C
    try:
        pickler.dump(obj)
    finally:
        sys.setrecursionlimit(limit)


def _table_over(base: Any) -> dict[Any, Any]:
    """The table of another module's pickler, with the classes and functions that have a name of their own in files."""

    def named_first(theirs: Any) -> Any:
        def save(pickler: Any, obj: Any) -> None:
            module = getattr(obj, "__module__", None) or ""
            (theirs if pickler.rename(module) == module else NamingPickler.save_global)(pickler, obj)

        return save

    table = {**base.dispatch, Global: NamingPickler.save_marker}
    for kind in (FunctionType, type):
        table[kind] = named_first(table[kind])
    return table


def _write_zip(
    obj: Any, writer: ZipWriter, protocol: int, hooks: Hooks, pickle_module: Any, order: bool, skip: bool
) -> None:
    kept: dict[str, tuple[str, StorageData]] = {}

    def pid_of(marker: Any, data: StorageData) -> Any:
        key, _ = kept.setdefault(data.key, (str(len(kept)), data))
        return ("storage", marker, key, data.location, len(data))

    buffer = io.BytesIO()
    _dump(obj, buffer, protocol, hooks, pid_of, pickle_module)
    writer.record("data.pkl", buffer.getvalue())
    writer.record(".format_version", b"1")
    writer.record(".storage_alignment", str(writer.alignment).encode())
    if order:
        writer.record("byteorder", b"little")
    for key, data in kept.values():
        if skip:
            writer.gap(f"data/{key}", data.data.nbytes)
        else:
            writer.record(f"data/{key}", np.ascontiguousarray(data.data))
    writer.record("version", b"3\n")
    writer.record(".data/serialization_id", writer.serial().encode())
    writer.close()


def save(
    obj: Any,
    f: Any,
    hooks: Hooks,
    *,
    protocol: int = 2,
    legacy: bool = False,
    pickle_module: Any = pickle,
    byteorder: bool = True,
    checksums: bool = True,
    skip_data: bool = False,
    alignment: int = ALIGNMENT,
) -> None:
    """Write ``obj`` to ``f`` (path or object with ``write``). A path is replaced only when everything is written.

    With ``skip_data`` the storages get their place in the file, but no contents. Records start at multiples of ``alignment``.
    """
    if skip_data and legacy:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")

    def write(file: Any, root: str) -> None:
        if legacy:

            def dump(stream: Any, pid_of: Any) -> None:
                _dump(obj, stream, protocol, hooks, pid_of, pickle_module)

            pth_legacy.write_stream(file, protocol, dump)
        else:
            writer = ZipWriter(file, root, checksums, alignment)
            _write_zip(obj, writer, protocol, hooks, pickle_module, byteorder, skip_data)

    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        stem = os.path.basename(path)
        with atomic_write(path) as file:
            write(file, stem.rpartition(".")[0] or stem or "archive")
    elif hasattr(f, "write"):
        write(f, "archive")
    else:
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}"
        )
