"""``torch.cpu``: the device functions that generic programs call, for the CPU."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import platform
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mindtorch.torch.cpu import amp as amp  # noqa: PLC0414 - public submodule

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """Operations run in program order; a stream has nothing to hold."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A point in program order: what came before it is done. It measures no time, as PyTorch's."""

    def query(self) -> bool:
        """True: what was recorded is done."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


StreamContext = contextlib.nullcontext


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def synchronize(device: Any = None) -> None:
    """Returns when all operations are done: they are done when they return."""


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one CPU device; nothing to choose."""


def current_stream(device: Any = None) -> Stream:
    """The stream."""
    return Stream()


def stream(stream: Any) -> Any:
    """A context without effect."""
    return contextlib.nullcontext()


# PyTorch's name of an instruction set -> the Linux kernel's, where they differ.
_FLAGS = {
    "fma3": "fma", "lzcnt": "abm", "sha": "sha_ni", "sse3": "pni", "bmi": "bmi1", "avx512_f": "avx512f",
    "avx512_cd": "avx512cd", "avx512_dq": "avx512dq", "avx512_bw": "avx512bw", "avx512_vl": "avx512vl",
    "avx512_ifma": "avx512ifma", "avx512_vbmi": "avx512vbmi",
}  # fmt: skip
_SAME = (
    "sse sse2 ssse3 sse4_1 sse4_2 sse4a avx avx2 avx_vnni avx_vnni_int8 avx_vnni_int16 avx_ne_convert avx10_1 avx10_2 fma4 f16c "
    "bmi2 popcnt aes clflush clflushopt clwb amx_bf16 amx_tile amx_int8 amx_fp16 avx512_vbmi2 avx512_bitalg avx512_vpopcntdq avx512_vnni "
    "avx512_bf16 avx512_fp16 avx512_vp2intersect avx512_4vnniw avx512_4fmaps"
).split()


@functools.cache
def get_capabilities() -> Mapping[str, Any]:
    """Instruction sets of this CPU (name -> bool), ``architecture``, ``cpu_name``, cores, sockets and cache sizes in bytes.

    Read from the Linux kernel; elsewhere only what Python's platform module knows.
    """
    text = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        text = f.read()
    fields: dict[str, set[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), set()).add(value.strip())
    flags = {w for line in fields.get("flags", fields.get("Features", set())) for w in line.split()}
    sockets = max(len(fields.get("physical id", ())), 1)
    cores = max((int(c) for c in fields.get("cpu cores", ()) if c.isdigit()), default=os.cpu_count() or 1)
    out: dict[str, Any] = {n: n in flags for n in _SAME} | {n: linux in flags for n, linux in _FLAGS.items()}
    out |= {
        "architecture": platform.machine(),
        "cpu_name": min(fields.get("model name", set()), default=platform.processor()),
        "num_logical_cores": os.cpu_count() or 1, "num_physical_cores": cores * sockets, "num_sockets": sockets,
    }  # fmt: skip
    for level, name in ((1, "l1d_cache_size"), (2, "l2_cache_size")):
        size = _cache_size(level)
        out |= {name: size} if size else {}
    return MappingProxyType(out)


def _cache_size(level: int) -> int:
    """Bytes of the data cache of a level; 0 when the kernel does not say."""
    for entry in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError):
            if int((entry / "level").read_text()) == level and (entry / "type").read_text().strip() != "Instruction":
                return int((entry / "size").read_text().strip().rstrip("K")) * 1024
    return 0
