"""How a tensor looks when printed: the text of ``repr(tensor)``, from NumPy arrays alone.

Two stages: `_cells` decides how one element is written (all elements of a tensor share a width and a notation), and
`_layout` places the cells into brackets and lines. Everything else is the suffix (dtype, device, gradient).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Cell = Callable[[Any], str]


@dataclass
class PrintOptions:
    """What `set_printoptions` holds; ``sci_mode`` None means that the values decide."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = PrintOptions()
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_COMPLEX_OF = {"float32": "complex64", "float64": "complex128", "float16": "complex32", "bfloat16": "complex64"}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; None leaves an option alone, except ``sci_mode``, which returns to automatic."""
    for name, value in _PROFILES.get(profile or "", {}).items():
        setattr(OPTIONS, name, value)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments of `set_printoptions`."""
    return asdict(OPTIONS)


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """`set_printoptions` inside a ``with``, restored afterwards."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


# ---------------------------------------------------------------------------------------------------- one element


def _real_cells(values: np.ndarray) -> tuple[Cell, int]:
    """The writer for float64 ``values`` (any shape) and the width all its results share."""
    finite = values[np.isfinite(values) & (values != 0)]
    digits = OPTIONS.precision
    if finite.size == 0:
        whole, scientific = True, False
    else:
        size = np.abs(finite)
        low, high = float(size.min()), float(size.max())
        whole = bool((finite == np.ceil(finite)).all())
        scientific = high / low > 1000.0 or high > 1.0e8 or (not whole and low < 1.0e-4)
        if OPTIONS.sci_mode is not None:
            scientific = OPTIONS.sci_mode
    if scientific:
        spec, point = f".{digits}e", False
    elif whole:
        spec, point = ".0f", True
    else:
        spec, point = f".{digits}f", False
    width = max((len(format(v, spec)) + point for v in finite.tolist()), default=1)

    def write(value: float) -> str:
        text = format(value, spec)
        if point and math.isfinite(value):
            text += "."
        return text.rjust(width)

    return write, width


def _plain_cells(values: np.ndarray) -> tuple[Cell, int]:
    """The writer for integers and booleans."""
    width = max((len(str(v)) for v in values.ravel().tolist()), default=1)
    return (lambda value: str(value).rjust(width)), width


def _complex_cells(values: np.ndarray) -> tuple[Cell, int]:
    """The writer for complex numbers: the real and the imaginary parts have a notation each."""
    real, real_width = _real_cells(values.real)
    imag, imag_width = _real_cells(values.imag)

    def write(value: complex) -> str:
        tail = imag(value.imag).lstrip()
        sign = "" if tail[:1] in ("+", "-") else "+"
        return f"{real(value.real)}{sign}{tail}j"

    return write, real_width + imag_width + 1


def _cells(values: np.ndarray) -> tuple[Cell, int]:
    if values.dtype.kind == "c":
        return _complex_cells(values)
    if values.dtype.kind in "biu":
        return _plain_cells(values)
    return _real_cells(values)


# ---------------------------------------------------------------------------------------------------- all elements


def _printable(array: np.ndarray) -> np.ndarray:
    """``array`` in a dtype NumPy can format: float64, complex128, bool or integers."""
    kind = array.dtype.kind
    if kind in "biu" and not array.dtype.name.startswith(("bfloat", "float", "int4", "uint4", "int2", "uint2")):
        return array
    if kind == "c":
        return array.astype(np.complex128)
    if array.dtype.name.startswith(("int", "uint")):
        return array.astype(np.int64)
    return array.astype(np.float64)


def _edges(array: np.ndarray) -> np.ndarray:
    """The part of ``array`` that a summary shows: the first and last ``edgeitems`` of every dimension."""
    edge = OPTIONS.edgeitems
    for dim in range(array.ndim):
        if array.shape[dim] > 2 * edge:
            keep = [*range(edge), *range(array.shape[dim] - edge, array.shape[dim])]
            array = np.take(array, keep, axis=dim)
    return array


def _row(values: np.ndarray | _Lazy, indent: int, summarize: bool, write: Cell, width: int) -> str:
    """One innermost dimension in brackets, wrapped at the line width."""
    edge = OPTIONS.edgeitems
    if summarize and edge and values.shape[0] > 2 * edge:
        cells = [write(v) for v in values[:edge].tolist()]
        cells += [" ..."]
        cells += [write(v) for v in values[-edge:].tolist()]
    else:
        cells = [write(v) for v in values.tolist()]
    per_line = max(1, math.floor((OPTIONS.linewidth - indent) / (width + 2)))
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _layout(array: np.ndarray | _Lazy, indent: int, summarize: bool, write: Cell, width: int) -> str:
    if array.ndim == 0:
        return write(array.item())
    if array.ndim == 1:
        return _row(array, indent, summarize, write, width)
    edge = OPTIONS.edgeitems
    count = array.shape[0]
    if summarize and count > 2 * edge:
        picks: list[int | None] = [*range(edge), None, *range(count - edge, count)]
    else:
        picks = list(range(count))
    blocks = ["..." if i is None else _layout(array[i], indent + 1, summarize, write, width) for i in picks]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(blocks) + "]"


def body(array: np.ndarray, indent: int) -> str:
    """The numbers of a non-empty array in brackets, lines after the first indented by ``indent`` columns."""
    summarize = array.size > OPTIONS.threshold
    sample = _printable(_edges(array) if summarize else array)
    write, width = _cells(sample)
    # Of a big array only the rows that are printed are converted; the layout walks the original shape.
    return _layout(_Lazy(array) if summarize else sample, indent, summarize, write, width)


class _Lazy:
    """A big array whose parts become printable numbers only when a row is reached."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.ndim = array.ndim
        self.shape = array.shape

    def __getitem__(self, key: Any) -> _Lazy:
        return _Lazy(self.array[key])

    def tolist(self) -> Any:
        return _printable(self.array).tolist()

    def item(self) -> Any:
        return _printable(self.array).item()


# ---------------------------------------------------------------------------------------------------- the whole text


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int, linewidth: int) -> str:
    """Append ``suffixes`` behind commas, starting a new line where the next one would pass the line width."""
    parts = [text]
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        length = len(suffix)
        if column + length + 2 > linewidth:
            parts.append(",\n" + " " * indent + suffix)
            column = indent + length
        else:
            parts.append(", " + suffix)
            column += length + 2
    return "".join(parts) + ")"


def _shows_dtype(dtype_name: str, default_dtype: str, empty: bool) -> bool:
    if empty:
        return dtype_name != default_dtype
    return dtype_name not in (default_dtype, "int64", "bool", _COMPLEX_OF.get(default_dtype))


def tensor_str(
    array: np.ndarray | None,
    dtype_name: str,
    *,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    device: str = "cpu",
    default_device: str = "cpu",
    default_dtype: str = "float32",
    shape: Sequence[int] | None = None,
    name: str = "tensor",
    is_parameter: bool = False,
) -> str:
    """The text of ``repr(tensor)``.

    ``array`` is the host array, or None for a tensor without data (give ``shape``); on meta only its shape counts.
    ``dtype_name`` is the
    torch name ("float32"); ``name`` the class name of a Tensor subclass. A parameter gets its heading or wrapper.
    """
    shape = tuple(array.shape) if array is not None else tuple(shape or ())
    if device.startswith("meta"):
        array = None
    prefix = name + "("
    indent = len(prefix)
    suffixes = [f"device='{device}'"] if (device != default_device and device != "cpu") or array is None else []
    empty = 0 in shape
    size = f"size={_size_text(shape)}"
    if array is None:
        text = "..."
        suffixes.append(size)
        if dtype_name != default_dtype:
            suffixes.append(f"dtype=torch.{dtype_name}")
    elif empty:
        text = "[]"
        if len(shape) != 1:
            suffixes.append(size)
        if _shows_dtype(dtype_name, default_dtype, True):
            suffixes.append(f"dtype=torch.{dtype_name}")
    else:
        if not OPTIONS.edgeitems:
            suffixes.append(size)
        if _shows_dtype(dtype_name, default_dtype, False):
            suffixes.append(f"dtype=torch.{dtype_name}")
        hidden = array.ndim and not OPTIONS.edgeitems and array.size > OPTIONS.threshold
        text = "[...]" if hidden else body(array, indent)
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    whole = _with_suffixes(prefix + text, suffixes, indent, OPTIONS.linewidth)
    if is_parameter:
        return "Parameter containing:\n" + whole if name == "tensor" else f"Parameter({whole})"
    return whole


def _size_text(shape: Sequence[int]) -> str:
    return "(" + ", ".join(str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
