"""Sampling from tensors of parameters: bernoulli, normal, multinomial, poisson, binomial, gamma, dirichlet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check
from mindtorch.core.generator import stream_for
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import random as K
from mindtorch.engine.host import rejection as R
from mindtorch.engine.host.quiet import quiet
from mindtorch.ops.random import _RANDN, _create, _float_dtype, _size, _type_name, public
from mindtorch.ops.random_fill import bernoulli_
from mindtorch.ops.table import composite, op, put


def _zero(g: Tensor) -> Tensor:
    return g.new_zeros(g.a.shape)


def _only_float(a: np.ndarray, name: str) -> None:
    d = D.from_np(a.dtype)
    check(d.category == D.FLOAT, NotImplementedError, f"\"{name}\" not implemented for '{_type_name(d)}'")


# ------------------------------------------------------------------------------------------ bernoulli
@op(
    "_bernoulli(T input, any generator)",
    ns="_C",
    half="native",
    node="BernoulliBackward0",
    grad={"input": lambda g: _zero(g)},
)
def _bernoulli(p: np.ndarray, generator: Any) -> np.ndarray:
    _only_float(p, "bernoulli_tensor_cpu_p_")
    return K.bernoulli_tensor(stream_for(generator, "bernoulli"), p).astype(p.dtype)


@composite("bernoulli(T input, any p=None, *, any generator=None)", out=True)
def bernoulli(input: Tensor, p: Any = None, generator: Any = None) -> Tensor:
    """0 and 1 with the probabilities in ``input``; with ``p`` of the shape of ``input`` and of that probability."""
    if p is None:
        return _bernoulli(input, generator)
    return bernoulli_(input.new_empty(input.a.shape), p, generator=generator)


# ------------------------------------------------------------------------------------------ normal
def _std_ok(std: np.ndarray) -> None:
    lowest = (std if std.itemsize > 2 else std.astype(np.float32)).min(initial=0)
    check(lowest >= 0, RuntimeError, "normal expects all elements of std >= 0.0")


def _noise(shape: tuple[int, ...], np_dtype: np.dtype, generator: Any) -> np.ndarray:
    size = math.prod(shape)
    return K.normal(stream_for(generator, "normal"), size, np_dtype).reshape(shape)


@op(
    "_normal(T mean, T std, any generator)",
    ns="_C",
    half="native",
    node="NormalBackward3",
    grad={"mean": lambda g, mean_shape: g.new_zeros(mean_shape), "std": lambda g, std_shape: g.new_zeros(std_shape)},
)
def _normal(mean: np.ndarray, std: np.ndarray, generator: Any) -> np.ndarray:
    _std_ok(std)
    shape = mean.shape if mean.shape == std.shape else _broadcast(mean.shape, std.shape)
    d = mean.dtype
    if d != std.dtype:
        d = D.promote_types(D.from_np(d), D.from_np(std.dtype)).np
    return _noise(shape, d, generator) * std + mean if d.itemsize > 2 else _half(_noise(shape, d, generator), std, mean)


def _half(z: np.ndarray, std: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Two roundings, as two operations on half tensors make."""
    scaled = (z.astype(np.float32) * std.astype(np.float32)).astype(z.dtype)
    return (scaled.astype(np.float32) + mean.astype(np.float32)).astype(z.dtype)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        n = max(len(a), len(b))
        x, y = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
        i = next(i for i in reversed(range(n)) if x[i] != y[i] and 1 not in (x[i], y[i]))
        raise RuntimeError(
            f"The size of tensor a ({x[i]}) must match the size of tensor b ({y[i]}) at non-singleton dimension {i}"
        ) from None


@op(
    "_normal_scalar_std(T mean, float std, any generator)",
    ns="_C",
    half="native",
    node="NormalBackward1",
    grad={"mean": lambda g: _zero(g)},
)
def _normal_scalar_std(mean: np.ndarray, std: float, generator: Any) -> np.ndarray:
    check(std >= 0, RuntimeError, f"normal expects std >= 0.0, but found std {std:g}")
    _only_float(mean, "normal_kernel_cpu")
    s = stream_for(generator, "normal")
    out = K.normal(s, mean.size, mean.dtype, 0.0, std).reshape(mean.shape)
    return out + mean


@op(
    "_normal_scalar_mean(float mean, T std, any generator)",
    ns="_C",
    half="native",
    node="NormalBackward2",
    grad={"std": lambda g: _zero(g)},
)
def _normal_scalar_mean(mean: float, std: np.ndarray, generator: Any) -> np.ndarray:
    _std_ok(std)
    _only_float(std, "normal_kernel_cpu")
    return _noise(std.shape, std.dtype, generator) * std + std.dtype.type(mean)


def normal(
    mean: Any = None,
    std: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal numbers: means and deviations from tensors (broadcast), or two numbers and a ``size``."""
    check(mean is not None, TypeError, 'normal() missing 1 required positional arguments: "mean"')
    if size is None and (isinstance(mean, Tensor) or isinstance(std, Tensor)):
        r = _normal_tensors(mean, 1.0 if std is None else std, generator)
        if out is None:
            return r
        out.resize_(r.shape)
        return out.copy_(r)
    numbers = not isinstance(mean, Tensor) and not isinstance(std, Tensor)
    check(size is not None and numbers and std is not None, TypeError, _NORMAL_FORMS)
    sd = float(std)
    check(sd >= 0, RuntimeError, f"normal expects std >= 0.0, but found std {sd:g}")
    d = _float_dtype(dtype if dtype is not None or out is None else out.dtype, None, _RANDN)
    shape = _size("normal", (size,))
    return _create(
        "normal", shape, d, lambda s, a: K.normal_into(s, a, float(mean), sd), generator, out, device, requires_grad
    )


_NORMAL_FORMS = (
    "normal() received an invalid combination of arguments: expected (Tensor mean, Tensor std), (Tensor mean, float "
    "std), (float mean, Tensor std) or (float mean, float std, tuple of ints size)"
)


def _normal_tensors(mean: Any, std: Any, generator: Any) -> Tensor:
    if not isinstance(std, Tensor):
        return _normal_scalar_std(mean, float(std), generator)
    if not isinstance(mean, Tensor):
        return _normal_scalar_mean(float(mean), std, generator)
    return _normal(mean, std, generator)


put("torch", normal=public(normal))


# ------------------------------------------------------------------------------------------ counts and indices
def _rates(a: np.ndarray) -> np.ndarray:
    """Parameters as flat float64."""
    return np.ascontiguousarray(a).astype(np.float64).reshape(-1)


@op("poisson(T input, any generator=None)", ns="torch", half="native", grad={"input": lambda g: _zero(g)})
def poisson(rate: np.ndarray, generator: Any = None) -> np.ndarray:
    """Poisson counts with the rates in ``input``, in its dtype."""
    _only_float(rate, "poisson_cpu")
    flat = _rates(rate)
    check(
        not flat.size or bool((flat >= 0).all()), RuntimeError, "invalid Poisson rate, expected rate to be non-negative"
    )
    out = np.empty(flat.size)
    R.poisson(stream_for(generator, "poisson").st, flat, out)
    return out.reshape(rate.shape).astype(rate.dtype)


@op("binomial(T count, T prob, any generator=None)", ns="torch", half="native", promote="none")
def binomial(count: np.ndarray, prob: np.ndarray, generator: Any = None) -> np.ndarray:
    """Binomial counts of ``count`` trials with probability ``prob`` (broadcast), in the dtype of ``count``."""
    _only_float(count, "binomial_cpu")
    shape = _broadcast(count.shape, prob.shape)
    flat = _rates(np.broadcast_to(count, shape))
    p = _rates(np.broadcast_to(prob, shape))
    out = np.empty(flat.size)
    R.binomial(stream_for(generator, "binomial").st, flat, p, out)
    return out.reshape(shape).astype(count.dtype)


@op(
    "multinomial(T input, int num_samples, bool replacement=False, *, any generator=None)",
    out=True,
    half="native",
    grad={},
)
def multinomial(p: np.ndarray, num_samples: int, replacement: bool = False, generator: Any = None) -> np.ndarray:
    """Indices drawn with the weights in the rows of ``input``: (num_samples,) or (rows, num_samples), int64."""
    d = D.from_np(p.dtype)
    text = f"multinomial only supports floating-point dtypes for input, got: {_type_name(d)}"
    check(0 < p.ndim <= 2, RuntimeError, "prob_dist must be 1 or 2 dim")
    check(d.category == D.FLOAT, RuntimeError, text)
    check(num_samples > 0, RuntimeError, "cannot sample n_sample <= 0 samples")
    enough = replacement or num_samples <= p.shape[-1]
    check(enough, RuntimeError, "cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    return K.multinomial(stream_for(generator, "multinomial"), p, num_samples, replacement)


# ------------------------------------------------------------------------------------------ gamma and dirichlet
def _gamma(a: np.ndarray, generator: Any) -> np.ndarray:
    s = stream_for(generator, "_standard_gamma")
    flat = _rates(a)
    out = np.empty(flat.size)
    R.gamma(s.st, s.spare, flat, out, a.dtype != np.float64)
    return out.reshape(a.shape)


@op(
    "_standard_gamma(T input, any generator=None)",
    ns="torch",
    half="native",
    node="StandardGammaBackward0",
    grad={"input": lambda g, input, out: g * _standard_gamma_grad(input, out)},
)
def _standard_gamma(a: np.ndarray, generator: Any = None) -> np.ndarray:
    """Gamma numbers of shape ``input`` and scale 1."""
    _only_float(a, "gamma_cpu")
    tiny = D.finfo(D.from_np(a.dtype)).tiny
    return np.maximum(_gamma(a, generator), tiny).astype(a.dtype)


@op("_standard_gamma_grad(T input, T output)", ns="torch", half="f32", promote="same")
def _standard_gamma_grad(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d sample / d shape of a gamma sample, by implicit differentiation of its distribution function."""
    return R.gamma_slope(np.asarray(a, np.float64), np.asarray(x, np.float64)).astype(a.dtype)


@op("_dirichlet_grad(T x, T alpha, T total)", ns="torch", half="f32", promote="same")
def _dirichlet_grad(x: np.ndarray, alpha: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Slope of each coordinate of a Dirichlet sample in its own concentration, over 1 - x."""
    wide = [np.asarray(v, np.float64) for v in np.broadcast_arrays(x, alpha, total)]
    return R.dirichlet_slope(*wide).astype(x.dtype)


def _dirichlet_rule(g: Tensor, input: Tensor, out: Tensor) -> Tensor:
    slope = _dirichlet_grad(out, input, input.sum(-1, True).expand(input.shape))
    return slope * (g - (out * g).sum(-1, True))


@op(
    "_sample_dirichlet(T input, any generator=None)",
    ns="torch",
    half="native",
    node="DirichletBackward",
    grad={"input": _dirichlet_rule},
)
def _sample_dirichlet(a: np.ndarray, generator: Any = None) -> np.ndarray:
    """Points of the simplex with concentrations in the last dimension of ``input``."""
    _only_float(a, "dirichlet")
    g = _gamma(a.astype(np.float64), generator)
    info = D.finfo(D.from_np(a.dtype))
    with quiet():
        return np.clip(g / g.sum(-1, keepdims=True), info.tiny, 1.0 - info.eps / 2).astype(a.dtype)
