"""Normalisation rows: layer, batch, instance, group, RMS and local response norm, ``normalize``.

The heavy derivatives are ops in ``_C`` with fused kernels; their own derivatives are written with public ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import norm as K
from mindtorch.ops.activation import floating
from mindtorch.ops.table import SPACES, composite, op, vjp


def _names(*values: Any) -> list[Any]:
    return [None if v is None else list(v.shape) for v in values]


def _spread(v: Tensor | None, like: Tensor) -> Any:
    """A vector over dim 1 as a tensor that broadcasts against ``like``; 1 for None."""
    return 1 if v is None else v.reshape([1, -1] + [1] * (like.ndim - 2))


# ---------------------------------------------------------------------- layer norm
def _ln_parts(x: Tensor, n: int, eps: float) -> tuple[Tensor, Tensor]:
    """Normalised rows (rows, n) and inverse deviation (rows, 1), differentiable."""
    r = x.reshape(-1, n)
    d = r - r.mean(1, True)
    rstd = (d.square().mean(1, True) + eps).rsqrt()
    return d * rstd, rstd


def _ln_double(g: Any, needs: Any, grad: Tensor, input: Tensor, weight: Any, n: int, eps: float) -> tuple[Any, Any, Any]:
    """Derivatives of (gx, gw, gb) by grad, input and weight: through the composite formula of the backward pass."""
    ggx, ggw, ggb = g
    h, w = grad.reshape(-1, n), None if weight is None else weight.reshape(n)
    xhat, rstd = _ln_parts(input, n, eps)
    hw = h if w is None else h * w
    g_hat = g_rstd = g_h = g_w = None
    gi = None
    if ggx is not None:
        q = ggx.reshape(-1, n)
        c1, c2 = hw.mean(1, True), (hw * xhat).mean(1, True)
        # gx = rstd * (hw - c1 - xhat * c2)
        qr = q * rstd
        g_hw = qr - qr.mean(1, True) - xhat * (qr * xhat).mean(1, True)
        g_hat = -qr * c2 - hw * (qr * xhat).mean(1, True)
        g_rstd = (q * (hw - c1 - xhat * c2)).sum(1, True)
        g_h = g_hw if w is None else g_hw * w
        g_w = None if w is None else (g_hw * h).sum(0)
    if ggw is not None and w is not None:
        v = ggw.reshape(n)
        g_h = v * xhat if g_h is None else g_h + v * xhat
        g_hat = v * h if g_hat is None else g_hat + v * h
    if ggb is not None:
        v = ggb.reshape(n).expand(h.shape)
        g_h = v if g_h is None else g_h + v
    if g_hat is not None:
        # xhat = d * rstd, rstd = (mean(d^2) + eps)^-1/2, d = x - mean(x)
        extra = (g_hat * xhat).mean(1, True) if g_rstd is None else (g_hat * xhat).mean(1, True) + g_rstd * rstd / n
        gd = g_hat * rstd - xhat * rstd * extra
        gi = (gd - gd.mean(1, True)).reshape(input.shape)
    return (
        None if g_h is None else g_h.reshape(grad.shape),
        gi,
        None if g_w is None else g_w.reshape(weight.shape),
    )


@op(
    "layer_norm_backward(T grad, T input, T? weight, int n, float eps)",
    ns="_C",
    half="f32",
    node="NativeLayerNormBackwardBackward0",
    grad=vjp(("grad", "input", "weight"), _ln_double),
)
def layer_norm_backward(g: np.ndarray, a: np.ndarray, w: np.ndarray | None, n: int, eps: float) -> Any:
    """Gradients of input, weight (n) and bias (n) of a layer norm over the last n elements."""
    return K.layer_norm_backward(g, a, w, n, eps)


def _ln_rule(
    g: Tensor, needs: Any, input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    gx, gw, gb = layer_norm_backward(g, input, weight, _count(normalized_shape), eps)
    return (
        gx if needs[0] else None,
        gw.reshape(weight.shape) if needs[1] else None,
        gb.reshape(bias.shape) if needs[2] else None,
    )


def _count(shape: tuple[int, ...]) -> int:
    n = 1
    for s in shape:
        n *= s
    return n


def _ln_check(a: np.ndarray, shape: tuple[int, ...], w: np.ndarray | None, b: np.ndarray | None) -> None:
    check(
        len(shape) > 0,
        RuntimeError,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
        f"normalized_shape = {list(shape)}",
    )
    for name, v in (("weight", w), ("bias", b)):
        check(
            v is None or v.shape == shape,
            RuntimeError,
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            f"{list(v.shape) if v is not None else None} and normalized_shape = {list(shape)}",
        )
    star = "".join(f", {s}" for s in shape)
    check(
        a.ndim >= len(shape) and a.shape[a.ndim - len(shape) :] == shape,
        RuntimeError,
        f"Given normalized_shape={list(shape)}, expected input with shape [*{star}], but got input of size{list(a.shape)}",
    )
    floating("LayerNormKernelImpl", a)


@op(
    "layer_norm(T input, ints normalized_shape, T? weight=None, T? bias=None, float eps=1e-5)",
    ns="F",
    half="f32",
    autocast="fp32",
    node="NativeLayerNormBackward0",
    grad=vjp(("input", "weight", "bias"), _ln_rule),
)
def layer_norm(
    a: np.ndarray, shape: tuple[int, ...], w: np.ndarray | None, b: np.ndarray | None, eps: float
) -> np.ndarray:
    """Input normalised over its last dimensions, times weight plus bias."""
    if len(shape) == 1 and a.ndim and a.dtype is K.F32:
        n = shape[0]
        if a.shape[-1] == n and (w is None or w.shape == shape) and (b is None or b.shape == shape):
            return K.layer_norm(a, w, b, n, eps)
    _ln_check(a, shape, w, b)
    return K.layer_norm(a, w, b, _count(shape), eps)


@composite(
    "layer_norm(T input, ints normalized_shape, T? weight=None, T? bias=None, float eps=1e-5, bool cudnn_enable=True)",
    ns="torch",
)
def torch_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float, cudnn_enable: bool
) -> Tensor:
    """``F.layer_norm``; ``cudnn_enable`` only matters on CUDA devices."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


@composite("native_layer_norm(T input, ints normalized_shape, T? weight, T? bias, float eps)", ns="torch")
def native_layer_norm(input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """(layer norm, mean, inverse deviation) with the statistics over the normalised dimensions kept as 1s."""
    dims = tuple(range(-len(normalized_shape), 0))
    mean = input.mean(dims, True)
    rstd = ((input - mean).square().mean(dims, True) + eps).rsqrt()
    return layer_norm(input, normalized_shape, weight, bias, eps), mean, rstd


# ---------------------------------------------------------------------- batch norm
def _bn_double(
    g: Any, needs: Any, grad: Tensor, input: Tensor, weight: Any, mean: Tensor, invstd: Tensor, training: bool, eps: float
) -> tuple[Any, Any, Any]:
    """Derivatives of (gx, gw, gb) of batch norm, by the composite formula over (N, C, L)."""
    ggx, ggw, ggb = g
    shape = input.shape
    x, h = input.reshape(shape[0], shape[1], -1), grad.reshape(shape[0], shape[1], -1)
    w = _spread(weight, x)
    dims = (0, 2)

    def avg(t: Tensor) -> Tensor:
        return t.mean(dims, True)

    if training:
        d = x - avg(x)
        rstd = (d.square().mean(dims, True) + eps).rsqrt()
    else:
        rstd = _spread(invstd, x)
        d = x - _spread(mean, x)
    xhat = d * rstd
    g_h = g_w = g_hat = None
    g_rstd: Any = None
    if ggx is not None:
        q = ggx.reshape(x.shape)
        qr = q * rstd
        if training:
            c1, c2 = avg(h), avg(h * xhat)
            inner = h - c1 - xhat * c2
            back = qr - avg(qr) - xhat * avg(qr * xhat)
            g_hat = (-qr * c2 - h * avg(qr * xhat)) * w
            g_rstd = (q * inner * w).sum(dims, True)
        else:
            inner, back = h, qr
        g_h = back * w
        g_w = None if weight is None else (q * inner * rstd).sum(dims)
    if ggw is not None and weight is not None:
        v = _spread(ggw, x)
        g_h = v * xhat if g_h is None else g_h + v * xhat
        g_hat = v * h if g_hat is None else g_hat + v * h
    if ggb is not None:
        v = _spread(ggb, x).expand(h.shape)
        g_h = v if g_h is None else g_h + v
    gi = None
    if g_hat is not None:
        if training:
            count = x.numel() // shape[1]
            extra = avg(g_hat * xhat) if g_rstd is None else avg(g_hat * xhat) + g_rstd * rstd / count
            gd = g_hat * rstd - xhat * rstd * extra
            gi = (gd - avg(gd)).reshape(shape)
        else:
            gi = (g_hat * rstd).reshape(shape)
    return None if g_h is None else g_h.reshape(grad.shape), gi, g_w


@op(
    "batch_norm_backward(T grad, T input, T? weight, T mean, T invstd, bool training, float eps)",
    ns="_C",
    half="native",
    node="NativeBatchNormBackwardBackward0",
    grad=vjp(("grad", "input", "weight"), _bn_double),
)
def batch_norm_backward(
    g: np.ndarray, a: np.ndarray, w: Any, mean: np.ndarray, invstd: np.ndarray, training: bool, eps: float
) -> Any:
    """Gradients of input, weight and bias; statistics as the forward pass used them (eps serves the next derivative)."""
    if a.size == 0:
        return np.zeros_like(a), np.zeros(a.shape[1], a.dtype), np.zeros(a.shape[1], a.dtype)
    if a.dtype.itemsize > 2:
        return K.batch_norm_backward(g, a, w, mean, invstd, training)
    # half inputs: sums in float32; weight and bias may be float32 themselves, so only gx is rounded
    w = None if w is None else w.astype(np.float32)
    gx, gw, gb = K.batch_norm_backward(g.astype(np.float32), a.astype(np.float32), w, mean, invstd, training)
    return gx.astype(a.dtype), gw, gb


def _bn_rule(
    g: Any, needs: Any, input: Tensor, weight: Any, bias: Any, out1: Any, out2: Any, training: bool, eps: float
) -> tuple[Any, Any, Any]:
    if g[0] is None:
        return None, None, None
    gx, gw, gb = batch_norm_backward(g[0], input, weight, out1.detach(), out2.detach(), training, eps)
    return (
        gx if needs[0] else None,
        gw.to(weight.dtype) if needs[1] else None,
        gb.to(bias.dtype) if needs[2] else None,
    )


@op(
    "native_batch_norm_(T input, T? weight, T? bias, T? running_mean, T? running_var, bool training, float eps)",
    ns="_C",
    half="native",
    node="NativeBatchNormBackward0",
    nondiff=(1, 2, 3),
    grad=vjp(("input", "weight", "bias"), _bn_rule),
)
def _native_batch_norm(
    a: np.ndarray, w: Any, b: Any, mean: Any, var: Any, training: bool, eps: float
) -> tuple[np.ndarray, ...]:
    """(result, mean used, inverse deviation used, biased variance); statistics in float32 for half inputs."""
    wide = a if a.dtype.itemsize > 2 else a.astype(np.float32)
    dt = wide.dtype
    if training:
        mu, v = K.batch_stats(wide)
    else:
        mu, v = mean.astype(np.float64), var.astype(np.float64)
    with K.quiet():
        invstd = 1 / np.sqrt(v + eps)
    w, b = (None if t is None else t.astype(dt, copy=False) for t in (w, b))
    r = K.normalise(wide, mu, invstd, w, b) if a.size else np.empty_like(wide)
    return r.astype(a.dtype, copy=False), mu.astype(dt), invstd.astype(dt), v.astype(dt)


def _bn_check(input: Tensor, running: tuple[Any, Any], weight: Any, bias: Any, training: bool) -> None:
    check(input.ndim >= 2, RuntimeError, f"batch_norm: expected an input of at least 2 dimensions (N, C, ...), got {input.ndim}")
    floating("batch_norm", input.a)
    c = input.shape[1]
    names = ("running_mean", "running_var", "weight", "bias")
    for name, v in zip(names, (*running, weight, bias)):
        check(v is None or v.numel() == c, RuntimeError, f"{name} should contain {c} elements not {v.numel() if v is not None else 0}")
    for name, v in zip(names[:2], running):
        check(training or v is not None, RuntimeError, f"{name} must be defined in evaluation mode")


def _size_check(name: str, size: list[int]) -> None:
    count = size[0]
    for s in size[2:]:
        count *= s
    if count == 1:
        raise ValueError(f"Expected more than 1 {name} when training, got input size torch.Size({size})")


def _update(running: Any, value: Tensor, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * value, in place and unrecorded."""
    if running is not None:
        new = value.detach().to(running.dtype)
        running.detach().mul_(1 - momentum).add_(new, alpha=momentum)


def _batch_norm(
    input: Tensor, mean: Any, var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Tensor:
    _bn_check(input, (mean, var), weight, bias, training)
    out, mu, _, v = _native_batch_norm(
        input, weight, bias, None if training else mean, None if training else var, training, eps
    )
    if training:
        n = input.numel() // input.shape[1] if input.shape[1] else 0
        _update(mean, mu, momentum)
        _update(var, v * (n / max(n - 1, 1)), momentum)
    return out


@composite(
    "batch_norm(T input, T? running_mean, T? running_var, T? weight=None, T? bias=None, bool training=False, "
    "float momentum=0.1, float eps=1e-5)",
    ns="F",
)
def batch_norm(
    input: Tensor, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Tensor:
    """Normalise each channel (dim 1) by the batch's statistics (training: running ones are updated) or the running ones."""
    if training:
        _size_check("value per channel", list(input.shape))
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@composite(
    "batch_norm(T input, T? weight, T? bias, T? running_mean, T? running_var, bool training, float momentum, float eps, "
    "bool cudnn_enabled=True)",
    ns="torch",
)
def torch_batch_norm(
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Batch norm in torch's argument order; ``cudnn_enabled`` only matters on CUDA devices."""
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@composite(
    "native_batch_norm(T input, T? weight, T? bias, T? running_mean, T? running_var, bool training, float momentum, "
    "float eps)",
    ns="torch",
)
def native_batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """(result, mean, inverse deviation); both statistics are empty outside training."""
    _bn_check(input, (running_mean, running_var), weight, bias, training)
    mean, var = (None, None) if training else (running_mean, running_var)
    out, mu, invstd, v = _native_batch_norm(input, weight, bias, mean, var, training, eps)
    if not training:
        return out, mu.new_empty((0,)), mu.new_empty((0,))
    n = input.numel() // max(input.shape[1], 1)
    _update(running_mean, mu, momentum)
    _update(running_var, v * (n / max(n - 1, 1)), momentum)
    return out, mu, invstd


# ---------------------------------------------------------------------- instance norm
@composite(
    "instance_norm(T input, T? running_mean=None, T? running_var=None, T? weight=None, T? bias=None, "
    "bool use_input_stats=True, float momentum=0.1, float eps=1e-5)",
    ns="F",
)
def instance_norm(
    input: Tensor, running_mean: Any, running_var: Any, weight: Any, bias: Any, use_input_stats: bool, momentum: float, eps: float
) -> Tensor:
    """Normalise each channel of each sample by its own statistics, or by the running ones."""
    if use_input_stats:
        sizes = 1
        for s in input.shape[2:]:
            sizes *= s
        if sizes == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


def _instance_norm(
    input: Tensor, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool, momentum: float, eps: float
) -> Tensor:
    check(
        use_input_stats or (mean is not None and var is not None),
        RuntimeError,
        "Expected running_mean and running_var to be defined when use_input_stats is false",
    )
    check(input.ndim >= 2, RuntimeError, "instance_norm: expected an input of at least 2 dimensions (N, C, ...)")
    n, c = input.shape[:2]
    repeat = [None if v is None else v.repeat(n) for v in (mean, var, weight, bias)]
    flat = input.reshape([1, n * c, *input.shape[2:]])
    out = _batch_norm(flat, *repeat, use_input_stats, momentum, eps).reshape(input.shape)
    if use_input_stats:
        for target, got in ((mean, repeat[0]), (var, repeat[1])):
            if target is not None:
                target.detach().copy_(got.reshape(n, c).mean(0))
    return out


@composite(
    "instance_norm(T input, T? weight, T? bias, T? running_mean, T? running_var, bool use_input_stats, float momentum, "
    "float eps, bool cudnn_enabled=True)",
    ns="torch",
)
def torch_instance_norm(
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Instance norm in torch's argument order; ``cudnn_enabled`` only matters on CUDA devices."""
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


# ---------------------------------------------------------------------- group norm
def _gn_double(
    g: Any, needs: Any, grad: Tensor, input: Tensor, weight: Any, num_groups: int, eps: float
) -> tuple[Any, Any, Any]:
    """Derivatives of (gx, gw, gb): the composite gradient of group norm, differentiated by layer norm's rule per group."""
    n, c = input.shape[:2]
    rows = input.reshape(n * num_groups, -1)
    h = grad.reshape(n, c, -1)
    ggx, ggw, ggb = g
    w = 1 if weight is None else weight.reshape(1, c, 1)
    hw = (h * w).reshape(rows.shape)
    per = rows.shape[1]
    xhat, rstd = _ln_parts(rows, per, eps)
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
    autocast="fp32",
    node="NativeGroupNormBackward0",
    nondiff=(1, 2),
    grad=vjp(("input", "weight", "bias"), _gn_rule),
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


# ---------------------------------------------------------------------- RMS norm, local response, normalize
@composite("rms_norm(T input, ints normalized_shape, T? weight=None, float? eps=None)", ns="F torch")
def rms_norm(input: Tensor, normalized_shape: Any, weight: Any, eps: float | None) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimensions; eps defaults to the dtype's machine epsilon."""
    shape = tuple(normalized_shape)
    check(len(shape) > 0, RuntimeError, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element")
    star = "".join(f", {s}" for s in shape)
    check(
        input.ndim >= len(shape) and tuple(input.shape[input.ndim - len(shape) :]) == shape,
        RuntimeError,
        f"Given normalized_shape={list(shape)}, expected input with shape [*{star}], but got input of size{list(input.shape)}",
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
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {input.ndim} dimensions)")
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
