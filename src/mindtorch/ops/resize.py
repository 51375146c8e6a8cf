"""Interpolation (``interpolate``, ``upsample*``), ``grid_sample`` and ``affine_grid``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import resize as K
from mindtorch.engine.host import sample as S
from mindtorch.engine.host.layout import like
from mindtorch.ops import notes
from mindtorch.ops.pool_adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from mindtorch.ops.table import composite, namespace, op, vjp

Ints = tuple[int, ...]

# ------------------------------------------------------------------------------------------ the rows
_ARGS = "ints size, str mode, bool align, any scales, bool antialias"


def _rule(d: int) -> Any:
    def rule(g: Any, mode: str, align: bool, scales: Any, antialias: bool, input_shape: Any) -> Any:
        return resize_grad(g, tuple(input_shape[-d:]), mode, align, scales, antialias)

    return rule


def _kernel(a: np.ndarray, size: Ints, mode: str, align: bool, scales: Any, antialias: bool) -> np.ndarray:
    return like(K.resize(a, size, mode, align, scales, antialias), a)


def _row(name: str, d: int) -> Any:
    node = "".join(w.capitalize() for w in name.split("_")).replace(f"{d}d", f"{d}D") + "Backward0"
    return op(f"{name}(T input, {_ARGS})", ns="_C", half="f32", node=node, grad=dict(input=_rule(d)))(_kernel)


_PLAIN = {
    ("nearest", 1): "upsample_nearest1d",
    ("nearest", 2): "upsample_nearest2d",
    ("nearest", 3): "upsample_nearest3d",
    ("nearest-exact", 1): "upsample_nearest_exact1d",
    ("nearest-exact", 2): "upsample_nearest_exact2d",
    ("nearest-exact", 3): "upsample_nearest_exact3d",
    ("linear", 1): "upsample_linear1d",
    ("bilinear", 2): "upsample_bilinear2d",
    ("trilinear", 3): "upsample_trilinear3d",
    ("bicubic", 2): "upsample_bicubic2d",
}
_SMOOTH = {
    ("bilinear", 2): "upsample_bilinear2d_aa",
    ("bicubic", 2): "upsample_bicubic2d_aa",
    ("lanczos", 2): "upsample_lanczos2d_aa",
}
_FILTER = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
_ROWS = {
    (*key, smooth): _row(name, key[1]) for smooth, names in ((0, _PLAIN), (1, _SMOOTH)) for key, name in names.items()
}


def _grad_rule(g: Any, mode: str, align: bool, scales: Any, antialias: bool, grad_shape: Any, size: Ints) -> Any:
    d = len(size)
    kind = mode if mode.startswith("nearest") or mode == "lanczos" else _UNFILTER[mode, d]
    return _ROWS[kind, d, int(antialias)](g, tuple(grad_shape[-d:]), mode, align, scales, antialias)


_UNFILTER = {("linear", 1): "linear", ("linear", 2): "bilinear", ("linear", 3): "trilinear", ("cubic", 2): "bicubic"}


@op(f"resize_grad(T grad, {_ARGS})", ns="_C", half="f32", grad=dict(grad=_grad_rule))
def resize_grad(g: np.ndarray, size: Ints, mode: str, align: bool, scales: Any, antialias: bool) -> np.ndarray:
    """Transpose of an interpolation; ``size`` is the input's spatial size."""
    return like(K.resize_grad(g, size, mode, align, scales, antialias), g)


# ------------------------------------------------------------------------------------------ interpolate
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_NEEDS = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}
_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def _numbers(value: Any, d: int) -> list[Any]:
    if isinstance(value, Tensor):
        value = value.tolist()
    return list(value) if isinstance(value, (tuple, list)) else [value] * d


def _output_size(input: Any, size: Any, scale_factor: Any, recompute: Any) -> tuple[Ints, tuple[float | None, ...]]:
    """Output size and the scales the kernel is told (None: derive them from the sizes)."""
    before = input.a.shape[2:]
    d = len(before)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = _numbers(size, d)
        check(
            len(sizes) == d,
            ValueError,
            "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(before)} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
            "format and output size in (o1, o2, ...,oK) format.",
        )
        check(not recompute, ValueError, "recompute_scale_factor is not meaningful with an explicit size.")
        return tuple(int(s) for s in sizes), (None,) * d
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors = [float(s) for s in _numbers(scale_factor, d)]
    check(
        len(factors) == d,
        ValueError,
        "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
        f"dimensions of {list(before)} and scale_factor of shape {scale_factor}. Please provide input tensor in "
        "(N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format.",
    )
    out = tuple(int(np.floor(float(n) * f)) for n, f in zip(before, factors))
    return out, (None,) * d if recompute else tuple(factors)


def _check_input(input: Any, mode: str, antialias: bool, align_corners: Any) -> None:
    d = input.a.ndim - 2
    if mode in ("nearest", "area", "nearest-exact"):
        check(
            align_corners is None,
            ValueError,
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear",
        )
    check(
        not antialias or (mode in ("bilinear", "bicubic", "lanczos") and d == 2),
        ValueError,
        "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input",
    )
    known = mode in ("nearest", "area", "nearest-exact") or mode in _NEEDS
    if not 1 <= d <= 3 or not known:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {d + 2}D) for the modes: {_MODES} "
            f"(got {mode})"
        )
    if mode in _NEEDS and _NEEDS[mode] != d:
        raise NotImplementedError(f"Got {d + 2}D input, but {mode} mode needs {_NEEDS[mode] + 2}D input")


@composite(
    "interpolate(T input, any size=None, any scale_factor=None, str mode='nearest', bool? align_corners=None, "
    "bool? recompute_scale_factor=None, bool antialias=False)",
    ns="F",
)
def interpolate(
    input: Any,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: Any,
    recompute_scale_factor: Any,
    antialias: bool,
) -> Any:
    """Input (N, C, *in) resized to ``size`` or by ``scale_factor`` over its last one to three dimensions."""
    _check_input(input, mode, antialias, align_corners)
    d = input.a.ndim - 2
    out, scales = _output_size(input, size, scale_factor, recompute_scale_factor)
    _check_sizes(input, out)
    if mode == "area":
        return _AREA[d](input, out)
    return _resize(input, out, mode, bool(align_corners), scales, antialias)


def _check_sizes(input: Any, out: Ints) -> None:
    before = input.a.shape[2:]
    if min(out) <= 0 or min(before) <= 0:
        axes = ("D", "H", "W")[-len(out) :]
        shown = [", ".join(f"{a}: {n}" for a, n in zip(axes, sizes)) for sizes in (before, out)]
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({shown[0]}) output ({shown[1]})"
        )


def _resize(input: Any, out: Ints, mode: str, align: bool, scales: Any, antialias: bool) -> Any:
    d = len(out)
    kind = input.a.dtype
    if mode == "lanczos":
        check(antialias, ValueError, "Lanczos mode is only supported with antialias=True")
        check(not align, ValueError, "Lanczos mode does not support align_corners=True")
    bytes_ok = mode.startswith("nearest") or d == 2
    if kind.kind in "bic" or (kind.kind == "u" and (kind != np.uint8 or not bytes_ok)):
        name = _PLAIN.get((mode, d), _SMOOTH.get((mode, d), mode))
        found = str(input.k.dtype).removeprefix("torch.")
        shown = {
            "int64": "Long",
            "int32": "Int",
            "int16": "Short",
            "int8": "Char",
            "bool": "Bool",
            "uint8": "Byte",
        }.get(found, found)
        raise NotImplementedError(f"\"{name}_channels_last\" not implemented for '{shown}'")
    return _ROWS[mode, d, int(antialias)](input, out, _FILTER.get(mode, mode), align, scales, antialias)


def _upsample_note(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", UserWarning, stacklevel=4
    )


@composite(
    "upsample(T input, any size=None, any scale_factor=None, str mode='nearest', bool? align_corners=None)", ns="F"
)
def upsample(input: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any) -> Any:
    """Deprecated name of ``interpolate``."""
    _upsample_note("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite("upsample_nearest(T input, any size=None, any scale_factor=None)", ns="F")
def upsample_nearest(input: Any, size: Any, scale_factor: Any) -> Any:
    """Deprecated: ``interpolate`` with mode nearest."""
    _upsample_note("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


@composite("upsample_bilinear(T input, any size=None, any scale_factor=None)", ns="F")
def upsample_bilinear(input: Any, size: Any, scale_factor: Any) -> Any:
    """Deprecated: ``interpolate`` with mode bilinear and aligned corners."""
    _upsample_note("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)


# ------------------------------------------------------------------------------------------ grid_sample
def _sample_vjp(g: Any, needs: Any, input: Any, grid: Any, modes: Any) -> Any:
    dx, dgrid = grid_sample_grad(g, input, grid, modes, needs[0], needs[1])
    return (dx if needs[0] else None), (dgrid if needs[1] else None)


def _sampler(d: int) -> Any:
    return op(
        f"grid_sampler_{d}d(T input, T grid, any modes)",
        ns="_C",
        half="f32",
        node=f"GridSampler{d}DBackward0",
        grad=vjp(("input", "grid"), _sample_vjp),
    )(S.grid_sample)


_SAMPLERS = {2: _sampler(2), 3: _sampler(3)}


@op("grid_sampler_backward(T grad, T input, T grid, any modes, bool need_input, bool need_grid)", ns="_C", half="f32")
def grid_sample_grad(
    g: np.ndarray, a: np.ndarray, grid: np.ndarray, modes: Any, need_input: bool, need_grid: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of image and grid; the one not asked for is an empty array."""
    dx, dgrid = S.grid_sample_grad(g, a, grid, modes, need_input, need_grid)
    nothing = np.empty(0, g.dtype)
    return (nothing if dx is None else dx), (nothing if dgrid is None else dgrid)


def _check_grid(input: Any, grid: Any, mode: str, padding_mode: str) -> None:
    x, g = list(input.a.shape), list(grid.a.shape)
    check(
        mode in ("bilinear", "nearest", "bicubic"),
        ValueError,
        f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'",
    )
    check(
        padding_mode in ("zeros", "border", "reflection"),
        ValueError,
        "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
        f"but got: '{padding_mode}'",
    )
    both = f"but got input with sizes {x} and grid with sizes {g}"
    check(x[0] == g[0], RuntimeError, f"grid_sampler(): expected grid and input to have same batch size, {both}")
    check(
        len(x) in (4, 5) and len(x) == len(g),
        RuntimeError,
        f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, {both}",
    )
    d = len(x) - 2
    check(
        g[-1] == d,
        RuntimeError,
        f"grid_sampler(): expected grid to have size {d} in last dimension, but got grid with sizes {g}",
    )
    check(
        min(x[2:]) > 0,
        RuntimeError,
        f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {x}",
    )
    check(
        not (d == 3 and mode == "bicubic"),
        RuntimeError,
        "grid_sampler(): bicubic interpolation only supports 4D input",
    )
    if input.k.dtype is not grid.k.dtype:
        names = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16"}
        a, b = (names.get(n, n) for n in (str(t.k.dtype).removeprefix("torch.") for t in (input, grid)))
        raise RuntimeError(f"expected scalar type {a} but found {b}")


def _told(align_corners: Any) -> None:
    """PyTorch's warning about ``align_corners`` left out."""
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
            "Please specify align_corners=True if the old behavior is desired. "
            "See the documentation of grid_sample for details.",
            UserWarning,
            stacklevel=4,
        )


@composite(
    "grid_sample(T input, T grid, str mode='bilinear', str padding_mode='zeros', bool? align_corners=None)",
    ns="F",
    note=notes.HALF,
)
def grid_sample(input: Any, grid: Any, mode: str, padding_mode: str, align_corners: Any) -> Any:
    """Input (N, C, *size) read at grid (N, *out, d) of positions in [-1, 1], x first: (N, C, *out)."""
    _check_grid(input, grid, mode, padding_mode)
    _told(align_corners)
    return _SAMPLERS[input.a.ndim - 2](input, grid, (mode, padding_mode, bool(align_corners)))


_CODES = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@composite("grid_sampler(T input, T grid, int interpolation_mode, int padding_mode, bool align_corners)", ns="torch")
def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """``grid_sample`` with modes by number (0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection)."""
    check(0 <= interpolation_mode < 3, RuntimeError, f"grid_sampler(): unknown interpolation mode {interpolation_mode}")
    check(0 <= padding_mode < 3, RuntimeError, f"grid_sampler(): unknown padding mode {padding_mode}")
    return grid_sample(input, grid, _CODES[0][interpolation_mode], _CODES[1][padding_mode], bool(align_corners))


def _of_rank(d: int) -> Any:
    """``grid_sampler_{d}d``: ``grid_sampler`` for images of ``d`` dimensions only."""
    name = f"grid_sampler_{d}d"

    def sample(input: Any, grid: Any, *modes: Any) -> Any:
        check(
            input.a.ndim == d + 2 and grid.a.ndim == d + 2,
            RuntimeError,
            f"grid_sampler(): expected {d + 2}D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input.a.shape)} and grid with sizes {list(grid.a.shape)}",
        )
        return grid_sampler(input, grid, *modes)

    sample.__doc__ = f"``grid_sampler`` for input (N, C, *size) of {d} spatial dimensions and grid (N, *out, {d})."
    return composite(f"{name}(T input, T grid, int interpolation_mode, int padding_mode, bool align_corners)", ns="torch")(sample)


grid_sampler_2d, grid_sampler_3d = _of_rank(2), _of_rank(3)


# ------------------------------------------------------------------------------------------ affine_grid
def _base_axis(n: int, align: bool, like_: Any) -> Any:
    if n <= 1:
        values = np.zeros(n)
    else:
        values = np.linspace(-1, 1, n)
        if not align:
            values = values * (n - 1) / n
    return namespace("torch")["tensor"](values.tolist(), dtype=like_.k.dtype, device=like_.k.device)


@composite("affine_grid(T theta, any size, bool? align_corners=None)", ns="F")
def affine_grid(theta: Any, size: Any, align_corners: Any) -> Any:
    """Sampling grid (N, *size[2:], d) of the affine maps theta (N, d, d + 1)."""
    size = tuple(int(s) for s in size)
    _told(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    d = len(size) - 2
    if d not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.a.ndim != 3 or theta.a.shape[1:] != (d, d + 1):
        raise ValueError(
            f"Expected a batch of {d}D affine matrices of shape Nx{d}x{d + 1} for size {size}. Got {theta.shape}."
        )
    check(min(size) > 0, ValueError, f"Expected non-zero, positive output size. Got {size}")
    n, out = size[0], size[2:]
    check(
        theta.a.shape[0] == n,
        RuntimeError,
        f"Expected size for first two dimensions of batch2 tensor to be: [{n}, {d + 1}] but got: "
        f"[{theta.a.shape[0]}, {d + 1}].",
    )
    axes = []
    for axis in reversed(range(d)):
        shape = [1] * d
        shape[axis] = out[axis]
        axes.append(_base_axis(out[axis], bool(align_corners), theta).reshape(shape).expand(out))
    axes.append(axes[0].new_ones(out))
    base = namespace("torch")["stack"](axes, -1).reshape(1, -1, d + 1)
    return base.expand(n, -1, -1).bmm(theta.transpose(1, 2)).reshape(n, *out, d)


@composite("affine_grid_generator(T theta, any size, bool align_corners)", ns="torch")
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    """``affine_grid`` under its torch name."""
    return affine_grid(theta, size, bool(align_corners))
