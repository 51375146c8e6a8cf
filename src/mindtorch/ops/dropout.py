"""The dropout family and rrelu. Masks are PyTorch's for the same seed: ``D < 1 - p`` keeps, two draws an element."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from mindtorch.core import observe
from mindtorch.core.errors import check
from mindtorch.core.generator import default_generator, stream_for
from mindtorch.core.tensor import Tensor, constant, wrap
from mindtorch.engine.host import mt19937
from mindtorch.engine.host import random as K
from mindtorch.engine.host.quiet import quiet
from mindtorch.ops.table import composite, op

_P = "dropout probability has to be between 0 and 1, but got "


def _mask(x: Tensor, p: float, shape: tuple[int, ...] | None = None, scaled: bool = True) -> Tensor:
    """Noise in the dtype of ``x``: 1 / (1 - p) or 1 where kept, else 0; in memory order when of its shape."""
    if observe.OBSERVERS and x.a.__class__ is np.ndarray and x.k.device.type == "cpu":
        return _drawn(x, p, shape, scaled)  # whoever records a program has to see that numbers are drawn here
    return _noise(x, p, shape, scaled)


@op("_drawn(T input, float p, any shape, bool scaled)", ns="_C", half="native", grad={})
def _drawn(a: np.ndarray, p: float, shape: tuple[int, ...] | None, scaled: bool) -> np.ndarray:
    """The noise as an operation of its own: other numbers in every run."""
    return _noise(wrap(a), p, shape, scaled).a


def _noise(x: Tensor, p: float, shape: tuple[int, ...] | None, scaled: bool) -> Tensor:
    a = x.a if x.a.__class__ is np.ndarray else x.a.view(np.ndarray)  # an accelerator's memory: its geometry alone is asked for
    keep = 1.0 - p
    noise = np.empty_like(a, subok=False) if shape is None else np.empty(shape, a.dtype)
    if x.k.device.type == "meta":
        return x
    s = default_generator.stream
    yes = (np.float32(1.0) / np.float32(keep) if a.dtype != np.float64 else 1.0 / keep) if scaled else 1.0
    flat = K.flat(noise)
    if flat is not None and a.dtype.kind == "f" and a.dtype.itemsize >= 4:
        mt19937.below(s.st, flat, K.bernoulli_limit(keep), a.dtype.type(yes))
    else:
        K.put(noise, K.bernoulli(s, noise.size, keep, np.dtype(np.bool_)).astype(a.dtype))
        if scaled:
            noise = (
                (noise.astype(np.float32) * np.float32(yes)).astype(a.dtype) if a.dtype.kind != "c" else noise / keep
            )
    return constant(noise)


def _floating(x: Tensor, name: str) -> None:
    text = "result type Float can't be cast to the desired output type Long"
    check(
        x.k.diff, RuntimeError, f"{name}(): {text} (input has dtype {x.k.dtype}; dropout needs a floating point tensor)"
    )


def _dropout(x: Tensor, p: float, train: bool, inplace: bool) -> Tensor:
    if p == 0 or not train or x.a.size == 0:
        return x
    _floating(x, "dropout")
    noise = constant(np.zeros((), x.k.np)) if p == 1 else _mask(x, p)
    return x.mul_(noise) if inplace else x * noise


@composite("dropout(T input, float p, bool train)", ns="torch")
def torch_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero elements with probability ``p`` and scale the rest by 1 / (1 - p), when ``train``."""
    check(0 <= p <= 1, RuntimeError, f"{_P}{p:g}")
    return _dropout(input, p, train, False)


@composite("dropout_(T input, float p, bool train)", ns="torch")
def torch_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place twin of ``torch.dropout``."""
    check(0 <= p <= 1, RuntimeError, f"{_P}{p:g}")
    return _dropout(input, p, train, True)


@composite("dropout(T input, float p=0.5, bool training=True, bool inplace=False)", ns="F")
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability ``p`` and scale the rest by 1 / (1 - p), when ``training``."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"{_P}{p}")
    return _dropout(input, p, training, inplace)


@op(
    "native_dropout(T input, float p, bool? train)",
    ns="torch",
    half="native",
    nondiff=(1,),
    grad={
        "input": lambda g, out, p, train: (
            g[0] * out[1] * ((0.0 if p == 1 else 1.0 / (1.0 - p)) if train is not False else 1.0)
        )
    },
)
def native_dropout(a: np.ndarray, p: float, train: bool | None) -> Any:
    """(result, boolean mask of what was kept)."""
    if train is False or a.size == 0:
        return a.copy(), np.ones_like(a, np.bool_)
    check(0 <= p <= 1, RuntimeError, f"{_P}{p:g}")
    mask = np.empty_like(a, np.bool_)
    K.put(mask, K.bernoulli(default_generator.stream, a.size, 1.0 - p, mask.dtype))
    scale = np.asarray(0.0 if p == 1 else 1.0 / (1.0 - p)).astype(a.dtype)
    with quiet():
        return a * mask.astype(a.dtype) * scale, mask


# ------------------------------------------------------------------------------------------ whole channels
def _feature(x: Tensor, p: float, train: bool, inplace: bool) -> Tensor:
    check(0 <= p <= 1, RuntimeError, f"{_P}{p:g}")
    if p == 0 or not train or x.a.size == 0:
        return x
    check(x.a.ndim >= 2, RuntimeError, "Feature dropout requires at least 2 dimensions in the input")
    if p == 1:
        noise = constant(np.zeros((), x.k.np))
    else:
        noise = _mask(x, p, (*x.a.shape[:2], *(1,) * (x.a.ndim - 2)))
    return x.mul_(noise) if inplace else x * noise


@composite("feature_dropout(T input, float p, bool train)", ns="torch")
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels (dimension 1)."""
    return _feature(input, p, train, False)


@composite("feature_dropout_(T input, float p, bool train)", ns="torch")
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place twin of ``torch.feature_dropout``."""
    return _feature(input, p, train, True)


def _valid(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"{_P}{p}")


@composite("dropout1d(T input, float p=0.5, bool training=True, bool inplace=False)", ns="F")
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (C, L) or (N, C, L)."""
    _valid(p)
    check(
        input.a.ndim in (2, 3),
        RuntimeError,
        f"dropout1d: Expected 2D or 3D input, but received a {input.a.ndim}D input. Note that dropout1d exists to "
        "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional "
        "batch dimension (i.e. 2D or 3D inputs).",
    )
    if input.a.ndim == 3:
        return _feature(input, p, training, inplace)
    if inplace:
        _feature(input.unsqueeze(0), p, training, True)
        return input
    return _feature(input.unsqueeze(0), p, training, False).squeeze(0)


@composite("dropout2d(T input, float p=0.5, bool training=True, bool inplace=False)", ns="F")
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, H, W); other ranks warn."""
    _valid(p)
    if input.a.ndim not in (3, 4):
        _rank_warning("dropout2d", input.a.ndim, "2 spatial dimensions", "3D or 4D")
    elif input.a.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is "
            "desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in "
            "a future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            UserWarning,
            stacklevel=4,
        )
    return _feature(input, p, training, inplace)


@composite("dropout3d(T input, float p=0.5, bool training=True, bool inplace=False)", ns="F")
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (C, D, H, W) or (N, C, D, H, W); other ranks warn."""
    _valid(p)
    if input.a.ndim not in (4, 5):
        _rank_warning("dropout3d", input.a.ndim, "3 spatial dimensions", "4D or 5D")
    if input.a.ndim != 4:
        return _feature(input, p, training, inplace)
    if inplace:
        _feature(input.unsqueeze(0), p, training, True)
        return input
    return _feature(input.unsqueeze(0), p, training, False).squeeze(0)


def _rank_warning(name: str, ndim: int, spatial: str, ranks: str) -> None:
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future "
        "release. To retain the behavior and silence this warning, please use dropout instead. Note that "
        f"{name} exists to provide channel-wise dropout on inputs with {spatial}, a channel dimension, and an optional "
        f"batch dimension (i.e. {ranks} inputs).",
        UserWarning,
        stacklevel=5,
    )


# ------------------------------------------------------------------------------------------ self-normalising
_SELU_LOW = 1.7580993408473766
"""alpha * scale of SELU: what dropped activations saturate at, negated."""


def _alpha(x: Tensor, p: float, train: bool, inplace: bool, feature: bool) -> Tensor:
    if p == 0 or not train or x.a.size == 0:
        return x
    if p == 1:
        zero = constant(np.zeros((), x.k.np))
        return x.mul_(zero) if inplace else x * zero
    if feature:
        check(x.a.ndim >= 2, RuntimeError, "Feature dropout requires at least 2 dimensions in the input")
    _floating(x, "alpha_dropout")
    shape = (*x.a.shape[:2], *(1,) * (x.a.ndim - 2)) if feature else None
    noise = _mask(x, p, shape, scaled=False)
    a = 1.0 / math.sqrt((_SELU_LOW * _SELU_LOW * p + 1.0) * (1.0 - p))
    b = noise.add(-1).mul_(_SELU_LOW * a).add_(_SELU_LOW * a * p)
    noise.mul_(a)
    return x.mul_(noise).add_(b) if inplace else x * noise + b


@composite("alpha_dropout(T input, float p=0.5, bool training=False, bool inplace=False)", ns="F")
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance under SELU."""
    _valid(p)
    return _alpha(input, p, training, inplace, False)


@composite("feature_alpha_dropout(T input, float p=0.5, bool training=False, bool inplace=False)", ns="F")
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Alpha dropout of whole channels."""
    _valid(p)
    return _alpha(input, p, training, inplace, True)


def _torch_alpha(name: str, inplace: bool, feature: bool) -> None:
    @composite(f"{name}(T input, float p, bool train)", ns="torch")
    def fn(input: Tensor, p: float, train: bool) -> Tensor:
        """Alpha dropout as the flat functions of ``torch`` spell it."""
        check(0 <= p <= 1, RuntimeError, f"{_P}{p:g}")
        return _alpha(input, p, train, inplace, feature)


for _name in ("alpha_dropout", "feature_alpha_dropout"):
    _torch_alpha(_name, False, _name.startswith("feature"))
    _torch_alpha(f"{_name}_", True, _name.startswith("feature"))


# ------------------------------------------------------------------------------------------ rrelu
def _rrelu_draw(a: np.ndarray, lower: float, upper: float, generator: Any) -> tuple[np.ndarray, np.ndarray]:
    """(result, slopes): slopes are drawn where the input is not positive, in C order, and 1 elsewhere."""
    low, high = float(a.dtype.type(lower)), float(a.dtype.type(upper))
    noise = np.ones(a.shape, a.dtype)
    down = a <= 0
    u = stream_for(generator, "rrelu").unit(int(np.count_nonzero(down)))
    noise[down] = (u * (high - low) + low).astype(a.dtype)
    return a * noise, noise


@op(
    "_rrelu_train(T input, float lower, float upper, any generator=None)",
    ns="_C",
    half="native",
    node="RreluWithNoiseBackward0",
    nondiff=(1,),
    grad={"input": lambda g, out: g[0] * out[1]},
)
def _rrelu_train(a: np.ndarray, lower: float, upper: float, generator: Any) -> Any:
    return _rrelu_draw(a, lower, upper, generator)


def _rrelu(x: Tensor, lower: float, upper: float, training: bool, inplace: bool, generator: Any) -> Tensor:
    check(
        lower <= upper,
        RuntimeError,
        f"Lower bound should be less than or equal to the upper bound, got {lower}, {upper}",
    )
    if not training:
        slope = (lower + upper) / 2
        leaky = _leaky()
        return leaky(x, slope, inplace)
    if not inplace:
        return _rrelu_train(x, lower, upper, generator)[0]
    return x.copy_(_rrelu_train(x.clone(), lower, upper, generator)[0])


def _leaky() -> Any:
    from mindtorch.ops.table import SPACES

    return SPACES["F"]["leaky_relu"]


@composite(
    "rrelu(T input, float lower=0.125, float upper=0.3333333333333333, bool training=False, any generator=None)",
    ns="torch",
)
def torch_rrelu(input: Tensor, lower: float, upper: float, training: bool, generator: Any = None) -> Tensor:
    """Leaky relu whose slope is drawn from [lower, upper) in training, its middle otherwise."""
    return _rrelu(input, lower, upper, training, False, generator)


@composite(
    "rrelu_(T input, float lower=0.125, float upper=0.3333333333333333, bool training=False, any generator=None)",
    ns="torch F",
)
def torch_rrelu_(input: Tensor, lower: float, upper: float, training: bool, generator: Any = None) -> Tensor:
    """In-place twin of ``torch.rrelu``."""
    return _rrelu(input, lower, upper, training, True, generator)


@composite(
    "rrelu(T input, float lower=0.125, float upper=0.3333333333333333, bool training=False, bool inplace=False)", ns="F"
)
def rrelu(input: Tensor, lower: float, upper: float, training: bool, inplace: bool = False) -> Tensor:
    """Leaky relu whose slope is drawn from [lower, upper) in training, its middle otherwise."""
    return _rrelu(input, lower, upper, training, inplace, None)
