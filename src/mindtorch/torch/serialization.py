"""``torch.save`` and ``torch.load``: PyTorch's files both ways, and the choice of what a file may name."""

from __future__ import annotations

import importlib.util
import mmap as mmap_module
import os
import pickle
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.core import dtype as _d
from mindtorch.core import observe
from mindtorch.core.accelerate import put
from mindtorch.core.device import accelerators, available
from mindtorch.core.device import device as _device
from mindtorch.core.tensor import Parameter, Size, Tensor
from mindtorch.engine.host import alloc
from mindtorch.formats import pth, pth_numpy
from mindtorch.formats.pth_sparse import LAYOUTS
from mindtorch.formats.pth_storage import RAW_DTYPES
from mindtorch.torch import _utils, storage
from mindtorch.torch.storage import TypedStorage, UntypedStorage

__all__ = [
    "LoadEndianness",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]

DEFAULT_PROTOCOL = 2
_OWN = "mindtorch."
_FAMILY = ("torch", "torchvision", "torchaudio")


def _get_layout(name: str) -> Any:
    """A layout by its printed name; the name itself for layouts that are not here."""
    import mindtorch.torch as torch

    plain = str(name).removeprefix("torch.")
    if plain not in ("strided", "_mkldnn", *LAYOUTS):
        raise pickle.UnpicklingError(f"the file names {plain!r} as a layout, which is none")
    return getattr(torch, plain, plain)


# ------------------------------------------------------------------------------------------ what a file may name


def _torch_globals() -> dict[tuple[str, str], Any]:
    """Globals of torch that are always allowed."""
    table: dict[tuple[str, str], Any] = {}
    for name, cls in storage.LEGACY.items():
        table["torch", name] = table["torch.cuda", name] = cls
    for name in _d.BY_NAME:
        table["torch", name] = _d.BY_NAME[name]
    for name in dir(_utils):
        if name.startswith("_rebuild_"):
            table["torch._utils", name] = getattr(_utils, name)
    table["torch._tensor", "_rebuild_from_type_v2"] = _utils._rebuild_from_type_v2
    for name in RAW_DTYPES:
        table.setdefault(("torch", name), _utils.RawDtype(name))
    for name, cls in storage.LEGACY.items():
        table["torch", name.replace("Storage", "Tensor")] = cls
    table["torch", "Size"] = Size
    table["torch", "device"] = _device
    table["torch", "Tensor"] = Tensor
    table["torch.nn.parameter", "Parameter"] = Parameter
    table["torch.storage", "UntypedStorage"] = table["torch", "UntypedStorage"] = UntypedStorage
    table["torch.storage", "TypedStorage"] = table["torch", "TypedStorage"] = TypedStorage
    table["torch.storage", "_typed"] = storage._typed
    table["torch.serialization", "_get_layout"] = _get_layout
    return table


_TABLE = _torch_globals()
_NAMED_ONLY = {id(v) for v in (Tensor, Parameter, UntypedStorage, TypedStorage, *storage.LEGACY.values())}
"""Allowed globals that a file names but never calls: calling them would set memory aside."""
_REBUILD = tuple(
    v for (_, name), v in _TABLE.items() if name.startswith("_rebuild_") and name != "_rebuild_from_type_v2"
)


def _rebuild_from_type_safely(func: Any, new_type: Any, args: Any, state: Any) -> Tensor:
    """``torch._tensor._rebuild_from_type_v2`` for a file that is not trusted."""
    if not any(func is known for known in _REBUILD) or not isinstance(new_type, type):
        raise pickle.UnpicklingError("the file builds a tensor with something that is no function for it")
    if new_type is not Tensor and not issubclass(new_type, Tensor):
        raise pickle.UnpicklingError(f"the file builds a tensor of class {new_type.__name__}, which is none for it")
    return _utils._rebuild_from_type_v2(func, new_type, args, state)


_ABSENT = {
    **dict.fromkeys(
        ("_rebuild_qtensor", "QInt8Storage", "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage"),
        "a quantized tensor, which mindtorch does not have: save tensor.dequantize() in PyTorch",
    ),
    "complex32": "a tensor of torch.complex32, which mindtorch does not have: save it as complex64 in PyTorch",
    "_rebuild_njt": "a nested tensor, which mindtorch does not have: save the list tensor.unbind() in PyTorch",
}
"""What PyTorch's files may name that no permission can make loadable."""

_user_globals: list[Any] = []


def _public(module: str) -> str:
    """The module name a checkpoint uses: ``mindtorch.torch.nn`` is written ``torch.nn``."""
    return module[len(_OWN) :] if module.startswith(tuple(_OWN + f for f in _FAMILY)) else module


def _user_table() -> dict[str, Any]:
    table: dict[str, Any] = {}
    for entry in _user_globals:
        obj, path = entry if isinstance(entry, tuple) else (entry, None)
        if path is None:
            module = "builtins" if obj.__module__ == "builtins" else _public(obj.__module__)
            path = f"{module}.{getattr(obj, '__qualname__', obj.__name__)}"
        table[path] = obj
        if path.startswith("numpy._core."):
            table[path.replace("numpy._core.", "numpy.core.")] = obj
    return table


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow classes and functions (or ``(object, "module.name")`` pairs) in files read with ``weights_only=True``."""
    for entry in safe_globals:
        if entry not in _user_globals:
            _user_globals.append(entry)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has allowed."""
    return list(_user_globals)


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has allowed."""
    _user_globals.clear()


class safe_globals:
    """`add_safe_globals` inside a ``with``."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self.before = get_safe_globals()
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exc: object) -> None:
        _user_globals[:] = self.before


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """Names that ``torch.load(f, weights_only=True)`` would refuse. The file is not unpickled."""
    user = _user_table()

    def allowed(module: str, name: str) -> bool:
        module = _public(module)
        return (module, name) in _TABLE or (module, name) in pth.SAFE_BUILTINS or f"{module}.{name}" in user

    return pth.unsafe_globals(f, allowed)


_REFUSED = (
    "Weights only load failed: the file names {0}, which weights_only=True does not allow.\n"
    "  Unsupported global: GLOBAL {0} was not an allowed global by default.\n"
    "  (1) If you trust {0}, allow it: torch.serialization.add_safe_globals([{0}]), or "
    "with torch.serialization.safe_globals([{0}]): ...\n"
    "  (2) If you trust the file's author, torch.load(..., weights_only=False) reads everything; "
    "such a file can run any code."
)


# ------------------------------------------------------------------------------------------ where storages go

_packages: list[tuple[int, Callable[..., Any], Callable[..., Any]]] = []


def register_package(priority: int, tagger: Callable[..., Any], deserializer: Callable[..., Any]) -> None:
    """Add a kind of location: ``tagger(storage)`` names it, ``deserializer(storage, location)`` goes there."""
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda p: p[0])


def location_tag(storage: Any) -> str:
    """The location written to a file for a storage."""
    for _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag is not None:
            return tag
    return str(storage.device) if storage.device.type in accelerators() else storage.device.type


_NO_CUDA = (
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a "
    "CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
)


def default_restore_location(storage: Any, location: str) -> Any:
    """``storage`` moved to ``location`` ("cpu", "meta", an accelerator's name). RuntimeError for devices that are not there."""
    for _, _, deserializer in _packages:
        got = deserializer(storage, location)
        if got is not None:
            return got
    kind = location.partition(":")[0]
    if kind == "cpu":
        return storage
    if kind == "meta":
        moved = UntypedStorage(0, device="meta")
        moved.array = storage.array[:0]
        return moved
    if kind in accelerators():
        return UntypedStorage(put(storage.array, available(location)))
    if kind == "cuda":
        raise RuntimeError(_NO_CUDA)
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location}); "
        "give map_location='cpu'"
    )


def _restorer(map_location: Any) -> Callable[[Any, str], Any]:
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda s, loc: default_restore_location(s, map_location.get(loc, loc))
    if isinstance(map_location, (str, bytes)):
        name = map_location.decode() if isinstance(map_location, bytes) else map_location
        return lambda s, loc: default_restore_location(s, name)
    if isinstance(map_location, _device):
        return lambda s, loc: default_restore_location(s, str(map_location))

    def ask(s: Any, loc: str) -> Any:
        got = map_location(s, loc)
        return default_restore_location(s, loc) if got is None else got

    return ask


# ------------------------------------------------------------------------------------------ the hooks


class _LoadHooks(pth.Hooks):
    def __init__(self, map_location: Any) -> None:
        super().__init__()
        self.restore = _restorer(map_location)
        self.meta = str(map_location) == "meta" if isinstance(map_location, (str, _device)) else False
        self.user = _user_table()
        self.old = pth_numpy.old_globals(lambda a: self.tensor(a, None), self.parameter)
        self.is_old = False

    def find(self, module: str, name: str) -> Any:
        public = _public(module)
        got = _TABLE.get((public, name)) or pth.SAFE_BUILTINS.get((module, name)) or self.user.get(f"{public}.{name}")
        if got is _utils._rebuild_from_type_v2:
            return _rebuild_from_type_safely
        if got is None:
            got = self._find_old(module, name)
        if got is None and public.partition(".")[0] == "torch" and name in _ABSENT:
            raise pickle.UnpicklingError(f"the file holds {_ABSENT[name]}")
        if got is None:
            raise pickle.UnpicklingError(_REFUSED.format(f"{public}.{name}".removeprefix("builtins.")))
        return got

    def _find_old(self, module: str, name: str) -> Any:
        # Files of mindtorch 0.4.0 hold NumPy arrays; other files may not, as in PyTorch.
        if module == pth_numpy.OLD_PLACE and (module, name) in self.old:
            self.is_old = True
        return (self.old.get((module, name)) or pth_numpy.NUMPY.get((module, name))) if self.is_old else None

    def calls(self, value: Any) -> bool:
        return id(value) not in _NAMED_ONLY and value is not np.ndarray

    def wants(self, location: str) -> bool:
        return not self.meta and location != "meta"

    def find_any(self, base: Callable[[str, str], Any], module: str, name: str) -> Any:
        public = _public(module)
        got = _TABLE.get((public, name))
        if got is not None:
            return got
        if module == pth_numpy.OLD_PLACE and (module, name) in self.old:
            return self.old[module, name]
        if module == "mindtorch.torch.common.dtype" or (module.startswith("mindspore.") and not _importable(module)):
            return self.old.get((module, name)) or base(module, name)
        if public.partition(".")[0] in _FAMILY:
            return _find_in_family(public, name)
        return base(module, name)

    def storage(self, data: pth.StorageData) -> Any:
        untyped = UntypedStorage(data.data)
        moved = self.restore(untyped, data.location).untyped()
        if data.name == "UntypedStorage":
            return moved
        if data.name not in storage.LEGACY:
            raise RuntimeError(f"the file holds a {data.name} (quantized), which mindtorch does not have")
        return TypedStorage(wrap_storage=moved, dtype=storage.LEGACY[data.name].dtype, _internal=True)  # type: ignore[attr-defined]

    def tensor(self, array: np.ndarray, data: pth.StorageData | None) -> Any:
        from mindtorch.core.tensor import wrap

        return wrap(array)

    def parameter(self, array: np.ndarray, requires_grad: bool, state: Any) -> Any:
        p = Parameter(self.tensor(array, None), requires_grad)
        return _utils._set_state(p, state) if state else p

    def build(self, target: Any, state: Any) -> bool:
        if self.is_old and pth_numpy.give_old_state(target, state):
            return True
        if isinstance(target, (Tensor, Parameter)) and type(target) in (Tensor, Parameter):
            _utils._set_state(target, state)
            return True
        if not any(type(target) is allowed for allowed in self.user.values()):
            return False
        give = getattr(target, "__setstate__", None)
        if give is not None:
            give(state)
            return True
        state, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        target.__dict__.update(state or {})
        for key, value in (slots or {}).items():
            setattr(target, key, value)
        return True


def _importable(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _find_in_family(module: str, name: str) -> Any:
    """``module.name`` of torch in mindtorch. A class may live in a shorter module here: parents are tried in turn."""
    if module == "torch._C._nn":  # where PyTorch's own files place some of nn.functional
        module, name = "torch.nn.functional", {"log_sigmoid": "logsigmoid"}.get(name, name)
    if (module, name) == ("torch.nn.functional", "_threshold"):
        name = "threshold"
    places = module.replace("torch._C", "torch").split(".")
    while places:
        path = ".".join(places)
        try:
            got: Any = importlib.import_module(_OWN + path)
            for part in name.split("."):
                got = getattr(got, part)
            return got
        except (ModuleNotFoundError, AttributeError):
            places.pop()
    raise AttributeError(
        f"the file needs {module}.{name}, which mindtorch does not have; save the model's state_dict() instead"
    )


class _SaveHooks(pth.Hooks):
    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}
        self.alive: list[Any] = []

    def storage_of(self, obj: Any) -> pth.StorageData | None:
        if not isinstance(obj, (TypedStorage, UntypedStorage)):
            return None
        untyped = obj.untyped()
        name = "UntypedStorage" if obj is untyped else obj.pickle_storage_type()
        # Two storages are one when they are the same memory; the arrays stay alive so that addresses stay theirs.
        self.alive.append(untyped)
        key = f"{untyped.data_ptr():d}{untyped.nbytes():020d}" if untyped.nbytes() else f"{id(untyped):d}"
        if self.seen.setdefault(key, name) != name:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: "
                f"{self.seen[key]} and {name}; save a clone() of one of them"
            )
        array = untyped.array.on_host() if hasattr(untyped.array, "on_host") else untyped.array
        return pth.StorageData(name, array, location_tag(untyped), key)

    def rename(self, module: str) -> str:
        return _PICKLED_AS.get(module) or _public(module)


_PICKLED_AS = {
    "mindtorch.core.generator": "torch._C",
    "mindtorch.core.dtype": "torch",
    "mindtorch.torch.nn.modules.linear_cross_entropy": "torch.nn.modules.loss",
    **{f"mindtorch.torch.{m}": "torch" for m in ("_constants", "_scalars", "_vmap")},
    **{f"mindtorch.torch.distributions.{m}": "torch.distributions.transforms" for m in ("_transform", "_vector_transforms")},
    **{
        f"mindtorch.torch.distributed.{m}": "torch.distributed"
        for m in ("channel", "collectives", "group", "objects", "reduction", "store", "work", "world")
    },
    **{f"mindtorch.torchvision.transforms.{m}": "torchvision.transforms.transforms" for m in ("base", "colour", "geometry", "modes")},
}
"""Modules of classes that PyTorch keeps elsewhere."""


# ------------------------------------------------------------------------------------------ save and load


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write ``obj`` to ``f``, a path or an object with ``write``, in the format PyTorch reads.

    A path is written beside itself and renamed at the end: a failure leaves the old file as it was.
    """
    if observe.RANGES:
        observe.within(
            "save", "torch.save", f, _write, obj, f, pickle_module, pickle_protocol, _use_new_zipfile_serialization, not _disable_byteorder_record
        )
    else:
        _write(obj, f, pickle_module, pickle_protocol, _use_new_zipfile_serialization, not _disable_byteorder_record)


def _write(obj: Any, f: Any, pickle_module: Any, protocol: int, zipped: bool, byteorder: bool) -> None:
    pth.save(
        obj,
        f,
        _SaveHooks(),
        protocol=protocol,
        legacy=not zipped,
        pickle_module=pickle_module,
        byteorder=byteorder,
        checksums=OPTIONS["crc32"],
        skip_data=OPTIONS["skip_data"],
        alignment=OPTIONS["alignment"],
    )


def _wants_weights_only(weights_only: bool | None, pickle_module: Any) -> bool:
    force, forbid = (
        os.environ.get(v, "0").lower() in ("1", "y", "yes", "true")
        for v in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    )
    if force and forbid:
        raise RuntimeError(
            "TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD are both set: unset one of them"
        )
    if weights_only is None:
        return force or (pickle_module is None and not forbid)
    return weights_only or force


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """The object in ``f``, a path or an open binary file, written by any PyTorch or by `save`.

    ``weights_only`` (the default) reads tensors and plain containers and runs nothing from the file. ``map_location``
    is a device, a dict from location to location, or a function ``(storage, location)``. ``mmap`` maps a file instead
    of reading it. RuntimeError for broken files, UnpicklingError for refused names.
    """
    safe = _wants_weights_only(weights_only, pickle_module)
    if safe and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    alloc.ensure()  # a checkpoint loaded after another one then takes the memory of the first without page faults
    encoding = pickle_load_args.pop("encoding", "utf-8")
    if safe and pickle_load_args:
        raise TypeError(f"load() got an unexpected keyword argument {next(iter(pickle_load_args))!r}")
    return pth.load(
        f,
        _LoadHooks(map_location),
        safe=safe,
        mmap=bool(mmap if mmap is not None else OPTIONS["mmap"]) and isinstance(f, (str, os.PathLike)),
        shared=OPTIONS["mmap_flags"] == mmap_module.MAP_SHARED,
        skip_data=OPTIONS["skip_data"],
        encoding=encoding,
        pickle_module=pickle_module or pickle,
        endian=OPTIONS["endian"].name.lower() if OPTIONS["endian"] else None,
        **pickle_load_args,
    )


# ------------------------------------------------------------------------------------------ options


class LoadEndianness(Enum):
    """Byte order assumed for files that do not say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


OPTIONS: dict[str, Any] = {
    "mmap": False, "mmap_flags": mmap_module.MAP_PRIVATE, "endian": None, "crc32": True, "skip_data": False, "alignment": 64,
    "offsets": False, "pinned": False,
}  # fmt: skip
"""Settings of `load` and `save`; ``torch.utils.serialization.config`` has them by their public names."""


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Byte order assumed for files that do not say theirs (None: little)."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    OPTIONS["endian"] = endianness


def get_default_load_endianness() -> LoadEndianness | None:
    """See `set_default_load_endianness`."""
    return OPTIONS["endian"]


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether `save` writes checksums (the default); files without them are read without being verified."""
    OPTIONS["crc32"] = bool(compute_crc32)


def get_crc32_options() -> bool:
    """What `set_crc32_options` was given."""
    return OPTIONS["crc32"]


class set_default_mmap_options:
    """How ``mmap=True`` maps, from now on or inside a ``with``.

    With MAP_PRIVATE (the default) what is written to a loaded tensor stays in this process; with MAP_SHARED it is
    written to the file, which must be writable then.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (mmap_module.MAP_PRIVATE, mmap_module.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self.before = OPTIONS["mmap_flags"]
        OPTIONS["mmap_flags"] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        OPTIONS["mmap_flags"] = self.before


def get_default_mmap_options() -> int:
    """MAP_PRIVATE or MAP_SHARED: see `set_default_mmap_options`."""
    return OPTIONS["mmap_flags"]


class skip_data:
    """Inside the ``with`` `save` gives storages their place in the file and no contents, `load` reads none.

    Whoever writes the contents into such a file later need not mend its checksums: zero stands for "not known".
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            log.ignored("skip_data", "materialize_fake_tensors", "there are no fake tensors")

    def __enter__(self) -> None:
        self.before = OPTIONS["skip_data"]
        OPTIONS["skip_data"] = True

    def __exit__(self, *exc: object) -> None:
        OPTIONS["skip_data"] = self.before
