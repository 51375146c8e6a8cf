"""Sliding blocks on the host: ``unfold`` copies every block of an image into a column, ``fold`` adds columns back.

Images (N, C, H, W), columns (N, C * kh * kw, blocks); the arithmetic is convolution's im2col.
"""

from __future__ import annotations

import numpy as np

from mindtorch.engine.host.conv import col2im, im2col

Pair = tuple[int, int]


def blocks(size: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Pair:
    """Number of block positions down and across."""
    down, across = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(size, kernel, dilation, padding, stride)
    )
    return down, across


def unfold(x: np.ndarray, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> np.ndarray:
    """(N, C, H, W) to (N, C * kh * kw, blocks)."""
    x = np.ascontiguousarray(x)
    n, c = x.shape[:2]
    rows, ow = blocks(x.shape[2:], kernel, dilation, padding, stride)
    col = np.empty((n, c, *kernel, 1, rows, ow), x.dtype)
    for i in range(n):
        im2col(x, col[i], i, 0, 0, *stride, *padding, *dilation)
    return col.reshape(n, c * kernel[0] * kernel[1], rows * ow)


def fold(col: np.ndarray, size: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> np.ndarray:
    """(N, C * kh * kw, blocks) to (N, C, *size), overlapping blocks added."""
    n = col.shape[0]
    c = col.shape[1] // (kernel[0] * kernel[1])
    rows, ow = blocks(size, kernel, dilation, padding, stride)
    parts = np.ascontiguousarray(col).reshape(n, c, *kernel, 1, rows, ow)
    x = np.zeros((n, c, *size), col.dtype)
    for i in range(n):
        col2im(parts[i], x, i, 0, 0, *stride, *padding, *dilation)
    return x
