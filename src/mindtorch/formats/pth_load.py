"""Loading a checkpoint in any of PyTorch's formats: what its objects become is said by `Hooks`."""

from __future__ import annotations

import gc
import io
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mindtorch.formats import pth_legacy
from mindtorch.formats.files import opened
from mindtorch.formats.pth_hooks import Hooks
from mindtorch.formats.pth_pickle import Global, SafeUnpickler, modern_name
from mindtorch.formats.pth_storage import DTYPES, RAW_DTYPES, STORAGE_TYPES, StorageData, as_text, type_name
from mindtorch.formats.pth_zip import ZipReader


def _unpickler(hooks: Hooks, safe: bool, encoding: str, pickle_module: Any, extra: dict[str, Any]) -> Any:
    """The function ``(bytes or file, persistent) -> object`` for this load."""
    if safe:

        def run(source: Any, persistent: Callable[[Any], Any]) -> Any:
            with _without_collections():
                return SafeUnpickler(source, hooks.find, persistent, hooks.build, encoding, hooks.calls).load()

        return run

    class Trusting(pickle_module.Unpickler):  # type: ignore[misc,name-defined]
        answer: Callable[[Any], Any]

        def find_class(self, module: str, name: str) -> Any:
            if name in STORAGE_TYPES and module in _TORCHES:
                return Global(module, name)
            return hooks.find_any(super().find_class, *modern_name(module, name))

        def persistent_load(self, pid: Any) -> Any:
            return self.answer(pid)

    def run_trusting(source: Any, persistent: Callable[[Any], Any]) -> Any:
        u = Trusting(io.BytesIO(source) if isinstance(source, bytes) else source, encoding=encoding, **extra)
        u.answer = persistent
        try:
            return u.load()
        except EOFError as e:
            raise EOFError("Ran out of input: the checkpoint is empty or truncated") from e

    return run_trusting


@contextmanager
def _without_collections() -> Iterator[None]:
    """No garbage collection meanwhile: what a checkpoint makes is kept, and going through it all is half of the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


_TORCHES = ("torch", "torch.cuda", "torch.storage", "mindtorch.torch", "mindtorch.torch.storage")


def _load_zip(zf: ZipReader, hooks: Hooks, unpickle: Any, mmap: bool, endian: str | None, skip: bool) -> Any:
    swap = endian == "big"
    if zf.has("byteorder"):
        order = zf.read("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order!r}")
        swap = order == b"big"
    if swap and mmap and zf.shared:
        raise RuntimeError("the file is big-endian: its storages cannot be mapped with MAP_SHARED; use MAP_PRIVATE")
    text = zf.read("data.pkl")
    widths = _untyped_widths(text) if swap else {}
    made: dict[str, Any] = {}
    names: dict[str, str] = {}

    def fetch(name: str, key: str, location: str, count: int) -> StorageData:
        record, width = f"data/{key}", STORAGE_TYPES[name].itemsize
        if not hooks.wants(location):
            # Nothing will look at the contents: a size is enough, and takes no memory.
            return StorageData(name, np.broadcast_to(np.uint8(0), count * width), location, key)
        if skip:
            return StorageData(name, np.empty(zf.size(record), np.uint8), location, key)
        data = zf.mapped(record, width) if mmap else zf.array(record)
        _expect(name, data, count, key)
        return StorageData(name, _swapped(name, data, key, widths) if swap else data, location, key)

    def persistent(pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] not in ("storage", b"storage"):
            raise pickle.UnpicklingError("the file is corrupted: it has an unknown persistent id")
        key, location, name, count = as_text(pid[2]), as_text(pid[3]), type_name(pid[1]), pid[4]
        if not isinstance(count, int) or count < 0:
            raise pickle.UnpicklingError(f"the file is corrupted: storage {key} has a size that is none")
        if key not in made:
            made[key], names[key] = hooks.storage(fetch(name, key, location, count)), name
        if names[key] != name:
            raise pickle.UnpicklingError(f"the file is corrupted: storage {key} is both {names[key]} and {name}")
        return made[key]

    if not mmap and not skip:
        zf.read_ahead("data/")
    return unpickle(text, persistent)


def _untyped_widths(text: bytes) -> dict[str, set[int]]:
    """Bytes of an element for the storages without a type of their own: the tensors over them say it."""
    widths: dict[str, set[int]] = {}

    def note(key: Any, _offset: Any, _size: Any, _stride: Any, _grad: Any, _hooks: Any, dtype: Any, *_: Any) -> None:
        name = getattr(dtype, "name", "")
        width = DTYPES[name].itemsize if name in DTYPES else RAW_DTYPES.get(name, 0)
        widths.setdefault(str(key), set()).add(width)

    def find(module: str, name: str) -> Any:
        return note if name == "_rebuild_tensor_v3" else pth_legacy.named(module, name)

    def storage(pid: Any) -> Any:
        return as_text(pid[2]) if isinstance(pid, tuple) and len(pid) > 2 else None

    if b"UntypedStorage" in text:
        SafeUnpickler(text, find, storage, encoding="bytes").load()
    return widths


def _expect(name: str, data: np.ndarray, count: Any, key: str) -> None:
    need = int(count) * STORAGE_TYPES[name].itemsize
    if data.nbytes < need:
        raise RuntimeError(f"the checkpoint is corrupted: storage {key} has {data.nbytes} bytes, {need} are needed")


def _swapped(name: str, data: np.ndarray, key: str, widths: dict[str, set[int]]) -> np.ndarray:
    dtype = STORAGE_TYPES[name]
    width = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if name == "UntypedStorage" and data.size:
        known = widths.get(key, set())
        if len(known) != 1 or 0 in known:
            raise RuntimeError(
                f"the file is big-endian and nothing in it says the dtype of storage {key}, so its bytes cannot be put "
                "in order; save it on its machine as a tensor of one dtype"
            )
        (width,) = known
        data = data[: data.size // width * width]
    return data.reshape(-1, width)[:, ::-1].reshape(-1).copy() if width > 1 else data


def load(
    f: Any,
    hooks: Hooks,
    *,
    safe: bool = True,
    mmap: bool = False,
    shared: bool = False,
    skip_data: bool = False,
    encoding: str = "utf-8",
    pickle_module: Any = pickle,
    endian: str | None = None,
    script: bool = False,
    **pickle_args: Any,
) -> Any:
    """The object in ``f``, a path or an open binary file, in any of PyTorch's formats.

    ``safe`` reads with the restricted unpickler; otherwise the pickle may run code. ``mmap`` maps the storages
    instead of reading them, unchecked; ``shared`` lets what is written to them reach the file. ``skip_data`` gives
    storages of the right size with any contents. A TorchScript archive is read only with ``script``. RuntimeError or
    UnpicklingError for broken files.
    """
    unpickle = _unpickler(hooks, safe, encoding, pickle_module, pickle_args)
    with opened(f) as (file, path):
        start = file.tell()
        head = file.read(4)
        file.seek(start)
        if head == b"PK\x03\x04":
            zf = ZipReader(file, path, shared)
            if zf.has("constants.pkl") and not script:
                raise RuntimeError(
                    "the file is a TorchScript archive, not a checkpoint: mindtorch cannot run TorchScript. Its weights "
                    "can be listed and taken out with `python -m mindtorch convert`; load the result into the model's "
                    "class."
                )
            try:
                return _load_zip(zf, hooks, unpickle, mmap, endian, skip_data)
            finally:
                zf.close()
        if skip_data:
            raise RuntimeError("skip_data can only be used with files in the zip format; load without it")
        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`; "
                "load without mmap=True and save the result again"
            )
        if not head:
            raise EOFError("Ran out of input: the checkpoint is empty")
        if pth_legacy.is_tar(file):
            return pth_legacy.read_tar(file, unpickle, hooks.tensor)
        _refuse_others(file, start)
        return pth_legacy.read_stream(file, unpickle, hooks.storage)


_OTHERS = (
    (rb"\s*<(!doctype|html|\?xml)", "a web page: the download was answered with an error or a login form"),
    (rb"version https://git-lfs", "a pointer of Git LFS: the weights themselves were not downloaded (git lfs pull)"),
    (rb".{8}\{.*\":", "a safetensors file: read it with safetensors.torch.load_file"),
    (rb"\s*[\[{]\s*[\"\]}]", "JSON text"),
    (rb"\x93NUMPY", "a NumPy array: read it with numpy.load"),
    (rb"\x89HDF", "an HDF5 file"),
    (rb"(\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf)", "a compressed file: unpack it first"),
    (rb"\n.{1,2}\n", "perhaps a MindSpore checkpoint: turn it into a .pth with `python -m mindtorch convert`"),
)
"""How other files start that are given to torch.load, and what to say."""


def _refuse_others(file: Any, start: int) -> None:
    """UnpicklingError for a file that is plainly something else than a pickle."""
    head = file.read(256)
    file.seek(start)
    for pattern, what in _OTHERS:
        if re.match(pattern, head, re.IGNORECASE | re.DOTALL):
            raise pickle.UnpicklingError(f"the file is no checkpoint but {what}")


def unsafe_globals(f: Any, allowed: Callable[[str, str], bool]) -> list[str]:
    """Names of the globals in a zip checkpoint for which ``allowed(module, name)`` is false. Nothing is unpickled."""
    import pickletools

    with opened(f) as (file, path):
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
