"""Storages: the flat memory behind tensors. `UntypedStorage` counts bytes, `TypedStorage` elements."""

from __future__ import annotations

import copy as _copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.core import dtype as _d
from mindtorch.core.cells import Cell
from mindtorch.core.device import available, cpu, device
from mindtorch.core.tensor import Tensor, address, wrap
from mindtorch.formats.pth_storage import STORAGE_TYPES, strided

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """Bytes in memory. Made from a count, a sequence of byte values, or (shared) the root array of a tensor."""

    __slots__ = ("__weakref__", "array", "cell", "device", "shared")

    array: np.ndarray
    cell: Cell | None
    device: device

    def __init__(self, *args: Any, device: Any = None) -> None:
        self.device = cpu if device is None else available(device)
        self.cell = None
        self.shared = False
        if len(args) > 1:
            raise TypeError("UntypedStorage() takes a size or a sequence of byte values")
        value = args[0] if args else 0
        if isinstance(value, np.ndarray):
            flat = value.ndim == 1 and value.dtype == np.uint8
            self.array = value if flat else value.reshape(-1).view(np.uint8)
            self.shared = True
            if value.__class__ is not np.ndarray and hasattr(value, "store"):
                self.device = value.store.device
        elif isinstance(value, (int, np.integer)):
            self.array = np.empty(int(value), np.uint8)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            self.array = np.frombuffer(bytearray(value), np.uint8)
        else:
            self.array = np.array([int(v) & 255 for v in value], np.uint8)

    # ------------------------------------------------------------------------------------ size and place
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.array.nbytes

    size = __len__ = nbytes

    def __bool__(self) -> bool:
        return True

    def data_ptr(self) -> int:
        """Address of the first byte (0 when empty)."""
        return address(self.array) if self.array.nbytes else 0

    def element_size(self) -> int:
        """One byte."""
        return 1

    def untyped(self) -> UntypedStorage:
        """This storage."""
        return self

    def get_device(self) -> int:
        """-1: host memory has no index."""
        return -1

    is_cuda = is_hpu = is_sparse = is_sparse_csr = False

    def is_pinned(self, device: Any = None) -> bool:
        """False: there is no accelerator to pin memory for."""
        return False

    def is_shared(self) -> bool:
        """Whether other processes see this memory (memory mappings)."""
        return isinstance(self.array, np.memmap)

    def resizable(self) -> bool:
        """Whether `resize_` can change the size: memory that a tensor uses cannot move."""
        return not self.shared

    # ------------------------------------------------------------------------------------ contents
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            part = self.array[index]
            if index.step not in (None, 1):
                raise RuntimeError("UntypedStorage slices must have step 1")
            return UntypedStorage(part, device=self.device)
        if not isinstance(index, (int, np.integer)):
            raise TypeError(f"can't index a {type(self).__name__} with {type(index).__name__}")
        return int(self.array[_checked_index(index, len(self))])

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            index = _checked_index(index, len(self))
        self.array[index] = int(value) & 255

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The byte values."""
        return self.array.tolist()

    def fill_(self, value: Any) -> UntypedStorage:
        """Set every byte."""
        self.array.fill(int(value) & 255)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Take the bytes of ``source``, a storage of the same size."""
        log.without_effect("UntypedStorage.copy_", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
        src = source.untyped()
        if src.nbytes() != self.nbytes():
            raise RuntimeError(f"size does not match, self was {self.nbytes()} bytes but src was {src.nbytes()} bytes")
        self.array[...] = src.array
        return self

    def clone(self) -> UntypedStorage:
        """A copy."""
        got = UntypedStorage(self.array.copy(), device=self.device)
        got.shared = False
        return got

    def new(self) -> UntypedStorage:
        """An empty storage of the same kind."""
        return UntypedStorage(device=self.device)

    def resize_(self, size: int) -> UntypedStorage:
        """Change the size in place. RuntimeError when a tensor uses the memory, which then cannot move."""
        if int(size) != self.nbytes():
            if self.shared:
                raise RuntimeError(
                    f"resize_: this storage of {self.nbytes()} bytes is the memory of a tensor and cannot become {size}"
                    " bytes; resize the tensor (tensor.resize_) or make a new storage"
                )
            grown = np.zeros(int(size), np.uint8)
            n = min(len(grown), len(self.array))
            grown[:n] = self.array[:n]
            self.array, self.cell = grown, None
        return self

    def byteswap(self, dtype: Any) -> None:
        """Reverse the byte order of the elements, seen as ``dtype``, in place."""
        width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        self.array[...] = self.array.reshape(-1, width)[:, ::-1].reshape(-1)

    # ------------------------------------------------------------------------------------ moves
    def cpu(self) -> UntypedStorage:
        """This storage (it is in host memory)."""
        return self

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """This storage on ``device``; an accelerator raises as everywhere."""
        log.without_effect("UntypedStorage.to", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
        dev = available(device)
        if dev == self.device:
            return self
        from mindtorch.core.accelerate import moved

        return UntypedStorage(moved(self.array, dev) if "meta" not in (dev.type, self.device.type) else self.array, device=dev)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """Raises: no such device is present."""
        log.without_effect("UntypedStorage.cuda", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
        return self.to(device="cuda" if device is None else device)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of this class, or the contents as another storage class."""
        log.without_effect("UntypedStorage.type", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
        if dtype is None:
            return "torch.storage.UntypedStorage"
        return TypedStorage(wrap_storage=self, dtype=_d.uint8, _internal=True).type(dtype)

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        """This storage: there is no accelerator to pin memory for."""
        return self

    def share_memory_(self) -> UntypedStorage:
        """RuntimeError unless other processes see the memory already."""
        if self.is_shared():
            return self
        raise RuntimeError(
            "share_memory_: host arrays cannot move into shared memory after they were made; "
            "send tensors through torch.multiprocessing queues, which copy them"
        )

    @property
    def filename(self) -> str | None:
        """The mapped file, if any."""
        base = self.array
        while base is not None and not isinstance(base, np.memmap):
            base = getattr(base, "base", None)  # type: ignore[assignment]
        return str(base.filename) if base is not None and base.filename else None

    @staticmethod
    def from_file(filename: str, shared: bool = False, nbytes: int | None = None) -> UntypedStorage:
        """A file mapped into memory; writes reach the file when ``shared``."""
        return UntypedStorage(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=nbytes or None))

    @staticmethod
    def from_buffer(
        buffer: Any, byte_order: str = "native", count: int = -1, offset: int = 0, dtype: Any = None
    ) -> UntypedStorage:
        """A copy of elements of a buffer, in native byte order."""
        got = np.frombuffer(buffer, (dtype or _d.uint8).np, count, offset).copy()
        return UntypedStorage(got.byteswap() if byte_order == "big" else got)

    # ------------------------------------------------------------------------------------ protocol
    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[Any, Any]) -> UntypedStorage:
        shared = memo.setdefault("mindtorch storages", {})
        key = (self.data_ptr(), self.nbytes()) if self.nbytes() else id(self)
        if key not in shared:
            # The original is kept beside the copy: its address must stay taken while the memo is in use.
            shared[key] = (self.clone(), self)
        return shared[key][0]

    def __reduce__(self) -> Any:
        data = self.array.tobytes()
        return _storage_from_bytes, ((data,) if self.device is cpu else (data, str(self.device)))

    def __repr__(self) -> str:
        lines = "".join(f" {v}\n" for v in self.tolist()) if self.device.type != "meta" else "...\n"
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"

    __str__ = __repr__

    def _array(self, np_dtype: Any) -> np.ndarray:
        """The memory as a flat array of ``np_dtype``, shared (``Tensor.set_``)."""
        self.shared = True
        whole = self.array.nbytes // np_dtype.itemsize * np_dtype.itemsize
        return self.array[:whole].view(np_dtype)

    def view(self, dtype: Any, offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
        """A tensor over this memory, counted in elements of ``dtype``; all tensors made so share their version."""
        return tensor_over(self, dtype, offset, size, stride)


def _storage_from_bytes(data: bytes, where: str = "cpu") -> UntypedStorage:
    got = UntypedStorage(data).to(device=where)
    got.shared = True
    return got


def _checked_index(index: int, count: int) -> int:
    if not -count <= index < count:
        raise IndexError(f"index {index} out of range for storage of size {count}")
    return index


def tensor_over(storage: UntypedStorage, d: Any, offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A tensor of dtype ``d`` over ``storage``; RuntimeError when it would leave it."""
    if storage.device is not cpu and storage.device.type == "meta":
        import mindtorch.torch as torch

        return torch.empty_strided(tuple(size), tuple(stride), dtype=d, device="meta")
    memory = storage.array
    array = strided(memory, d.np, offset, size, stride)
    if memory.__class__ is not np.ndarray and hasattr(memory, "seen_as"):
        array = memory.seen_as(array)
    if storage.cell is None:
        rest = memory.nbytes % d.itemsize
        storage.cell = Cell((memory[:-rest] if rest else memory).view(d.np))
    storage.shared = True
    t = wrap(array)
    t.v = storage.cell
    return t


class TypedStorage:
    """Elements of one dtype over an `UntypedStorage` (which is what new code should use)."""

    dtype: Any
    is_sparse = is_cuda = is_hpu = False

    def __init__(
        self, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None, _internal: bool = False
    ) -> None:
        dtype = dtype or getattr(type(self), "dtype", None) or _d.get_default_dtype()
        self.dtype = dtype
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage.untyped()
        elif args and not isinstance(args[0], (int, np.integer)):
            values = [v.item() if isinstance(v, Tensor) else v for v in args[0]]
            self._untyped_storage = UntypedStorage(np.array(values).astype(dtype.np))
        else:
            self._untyped_storage = UntypedStorage((int(args[0]) if args else 0) * dtype.itemsize, device=device)

    @property
    def device(self) -> device:
        """Where the memory is."""
        return self._untyped_storage.device

    @property
    def _elements(self) -> np.ndarray:
        data = self._untyped_storage.array
        return data[: data.nbytes // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype.np)

    def _array(self, np_dtype: Any) -> np.ndarray:
        """See `UntypedStorage._array`."""
        return self._untyped_storage._array(np_dtype)

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    def size(self) -> int:
        """Number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = _size = size

    def nbytes(self) -> int:
        """Number of bytes."""
        return self._untyped_storage.nbytes()

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._untyped_storage.data_ptr()

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements[_checked_index(index, len(self))].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements[index] = value.untyped().array.view(self.dtype.np) if isinstance(value, TypedStorage) else value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return [v.item() for v in self._elements] if self.dtype is _d.bfloat16 else self._elements.tolist()

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        self._elements[...] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Take the elements of ``source``, converted."""
        log.without_effect("TypedStorage.copy_", "copies are made at once", quietly=True, non_blocking=(non_blocking, None))
        values = source._elements if isinstance(source, TypedStorage) else source.array
        self._elements[...] = values.astype(self.dtype.np)
        return self

    def resize_(self, size: int) -> TypedStorage:
        """See `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(int(size) * self.dtype.itemsize)
        return self

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype, _internal=True)

    def cpu(self) -> TypedStorage:
        """This storage (it is in host memory)."""
        return self

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """This storage on ``device``; an accelerator raises as everywhere."""
        log.without_effect("TypedStorage.to", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
        moved = self._untyped_storage.to(device=device)
        return self if moved is self._untyped_storage else TypedStorage(wrap_storage=moved, dtype=self.dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """Raises: no such device is present."""
        log.without_effect("TypedStorage.cuda", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
        return self.to(device="cuda" if device is None else device)

    def get_device(self) -> int:
        """-1: host memory has no index."""
        return -1

    def is_shared(self) -> bool:
        """Whether other processes see this memory."""
        return self._untyped_storage.is_shared()

    def is_pinned(self, device: Any = None) -> bool:
        """False: there is no accelerator."""
        return False

    def pin_memory(self, device: Any = None) -> TypedStorage:
        """This storage: there is no accelerator to pin memory for."""
        return self

    def share_memory_(self) -> TypedStorage:
        """See `UntypedStorage.share_memory_`."""
        self._untyped_storage.share_memory_()
        return self

    def resizable(self) -> bool:
        """See `UntypedStorage.resizable`."""
        return self._untyped_storage.resizable()

    @property
    def filename(self) -> str | None:
        """The mapped file, if any."""
        return self._untyped_storage.filename

    def pickle_storage_type(self) -> str:
        """Name of the class that a checkpoint gives this storage. KeyError when its dtype has none."""
        return _class_name(self.dtype)

    _pickle_storage_type = pickle_storage_type

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the legacy class, or the elements converted to another one."""
        log.without_effect("TypedStorage.type", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
        if dtype is None:
            return f"torch.{_class_name(self.dtype)}"
        if isinstance(dtype, str):
            dtype = globals()[dtype.rpartition(".")[2]]
        return self._cast(getattr(dtype, "dtype", dtype))

    def _cast(self, d: Any) -> TypedStorage:
        if d is self.dtype:
            return self
        values = self._elements
        values = values.real if values.dtype.kind == "c" and not d.is_complex else values
        return TypedStorage(wrap_storage=UntypedStorage(values.astype(d.np)), dtype=d, _internal=True)

    def __deepcopy__(self, memo: dict[Any, Any]) -> TypedStorage:
        return TypedStorage(wrap_storage=_copy.deepcopy(self._untyped_storage, memo), dtype=self.dtype, _internal=True)

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __reduce__(self) -> Any:
        return _typed, (self._untyped_storage, self.dtype)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        lines = "".join(f" {v}\n" for v in self.tolist()) if self.device.type != "meta" else "...\n"
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    __str__ = __repr__

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """Elements of a buffer: ``(buffer, byte_order="native", count=-1, offset=0, dtype=...)``."""
        d = kwargs.pop("dtype", None) or getattr(cls, "dtype", _d.get_default_dtype())
        return TypedStorage(wrap_storage=UntypedStorage.from_buffer(*args, dtype=d, **kwargs), dtype=d, _internal=True)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """``size`` elements of a file mapped into memory."""
        d = getattr(cls, "dtype", _d.get_default_dtype())
        mapped = UntypedStorage.from_file(filename, shared, size * d.itemsize)
        return TypedStorage(wrap_storage=mapped, dtype=d, _internal=True)


def _typed(storage: UntypedStorage, d: Any) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=d, _internal=True)


class _LegacyMeta(type):
    """``isinstance(x.storage(), torch.FloatStorage)`` asks for the dtype."""

    def __instancecheck__(cls, obj: Any) -> bool:
        return type(obj) is TypedStorage and obj.dtype is cls.dtype  # type: ignore[attr-defined]


class _LegacyStorage(TypedStorage, metaclass=_LegacyMeta):
    """Base of ``FloatStorage`` and its kin: calling one makes a `TypedStorage` of its dtype."""

    def __new__(cls, *args: Any, wrap_storage: Any = None, device: Any = None) -> Any:
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype, device=device, _internal=True)


_CASTS = {
    "double": "float64", "float": "float32", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
    "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
    "complex_float": "complex64", "complex_double": "complex128",
}  # fmt: skip


def _bind_casts() -> None:
    for method, name in _CASTS.items():
        target = _d.BY_NAME[name]

        def cast(self: Any, target: Any = target) -> TypedStorage:
            typed = self if isinstance(self, TypedStorage) else _typed(self, _d.uint8)
            return typed._cast(target)

        cast.__name__, cast.__doc__ = method, f"The elements converted to {name}."
        setattr(TypedStorage, method, cast)
        setattr(UntypedStorage, method, cast)


def _class_name(d: Any) -> str:
    for name, cls in LEGACY.items():
        if cls.dtype is d:
            return name
    raise KeyError(f"dtype {d} is not recognized: no storage class has it")


def _legacy_classes() -> dict[str, type]:
    made: dict[str, type] = {}
    for name, np_dtype in STORAGE_TYPES.items():
        if not name.startswith(("Q", "Untyped")):
            body = {
                "dtype": _d.from_np(np_dtype),
                "__module__": "mindtorch.torch",
                "__doc__": f"Storage of {np_dtype}.",
            }
            made[name] = _LegacyMeta(name, (_LegacyStorage,), body)
    return made


LEGACY = _legacy_classes()
globals().update(LEGACY)
_bind_casts()


def _warn_typed_storage_removal(stacklevel: int = 3) -> None:
    """Say once that typed storages are deprecated, as ``tensor.storage()`` does."""
    if not getattr(_warn_typed_storage_removal, "said", False):
        _warn_typed_storage_removal.said = True  # type: ignore[attr-defined]
        warnings.warn(
            "TypedStorage is deprecated: use tensor.untyped_storage() instead of tensor.storage().",
            UserWarning,
            stacklevel=stacklevel,
        )
