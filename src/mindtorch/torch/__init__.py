"""The public face: the same names as ``torch``. Submodules load on first use."""

from __future__ import annotations

import importlib
from typing import Any

from mindtorch import log as _log
from mindtorch import ops as _ops  # noqa: F401 - registers the table
from mindtorch.core import dtype as _dtype
from mindtorch.core import modes as _modes
from mindtorch.core.device import device
from mindtorch.core.dtype import dtype
from mindtorch.core.generator import Generator
from mindtorch.core.legacy import TYPES as _TYPES
from mindtorch.core.printing import set_printoptions
from mindtorch.core.tensor import Parameter as _Parameter
from mindtorch.core.tensor import Size, Tensor
from mindtorch.ops.table import SPACES as _SPACES
from mindtorch.torch import _constants
from mindtorch.torch._constants import *  # noqa: F403

_log.level()  # a wrong MSA_LOG is refused here, not when the first message is due

__version__ = _constants.__version__

for _d in _dtype.ALL:
    globals()[_d.name] = _d
globals().update(_dtype.ALIASES)
globals().update(_TYPES)
for _name, _fn in _SPACES["torch"].items():
    globals().setdefault(_name, _fn)
bool = _dtype.bool_  # noqa: A001
float = _dtype.float32  # noqa: A001
int = _dtype.int32  # noqa: A001

_SUBMODULES = {
    "amp", "autograd", "backends", "cpu", "cuda", "distributed", "distributions", "fft", "func", "hub", "jit", "linalg", "multiprocessing",
    "masked", "nn", "optim", "overrides", "random", "serialization", "signal", "special", "storage", "testing", "types", "utils", "version",
    "__future__", "_utils", "accelerator", "compiler", "futures", "npu", "onnx", "profiler", "return_types", "sparse",
}  # fmt: skip
_FROM = {
    "save": "serialization", "load": "serialization", "UntypedStorage": "storage", "TypedStorage": "storage",
    "manual_seed": "random", "seed": "random", "initial_seed": "random", "get_rng_state": "random", "set_rng_state": "random",
    "default_generator": "random", "vmap": "func", "compile": "compiler", "is_autocast_enabled": "amp.autocast_mode",
    "autocast": "amp", "is_autocast_cpu_enabled": "amp.autocast_mode", "get_autocast_dtype": "amp.autocast_mode",
    "set_autocast_enabled": "amp.autocast_mode", "get_autocast_cpu_dtype": "amp.autocast_mode",
    "set_autocast_dtype": "amp.autocast_mode", "sym_float": "_scalars", "sym_int": "_scalars", "sym_ite": "_scalars",
    "OutOfMemoryError": "cuda", "AcceleratorError": "accelerator", "Event": "_streams", "Stream": "_streams", "GradScaler": "amp",
    "is_anomaly_check_nan_enabled": "autograd.anomaly_mode", "is_anomaly_enabled": "autograd.anomaly_mode", "sym_max": "_scalars", "sym_min": "_scalars",
    "sym_not": "_scalars", "sym_sqrt": "_scalars", "sym_sum": "_scalars",
}  # fmt: skip

for _name in (
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "get_autocast_gpu_dtype",
    "is_autocast_available", "is_autocast_cache_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled", "set_autocast_gpu_dtype",
):  # fmt: skip
    _FROM.setdefault(_name, "amp.autocast_mode")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        mod = importlib.import_module(f"{__name__}.{name}")
        globals()[name] = mod
        return mod
    if name in _FROM:
        value = getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
        globals()[name] = value
        return value
    if name.endswith("Storage"):
        storage = importlib.import_module(f"{__name__}.storage")
        if hasattr(storage, name):
            return getattr(storage, name)
    raise AttributeError(
        f"module 'torch' has no attribute '{name}': this is mindtorch, whose docs/conformance.md lists each public name of PyTorch "
        "as there or absent with the reason"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_FROM})


_ = (device, dtype, Generator, set_printoptions, Size, Tensor, _Parameter, _modes)
