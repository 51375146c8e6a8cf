"""``save`` and ``save_grad``: values of a running program as numbered ``.npy`` files."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.tools import values

MODES = ("npy", "print")
_numbers = itertools.count()


def array_of(x: Any) -> np.ndarray:
    """The values of a tensor of PyTorch, mindtorch or MindSpore, of an array or a number; bfloat16 becomes float32.

    TypeError for anything else.
    """
    if values.is_tensor(x):
        a = values.to_array(x)
    elif _is_mindspore(x):
        a = x.asnumpy()
    elif isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)):
        a = np.asarray(x)
    else:
        raise TypeError(f"save takes tensors, arrays and numbers, and lists, tuples and dicts of them; got {type(x).__name__}")
    return a.astype(np.float32) if a.dtype.name == "bfloat16" else a


def _is_mindspore(x: Any) -> bool:
    ms = sys.modules.get("mindspore")
    return ms is not None and isinstance(x, ms.Tensor)


def _leaves(data: Any, label: str = "") -> Iterator[tuple[str, Any]]:
    """Nested values with labels ``.0.key``; None has no values and is left out."""
    if isinstance(data, Mapping):
        for k, v in data.items():
            yield from _leaves(v, f"{label}.{k}")
    elif isinstance(data, (list, tuple)):
        for i, v in enumerate(data):
            yield from _leaves(v, f"{label}.{i}")
    elif data is not None:
        yield label, data


def _checked(op: str, file: Any, suffix: Any, output_mode: Any) -> str:
    if not isinstance(file, (str, os.PathLike)):
        raise TypeError(f"{op}: file must be a path, got {type(file).__name__}")
    if suffix is not None and not isinstance(suffix, str):
        raise TypeError(f"{op}: suffix must be a text, got {type(suffix).__name__}")
    if output_mode not in MODES:
        raise ValueError(f"{op}: output_mode must be 'npy' or 'print', got {output_mode!r}")
    return os.fspath(file)


def _put(file: str, label: str, a: np.ndarray, suffix: str | None, output_mode: str) -> None:
    folder, name = os.path.split(file)
    # A key of a dict may hold what a file name cannot.
    words = [w for w in (f"{next(_numbers)}", name + label.replace("/", "_"), suffix) if w]
    path = os.path.join(folder, "_".join(words))
    if output_mode == "print":
        print(f"_TS_SAVE_NAME:{path}\n{np.array2string(a, threshold=sys.maxsize, floatmode='unique')}", flush=True)
        return
    if folder:
        os.makedirs(folder, exist_ok=True)
    np.save(f"{path}.npy", a)


def save(file: Any, data: Any, suffix: str | None = None, output_mode: str = "npy") -> None:
    """Write values to ``<number>_<file name>[.<key>][_<suffix>].npy`` in the folder of ``file``.

    Args:
        file: folder and stem of the name, ``"res/conv"``. The number counts the saved values of this process.
        data: a tensor of PyTorch, mindtorch or MindSpore, an array, a number, or nested lists, tuples and dicts of them.
        suffix: put at the end of the name.
        output_mode: "npy", or "print" for a line ``_TS_SAVE_NAME:<name>`` and the values on stdout.

    TypeError for data without values, ValueError for another mode.
    """
    path = _checked("save", file, suffix, output_mode)
    for label, x in _leaves(data):
        _put(path, label, array_of(x), suffix, output_mode)


def save_grad(file: Any, data: Any, suffix: str | None = "backward", output_mode: str = "npy") -> Any:
    """The same values as ``data``; when a backward pass comes by, their gradients are saved like `save` does.

    What is returned has to be used in place of ``data`` in what follows: only what flows through it is seen. Nested lists,
    tuples and dicts come back as such. Tensors that need no gradient come back as they are.
    """
    path = _checked("save_grad", file, suffix, output_mode)
    return _linked(data, "", lambda label, g: _put(path, label, array_of(g), suffix, output_mode))


def _linked(data: Any, label: str, seen: Any) -> Any:
    if isinstance(data, Mapping):
        made = {k: _linked(v, f"{label}.{k}", seen) for k, v in data.items()}
        return made if type(data) is dict else type(data)(made)  # type: ignore[call-arg]
    if isinstance(data, (list, tuple)):
        parts = [_linked(v, f"{label}.{i}", seen) for i, v in enumerate(data)]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    if values.is_tensor(data):
        passed = data.clone() if data.requires_grad else data
        if passed.requires_grad and passed is not data:  # under no_grad the copy needs none
            passed.register_hook(lambda g: seen(label, g))
        return passed
    if _is_mindspore(data):
        ms = door.program()

        def through(g: Any) -> Any:
            seen(label, g)
            return g

        return ms.ops.InsertGradientOf(through)(data)
    raise TypeError(f"save_grad takes tensors, and lists, tuples and dicts of them; got {type(data).__name__}")
