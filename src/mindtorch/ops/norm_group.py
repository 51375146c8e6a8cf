"""Group, RMS and local response norm, and ``normalize``. Group norm has a fused derivative, an op in ``_C``."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import norm as K
from mindtorch.ops.norm import layer_norm_parts
from mindtorch.ops.table import SPACES, composite, op, vjp


def _names(*values: Any) -> list[Any]:
    return [None if v is None else list(v.shape) for v in values]


# ---------------------------------------------------------------------- group norm
def _gn_double(
    g: Any, needs: Any, grad: Tensor, input: Tensor, weight: Any, num_groups: int, eps: float
) -> tuple[Any, Any, Any]:
    """Derivatives of (gx, gw, gb): group norm's composite gradient, differentiated by layer norm's rule per group."""
    n, c = input.shape[:2]
    rows = input.reshape(n * num_groups, -1)
    h = grad.reshape(n, c, -1)
    ggx, ggw, ggb = g
    w = 1 if weight is None else weight.reshape(1, c, 1)
    hw = (h * w).reshape(rows.shape)
    per = rows.shape[1]
    xhat, rstd = layer_norm_parts(rows, per, eps)
    g_h = g_w = gi = None
    g_hat: Any = None
    g_rstd: Any = None
    if ggx is not None:
        q = ggx.reshape(rows.shape)
        c1, c2 = hw.mean(1, True), (hw * xhat).mean(1, True)
        qr = q * rstd
        g_hw = (qr - qr.mean(1, True) - xhat * (qr * xhat).mean(1, True)).reshape(h.shape)
        g_hat = -qr * c2 - hw * (qr * xhat).mean(1, True)
        g_rstd = (q * (hw - c1 - xhat * c2)).sum(1, True)
        g_h = g_hw * w
        g_w = None if weight is None else (g_hw * h).sum((0, 2))
    if ggw is not None and weight is not None:
        v = ggw.reshape(1, c, 1)
        more = v * xhat.reshape(h.shape)
        g_h = more if g_h is None else g_h + more
        more = (v * h).reshape(rows.shape)
        g_hat = more if g_hat is None else g_hat + more
    if ggb is not None:
        more = ggb.reshape(1, c, 1).expand(h.shape)
        g_h = more if g_h is None else g_h + more
    if g_hat is not None:
        extra = (g_hat * xhat).mean(1, True)
        extra = extra if g_rstd is None else extra + g_rstd * rstd / per
        gd = g_hat * rstd - xhat * rstd * extra
        gi = (gd - gd.mean(1, True)).reshape(input.shape)
    return None if g_h is None else g_h.reshape(grad.shape), gi, g_w


@op(
    "group_norm_backward(T grad, T input, T? weight, T mean, T rstd, int num_groups, float eps)",
    ns="_C",
    half="f32",
    node="NativeGroupNormBackwardBackward0",
    grad=vjp(("grad", "input", "weight"), _gn_double),
)
def group_norm_backward(
    g: np.ndarray, a: np.ndarray, w: Any, mean: np.ndarray, rstd: np.ndarray, groups: int, eps: float
) -> Any:
    """Gradients of input, weight and bias (eps serves the next derivative)."""
    if a.size == 0:
        return np.zeros_like(a), np.zeros(a.shape[1], a.dtype), np.zeros(a.shape[1], a.dtype)
    return K.group_norm_backward(g, a, w, mean, rstd, groups)


def _gn_rule(
    g: Any, needs: Any, input: Tensor, weight: Any, bias: Any, out1: Any, out2: Any, num_groups: int, eps: float
) -> tuple[Any, Any, Any]:
    if g[0] is None:
        return None, None, None
    gx, gw, gb = group_norm_backward(g[0], input, weight, out1.detach(), out2.detach(), num_groups, eps)
    return gx if needs[0] else None, gw if needs[1] else None, gb if needs[2] else None


@op(
    "native_group_norm_(T input, int num_groups, T? weight, T? bias, float eps)",
    ns="_C",
    half="f32",
    node="NativeGroupNormBackward0",
    nondiff=(1, 2),
    grad=vjp(("input", "weight", "bias"), _gn_rule, bias=()),
)
def _native_group_norm(a: np.ndarray, groups: int, w: Any, b: Any, eps: float) -> Any:
    """(result, mean, inverse deviation), statistics of shape (N, groups)."""
    if a.size == 0:
        return np.empty_like(a), np.zeros((a.shape[0], groups), a.dtype), np.zeros((a.shape[0], groups), a.dtype)
    return K.group_norm(a, groups, w, b, eps)


@composite(
    "group_norm(T input, int num_groups, T? weight=None, T? bias=None, float eps=1e-5)",
    ns="F torch",
)
def group_norm(input: Tensor, num_groups: int, weight: Any, bias: Any, eps: float) -> Tensor:
    """Normalise groups of channels of each sample; weight and bias have one element per channel."""
    check(input.ndim >= 2, RuntimeError, f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    c = input.shape[1]
    check(num_groups > 0, RuntimeError, f"Expected num groups to be greater than 0, got {num_groups}")
    check(
        c % num_groups == 0,
        RuntimeError,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape "
        f"{list(input.shape)} and num_groups={num_groups}",
    )
    for name, v in (("weight", weight), ("bias", bias)):
        check(
            v is None or (v.ndim == 1 and v.numel() == c),
            RuntimeError,
            f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape "
            f"{_names(v)[0]} and input of shape {list(input.shape)}",
        )
    return _native_group_norm(input, num_groups, weight, bias, eps)[0]


@composite(
    "native_group_norm(T input, T? weight, T? bias, int N, int C, int HxW, int group, float eps)",
    ns="torch",
)
def native_group_norm(
    input: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(group norm, mean, inverse deviation) of N samples with C channels of HxW elements; statistics (N, group)."""
    check(group > 0 and C % group == 0, RuntimeError, f"native_group_norm(): {C} channels do not split into {group} groups")
    check(
        input.numel() == N * C * HxW,
        RuntimeError,
        f"native_group_norm(): input of shape {list(input.shape)} is not N * C * HxW = {N} * {C} * {HxW} elements",
    )
    out = _native_group_norm(input.reshape(N, C, HxW), group, weight, bias, eps)[0]
    rows = input.reshape(N, group, C // group * HxW)  # the statistics carry gradients of their own
    mean = rows.mean(2)
    return out.reshape(input.shape), mean, ((rows - mean[:, :, None]).square().mean(2) + eps).rsqrt()


# ---------------------------------------------------------------------- RMS norm, local response, normalize
@composite("rms_norm(T input, ints normalized_shape, T? weight=None, float? eps=None)", ns="F torch")
def rms_norm(input: Tensor, normalized_shape: Any, weight: Any, eps: float | None) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimensions; eps defaults to the dtype's machine epsilon."""
    shape = tuple(normalized_shape)
    check(
        len(shape) > 0,
        RuntimeError,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element",
    )
    star = "".join(f", {s}" for s in shape)
    check(
        input.ndim >= len(shape) and tuple(input.shape[input.ndim - len(shape) :]) == shape,
        RuntimeError,
        f"Given normalized_shape={list(shape)}, expected input with shape [*{star}], but got input of "
        f"size{list(input.shape)}",
    )
    check(
        weight is None or tuple(weight.shape) == shape,
        RuntimeError,
        f"Expected weight to be of same shape as normalized_shape, but got weight of shape {_names(weight)[0]} and "
        f"normalized_shape = {list(shape)}",
    )
    wide = input.float() if input.dtype.itemsize == 2 else input
    if eps is None:
        eps = float(np.finfo(wide.a.dtype).eps)
    dims = tuple(range(-len(shape), 0))
    r = wide * (wide.square().mean(dims, True) + eps).rsqrt()
    if weight is not None:
        r = r * weight
    return r.to(input.dtype)


@composite("local_response_norm(T input, int size, float alpha=1e-4, float beta=0.75, float k=1.0)", ns="F")
def local_response_norm(input: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    """x / (k + alpha * mean of squares over ``size`` neighbouring channels)^beta."""
    if input.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.ndim} dimensions)"
        )
    if input.numel() == 0:
        return input
    f, n, c = SPACES["F"], input.shape[0], input.shape[1]
    squares = input.square().reshape(n, 1, c, -1)
    mean = f["avg_pool2d"](f["pad"](squares, (0, 0, size // 2, (size - 1) // 2)), (size, 1), 1)
    return input / (mean.reshape(input.shape) * alpha + k).pow(beta)


@composite("normalize(T input, N p=2.0, any dim=1, float eps=1e-12, *, T? out=None)", ns="F")
def normalize(input: Tensor, p: float, dim: Any, eps: float, out: Any = None) -> Tensor:
    """x / max(norm(x, p, dim), eps)."""
    size = input.norm(p, dim, True).clamp_min(eps).expand_as(input)
    return input / size if out is None else SPACES["torch"]["div"](input, size, out=out)
