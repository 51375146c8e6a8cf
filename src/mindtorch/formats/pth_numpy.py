"""NumPy arrays inside pickles, rebuilt without trust; and the checkpoints of mindtorch 0.4.0, which consist of them.

That release wrote ``torch.save`` files with the folder ``archive``, no version record, its own class paths and every
tensor as a NumPy array (bfloat16 widened to float32) beside the name of its dtype.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

OLD_FUNCTIONS = (
    "_rebuild_mindtorch_tensor",
    "_rebuild_mindtorch_parameter",
    "_rebuild_mindtorch_parameter_with_state",
)
OLD_PLACE = "mindtorch.torch._utils"
_KIND_PLACES = ("mindtorch.torch.common.dtype", "mindspore._c_expression.typing")
_KINDS = {"Bool": "?", "Int": "i", "UInt": "u", "Float": "f", "BFloat": "b", "Complex": "c"}


def _refuse(why: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(f"the file holds a NumPy array that cannot be rebuilt: {why}")


def _reconstruct(kind: Any, shape: Any = (0,), code: Any = b"b") -> np.ndarray:
    """An empty array; its state follows. The arguments are always these in a genuine file."""
    if kind is not np.ndarray or tuple(shape) != (0,):
        raise _refuse("it is of a subclass")
    return np.ndarray((0,), np.int8)


def _dtype(code: Any, align: Any = False, copy: Any = False) -> np.dtype[Any]:
    if not isinstance(code, (str, bytes)):
        raise _refuse("its dtype is no name")
    text = code.decode("ascii") if isinstance(code, bytes) else code
    if text == "bfloat16":
        return np.dtype(ml_dtypes.bfloat16)
    if not re.fullmatch(r"[<>=|]?(?:[?]|[biufcSU]\d{1,9}|[mM]8(?:\[\w+\])?)", text):
        raise _refuse(f"its dtype is {text[:30]!r}")
    return np.dtype(text, copy=True)


def _scalar(dtype: Any, data: Any = b"") -> Any:
    data = data.encode("latin1") if isinstance(data, str) else data
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes) or len(data) != dtype.itemsize:
        raise _refuse("a scalar without its bytes")
    return np.frombuffer(data, dtype)[0]


def give_state(target: Any, state: Any) -> bool:
    """Give state to an array or a dtype made by these functions. False when it is neither."""
    if isinstance(target, np.dtype):
        order = state[1] if isinstance(state, tuple) and len(state) >= 8 else None
        order = order.decode("ascii") if isinstance(order, bytes) else order
        if order not in ("<", ">", "=", "|") or any(v for v in state[2:5]) or target.hasobject:
            raise _refuse("its dtype has fields")
        if order == ">" and target.byteorder != ">":
            target.__setstate__((3, ">", None, None, None, -1, -1, 0))  # type: ignore[attr-defined]
        return True
    if type(target) is not np.ndarray:
        return False
    _, shape, dtype, fortran, data = state
    data = data.encode("latin1") if isinstance(data, str) else data
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes) or not isinstance(shape, tuple):
        raise _refuse("its state is not complete")
    count = 1
    for n in shape:
        if not isinstance(n, int) or n < 0:
            raise _refuse(f"its shape is {shape}")
        count *= n
    if dtype.hasobject or not dtype.itemsize or count * dtype.itemsize != len(data):
        raise _refuse(f"{len(data)} bytes do not fill the shape {shape}")
    target.__setstate__((1, shape, dtype, bool(fortran), data))
    return True


class _Kind:
    """A dtype of mindtorch 0.4.0 (or of MindSpore) as its pickle describes it: a letter and a number of bits."""

    letter = ""
    bits = 8

    def __init__(self, *bits: int) -> None:
        self.__setstate__(bits)

    def __setstate__(self, state: Any) -> None:
        if state and isinstance(state, tuple):
            self.bits = int(state[0])

    def np(self) -> np.dtype[Any]:
        """The NumPy type. UnpicklingError when there is none."""
        if self.letter == "b" and self.bits == 16:
            return np.dtype(ml_dtypes.bfloat16)
        try:
            return np.dtype("?" if self.letter == "?" else f"{self.letter}{self.bits // 8}")
        except TypeError:
            raise _refuse(f"its dtype is {self.letter} of {self.bits} bits") from None


KINDS: dict[str, type[_Kind]] = {name: type(name, (_Kind,), {"letter": c}) for name, c in _KINDS.items()}


class _OldTensor:
    """A MindSpore tensor inside an old file: its state is its array."""

    array: Any = None

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.array = state[0] if isinstance(state, tuple) and state else state


def array_of(data: Any, kind: Any = None) -> np.ndarray:
    """The array that an old file gives for a tensor, in the dtype it names. UnpicklingError when it is none."""
    if not isinstance(data, np.ndarray):
        data = data.array if isinstance(data, _OldTensor) else data.asnumpy() if hasattr(data, "asnumpy") else data
    if not isinstance(data, np.ndarray):
        raise _refuse(f"it is a {type(data).__name__}")
    array = data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))
    return array.astype(kind.np()) if isinstance(kind, _Kind) and kind.np() != array.dtype else array


def _numpy_globals() -> dict[tuple[str, str], Any]:
    table: dict[tuple[str, str], Any] = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): _dtype}
    for place in ("numpy.core.multiarray", "numpy._core.multiarray"):
        table[place, "_reconstruct"] = _reconstruct
        table[place, "scalar"] = _scalar
    return table


NUMPY = _numpy_globals()
"""Globals of pickled arrays and scalars, and what stands for them."""


def old_globals(tensor: Callable[[np.ndarray], Any], parameter: Callable[..., Any]) -> dict[tuple[str, str], Any]:
    """Globals of 0.4.0 files. ``tensor(array)`` and ``parameter(array, requires_grad, state)`` make the results."""

    def rebuild(data: Any, kind: Any = None) -> Any:
        return tensor(array_of(data, kind))

    def rebuild_parameter(data: Any, requires_grad: Any = True, *_names: Any) -> Any:
        return parameter(array_of(data), bool(requires_grad), None)

    def rebuild_with_state(data: Any, requires_grad: Any, _name: Any, _parallel: Any, state: Any) -> Any:
        return parameter(array_of(data), bool(requires_grad), state)

    table: dict[tuple[str, str], Any] = dict(
        zip(((OLD_PLACE, n) for n in OLD_FUNCTIONS), (rebuild, rebuild_parameter, rebuild_with_state))
    )
    for place in _KIND_PLACES:
        table.update({(place, name): kind for name, kind in KINDS.items()})
    table["mindspore.common.tensor", "Tensor"] = table["mindspore.common._stub_tensor", "StubTensor"] = _OldTensor
    return table


def give_old_state(target: Any, state: Any) -> bool:
    """Give state to the stand-ins of `old_globals`."""
    if not isinstance(target, (_Kind, _OldTensor)):
        return give_state(target, state)
    target.__setstate__(state)
    return True
