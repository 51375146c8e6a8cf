"""Small things of the top namespace: layouts, memory formats, constants, version, process-wide settings."""

from __future__ import annotations

import math
import os
from typing import Any

from mindtorch.core import device as _device
from mindtorch.core import dtype as _dtype
from mindtorch.core.legacy import TYPES
from mindtorch.core.tensor import Tensor

__all__ = [
    "are_deterministic_algorithms_enabled", "channels_last", "channels_last_3d", "contiguous_format", "e", "get_float32_matmul_precision",
    "get_num_interop_threads", "get_num_threads", "inf", "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled",
    "layout", "memory_format", "nan", "newaxis", "pi", "preserve_format", "set_default_tensor_type", "set_flush_denormal",
    "set_float32_matmul_precision", "set_num_interop_threads", "set_num_threads", "set_warn_always", "sparse_coo", "sparse_csr",
    "strided", "tau", "typename", "use_deterministic_algorithms", "get_device_module", "TorchVersion",
    "get_deterministic_debug_mode", "set_deterministic_debug_mode",
]  # fmt: skip


class TorchVersion(str):
    """A version string that compares by its numbers, also with tuples."""

    __slots__ = ()

    @staticmethod
    def _key(v: Any) -> tuple[int, ...]:
        if isinstance(v, (tuple, list)):
            return tuple(int(x) for x in v)
        digits = []
        for part in str(v).split("+")[0].split("."):
            n = ""
            for c in part:
                if not c.isdigit():
                    break
                n += c
            digits.append(int(n or 0))
        return tuple(digits)

    def _pair(self, other: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        a, b = self._key(self), self._key(other)
        n = max(len(a), len(b))
        return a + (0,) * (n - len(a)), b + (0,) * (n - len(b))

    def __lt__(self, o: Any) -> bool:
        a, b = self._pair(o)
        return a < b

    def __le__(self, o: Any) -> bool:
        a, b = self._pair(o)
        return a <= b

    def __gt__(self, o: Any) -> bool:
        a, b = self._pair(o)
        return a > b

    def __ge__(self, o: Any) -> bool:
        a, b = self._pair(o)
        return a >= b

    def __eq__(self, o: object) -> bool:
        if isinstance(o, str) and "+" in o:
            return str.__eq__(self, o)
        a, b = self._pair(o)
        return a == b

    def __ne__(self, o: object) -> bool:
        return not self == o

    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+mindtorch")


class layout:  # noqa: N801 - public name
    """How elements are stored; only ``torch.strided`` tensors can be made."""

    __module__ = "mindtorch.torch"

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        from mindtorch.torch.serialization import _get_layout

        return _get_layout, (repr(self),)

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class memory_format(layout):  # noqa: N801 - public name
    """Order of dimensions in memory."""

    __module__ = "mindtorch.torch"

    def __reduce__(self) -> Any:
        return self.name  # pickled as a global of torch, which PyTorch finds too


strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")

# Bound here because the object it answers with belongs to this layer.
Tensor.layout = property(lambda self: strided)

inf, nan, pi, e, tau, newaxis = math.inf, math.nan, math.pi, math.e, math.tau, None

_settings: dict[str, Any] = {"deterministic": False, "warn_only": False, "precision": "highest", "always": False, "threads": None}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """All kernels here are deterministic; the flag is kept for :func:`are_deterministic_algorithms_enabled`."""
    _settings["deterministic"], _settings["warn_only"] = bool(mode), warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """What was set by :func:`use_deterministic_algorithms`."""
    return _settings["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What was set by :func:`use_deterministic_algorithms`."""
    return _settings["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same setting as one value: 0 or "default", 1 or "warn", 2 or "error". RuntimeError for anything else."""
    modes = ("default", "warn", "error")
    if isinstance(debug_mode, str):
        if debug_mode not in modes:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = modes.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0 when deterministic algorithms are not asked for, 1 when only a warning is, 2 when they are."""
    return 0 if not _settings["deterministic"] else 1 if _settings["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """float32 products are always computed in float32 here; the setting is remembered."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'")
    _settings["precision"] = precision


def get_float32_matmul_precision() -> str:
    """The remembered setting."""
    return _settings["precision"]


def get_num_threads() -> int:
    """Threads that BLAS and compiled kernels may use."""
    if _settings["threads"] is None:
        env = os.environ.get("OMP_NUM_THREADS", "")
        _settings["threads"] = int(env) if env.isdigit() and int(env) else (os.cpu_count() or 1)
    return _settings["threads"]


def set_num_threads(n: int) -> None:
    """Limit the threads of BLAS and compiled kernels. RuntimeError unless positive."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _settings["threads"] = n
    from mindtorch.engine.host import jit

    jit.set_threads(n)
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        os.environ["OMP_NUM_THREADS"] = str(n)
        return
    threadpool_limits(n)


def get_num_interop_threads() -> int:
    """Operations run one after the other in the calling thread."""
    return 1


def set_num_interop_threads(n: int) -> None:
    """Accepted: operations run in the calling thread."""
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


def set_flush_denormal(mode: bool) -> bool:
    """Not supported by NumPy's kernels: returns False, as PyTorch does where the processor cannot."""
    return False


def set_warn_always(b: bool) -> None:
    """Remember whether warnings repeat."""
    _settings["always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """What was set by :func:`set_warn_always`."""
    return _settings["always"]


def set_default_tensor_type(t: Any) -> None:
    """Old way to set the default dtype: a typed class or its name."""
    if isinstance(t, str):
        name = t.rsplit(".", 1)[-1]
        if ".cuda." in t:
            _device.available("cuda")
        if name not in TYPES:
            raise TypeError(f"invalid type object: {t}")
        t = TYPES[name]
    _dtype.set_default_dtype(t.dtype)


def typename(obj: Any) -> str:
    """Qualified name of the type of ``obj``."""
    from mindtorch.core.tensor import Tensor

    if isinstance(obj, Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    mod = cls.__module__
    return cls.__qualname__ if mod in (None, "builtins") else f"{mod}.{cls.__qualname__}"


def get_device_module(device: Any = None) -> Any:
    """The module of a device type."""
    import importlib

    return importlib.import_module(f"mindtorch.torch.{_device.device(device or 'cpu').type}")
