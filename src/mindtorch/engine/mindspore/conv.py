"""MindSpore's (oneDNN) dense float32 convolution: forward, input gradient, weight gradient.

Arrays are C-contiguous (N, C, H, W) and (O, C/groups, kh, kw); ``pads`` is (top, bottom, left, right), none negative.
Primitives are built once per attribute set: building one costs more than the convolution.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mindtorch.engine import used
from mindtorch.engine.mindspore import door

Pads = tuple[int, int, int, int]
Pair = tuple[int, int]


@lru_cache(maxsize=512)
def _forward(out: int, kernel: Pair, stride: Pair, pads: Pads, dilation: Pair, groups: int) -> Any:
    ops = door.load().ops
    return ops.Conv2D(out, kernel, pad_mode="pad", pad=pads, stride=stride, dilation=dilation, group=groups)


@lru_cache(maxsize=512)
def _input_grad(out: int, kernel: Pair, stride: Pair, pads: Pads, dilation: Pair, groups: int) -> Any:
    ops = door.load().ops
    return ops.operations.Conv2DBackpropInput(
        out, kernel, pad_mode="pad", pad=pads, pad_list=pads, stride=stride, dilation=dilation, group=groups
    )


@lru_cache(maxsize=512)
def _weight_grad(out: int, kernel: Pair, stride: Pair, pads: Pads, dilation: Pair, groups: int) -> Any:
    door.load()
    from mindspore.ops.operations import _grad_ops

    # without pad_list every padded case fails in oneDNN with "could not create a primitive descriptor"
    return _grad_ops.Conv2DBackpropFilter(
        out, kernel, pad_mode="pad", pad=pads, pad_list=pads, stride=stride, dilation=dilation, group=groups
    )


def forward(x: np.ndarray, w: np.ndarray, stride: Pair, pads: Pads, dilation: Pair, groups: int) -> np.ndarray:
    """Convolution without bias."""
    if used.LISTENERS:
        used.say("MindSpore Conv2D")
    run = _forward(w.shape[0], w.shape[2:], stride, pads, dilation, groups)
    return run(door.tensor(x), door.tensor(w)).asnumpy()


def input_grad(
    g: np.ndarray, w: np.ndarray, stride: Pair, pads: Pads, dilation: Pair, groups: int, size: Pair
) -> np.ndarray:
    """Gradient of the input (N, C, *size). Stride 1: a forward convolution with flipped weights, twice as fast."""
    kernel = w.shape[2:]
    flipped = [(k - 1) * d - p for k, d, p in zip((kernel[0],) * 2 + (kernel[1],) * 2, _twice(dilation), pads)]
    if stride == (1, 1) and groups == 1 and min(flipped) >= 0 and w.shape[1] >= 16:
        turned = np.ascontiguousarray(w.swapaxes(0, 1)[:, :, ::-1, ::-1])
        return forward(g, turned, stride, tuple(flipped), dilation, groups)  # type: ignore[arg-type]
    if used.LISTENERS:
        used.say("MindSpore Conv2DBackpropInput")
    run = _input_grad(w.shape[0], kernel, stride, pads, dilation, groups)
    return run(door.tensor(g), door.tensor(w), (g.shape[0], w.shape[1] * groups, *size)).asnumpy()


def _twice(dilation: Pair) -> tuple[int, int, int, int]:
    return dilation[0], dilation[0], dilation[1], dilation[1]


def weight_grad(
    g: np.ndarray, x: np.ndarray, stride: Pair, pads: Pads, dilation: Pair, groups: int, kernel: Pair
) -> np.ndarray:
    """Gradient of the weight (O, C/groups, *kernel)."""
    if used.LISTENERS:
        used.say("MindSpore Conv2DBackpropFilter")
    run = _weight_grad(g.shape[1], kernel, stride, pads, dilation, groups)
    return run(door.tensor(g), door.tensor(x), (g.shape[1], x.shape[1] // groups, *kernel)).asnumpy()
