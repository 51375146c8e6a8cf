"""Reading and writing PyTorch checkpoints (``.pth``, ``.pt``), without PyTorch and without a tensor class.

What a storage and a rebuilt tensor are is the caller's affair (`Hooks`); `load_arrays` answers with NumPy arrays.
"""

from __future__ import annotations

import io
import os
import pickle
import stat
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mindtorch.formats import pth_legacy
from mindtorch.formats.pth_pickle import Global, NamingPickler, SafeUnpickler, modern_name
from mindtorch.formats.pth_storage import DTYPES, STORAGE_TYPES, StorageData, strided, type_name
from mindtorch.formats.pth_zip import ZipReader, ZipWriter

__all__ = [
    "Hooks",
    "StorageData",
    "atomic_write",
    "load",
    "load_arrays",
    "save",
    "unsafe_globals",
]

SAFE_BUILTINS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("builtins", "set"): set,
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
}
"""Globals outside torch that every checkpoint may name."""


class Hooks:
    """What the layer above decides. The methods here build NumPy arrays; the torch layer overrides them."""

    def find(self, module: str, name: str) -> Any:
        """An allowed global, or UnpicklingError."""
        got = SAFE_BUILTINS.get((module, name)) or _ARRAY_GLOBALS.get((module, name))
        if got is not None:
            return got
        top, _, _ = module.partition(".")
        if top == "torch" and name in STORAGE_TYPES:
            return name
        if module == "torch" and name in DTYPES:
            return f"torch.{name}"
        raise pickle.UnpicklingError(f"Unsupported global: GLOBAL {module}.{name} was not an allowed global by default")

    def find_any(self, base: Callable[[str, str], Any], module: str, name: str) -> Any:
        """A global in a file that is trusted; ``base`` imports."""
        return base(module, name)

    def storage(self, data: StorageData) -> Any:
        """The object that stands for a storage."""
        return data

    def tensor(self, array: np.ndarray, storage: StorageData) -> Any:
        """A tensor of a tar checkpoint."""
        return array

    def build(self, target: Any, state: Any) -> bool:
        """Give ``state`` to an object of an allowed class; False to refuse."""
        return False

    def storage_of(self, obj: Any) -> StorageData | None:
        """The storage behind ``obj`` when it is one (saving); its ``key`` tells storages apart."""
        return None

    def rename(self, module: str) -> str:
        """Module name to be written for a class of ``module``."""
        return module


# ------------------------------------------------------------------------------------------ arrays without tensors


def _array_v2(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> np.ndarray:
    return strided(storage.data, storage.dtype, offset, size, stride)


def _array_v3(storage: Any, offset: int, size: Any, stride: Any, _grad: Any, _hooks: Any, dtype: str, *_: Any) -> Any:
    return strided(storage.data, DTYPES[dtype.removeprefix("torch.")], offset, size, stride)


def _array_of(data: Any, *_: Any) -> Any:
    return data


_ARRAY_GLOBALS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): _array_v2,
    ("torch._utils", "_rebuild_tensor_v2"): _array_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _array_v3,
    ("torch._utils", "_rebuild_parameter"): _array_of,
    ("torch._utils", "_rebuild_parameter_with_state"): _array_of,
    ("torch", "Size"): tuple,
    ("torch", "device"): lambda kind, index=None: kind if index is None else f"{kind}:{index}",
}


def load_arrays(f: Any) -> Any:
    """A checkpoint with every tensor as a NumPy array (views share memory), dtypes and devices as text."""
    return load(f, Hooks())


# ------------------------------------------------------------------------------------------ loading


def _unpickler(hooks: Hooks, safe: bool, encoding: str, pickle_module: Any, extra: dict[str, Any]) -> Any:
    """The function ``(stream, persistent) -> object`` for this load."""
    if safe:

        def run(stream: Any, persistent: Callable[[Any], Any]) -> Any:
            return SafeUnpickler(stream, hooks.find, persistent, hooks.build, encoding).load()

        return run

    class Trusting(pickle_module.Unpickler):  # type: ignore[misc,name-defined]
        answer: Callable[[Any], Any]

        def find_class(self, module: str, name: str) -> Any:
            if (module, name) in ((m, n) for m in _TORCHES for n in STORAGE_TYPES):
                return Global(module, name)
            return hooks.find_any(super().find_class, *modern_name(module, name))

        def persistent_load(self, pid: Any) -> Any:
            return self.answer(pid)

    def run_trusting(stream: Any, persistent: Callable[[Any], Any]) -> Any:
        u = Trusting(stream, encoding=encoding, **extra)
        u.answer = persistent
        try:
            return u.load()
        except EOFError as e:
            raise EOFError("Ran out of input: the checkpoint is empty or truncated") from e

    return run_trusting


_TORCHES = ("torch", "torch.cuda", "torch.storage", "mindtorch.torch", "mindtorch.torch.storage")


def _load_zip(zf: ZipReader, hooks: Hooks, unpickle: Any, mmap: bool, endian: str | None) -> Any:
    if zf.has("constants.pkl"):
        raise RuntimeError(
            "the file is a TorchScript archive, not a checkpoint: mindtorch cannot run TorchScript. "
            "Save model.state_dict() with torch.save in PyTorch and load that instead."
        )
    swap = endian == "big"
    if zf.has("byteorder"):
        order = zf.read("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order!r}")
        swap = order == b"big"
    made: dict[str, Any] = {}

    def persistent(pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] not in ("storage", b"storage"):
            raise pickle.UnpicklingError(f"the file is corrupted: unknown persistent id {pid!r}")
        _, cls, key, location, count = pid[:5]
        key = key.decode("ascii") if isinstance(key, bytes) else str(key)
        location = location.decode("ascii") if isinstance(location, bytes) else location
        if key not in made:
            name = type_name(cls)
            record = f"data/{key}"
            if location == "meta":
                data = np.empty(0, np.uint8)
            else:
                data = zf.mapped(record) if mmap else zf.array(record)
                _expect(name, data, count, key)
            made[key] = hooks.storage(StorageData(name, _swapped(name, data) if swap else data, location, key))
        return made[key]

    return unpickle(io.BytesIO(zf.read("data.pkl")), persistent)


def _expect(name: str, data: np.ndarray, count: Any, key: str) -> None:
    need = int(count) * STORAGE_TYPES[name].itemsize
    if data.nbytes < need:
        raise RuntimeError(f"the checkpoint is corrupted: storage {key} has {data.nbytes} bytes, {need} are needed")


def _swapped(name: str, data: np.ndarray) -> np.ndarray:
    dtype = STORAGE_TYPES[name]
    width = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return data.reshape(-1, width)[:, ::-1].reshape(-1).copy() if width > 1 else data


def load(
    f: Any,
    hooks: Hooks,
    *,
    safe: bool = True,
    mmap: bool = False,
    encoding: str = "utf-8",
    pickle_module: Any = pickle,
    endian: str | None = None,
    **pickle_args: Any,
) -> Any:
    """The object in ``f``, a path or an open binary file, in any of PyTorch's formats.

    ``safe`` reads with the restricted unpickler; otherwise the pickle may run code. RuntimeError for broken files.
    """
    unpickle = _unpickler(hooks, safe, encoding, pickle_module, pickle_args)
    with _opened(f) as (file, path):
        start = file.tell()
        head = file.read(4)
        file.seek(start)
        if head == b"PK\x03\x04":
            return _load_zip(ZipReader(file, path), hooks, unpickle, mmap, endian)
        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`; "
                "load without mmap=True and save the result again"
            )
        if not head:
            raise EOFError("Ran out of input: the checkpoint is empty")
        if pth_legacy.is_tar(file):
            return pth_legacy.read_tar(file, unpickle, hooks.tensor)
        return pth_legacy.read_stream(file, unpickle, hooks.storage)


@contextmanager
def _opened(f: Any) -> Iterator[tuple[Any, str | None]]:
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file, os.fspath(f)
        return
    try:
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as e:
        raise type(e)(
            f"{e}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like "
            "io.BytesIO and try to load from it instead."
        ) from e
    yield f, None


def unsafe_globals(f: Any, allowed: Callable[[str, str], bool]) -> list[str]:
    """Names of the globals in a zip checkpoint for which ``allowed(module, name)`` is false. Nothing is unpickled."""
    import pickletools

    with _opened(f) as (file, path):
        if file.read(4) != b"PK\x03\x04":
            raise ValueError("Expected input to be a checkpoint returned by torch.save with the zip format")
        text = ZipReader(file, path).read("data.pkl")
    found: dict[str, None] = {}
    strings: list[Any] = []
    for op, arg, _ in pickletools.genops(text):
        if op.name == "GLOBAL":
            module, _, name = arg.partition(" ")
        elif op.name == "STACK_GLOBAL" and len(strings) >= 2:
            module, name = strings[-2:]
        else:
            if isinstance(arg, str):
                strings.append(arg)
            continue
        module, name = modern_name(module, name)
        if (module, name) != ("_codecs", "encode") and not allowed(module, name):
            found[f"{module}.{name}".removeprefix("builtins.")] = None
    return list(found)


# ------------------------------------------------------------------------------------------ saving


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
        kind = type("NamingPickler", (NamingPickler, base), {"dispatch": {**base.dispatch, **_OURS}})
        pickler = kind(stream, protocol, hooks.rename, persistent)
    else:
        raise TypeError(
            f"torch.save cannot use {base!r}: pickle_module must be the standard pickle or have a Pickler in Python "
            "(a subclass of pickle._Pickler, as dill has)"
        )
    pickler.dump(obj)


_OURS = {k: v for k, v in NamingPickler.dispatch.items() if v is not pickle._Pickler.dispatch.get(k)}  # type: ignore[attr-defined]


def _write_zip(obj: Any, file: Any, root: str, protocol: int, hooks: Hooks, pickle_module: Any, order: bool) -> None:
    kept: dict[str, tuple[str, StorageData]] = {}

    def pid_of(marker: Any, data: StorageData) -> Any:
        key, _ = kept.setdefault(data.key, (str(len(kept)), data))
        return ("storage", marker, key, data.location, len(data))

    buffer = io.BytesIO()
    _dump(obj, buffer, protocol, hooks, pid_of, pickle_module)
    writer = ZipWriter(file, root)
    writer.record("data.pkl", buffer.getvalue())
    writer.record(".format_version", b"1")
    writer.record(".storage_alignment", b"64")
    if order:
        writer.record("byteorder", b"little")
    for key, data in kept.values():
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
) -> None:
    """Write ``obj`` to ``f`` (path or object with ``write``). A path is replaced only when everything is written."""

    def write(file: Any, root: str) -> None:
        if legacy:

            def dump(stream: Any, pid_of: Any) -> None:
                _dump(obj, stream, protocol, hooks, pid_of, pickle_module)

            pth_legacy.write_stream(file, protocol, dump)
        else:
            _write_zip(obj, file, root, protocol, hooks, pickle_module, byteorder)

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


@contextmanager
def atomic_write(path: str) -> Iterator[Any]:
    """A binary file that becomes ``path`` when the block ends well; on failure ``path`` is as before, nothing is left.

    Special files (pipes, devices) and folders without write permission are written in place.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.path.dirname(path) or '.'} does not exist.")
    if os.path.isdir(target):
        raise IsADirectoryError(f"cannot save to {path!r}: it is a folder")
    mode = os.stat(target).st_mode if os.path.exists(target) else None
    if (mode is not None and not stat.S_ISREG(mode)) or not os.access(folder, os.W_OK):
        with open(target, "wb") as file:
            yield file
        return
    temporary = os.path.join(folder, f".{os.path.basename(target)}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
