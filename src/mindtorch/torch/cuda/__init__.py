"""``torch.cuda`` of a process without CUDA: it says so, seeds and caches do nothing, everything else raises as there.

Where an accelerator goes by this name (``MINDTORCH_DEVICE_ALIAS=cuda``) the functions are the accelerator's.

Scripts guard with ``is_available()``; what they call without a guard behaves as in PyTorch built without CUDA.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from mindtorch.core.device import accelerators as _accelerators
from mindtorch.torch.cuda import _stubs
from mindtorch.torch.cuda import amp as amp  # noqa: PLC0414 - public submodules
from mindtorch.torch.cuda import nvtx as nvtx  # noqa: PLC0414

CUDAGraph, graph = _stubs.CUDAGraph, _stubs.graph
Event, Stream, ExternalStream = _stubs.Event, _stubs.Stream, _stubs.ExternalStream
StreamContext, stream = _stubs.StreamContext, _stubs.stream
device, device_of = _stubs.device, _stubs.device_of

_ABSENT = "Torch not compiled with CUDA enabled"

default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False


class CudaError(RuntimeError):
    """An error of the CUDA runtime."""


class DeferredCudaCallError(Exception):
    """An error in a call that waited for CUDA to start."""


class OutOfMemoryError(RuntimeError):
    """An allocation failed."""


def _lazy_init() -> None:
    raise AssertionError(_ABSENT + ": guard the call with torch.cuda.is_available(), or use device='cpu'")


init = _lazy_init


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def is_tf32_supported() -> bool:
    """False."""
    return False


def get_arch_list() -> list[str]:
    """None."""
    return []


def get_gencode_flags() -> str:
    """None."""
    return ""


def manual_seed(seed: int) -> None:
    """Nothing to seed (``torch.manual_seed`` seeds the CPU)."""
    int(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Nothing to seed."""


seed_all = seed


def get_rng_state_all() -> list[Any]:
    """No devices, no states."""
    return []


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Nothing to set, as in PyTorch before CUDA starts."""


def set_rng_state_all(new_states: Any) -> None:
    """Nothing to set."""


def empty_cache() -> None:
    """Nothing is cached."""


def ipc_collect() -> None:
    """Nothing to collect."""


def set_device(device: Any) -> None:
    """Raises for any device but a negative one, which means none."""
    if not (isinstance(device, int) and device < 0):
        _lazy_init()


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Empty: nothing is allocated."""
    return OrderedDict()


memory_stats_as_nested_dict = host_memory_stats = host_memory_stats_as_nested_dict = memory_stats


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing was allocated, so there is nothing to reset."""


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats
reset_peak_host_memory_stats = reset_accumulated_host_memory_stats = reset_peak_memory_stats


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """One line: nothing is allocated."""
    return "no CUDA device: 0 bytes allocated"


def memory_snapshot(*_args: Any, **_kwargs: Any) -> list[Any]:
    """Nothing is allocated."""
    return []


def list_gpu_processes(device: Any = None) -> str:
    """None."""
    return "no CUDA device: no processes"


def get_allocator_backend() -> str:
    """The name PyTorch's default allocator has."""
    return "native"


def _raising(name: str) -> Any:
    def function(*_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError(f"{_ABSENT}: torch.cuda.{name} needs a device; guard it with torch.cuda.is_available()")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises AssertionError: no device is present."
    return function


_RAISING = [
    "can_device_access_peer", "caching_allocator_alloc", "caching_allocator_delete", "change_current_allocator",
    "check_error", "clock_rate", "cudart", "current_blas_handle", "current_device", "current_solver_handle",
    "current_stream", "default_stream", "device_memory_used", "get_device_capability", "get_device_name",
    "get_device_properties", "get_per_process_memory_fraction", "get_rng_state", "get_stream_from_external",
    "get_sync_debug_mode", "graph_pool_handle", "initial_seed", "is_current_stream_capturing",
    "make_graphed_callables", "mem_get_info", "memory_usage", "power_draw", "set_per_process_memory_fraction",
    "set_stream", "set_sync_debug_mode", "synchronize", "temperature", "utilization",
]  # fmt: skip
globals().update({name: _raising(name) for name in _RAISING})

_TENSORS = ["Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"]
globals().update({f"{t}Tensor": _stubs.tensor_class(f"{t}Tensor") for t in _TENSORS})
globals().update(
    {f"{t}Storage": _stubs.tensor_class(f"{t}Storage") for t in [*_TENSORS, "ComplexFloat", "ComplexDouble"]}
)

if "cuda" in _accelerators():
    from mindtorch.torch._accelerator import present as _present

    globals().update(_present("cuda"))

__all__ = sorted(
    [n for n, v in list(globals().items()) if not n.startswith("_") and n not in ("OrderedDict", "annotations", "Any")]
)
