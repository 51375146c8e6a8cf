"""``safetensors.numpy``: dicts of NumPy arrays."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from mindtorch.formats import safetensors as _format

__all__ = ["load", "load_file", "save", "save_file"]


def save(tensor_dict: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file."""
    out = io.BytesIO()
    _format.write(out, tensor_dict, metadata)
    return out.getvalue()


def save_file(tensor_dict: dict[str, np.ndarray], filename: Any, metadata: dict[str, str] | None = None) -> None:
    """Write a file; it is replaced only when everything is written."""
    _format.write(filename, tensor_dict, metadata)


def load(data: bytes) -> dict[str, np.ndarray]:
    """The arrays in the bytes of a file."""
    return _format.read(data)[0]


def load_file(filename: Any) -> dict[str, np.ndarray]:
    """The arrays of a file."""
    return _format.read(filename)[0]
