"""``torch.utils.serialization.config``: settings of ``torch.save`` (``config.save``) and ``torch.load`` (``config.load``).

They are those that the functions of ``torch.serialization`` set; `patch` sets some for a while.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mindtorch import log
from mindtorch.torch.serialization import OPTIONS, set_default_load_endianness

__all__ = ["get_config_copy", "load", "load_config", "patch", "save"]

_KEYS = {
    "load.mmap": "mmap",
    "load.endianness": "endian",
    "load.mmap_flags": "mmap_flags",
    "load.calculate_storage_offsets": "offsets",
    "save.compute_crc32": "crc32",
    "save.use_pinned_memory_for_d2h": "pinned",
    "save.storage_alignment": "alignment",
}
_WITHOUT_EFFECT = {
    "load.calculate_storage_offsets": "the directory of the file says where each storage is",
    "save.use_pinned_memory_for_d2h": "tensors are in host memory already",
}


def _set(name: str, value: Any) -> None:
    if value and name in _WITHOUT_EFFECT:
        log.ignored("torch.utils.serialization.config", name, _WITHOUT_EFFECT[name])
    if name == "save.storage_alignment" and (not isinstance(value, int) or not 1 <= value <= 1 << 15):
        raise ValueError(f"torch.utils.serialization.config: {name} must be a number from 1 to 32768, got {value!r}")
    if name == "load.endianness":
        set_default_load_endianness(value)
    OPTIONS[_KEYS[name]] = value


class _Section:
    """The settings of one function, as attributes. AttributeError for names that are none."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _full(self, name: str) -> str:
        full = f"{self.__dict__['_name']}.{name}"
        if full not in _KEYS:
            raise AttributeError(f"torch.utils.serialization.config.{full} does not exist")
        return full

    def __getattr__(self, name: str) -> Any:
        return OPTIONS[_KEYS[self._full(name)]]

    def __setattr__(self, name: str, value: Any) -> None:
        _set(self._full(name), value)

    def __dir__(self) -> list[str]:
        prefix = f"{self.__dict__['_name']}."
        return [k[len(prefix) :] for k in _KEYS if k.startswith(prefix)]


save, load = _Section("save"), _Section("load")


def get_config_copy() -> dict[str, Any]:
    """All settings by their dotted names."""
    return {name: OPTIONS[key] for name, key in _KEYS.items()}


def load_config(config: dict[str, Any]) -> None:
    """Set what `get_config_copy` gave. AttributeError for names that are no settings."""
    for name in config:
        if name not in _KEYS:
            raise AttributeError(f"torch.utils.serialization.config.{name} does not exist")
    for name, value in config.items():
        _set(name, value)


class patch:
    """``patch("save.compute_crc32", False)`` or ``patch({...})``: settings inside a ``with`` or a decorated function."""

    def __init__(self, name: str | dict[str, Any] | None = None, value: Any = None, **named: Any) -> None:
        given = name if isinstance(name, dict) else {} if name is None else {name: value}
        self.changes = {**given, **{k.replace("__", "."): v for k, v in named.items()}}

    def __enter__(self) -> None:
        self.before = get_config_copy()
        load_config(self.changes)

    def __exit__(self, *exc: object) -> None:
        load_config({name: self.before[name] for name in self.changes})

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def patched(*args: Any, **kwargs: Any) -> Any:
            with patch(self.changes):
                return fn(*args, **kwargs)

        return patched
