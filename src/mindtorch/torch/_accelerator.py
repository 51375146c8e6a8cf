"""What ``torch.npu``, ``torch.cuda`` and ``torch.accelerator`` answer when an accelerator is there.

``MINDTORCH_NPU_SIM=1`` puts MindSpore's CPU target in the accelerator's place, ``MINDTORCH_DEVICE_ALIAS=cuda`` gives it that
name too. Kernels are waited for one by one, so streams keep PyTorch's order by themselves. On Ascend none of this was run.
"""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

from mindtorch import log
from mindtorch.core import generator
from mindtorch.core.device import device
from mindtorch.core.legacy import TYPES
from mindtorch.core.tensor import Tensor
from mindtorch.engine.mindspore import runtime
from mindtorch.torch import _streams
from mindtorch.torch._streams import place


class Stream(_streams.Stream):
    """``torch.cuda.Stream``, ``torch.npu.Stream``. All run in the order of launching."""

    kind = ""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        super().__init__(place(device, self.kind), priority=priority)

    @property
    def cuda_stream(self) -> int:
        """The number by which the stream is told from others."""
        return self.stream_id

    @property
    def npu_stream(self) -> int:
        """The number by which the stream is told from others."""
        return self.stream_id

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Least and greatest priority: there is one, as streams follow each other."""
        return 0, 0


class Event(_streams.Event):
    """``torch.cuda.Event``, ``torch.npu.Event``."""

    kind = ""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        super().__init__(place(None, self.kind), enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


class _Chosen:
    """``with torch.npu.device(i)``: one accelerator belongs to the process, so it is checked and nothing changes."""

    kind = ""

    def __init__(self, device: Any = None) -> None:
        self.idx = -1 if isinstance(device, int) and device < 0 else place(device, self.kind).index

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: Any) -> None:
        return None


class _ChosenByTensor(_Chosen):
    """``with torch.npu.device_of(tensor)``."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1 if obj.device.type == "cpu" else obj.device)


class _OnStream:
    """``with torch.npu.stream(s)``: ``s`` is the current stream inside; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *exc: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*exc)


class _TypedMeta(type):
    """``torch.cuda.FloatTensor(...)`` makes tensors there, and ``isinstance`` asks for dtype and device."""

    dtype: Any
    device: device

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.dtype and x.device.type == cls.device.type

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return TYPES[cls.__name__](*args, **kwargs).to(cls.device)


def _typed(kind: str) -> dict[str, Any]:
    """The old typed classes for the device ``kind``."""
    return {
        name: _TypedMeta(name, (), {"dtype": plain.dtype, "device": device(kind, 0), "__module__": f"mindtorch.torch.{kind}"})
        for name, plain in TYPES.items()
    }


# ------------------------------------------------------------------------------------------ memory
def _memory(kind: str, function: Any) -> Any:
    def call(device: Any = None) -> Any:
        place(device, kind)
        return function()

    call.__doc__ = function.__doc__
    return call


def _stats() -> OrderedDict[str, Any]:
    """The memory figures under PyTorch's names."""
    return OrderedDict(
        {
            "allocated_bytes.all.current": runtime.memory_allocated(),
            "allocated_bytes.all.peak": runtime.max_memory_allocated(),
            "reserved_bytes.all.current": runtime.memory_reserved(),
            "reserved_bytes.all.peak": runtime.max_memory_reserved(),
        }
    )


def _nested() -> dict[str, Any]:
    """The memory figures in nested dictionaries."""
    out: dict[str, Any] = {}
    for name, value in _stats().items():
        inner, parts = out, name.split(".")
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = value
    return out


def _info() -> tuple[int, int]:
    """Free and total memory of the device, in bytes."""
    total = runtime.properties()["total_memory"]
    return max(total - runtime.memory_allocated(), 0), total


def _memory_functions(kind: str) -> dict[str, Any]:
    def summary(device: Any = None, abbreviated: bool = False) -> str:
        """The memory figures as text; ``abbreviated`` leaves out the peaks."""
        place(device, kind)
        return "\n".join(f"{k:32} {v}" for k, v in _stats().items() if not (abbreviated and "peak" in k))

    figures = {
        "memory_allocated": runtime.memory_allocated, "max_memory_allocated": runtime.max_memory_allocated,
        "memory_reserved": runtime.memory_reserved, "max_memory_reserved": runtime.max_memory_reserved,
        "memory_cached": runtime.memory_reserved, "max_memory_cached": runtime.max_memory_reserved,
        "reset_peak_memory_stats": runtime.reset_peak, "reset_max_memory_allocated": runtime.reset_peak,
        "reset_max_memory_cached": runtime.reset_peak, "reset_accumulated_memory_stats": runtime.reset_peak,
        "memory_stats": _stats, "memory_stats_as_nested_dict": _nested, "mem_get_info": _info, "get_memory_info": _info,
        "device_memory_used": runtime.memory_allocated,
    }  # fmt: skip
    found = {name: _memory(kind, fn) for name, fn in figures.items()}
    return {**found, "memory_summary": summary, "empty_cache": runtime.empty_cache, "ipc_collect": lambda: None,
            "set_per_process_memory_fraction": _fraction, "get_per_process_memory_fraction": lambda device=None: 1.0}  # fmt: skip


def _fraction(fraction: float, device: Any = None) -> None:
    """Accepted without effect: MindSpore takes its limit before its first kernel, in bytes."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    log.ignored("set_per_process_memory_fraction", "fraction", "MindSpore's limit is that of mindspore.runtime.set_memory(max_size=...)")


# ------------------------------------------------------------------------------------------ random numbers
def _seed(seed: int) -> None:
    """Seed the stream that the accelerator's tensors are drawn from: the CPU's, so that numbers equal the CPU's."""
    generator.default_generator.manual_seed(int(seed))


def _random_functions() -> dict[str, Any]:
    g = generator.default_generator

    def set_all(new_states: Any) -> None:
        """Restore what ``get_rng_state_all`` gave."""
        for state in new_states:
            g.set_state(state)

    return {
        "manual_seed": _seed, "manual_seed_all": _seed, "seed": lambda: g.seed() and None, "seed_all": lambda: g.seed() and None,
        "initial_seed": lambda: g.initial_seed(), "default_generators": (g,),
        "get_rng_state": lambda device=None: g.get_state(), "get_rng_state_all": lambda: [g.get_state()],
        "set_rng_state": lambda new_state, device=None: g.set_state(new_state), "set_rng_state_all": set_all,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ the whole module
_NOT_KNOWN = (
    "utilization", "memory_usage", "temperature", "power_draw", "clock_rate", "cudart", "current_blas_handle", "current_solver_handle",
    "caching_allocator_alloc", "caching_allocator_delete", "change_current_allocator", "graph_pool_handle", "make_graphed_callables",
    "get_stream_from_external", "CUDAGraph", "graph",
)  # fmt: skip


def _not_known(kind: str, name: str) -> Any:
    hint = "; torch.compile makes graphs here" if "graph" in name.lower() else ""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torch.{kind}.{name}: MindSpore offers nothing like it for its devices{hint}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises RuntimeError: it is CUDA's own."
    return function


def _streams_of(kind: str) -> dict[str, Any]:
    where = {"kind": kind, "__module__": f"mindtorch.torch.{kind}", "__doc__": f"``torch.{kind}``'s."}
    stream, event = type("Stream", (Stream,), where), type("Event", (Event,), where)

    def set_device(device: Any) -> None:
        """Checks ``device``: the process has one accelerator. RuntimeError for another index."""
        place(device, kind)

    def set_stream(stream: Any) -> None:
        """Launch on ``stream`` from now on."""
        if stream is not None:
            _streams.choose(stream)

    def default(device: Any = None) -> Any:
        """Stream 0."""
        return stream._numbered(place(device, kind), 0)

    def now(device: Any = None) -> Any:
        """The stream that kernels are launched on."""
        found = _streams.current(place(device, kind))
        return found if isinstance(found, Stream) else default(found.device)

    return {
        "Stream": stream, "Event": event, "stream": _OnStream, "StreamContext": _OnStream, "current_stream": now, "set_stream": set_stream,
        "default_stream": default, "set_device": set_device, "device": type("device", (_Chosen,), where),
        "device_of": type("device_of", (_ChosenByTensor,), where), "synchronize": _memory(kind, runtime.synchronize),
    }  # fmt: skip


def present(kind: str) -> dict[str, Any]:
    """The functions of the device module ``kind`` ("npu" or "cuda") for the accelerator that is there."""

    def sync_debug(debug_mode: Any) -> None:
        """Accepted without effect: every kernel is waited for."""
        log.ignored(f"torch.{kind}.set_sync_debug_mode", "debug_mode", "every kernel is waited for already")

    return {
        **_streams_of(kind), **_memory_functions(kind), **_random_functions(), **_typed(kind),
        **{name: _not_known(kind, name) for name in _NOT_KNOWN},
        "is_available": lambda: True, "is_initialized": lambda: True, "init": lambda: None, "_lazy_init": lambda: None,
        "device_count": lambda: 1, "current_device": lambda: 0,
        "get_device_name": lambda device=None: runtime.device_name(),
        "get_device_properties": lambda device=None: SimpleNamespace(**runtime.properties()),
        "get_device_capability": lambda device=None: (0, 0), "is_bf16_supported": lambda including_emulation=True: True,
        "is_current_stream_capturing": lambda: False, "can_device_access_peer": lambda device, peer_device: False,
        "get_sync_debug_mode": lambda: 0, "set_sync_debug_mode": sync_debug, "check_error": lambda res: None,
    }  # fmt: skip
