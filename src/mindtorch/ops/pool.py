"""Pooling: maximum (with index), average, adaptive, power mean, fractional, and the inverse of maximum pooling.

Indices are int32 inside and int64 where the user asks for them. Moving values by index (``pool_scatter`` and
``pool_gather``) and averaging (``avg_pool`` and its transpose) are each other's derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core import modes
from mindtorch.core.errors import check
from mindtorch.core.signature import to_ints
from mindtorch.engine.host import pool as K
from mindtorch.engine.host.layout import like
from mindtorch.ops.table import composite, op

Ints = tuple[int, ...]
_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble", "float16": "Half", "bfloat16": "BFloat16",
}  # fmt: skip


def _refuse(input: Any, kinds: str, name: str) -> None:
    """NotImplementedError for a dtype kind the op is not defined on."""
    d = input.a.dtype
    if d.kind in kinds:
        raise NotImplementedError(f"\"{name}\" not implemented for '{_NAMES.get(d.name, d.name)}'")


# ------------------------------------------------------------------------------------------ values by index
@op(
    "pool_scatter(T grad, T index, ints size)",
    ns="_C",
    half="f32",
    grad=dict(grad=lambda g, index, size: pool_gather(g, index, len(size))),
)
def pool_scatter(g: np.ndarray, index: np.ndarray, size: Ints) -> np.ndarray:
    """(*lead, *out) added at flat plane positions of zeros (*lead, *size)."""
    return like(K.scatter_add(g, index, size), g)


@op(
    "pool_gather(T input, T index, int d)",
    ns="_C",
    grad=dict(input=lambda g, index, d, input_shape: pool_scatter(g, index, tuple(input_shape[-d:]))),
)
def pool_gather(a: np.ndarray, index: np.ndarray, d: int) -> np.ndarray:
    """(*lead, *size) read at flat plane positions."""
    return K.gather(a, index, d)


def _index_row(name: str, d: int, node: str, args: str, kernel: Any) -> Any:
    def rule(g: Any, out: Any, input_shape: Any) -> Any:
        return pool_scatter(g[0], out[1], tuple(input_shape[-d:]))

    return op(f"{name}(T input, {args})", ns="_C", half="f32", nondiff=(1,), node=node, keeps=("input",), grad=dict(input=rule))(
        kernel
    )


# ------------------------------------------------------------------------------------------ maximum
def _max_kernel(a: np.ndarray, size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Any:
    values, index = K.max_pool(a, size, kernel, stride, padding, dilation)
    return like(values, a), like(index, a)


_WINDOW = "ints size, ints kernel, ints stride, ints padding, ints dilation"
_MAX = {
    d: _index_row(f"max_pool{d}d_index", d, f"MaxPool{d}DWithIndicesBackward0", _WINDOW, _max_kernel) for d in (1, 2, 3)
}


@op(f"max_pool_values(T input, {_WINDOW})", ns="_C", half="f32")
def max_pool_values(a: np.ndarray, size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> np.ndarray:
    """Maxima without their positions, for when no gradient will be asked for."""
    return like(K.max_values(a, size, kernel, stride, padding, dilation), a)


_WORDS = {1: "one int", 2: "two ints", 3: "three ints"}


def _window(value: Any, d: int, op_name: str, what: str) -> Ints:
    values = to_ints(value)
    if len(values) == d:
        return values
    if len(values) == 1:
        return values * d
    must = "must either be omitted, a single int, or" if what == "stride" else "must either be a single int, or"
    raise RuntimeError(f"{op_name}: {what} {must} a tuple of {_WORDS[d]}")


def _stride(stride: Any, kernel: Ints, d: int, name: str) -> Ints:
    if stride is None or (isinstance(stride, (tuple, list)) and not stride):
        return kernel
    return _window(stride, d, name, "stride")


def _check_window(
    shape: Ints, size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, name: str
) -> None:
    d = len(size)
    half = all(2 * p <= t * (k - 1) + 1 for p, t, k in zip(padding, dilation, kernel))
    check(
        half and min(padding) >= 0,
        RuntimeError,
        f"pad should be at most half of effective kernel size, but got pad={max(padding)}, "
        f"kernel_size={kernel[-1]} and dilation={dilation[-1]}"
        if min(padding) >= 0
        else f"pad must be non-negative, but got pad: {min(padding)}",
    )
    if min(size) < 1:
        before = "x".join(map(str, shape[-d - 1 :]))
        after = "x".join(map(str, (shape[-d - 1], *size)))
        raise RuntimeError(f"Given input size: ({before}). Calculated output size: ({after}). Output size is too small")


def _check_steps(stride: Ints, dilation: Ints) -> None:
    check(min(stride) != 0, RuntimeError, "stride should not be zero")
    check(min(stride) > 0, RuntimeError, f"stride should be greater than zero, but got {list(stride)}")
    axes = ("T", "H", "W")[-len(dilation) :]
    check(
        min(dilation) > 0,
        RuntimeError,
        "dilation should be greater than zero, but got "
        + " ".join(f"dilation{a}: {v}" for a, v in zip(axes, dilation)),
    )


def _check_dims(input: Any, d: int, name: str) -> None:
    shape = input.a.shape
    if len(shape) not in (d + 1, d + 2):
        if d == 1:
            raise RuntimeError(
                f"{name}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, "
                f"but got:{list(shape)}"
            )
        raise RuntimeError(f"non-empty {d + 1}D or {d + 2}D (batch mode) tensor expected for input")
    if 0 in shape[len(shape) - d - 1 :]:
        raise RuntimeError(
            f"Expected {d + 1}D or {d + 2}D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got:{list(shape)}"
        )


def _max_pool(
    d: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: bool,
    name: str,
) -> Any:
    _check_dims(input, d, name)
    _refuse(input, "bciu" if d == 1 and not indices else "bc", name + ("_impl" if d == 1 else ""))
    kernel = _window(kernel_size, d, name, "kernel_size")
    steps = _stride(stride, kernel, d, name)
    pads, spread = _window(padding, d, name, "padding"), _window(dilation, d, name, "dilation")
    _check_steps(steps, spread)
    shape = input.a.shape
    check(min(kernel) > 0, RuntimeError, f"kernel size should be greater than zero, but got {list(kernel)}")
    size = K.out_size(shape[-d:], kernel, steps, pads, spread, bool(ceil_mode))
    _check_window(shape, size, kernel, steps, pads, spread, name)
    if indices:
        values, index = _MAX[d](input, size, kernel, steps, pads, spread)
        return values, index.to(D.int64)
    if input.n is not None and modes.state.grad:
        return _MAX[d](input, size, kernel, steps, pads, spread)[0]
    return max_pool_values(input, size, kernel, steps, pads, spread)


def _max_rows(d: int) -> Any:
    name = f"max_pool{d}d"
    tail = "any stride=None, any padding=0, any dilation=1, bool ceil_mode=False"

    def plain(input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any) -> Any:
        return _max_pool(d, input, kernel_size, stride, padding, dilation, ceil_mode, False, name)

    def optional(
        input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any, return_indices: Any
    ) -> Any:
        return _max_pool(d, input, kernel_size, stride, padding, dilation, ceil_mode, bool(return_indices), name)

    def both(
        input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any, return_indices: Any = 0
    ) -> Any:
        return _max_pool(d, input, kernel_size, stride, padding, dilation, ceil_mode, True, name)

    plain.__doc__ = f"Maximum of each window over {d} dimension{'s' if d > 1 else ''}."
    optional.__doc__ = f"{plain.__doc__} With ``return_indices`` also the flat position inside its plane."
    both.__doc__ = f"{plain.__doc__} Returns values and flat positions inside the plane."
    composite(f"{name}(T input, any kernel_size, {tail})", ns="torch")(plain)
    fn = composite(f"{name}(T input, any kernel_size, {tail}, bool return_indices=False)", ns="F")(optional)
    with_index = f"{name}_with_indices(T input, any kernel_size, {tail}"
    composite(f"{with_index}, bool return_indices=False)", ns="F")(both)
    if d == 1:
        composite(f"{with_index})", ns="torch")(both)
    return fn


max_pool1d, max_pool2d, max_pool3d = _max_rows(1), _max_rows(2), _max_rows(3)


# ------------------------------------------------------------------------------------------ inverse of maximum pooling
@op(
    "max_unpool(T input, T indices, ints size)",
    ns="_C",
    grad=dict(input=lambda g, indices, size: pool_gather(g, indices, len(size))),
    node="MaxUnpool2DBackward0",
)
def max_unpool(a: np.ndarray, index: np.ndarray, size: Ints) -> np.ndarray:
    """Values placed at flat plane positions of zeros."""
    total = int(np.prod(size))
    bad = (index < 0) | (index >= total)
    if bad.any():
        raise RuntimeError(
            f"Found an invalid max index: {int(index[bad][0])} (output volumes are of size {'x'.join(map(str, size))})"
        )
    return K.unpool(a, index, size)


def _unpool(
    d: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any, name: str
) -> Any:
    kernel = _window(kernel_size, d, name, "kernel_size")
    steps = _stride(stride, kernel, d, name)
    pads = _window(padding, d, name, "padding")
    found = str(indices.k.dtype).removeprefix("torch.")
    check(
        found == "int64",
        RuntimeError,
        f"elements in indices should be type int64 but got: {_NAMES.get(found, found.capitalize())}",
    )
    shape = input.a.shape
    check(
        shape == indices.a.shape,
        RuntimeError,
        f"Expected shape of indices to be same as that of the input tensor ({list(shape)}) but got indices tensor "
        f"with shape: {list(indices.a.shape)}",
    )
    check(
        len(shape) in (d + 1, d + 2),
        RuntimeError,
        f"Input to {name} should be a {d + 1}d or {d + 2}d Tensor, but got a tensor of size {list(shape)}",
    )
    default = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(shape[-d:], steps, kernel, pads))
    return max_unpool(input, indices, _unpool_size(d, output_size, default, steps))


def _unpool_size(d: int, output_size: Any, default: Ints, steps: Ints) -> Ints:
    if output_size is None:
        return default
    size = tuple(int(v) for v in output_size)
    if len(size) == d + 2:
        size = size[2:]
    check(
        len(size) == d,
        ValueError,
        f"output_size should be a sequence containing {d} or {d + 2} elements, but it has a length of '{len(size)}'",
    )
    for i in range(d):
        low, high = default[i] - steps[i], default[i] + steps[i]
        check(
            low < size[i] < high,
            ValueError,
            f'invalid output_size "{size}" (dim {i} must be between {low} and {high})',
        )
    return size


def _unpool_row(d: int) -> Any:
    name = f"max_unpool{d}d"

    def unpool(input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Any:
        return _unpool(d, input, indices, kernel_size, stride, padding, output_size, name)

    unpool.__doc__ = f"Places values of ``max_pool{d}d`` back at their indices, zeros elsewhere."
    sig = f"{name}(T input, T indices, any kernel_size, any stride=None, any padding=0, any output_size=None)"
    return composite(sig, ns="F")(unpool)


max_unpool1d, max_unpool2d, max_unpool3d = _unpool_row(1), _unpool_row(2), _unpool_row(3)


# ------------------------------------------------------------------------------------------ average
_AVG_ARGS = "ints size, ints kernel, ints stride, ints padding, bool include_pad, int? divisor"


def _avg_rule(d: int) -> Any:
    def rule(
        g: Any, kernel: Ints, stride: Ints, padding: Ints, include_pad: bool, divisor: int | None, input_shape: Any
    ) -> Any:
        return avg_pool_grad(g, tuple(input_shape[-d:]), kernel, stride, padding, include_pad, divisor)

    return rule


def _avg_kernel(
    a: np.ndarray, size: Ints, kernel: Ints, stride: Ints, padding: Ints, include_pad: bool, divisor: int | None
) -> np.ndarray:
    return like(K.avg_pool(a, size, kernel, stride, padding, include_pad, divisor), a)


_AVG = {
    d: op(
        f"avg_pool{d}d(T input, {_AVG_ARGS})",
        ns="_C",
        half="f32",
        node=f"AvgPool{d}DBackward0",
        keeps=("input",),
        grad=dict(input=_avg_rule(d)),
    )(_avg_kernel)
    for d in (1, 2, 3)
}


def _avg_grad_rule(
    g: Any, kernel: Ints, stride: Ints, padding: Ints, include_pad: bool, divisor: int | None, grad_shape: Any
) -> Any:
    d = len(kernel)
    return _AVG[d](g, tuple(grad_shape[-d:]), kernel, stride, padding, include_pad, divisor)


@op(f"avg_pool_grad(T grad, {_AVG_ARGS})", ns="_C", half="f32", grad=dict(grad=_avg_grad_rule))
def avg_pool_grad(
    g: np.ndarray, size: Ints, kernel: Ints, stride: Ints, padding: Ints, include_pad: bool, divisor: int | None
) -> np.ndarray:
    """Transpose of average pooling; ``size`` is the input's spatial size."""
    return like(K.avg_pool_grad(g, size, kernel, stride, padding, include_pad, divisor), g)


def _avg_pool(
    d: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: Any,
    include_pad: Any,
    divisor: Any,
    name: str,
) -> Any:
    shape = input.a.shape
    if d == 1:
        check(
            len(shape) in (2, 3),
            RuntimeError,
            f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 'self' "
            "(while checking arguments for avg_pool1d)",
        )
    else:
        _check_dims(input, d, name)
    _refuse(input, "bcu", {1: "avg_pool2d", 2: "avg_pool2d", 3: "avg_pool3d_out_frame"}[d])
    kernel = _window(kernel_size, d, name, "kernel_size")
    steps, pads = _stride(stride, kernel, d, name), _window(padding, d, name, "padding")
    ones = (1,) * d
    _check_steps(steps, ones)
    check(divisor is None or divisor != 0, RuntimeError, "divisor must be not zero")
    size = K.out_size(shape[-d:], kernel, steps, pads, ones, bool(ceil_mode))
    _check_window(shape, size, kernel, steps, pads, ones, name)
    return _AVG[d](input, size, kernel, steps, pads, bool(include_pad), divisor)


def _avg_rows() -> Any:
    def one(input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: Any, count_include_pad: Any) -> Any:
        """Mean of each window over one dimension."""
        return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, "avg_pool1d")

    tail = "any stride=None, any padding=0, bool ceil_mode=False, bool count_include_pad=True"
    rows = [composite(f"avg_pool1d(T input, any kernel_size, {tail})", ns="torch F")(one)]

    def make(d: int) -> Any:
        name = f"avg_pool{d}d"

        def more(
            input: Any,
            kernel_size: Any,
            stride: Any,
            padding: Any,
            ceil_mode: Any,
            count_include_pad: Any,
            divisor_override: Any,
        ) -> Any:
            return _avg_pool(
                d, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, name
            )

        more.__doc__ = f"Mean of each window over {d} dimensions."
        return composite(f"{name}(T input, any kernel_size, {tail}, int? divisor_override=None)", ns="F")(more)

    return (*rows, make(2), make(3))


avg_pool1d, avg_pool2d, avg_pool3d = _avg_rows()


def _lp_pool(d: int, input: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: Any) -> Any:
    kernel = _window(kernel_size, d, f"lp_pool{d}d", "kernel_size")
    count = int(np.prod(kernel))
    mean = _avg_pool(d, input.pow(norm_type), kernel, stride, 0, ceil_mode, True, None, f"lp_pool{d}d")
    # a negative mean (odd powers) keeps no gradient and becomes 0, as relu of its size times its sign
    return (mean.sign() * mean.abs().relu() * count).pow(1.0 / norm_type)


def _lp_row(d: int) -> Any:
    def lp_pool(input: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: Any) -> Any:
        return _lp_pool(d, input, norm_type, kernel_size, stride, ceil_mode)

    lp_pool.__doc__ = f"Power mean of order ``norm_type`` times window size over {d} dimension{'s' if d > 1 else ''}."
    sig = f"lp_pool{d}d(T input, any norm_type, any kernel_size, any stride=None, bool ceil_mode=False)"
    return composite(sig, ns="F")(lp_pool)


lp_pool1d, lp_pool2d, lp_pool3d = _lp_row(1), _lp_row(2), _lp_row(3)
