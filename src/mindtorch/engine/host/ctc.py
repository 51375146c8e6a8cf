"""Connectionist temporal classification: forward and backward recursions in log space, vectorised over labels."""

from __future__ import annotations

import numpy as np

from mindtorch.engine.host.quiet import quiet


def _states(target: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """(labels with blanks between, where a step of two is allowed)."""
    s = np.full(2 * len(target) + 1, blank, np.int64)
    s[1::2] = target
    skip = np.zeros(len(s), np.bool_)
    skip[3::2] = target[1:] != target[:-1]
    return s, skip


def _log_add(*parts: np.ndarray) -> np.ndarray:
    top = np.maximum.reduce(parts)
    safe = np.where(np.isneginf(top), 0, top)
    total = sum(np.exp(p - safe) for p in parts)
    return np.log(total) + safe


def _shift(a: np.ndarray, by: int) -> np.ndarray:
    out = np.full_like(a, -np.inf)
    if by > 0:
        out[by:] = a[:-by] if len(a) > by else out[by:]
    elif len(a) > -by:
        out[:by] = a[-by:]
    return out


def alphas(lp: np.ndarray, target: np.ndarray, blank: int) -> np.ndarray:
    """Log probability of every prefix: (T, 2S+1) from log-probabilities (T, C) of one sample."""
    s, skip = _states(target, blank)
    out = np.full((lp.shape[0], len(s)), -np.inf, lp.dtype)
    if not lp.shape[0]:
        return out
    emit = lp[:, s]
    out[0, :2] = emit[0, :2]
    with quiet():
        for t in range(1, lp.shape[0]):
            prev = out[t - 1]
            two = np.where(skip, _shift(prev, 2), -np.inf)
            out[t] = _log_add(prev, _shift(prev, 1), two.astype(lp.dtype)) + emit[t]
    return out


def loss_of(alpha: np.ndarray, steps: int) -> float:
    """Negative log likelihood from the last row of :func:`alphas`."""
    if steps == 0:
        return 0.0 if alpha.shape[1] == 1 else np.inf
    last = alpha[steps - 1]
    if len(last) == 1:
        return float(-last[0])
    with quiet():
        return float(-_log_add(last[-1:], last[-2:-1])[0])


def forward(lp: np.ndarray, targets: list[np.ndarray], steps: list[int], blank: int) -> np.ndarray:
    """Loss of each sample; lp is (T, N, C)."""
    out = [loss_of(alphas(lp[:t, b], y, blank), t) for b, (y, t) in enumerate(zip(targets, steps))]
    return np.array(out, lp.dtype)


def _betas(lp: np.ndarray, target: np.ndarray, blank: int) -> np.ndarray:
    s, skip = _states(target, blank)
    out = np.full((lp.shape[0], len(s)), -np.inf, lp.dtype)
    emit = lp[:, s]
    out[-1, -2:] = emit[-1, -2:]
    ahead = np.zeros(len(s), np.bool_)
    ahead[:-2] = skip[2:]
    with quiet():
        for t in range(lp.shape[0] - 2, -1, -1):
            nxt = out[t + 1]
            two = np.where(ahead, _shift(nxt, -2), -np.inf)
            out[t] = _log_add(nxt, _shift(nxt, -1), two.astype(lp.dtype)) + emit[t]
    return out


def backward(
    g: np.ndarray, lp: np.ndarray, targets: list[np.ndarray], steps: list[int], blank: int, zero_infinity: bool
) -> np.ndarray:
    """Gradient by lp, (T, N, C), from one factor per sample. As in PyTorch it is that of the logits behind lp.

    (exp(lp) - occupancy) * g: it sums to 0 over classes, so a log_softmax before it passes it unchanged.
    """
    out = np.zeros_like(lp)
    for b, (y, t) in enumerate(zip(targets, steps)):
        if t == 0:
            continue
        p = lp[:t, b]
        alpha = alphas(p, y, blank)
        nll = loss_of(alpha, t)
        if zero_infinity and np.isinf(nll):
            continue
        s, _ = _states(y, blank)
        with quiet():
            both = alpha + _betas(p, y, blank)
            occupancy = np.full_like(p, -np.inf)
            for c in np.unique(s):
                occupancy[:, c] = np.logaddexp.reduce(both[:, s == c], axis=1)
            out[:t, b] = (np.exp(p) - np.exp(occupancy + nll - p)) * g[b]
    return out
