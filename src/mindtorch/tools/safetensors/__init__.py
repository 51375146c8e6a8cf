"""What a program finds as ``safetensors`` under the switch when that package is not installed; usable by name as well.

``from mindtorch.tools.safetensors.torch import save_file, load_file`` works without the switch too.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mindtorch.formats import safetensors as _format
from mindtorch.formats.safetensors import SafetensorError

__all__ = ["SafetensorError", "deserialize", "safe_open"]

__version__ = "0.8.0"

_TORCH = ("pt", "torch", "pytorch")
_NUMPY = ("np", "numpy")


def _tensor(a: np.ndarray, framework: str, device: Any) -> Any:
    """An array in the framework asked for. TypeError for dtypes mindtorch lacks."""
    if framework in _NUMPY:
        return a
    import mindtorch.torch as torch

    t = torch.from_numpy(a)
    return t if device is None or str(device) == "cpu" else t.to(device)


class safe_open:  # noqa: N801 - public name
    """The tensors of a file, one at a time: ``with safe_open(path, framework="pt") as f: f.get_tensor(name)``.

    The file is mapped: a tensor lies over the file's memory, and writing to it does not change the file. ``device`` is
    where tensors go. ``backend`` "mmap" or "pread" (the file is read at once). `SafetensorError` for broken files.
    """

    def __init__(self, filename: Any, framework: str, device: Any = "cpu", *, backend: str = "mmap") -> None:
        if framework not in (*_TORCH, *_NUMPY):
            raise SafetensorError(f"framework must be 'pt' or 'np' here, got {framework!r}")
        if backend not in ("mmap", "pread"):
            raise ValueError(f"backend must be 'mmap' or 'pread', got {backend!r}")
        if not os.path.isfile(filename):
            raise FileNotFoundError(f"No such file or directory: {os.fspath(filename)}")
        self._framework, self._device = framework, device
        if os.path.getsize(filename) == 0:
            raise SafetensorError("the safetensors file is empty")
        mapped = np.memmap(filename, np.uint8, "c") if backend == "mmap" else np.fromfile(filename, np.uint8)
        self._data = memoryview(np.asarray(mapped))
        self._entries, self._metadata, self._base = _format.parse(self._data)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exc: object) -> None:
        # Tensors that were handed out keep the map alive.
        del self._data

    def _entry(self, name: str) -> Any:
        if not hasattr(self, "_data"):
            raise SafetensorError("the file is closed")
        if name not in self._entries:
            raise SafetensorError(f"File does not contain tensor {name}")
        return self._entries[name]

    def _array(self, name: str) -> np.ndarray:
        entry = self._entry(name)
        return _format.array_of(self._data, self._base, entry, copy=False)

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""
        return sorted(self._entries)

    def offset_keys(self) -> list[str]:
        """Names of the tensors in the order of the file."""
        return list(self._entries)

    def metadata(self) -> dict[str, str] | None:
        """The texts stored with the tensors, None when there are none."""
        return dict(self._metadata) or None

    def get_tensor(self, name: str) -> Any:
        """One tensor."""
        return _tensor(self._array(name), self._framework, self._device)

    def get_tensors(self) -> dict[str, Any]:
        """All tensors."""
        return {name: self.get_tensor(name) for name in self.keys()}

    def get_slice(self, name: str) -> _Slice:
        """One tensor to be indexed, of which only the part asked for is read."""
        return _Slice(self, name)


class _Slice:
    """``f.get_slice(name)[2:4, :]``."""

    def __init__(self, file: safe_open, name: str) -> None:
        self._file, self._name, self._entry = file, name, file._entry(name)

    def get_shape(self) -> list[int]:
        """Sizes of the whole tensor."""
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        """The format's name of the dtype, such as "F32"."""
        return self._entry.kind

    def __getitem__(self, index: Any) -> Any:
        try:
            part = np.array(self._file._array(self._name)[index])
        except IndexError as e:
            raise SafetensorError(
                f"tensor {self._name} of shape {self.get_shape()} has no part {index!r}: {e}"
            ) from None
        return _tensor(part, self._file._framework, self._file._device)


def deserialize(data: Any) -> list[tuple[str, dict[str, Any]]]:
    """``(name, {"dtype", "shape", "data"})`` of the tensors in the bytes of a file."""
    view = memoryview(data)
    entries, _, base = _format.parse(view)
    return [
        (e.name, {"dtype": e.kind, "shape": list(e.shape), "data": bytearray(view[base + e.start : base + e.end])})
        for e in entries.values()
    ]
