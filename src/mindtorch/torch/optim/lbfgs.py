"""Limited-memory BFGS, with an optional strong Wolfe line search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mindtorch.torch as torch

from ._per_parameter import check_lr, item
from .optimizer import Optimizer

__all__ = ["LBFGS"]


class _Point(NamedTuple):
    """A point on the search line: position, loss, gradient and slope along the direction there.

    Slopes stay 0-d tensors, and so do positions computed from them: PyTorch's search works in the parameters'
    precision, and double precision here would lead to other steps.
    """

    t: Any
    f: float
    g: Any
    slope: Any


def cubic_minimum(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with their slopes is least, kept within ``bounds`` (the points by default)."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    if a.t <= b.t:
        best = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        best = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(best, low), high)


class _WolfeSearch:
    """A step length that satisfies the strong Wolfe conditions: widen until a bracket is found, then shrink it.

    ``evaluate(t)`` gives the point at ``t``; ``least`` is the smallest change of the parameters worth making.
    """

    c1, c2, limit = 1e-4, 0.9, 25

    def __init__(self, evaluate: Callable[[Any], _Point], start: _Point, scale: Any, least: float) -> None:
        self.evaluate, self.start, self.scale, self.least = evaluate, start, scale, least
        self.evaluations = 0
        self.iterations = 0

    def at(self, t: Any) -> _Point:
        self.evaluations += 1
        return self.evaluate(t)

    def too_high(self, p: _Point) -> bool:
        return p.f > self.start.f + self.c1 * p.t * self.start.slope

    def flat_enough(self, p: _Point) -> bool:
        return abs(p.slope) <= -self.c2 * self.start.slope

    def run(self, t: Any) -> _Point:
        low, high = self.bracket(t)
        return low if high is None else self.zoom(low, high)

    def bracket(self, t: Any) -> tuple[_Point, _Point | None]:
        """Two points around an acceptable step, or (an acceptable point, None)."""
        before, point = self.start, self.at(t)
        while self.iterations < self.limit:
            if self.too_high(point) or (self.iterations > 1 and point.f >= before.f):
                return before, point
            if self.flat_enough(point):
                return point, None
            if point.slope >= 0:
                return before, point
            bounds = (point.t + 0.01 * (point.t - before.t), point.t * 10)
            t = cubic_minimum(before, point, bounds)
            before, point = point, self.at(t)
            self.iterations += 1
        return self.start, point

    def zoom(self, a: _Point, b: _Point) -> _Point:
        low, high = (a, b) if a.f <= b.f else (b, a)
        pair = [a, b]
        stuck = False
        while self.iterations < self.limit:
            least, most = min(a.t, b.t), max(a.t, b.t)
            if (most - least) * self.scale < self.least:
                break
            t, stuck = self._inside(cubic_minimum(pair[0], pair[1]), least, most, stuck)
            point = self.at(t)
            self.iterations += 1
            place = 0 if pair[0] is low else 1
            if self.too_high(point) or point.f >= low.f:
                pair[1 - place] = point
                low, high = (pair[0], pair[1]) if pair[0].f <= pair[1].f else (pair[1], pair[0])
            else:
                if self.flat_enough(point):
                    return point
                if point.slope * (high.t - low.t) >= 0:
                    high = pair[1 - place] = low
                low = pair[place] = point
            a, b = pair
        return low

    @staticmethod
    def _inside(t: Any, least: Any, most: Any, stuck: bool) -> tuple[Any, bool]:
        """``t`` moved off the ends of the bracket when the search has come too near one of them twice."""
        margin = 0.1 * (most - least)
        if min(most - t, t - least) >= margin:
            return t, False
        if stuck or t >= most or t <= least:
            return (most - margin if abs(t - most) < abs(t - least) else least + margin), False
        return t, True


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last ``history_size`` changes of gradient; ``step`` needs a closure and may call it
    many times. One parameter group only. ``line_search_fn`` is None (fixed ``lr``) or "strong_wolfe"."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        defaults = dict(
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
            line_search_fn=line_search_fn,
        )
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list:
        return self.param_groups[0]["params"]

    # ---- all parameters as one vector

    def _flat_grad(self) -> Any:
        parts = []
        for p in self._params:
            if p.grad is None:
                part = p.new_zeros(p.numel())
            else:
                part = (p.grad.to_dense() if p.grad.is_sparse else p.grad).reshape(-1)
            parts.append(torch.view_as_real(part).reshape(-1) if torch.is_complex(part) else part)
        return torch.cat(parts, 0)

    def _move(self, t: Any, direction: Any) -> None:
        offset = 0
        for p in self._params:
            real = torch.view_as_real(p) if torch.is_complex(p) else p
            n = real.numel()
            real.add_(direction[offset : offset + n].view_as(real), alpha=item(t))
            offset += n

    def _evaluate(self, closure: Callable, before: list, t: Any, direction: Any) -> _Point:
        self._move(t, direction)
        loss = float(closure())
        grad = self._flat_grad()
        for p, old in zip(self._params, before):
            p.copy_(old)
        return _Point(t, loss, grad, grad.dot(direction))

    # ---- the direction

    def _direction(self, state: dict[str, Any], grad: Any, history: int) -> None:
        """Write the next direction into ``state["d"]`` (two-loop recursion over the remembered changes)."""
        if state["n_iter"] == 1:
            state["d"], state["H_diag"] = grad.neg(), 1
            state["old_dirs"], state["old_stps"], state["ro"] = [], [], []
            return
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        change = grad.sub(state["prev_flat_grad"])
        step = state["d"].mul(state["t"])
        product = change.dot(step)
        if product.item() > 1e-10:
            if len(dirs) == history:
                del dirs[0], steps[0], ro[0]
            dirs.append(change)
            steps.append(step)
            ro.append(1.0 / product)
            state["H_diag"] = product / change.dot(change)
        al = state.setdefault("al", [None] * history)
        q = grad.neg()
        for i in range(len(dirs) - 1, -1, -1):
            al[i] = steps[i].dot(q) * ro[i]
            q.add_(dirs[i], alpha=-al[i].item())
        d = torch.mul(q, state["H_diag"])
        for i in range(len(dirs)):
            d.add_(steps[i], alpha=(al[i] - dirs[i].dot(d) * ro[i]).item())
        state["d"] = d

    # ---- step

    @torch.no_grad()
    def step(self, closure: Callable) -> Any:  # type: ignore[override]
        """Up to ``max_iter`` iterations; ``closure`` clears the gradients, computes the loss, and calls backward."""
        closure = torch.enable_grad()(closure)
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, evals = float(first_loss), 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if self._small(grad, group["tolerance_grad"]):
            return first_loss
        for n in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"] = grad.clone()
            before, lr, d = loss, item(group["lr"]), state["d"]
            state["prev_loss"] = loss
            state["t"] = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(d)
            if slope > -group["tolerance_change"]:
                break
            last = n == group["max_iter"]
            loss, grad, used = self._advance(closure, state, _Point(0, loss, grad, slope), last)
            evals += used
            state["func_evals"] += used
            if last or evals >= group["max_eval"] or self._small(grad, group["tolerance_grad"]):
                break
            if (
                self._small(d.mul(state["t"]), group["tolerance_change"])
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first_loss

    @staticmethod
    def _small(vector: Any, bound: float) -> bool:
        return vector.abs().max().item() <= bound

    def _advance(self, closure: Callable, state: dict[str, Any], here: _Point, last: bool) -> tuple[float, Any, int]:
        """Move along the direction; the loss and gradient there, and how often the closure ran."""
        group, d = self.param_groups[0], state["d"]
        search = group["line_search_fn"]
        if search is None:
            self._move(state["t"], d)
            # After the last iteration nobody looks at the loss: the closure is not called for it.
            return (here.f, here.g, 0) if last else (float(closure()), self._flat_grad(), 1)
        if search != "strong_wolfe":
            raise RuntimeError(f"line_search_fn must be None or 'strong_wolfe', got {search!r}")
        before = [p.clone(memory_format=torch.contiguous_format) for p in self._params]
        wolfe = _WolfeSearch(
            lambda t: self._evaluate(closure, before, t, d), here, d.abs().max(), group["tolerance_change"]
        )
        found = wolfe.run(state["t"])
        state["t"] = found.t
        self._move(found.t, d)
        return found.f, found.g, wolfe.evaluations
