"""Adaptive and fractional pooling: the caller names the output size, the windows follow."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check
from mindtorch.engine.host import pool as K
from mindtorch.engine.host.layout import like
from mindtorch.ops.pool import _index_row, _refuse, _window
from mindtorch.ops.table import composite, namespace, op

Ints = tuple[int, ...]


def _target(input: Any, output_size: Any, d: int, name: str) -> Ints:
    """The output size per dimension; None keeps the input's."""
    shape = input.a.shape
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * d
    if len(given) == 1:
        given = tuple(given) * d
    check(len(given) == d, RuntimeError, f"{name}: output_size must be {d}")
    if len(shape) not in (d + 1, d + 2):
        if d == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {name})"
            )
        colon = ":" if "max" in name else ""
        raise RuntimeError(f"{name}(): Expected {d + 1}D or {d + 2}D tensor, but got{colon} {list(shape)}")
    size = tuple(shape[i - d] if v is None else int(v) for i, v in enumerate(given))
    check(
        min(size) >= 0,
        RuntimeError,
        f"{name}: elements of output_size must be greater than or equal to 0 but received "
        f"{{{', '.join(map(str, size))}}}",
    )
    if 0 in shape[len(shape) - d :]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, "
            f"but input has sizes {list(shape)} with a dimension being empty"
        )
    return size


# ------------------------------------------------------------------------------------------ average
def _avg_rule(d: int) -> Any:
    return lambda g, input_shape: adaptive_avg_grad(g, tuple(input_shape[-d:]))


def _avg_kernel(a: np.ndarray, size: Ints) -> np.ndarray:
    return like(K.adaptive_avg(a, size), a)


_AVG = {
    d: op(
        f"adaptive_avg_pool{d}d(T input, ints size)",
        ns="_C",
        half="f32",
        node=f"AdaptiveAvgPool{d}DBackward0",
        keeps=("input",) if d == 2 else (),
        grad=dict(input=_avg_rule(d)),
    )(_avg_kernel)
    for d in (1, 2, 3)
}


@op(
    "adaptive_avg_grad(T grad, ints size)",
    ns="_C",
    half="f32",
    grad=dict(grad=lambda g, size, grad_shape: _AVG[len(size)](g, tuple(grad_shape[-len(size) :]))),
)
def adaptive_avg_grad(g: np.ndarray, size: Ints) -> np.ndarray:
    """Transpose of adaptive averaging; ``size`` is the input's spatial size."""
    return like(K.adaptive_avg_grad(g, size), g)


def _avg_row(d: int) -> Any:
    name = f"adaptive_avg_pool{d}d"

    def pool(input: Any, output_size: Any) -> Any:
        size = _target(input, output_size, d, name)
        _refuse(input, "biu" if size == (1, 1) else "bciu", name)
        return _AVG[d](input, size)

    pool.__doc__ = f"Means over windows that share {d} dimension{'s' if d > 1 else ''} evenly; None keeps a size."
    return composite(f"{name}(T input, any output_size)", ns="torch F" if d == 1 else "F")(pool)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = _avg_row(1), _avg_row(2), _avg_row(3)


# ------------------------------------------------------------------------------------------ maximum
def _max_kernel(a: np.ndarray, size: Ints) -> Any:
    values, index = K.adaptive_max(a, size)
    return like(values, a), like(index, a)


_MAX = {
    d: _index_row(f"adaptive_max_pool{d}d", d, f"AdaptiveMaxPool{d}DBackward0", "ints size", _max_kernel)
    for d in (1, 2, 3)
}


def _max_rows(d: int) -> Any:
    name = f"adaptive_max_pool{d}d"

    def both(input: Any, output_size: Any) -> Any:
        size = _target(input, output_size, d, name)
        _refuse(input, "bciu", "adaptive_max_pool2d" if d == 1 else name)
        values, index = _MAX[d](input, size)
        return values, index.to(D.int64)

    def optional(input: Any, output_size: Any, return_indices: Any) -> Any:
        result = both(input, output_size)
        return result if return_indices else result[0]

    def always(input: Any, output_size: Any, return_indices: Any) -> Any:
        return both(input, output_size)

    both.__doc__ = always.__doc__ = f"Maxima over {d}-d windows that share the input evenly, and their positions."
    optional.__doc__ = f"{both.__doc__} Positions only with ``return_indices``."
    composite(f"{name}_with_indices(T input, any output_size, bool return_indices=False)", ns="F")(always)
    if d == 1:
        composite(f"{name}(T input, any output_size)", ns="torch")(both)
    return composite(f"{name}(T input, any output_size, bool return_indices=False)", ns="F")(optional)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = _max_rows(1), _max_rows(2), _max_rows(3)


# ------------------------------------------------------------------------------------------ fractional
def _fractional_kernel(a: np.ndarray, samples: np.ndarray, size: Ints, kernel: Ints) -> Any:
    d = len(size)
    values, index = K.fractional_max(a, size, kernel, samples.reshape(-1, d).astype(a.dtype, copy=False))
    return values, index.astype(np.int32)


_FRACTIONAL = {
    d: _index_row(
        f"fractional_max_pool{d}d",
        d,
        f"FractionalMaxPool{d}DBackward0",
        "T samples, ints size, ints kernel",
        _fractional_kernel,
    )
    for d in (2, 3)
}


def _fractional_size(input: Any, output_size: Any, output_ratio: Any, d: int, name: str) -> Ints:
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is not None:
        return _window(output_size, d, name, "output_size")
    check(output_size is None, RuntimeError, f"{name}: give either output_size or output_ratio, not both")
    ratio = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * d
    return tuple(int(n * r) for n, r in zip(input.a.shape[-d:], ratio))


def _fractional(
    d: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any, name: str
) -> Any:
    shape = input.a.shape
    check(
        len(shape) in (d + 1, d + 2),
        RuntimeError,
        f"{name}(): Expected {d + 1}D or {d + 2}D tensor, but got: {list(shape)}",
    )
    size = _fractional_size(input, output_size, output_ratio, d, name)
    kernel = _window(kernel_size, d, name, "kernel_size")
    axes = ("time", "height", "width")[-d:]
    for axis, n, o, k in zip(axes, shape[-d:], size, kernel):
        check(o + k - 1 <= n, RuntimeError, f"{name}(): pool {axis} {k} too large relative to input {axis} {n}")
    if samples is None:
        batch = 1 if len(shape) == d + 1 else shape[0]
        rand = namespace("torch")["rand"]
        samples = rand(batch, shape[-d - 1], d, dtype=input.k.dtype, device=input.k.device)
    check(
        samples.k.dtype is input.k.dtype,
        RuntimeError,
        f"{name}(): Expect _random_samples to have the same dtype as input, got {samples.k.dtype} and {input.k.dtype}",
    )
    values, index = _FRACTIONAL[d](input, samples, size, kernel)
    return values, index.to(D.int64)


def _fractional_rows(d: int) -> Any:
    name = f"fractional_max_pool{d}d"
    tail = "any output_size=None, any output_ratio=None, bool return_indices=False, T? _random_samples=None"

    def optional(
        input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: Any, _random_samples: Any
    ) -> Any:
        result = _fractional(d, input, kernel_size, output_size, output_ratio, _random_samples, name)
        return result if return_indices else result[0]

    def both(
        input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: Any, _random_samples: Any
    ) -> Any:
        return _fractional(d, input, kernel_size, output_size, output_ratio, _random_samples, name)

    optional.__doc__ = f"Maxima of {d}-d windows placed at random; ``_random_samples`` (N, C, {d}) fixes the places."
    both.__doc__ = f"{optional.__doc__} Returns positions too."
    composite(f"{name}_with_indices(T input, any kernel_size, {tail})", ns="F")(both)
    return composite(f"{name}(T input, any kernel_size, {tail})", ns="F")(optional)


fractional_max_pool2d, fractional_max_pool3d = _fractional_rows(2), _fractional_rows(3)
