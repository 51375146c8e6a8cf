"""Normalisation rows: layer, batch and instance norm.

The heavy derivatives are ops in ``_C`` with fused kernels; their own derivatives are written with public ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import observe
from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor, cell_of
from mindtorch.engine.host import norm as K
from mindtorch.engine.host.quiet import EXTOBJ
from mindtorch.ops.activation import floating
from mindtorch.ops.table import composite, op, vjp


def _spread(v: Tensor | None, like: Tensor) -> Any:
    """A vector over dim 1 as a tensor that broadcasts against ``like``; 1 for None."""
    return 1 if v is None else v.reshape([1, -1] + [1] * (like.ndim - 2))


# ---------------------------------------------------------------------- layer norm
def layer_norm_parts(x: Tensor, n: int, eps: float) -> tuple[Tensor, Tensor]:
    """Normalised rows (rows, n) and inverse deviation (rows, 1), differentiable."""
    r = x.reshape(-1, n)
    d = r - r.mean(1, True)
    rstd = (d.square().mean(1, True) + eps).rsqrt()
    return d * rstd, rstd


def _ln_double(
    g: Any, needs: Any, grad: Tensor, input: Tensor, weight: Any, n: int, eps: float
) -> tuple[Any, Any, Any]:
    """Derivatives of (gx, gw, gb) by grad, input and weight: through the composite formula of the backward pass."""
    ggx, ggw, ggb = g
    h, w = grad.reshape(-1, n), None if weight is None else weight.reshape(n)
    xhat, rstd = layer_norm_parts(input, n, eps)
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
        f"Given normalized_shape={list(shape)}, expected input with shape [*{star}], but got input of "
        f"size{list(a.shape)}",
    )
    floating("LayerNormKernelImpl", a)


@op(
    "layer_norm(T input, ints normalized_shape, T? weight=None, T? bias=None, float eps=1e-5)",
    ns="F",
    half="f32",
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
    rows = input.detach()  # the statistics carry no gradient
    mean = rows.mean(dims, True)
    rstd = ((rows - mean).square().mean(dims, True) + eps).rsqrt()
    return layer_norm(input, normalized_shape, weight, bias, eps), mean, rstd


# ---------------------------------------------------------------------- batch norm
def _bn_double(
    g: Any,
    needs: Any,
    grad: Tensor,
    input: Tensor,
    weight: Any,
    mean: Tensor,
    invstd: Tensor,
    training: bool,
    eps: float,
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
    """Gradients of input, weight and bias; statistics as the forward pass used them (eps: next derivative)."""
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
    grad=vjp(("input", "weight", "bias"), _bn_rule, bias=()),
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
    check(
        input.ndim >= 2,
        RuntimeError,
        f"batch_norm: expected an input of at least 2 dimensions (N, C, ...), got {input.ndim}",
    )
    floating("batch_norm", input.a)
    c = input.shape[1]
    names = ("running_mean", "running_var", "weight", "bias")
    for name, v in zip(names, (*running, weight, bias)):
        check(
            v is None or v.numel() == c,
            RuntimeError,
            f"{name} should contain {c} elements not {v.numel() if v is not None else 0}",
        )
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
    if running is None:
        return
    if observe.OBSERVERS:
        observe.run(_UPDATE, _update_now, (running, value, momentum), {})
    else:
        _update_now(running, value, momentum)


def _update_now(running: Tensor, value: Tensor, momentum: float) -> None:
    if running.k is value.k and running.k.ff and running.n is None:
        # straight on the memory: this runs twice in every forward
        a, f = running.a, running.k.np.type
        np.multiply(a, f(1 - momentum), a, extobj=EXTOBJ)
        np.add(a, np.multiply(value.a, f(momentum), extobj=EXTOBJ), a, extobj=EXTOBJ)
        cell_of(running).bump()
    else:
        new = value.detach().to(running.dtype)
        running.detach().mul_(1 - momentum).add_(new, alpha=momentum)


_UPDATE = observe.Whole(_update_now)


def _batch_norm(
    input: Tensor, mean: Any, var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Tensor:
    _bn_check(input, (mean, var), weight, bias, training)
    if input.numel() == 0:
        # no statistics: the running ones stay, weight and bias receive zeros
        out = input * 1 if weight is None else input * _spread(weight, input)
        return out if bias is None else out + _spread(bias, input)
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
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """Normalise each channel (dim 1) by the batch's statistics (training; updates the running ones) or the running."""
    if input.ndim == 1 and input.numel() == 0:
        return input * 1
    if training:
        _size_check("value per channel", list(input.shape))
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@composite(
    "batch_norm(T input, T? weight, T? bias, T? running_mean, T? running_var, bool training, float "
    "momentum, float eps, "
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
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """(result, mean, inverse deviation); both statistics are empty outside training."""
    _bn_check(input, (running_mean, running_var), weight, bias, training)
    kept = input.dtype if weight is None else weight.dtype
    mean, var = (None, None) if training else (running_mean, running_var)
    out, mu, invstd, v = _native_batch_norm(input, weight, bias, mean, var, training, eps)
    if not training:
        return out, mu.new_empty((0,)).to(kept), mu.new_empty((0,)).to(kept)
    n = input.numel() // max(input.shape[1], 1)
    _update(running_mean, mu, momentum)
    _update(running_var, v * (n / max(n - 1, 1)), momentum)
    return out, mu.to(kept), invstd.to(kept)


# ---------------------------------------------------------------------- instance norm
@composite(
    "instance_norm(T input, T? running_mean=None, T? running_var=None, T? weight=None, T? bias=None, "
    "bool use_input_stats=True, float momentum=0.1, float eps=1e-5)",
    ns="F",
)
def instance_norm(
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
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
