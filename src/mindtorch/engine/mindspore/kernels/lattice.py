"""MindSpore kernels of the CTC loss: both recursions over the lattice of labels and blanks, all samples at once.

Labels and lengths are Python numbers, so masks and positions are worked out on the host; the values stay on the device.
Float64 inside: each step adds to a logarithm that the next one starts from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.moves import _hosted, added, chosen, const, numbered, zeros_of
from mindtorch.engine.mindspore.kernels.pointwise import _where

ms = door.load()
mint, ops = ms.mint, ms.ops


class Lattice:
    """Of a batch: labels with blanks between (N, L), padded with blanks, which states are real, and which may be skipped to."""

    def __init__(self, lp: Any, targets: Sequence[np.ndarray], steps: Sequence[int], blank: int) -> None:
        if lp.dtype not in (ms.float32, ms.float64) or 0 in lp.shape or max(steps, default=0) == 0:
            raise Unsupported("log-probabilities without elements or steps, or other than float32 and float64")
        targets = _hosted(list(targets))
        self.time, self.batch, self.classes = lp.shape
        self.steps = np.array(steps, np.int64)
        self.sizes = np.array([2 * len(t) + 1 for t in targets], np.int64)
        self.width = int(self.sizes.max())
        self.labels = np.full((self.batch, self.width), blank, np.int64)
        for row, t in zip(self.labels, targets):
            row[1 : 2 * len(t) : 2] = t
        at = np.arange(self.width)
        self.real = at < self.sizes[:, None]
        self.skip = np.zeros(self.labels.shape, bool)
        self.skip[:, 3::2] = self.labels[:, 3::2] != self.labels[:, 1:-2:2]
        if self.labels.min() < 0 or self.labels.max() >= self.classes:
            raise Unsupported("labels outside the classes")
        # Position in (T, N, C) of what each state emits at each step.
        self.spots = numbered((self.time, self.batch, self.classes))[:, np.arange(self.batch)[:, None], self.labels]
        self.emit = chosen([lp], self.spots).astype(ms.float64)
        self.never = mint.broadcast_to(ms.Tensor(-np.inf, ms.float64), (self.batch, self.width))

    def only(self, mask: np.ndarray, x: Any) -> Any:
        """``x`` where the mask is true, minus infinity elsewhere."""
        return ops.select(const(mask), x, self.never)

    def moved(self, x: Any, by: int) -> Any:
        """``x`` (N, L) moved by states to the right, or to the left when negative."""
        n = min(abs(by), self.width)
        gap, kept = self.never.narrow(1, 0, n), self.width - n
        if not kept:
            return self.never
        return ops.concat([gap, x.narrow(1, 0, kept)] if by > 0 else [x.narrow(1, n, kept), gap], 1)

    def alphas(self) -> list[Any]:
        """Log probability of every prefix: (N, L) for each step."""
        rows = [self.only(self.real & (np.arange(self.width) < 2), self.emit[0])]
        for t in range(1, self.time):
            two = self.only(self.skip, self.moved(rows[-1], 2))
            rows.append(mint.add(_log_add(rows[-1], self.moved(rows[-1], 1), two), self.emit[t]))
        return rows

    def betas(self) -> list[Any]:
        """Log probability of every suffix, its own emission included; each sample begins at its own last step."""
        last = self.real & (np.arange(self.width) >= self.sizes[:, None] - 2)
        ahead = np.zeros_like(self.skip)
        ahead[:, :-2] = self.skip[:, 2:]
        rows: list[Any] = []
        for t in range(self.time - 1, -1, -1):
            r = self.only(last & (self.steps == t + 1)[:, None], self.emit[t])
            if rows:
                two = self.only(ahead, self.moved(rows[-1], -2))
                on = mint.add(_log_add(rows[-1], self.moved(rows[-1], -1), two), self.emit[t])
                r = ops.select(const(np.broadcast_to((self.steps > t + 1)[:, None], self.real.shape)), on, r)
            rows.append(self.only(self.real, r))
        return rows[::-1]

    def losses(self, alphas: list[Any]) -> Any:
        """Negative log likelihood of each sample, (N,)."""
        ends = []
        for back in (1, 2):
            at = (np.maximum(self.steps, 1) - 1) * self.batch * self.width + np.arange(self.batch) * self.width + self.sizes - back
            ends.append(chosen([ops.stack(alphas)], np.where(self.sizes >= back, at, -1), -np.inf))
        r = mint.neg(_log_add(*ends))
        nothing = const(np.where(self.sizes == 1, 0.0, np.inf))
        return ops.select(const(self.steps == 0), nothing, r)


def _log_add(*parts: Any) -> Any:
    top = parts[0]
    for p in parts[1:]:
        top = mint.maximum(top, p)
    safe = _where(mint.isinf(top), zeros_of(top.shape, top.dtype), top)
    total = mint.exp(mint.sub(parts[0], safe))
    for p in parts[1:]:
        total = mint.add(total, mint.exp(mint.sub(p, safe)))
    return mint.add(mint.log(total), safe)


@kernel("ctc_losses")
def _losses(lp: Any, targets: Any, steps: Any, blank: int, zero_infinity: bool) -> Any:
    lattice = Lattice(lp, targets, steps, blank)
    return lattice.losses(lattice.alphas()).astype(lp.dtype)


@kernel("ctc_loss_backward")
def _backward(g: Any, lp: Any, targets: Any, steps: Any, blank: int, zero_infinity: bool) -> Any:
    """(exp(lp) - occupancy) * g, the gradient by the logits behind ``lp``; nothing beyond a sample's steps."""
    lattice = Lattice(lp, targets, steps, blank)
    alphas = lattice.alphas()
    nll = lattice.losses(alphas)
    shape = (lattice.time, lattice.batch, lattice.width)
    both = mint.sub(mint.add(ops.stack(alphas), ops.stack(lattice.betas())), lattice.emit)
    dead = mint.isinf(lattice.emit)
    both = _where(dead, mint.broadcast_to(ms.Tensor(-np.inf, ms.float64), shape), both)
    states = mint.exp(mint.add(both, nll.reshape((1, -1, 1))))
    r = mint.sub(mint.exp(lp.astype(ms.float64)), added(states, lattice.spots, lp.shape))
    r = mint.add(r, mint.sub(nll, nll).reshape((1, -1, 1)))  # an impossible sample has no gradient, only NaNs
    r = mint.mul(r, g.astype(ms.float64).reshape((1, -1, 1)))
    within = const(np.broadcast_to((np.arange(lattice.time)[:, None] < lattice.steps)[:, :, None], tuple(lp.shape)))
    if zero_infinity:
        within = mint.logical_and(within, mint.logical_not(mint.isinf(nll)).reshape((1, -1, 1)))
    return _where(within, r, zeros_of(lp.shape, r.dtype)).astype(lp.dtype)
