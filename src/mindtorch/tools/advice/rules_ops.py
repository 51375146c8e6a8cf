"""Rules about single ops: another op, or none, in their place."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mindtorch import torch
from mindtorch.core.tensor import Tensor
from mindtorch.tools.advice.record import Call, Loop
from mindtorch.tools.advice.sources import Site
from mindtorch.tools.advice.trial import THRESHOLD, Hint, agree, both_ways, pair, tensors

POWERS: dict[float, tuple[Callable[..., Any], str]] = {
    2.0: (torch.square, "square(x) or x * x"),
    3.0: (lambda x: x * x * x, "x * x * x"),
    4.0: (lambda x: torch.square(torch.square(x)), "square(square(x))"),
    0.5: (torch.sqrt, "sqrt(x)"),
    -0.5: (torch.rsqrt, "rsqrt(x)"),
    -1.0: (torch.reciprocal, "reciprocal(x)"),
}
_TINY = 256
"""Elements up to which a call costs more than its computing."""
_NUMPY: dict[str, Callable[..., Any]] = {
    "add": lambda a, b, *_: a + b,
    "sub": lambda a, b, *_: a - b,
    "mul": lambda a, b, *_: a * b,
    "_true_div": lambda a, b, *_: a / b,
    "neg": lambda a: -a,
    "abs": np.abs,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "_part": lambda a, index: a[index],
    "stack": lambda xs, dim=0: np.stack(xs, dim),
    "cat": lambda xs, dim=0: np.concatenate(xs, dim),
    "clamp": lambda a, low=None, high=None: np.clip(a, low, high),
    "unsqueeze": lambda a, dim: np.expand_dims(a, dim),
    "reshape": lambda a, shape: a.reshape(shape),
    "view": lambda a, shape: a.reshape(shape),
    "transpose": lambda a, i, j: a.swapaxes(i, j),
    "flip": lambda a, dims: np.flip(a, dims),
    "sum": lambda a, dim=None, keep=False, dtype=None: a.sum(axis=dim, keepdims=bool(keep)),
    "mean": lambda a, dim=None, keep=False, dtype=None: a.mean(axis=dim, keepdims=bool(keep)),
}


def make(rule: str, loop: Loop, site: Site, message: str, before: float, after: float) -> list[Hint]:
    """A hint of one rule, when it saves enough of the step. ``before`` and ``after`` are seconds a step."""
    step = loop.seconds
    saved = before - after
    # Unobserved steps can be shorter than what a trial measured on a disturbed machine: no share is above one.
    gain = min(saved / step, 0.99) if step else 0.0
    if gain < THRESHOLD:
        return []
    ms = [1e3 * t for t in (before, after, step)]
    return [Hint(rule, site.file, site.line, site.text, message, *ms, gain, loop.kind)]


def calls(loop: Loop, *wanted: str, direct: bool = False) -> list[Call]:
    """Recorded calls of these ops (all without names)."""
    return [c for s in loop.observed for c in s.calls if (not wanted or c.name in wanted) and (c.site.direct or not direct)]


def by_line(found: list[Call]) -> dict[Site, list[Call]]:
    """Calls grouped by the line they come from."""
    groups: dict[Site, list[Call]] = defaultdict(list)
    for c in found:
        groups[c.site].append(c)
    return groups


def key(args: Any) -> Any:
    """What makes two calls take equally long: shapes, dtypes, strides, and the other arguments."""
    if isinstance(args, Tensor):
        return tuple(args.shape), str(args.dtype), args.stride(), args.requires_grad
    if isinstance(args, (list, tuple)):
        return tuple(key(a) for a in args)
    return repr(args)


def trials(found: list[Call], measure: Callable[[Call], tuple[float, float]], steps: int) -> tuple[float, float]:
    """Seconds a step of both ways over calls, each kind of arguments measured once."""
    times: dict[Any, tuple[float, float]] = {}
    total = [0.0, 0.0]
    for c in found:
        k = key(c.args)
        if k not in times:
            # The twelfth kind of arguments at one line tells nothing new, and a trial takes its time.
            times[k] = measure(c) if len(times) < 12 else next(reversed(times.values()))
        for i in (0, 1):
            total[i] += times[k][i] / steps
    return total[0], total[1]


def power(loop: Loop) -> Iterator[Hint]:
    """pow with an exponent that has an op of its own."""
    groups: dict[tuple[Site, float], list[Call]] = defaultdict(list)
    for c in calls(loop, "pow"):
        e = c.args[1]
        if isinstance(c.args[0], Tensor) and isinstance(e, (int, float)) and float(e) in POWERS and c.args[0].is_floating_point():
            groups[c.site, float(e)].append(c)
    for (site, e), found in groups.items():
        other, text = POWERS[e]

        def measure(c: Call, other: Callable[..., Any] = other) -> tuple[float, float]:
            old, new = both_ways(c.fn, c.args), both_ways(other, c.args[:1])
            return pair(old, new) if agree(old(), new()) else (0.0, 0.0)

        before, after = trials(found, measure, len(loop.observed))
        yield from make("power", loop, site, f"pow(x, {e:g}): write {text}", before, after)


def tiny(loop: Loop) -> Iterator[Hint]:
    """Tensor ops on a few elements in a dataset, a transform or a collate function: NumPy has less to do per call."""
    found = [c for c in calls(loop, *_NUMPY, direct=True) if c.phase == "data" and _few(c)]

    def measure(c: Call) -> tuple[float, float]:
        arrays = _arrays(c.args)
        try:
            return pair(lambda: c.fn(*c.args), lambda: _NUMPY[c.name](*arrays), 0.03)
        except (TypeError, ValueError, IndexError):
            return 0.0, 0.0  # an argument NumPy spells otherwise: nothing to propose

    for site, group in by_line(found).items():
        before, after = trials(group, measure, len(loop.observed))
        text = f"{len(group) // len(loop.observed)} calls on at most {_TINY} elements a batch: do this with numpy, convert the result once"
        yield from make("numpy in transforms", loop, site, text, before, after)


def _few(c: Call) -> bool:
    ts = tensors(c.args)
    return bool(ts) and all(t.numel() <= _TINY for t in ts)


def _arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().numpy()
    if isinstance(value, (list, tuple)):
        return type(value)(_arrays(v) for v in value)
    return value


def repeated_to(loop: Loop) -> Iterator[Hint]:
    """The same tensor converted again and again."""
    groups: dict[Site, list[Call]] = defaultdict(list)
    seen: dict[tuple[int, Any, Site], Call] = {}
    for c in calls(loop, "_cast", "to", direct=True):
        src = c.args[0]
        if not isinstance(src, Tensor) or src.requires_grad:
            continue
        first = seen.setdefault((id(src), repr(c.args[1:]), c.site), c)
        if first is not c and first.versions[:1] == c.versions[:1]:
            groups[c.site].append(c)
    for site, group in groups.items():
        n = max(len(loop.observed) - len({c.step for c in group}), 0)
        steps = len(loop.observed) - (1 if n else 0)
        before, _ = trials(group, lambda c: (pair(lambda: c.fn(*c.args), lambda: None, 0.05)[0], 0.0), max(steps, 1))
        yield from make("repeated to", loop, site, "the same tensor is converted again every time: do it once, before the loop", before, 0.0)




def needless_copy(loop: Loop) -> Iterator[Hint]:
    """clone() of what nobody writes to afterwards, contiguous() for an op that takes strides."""
    found = [c for c in calls(loop, "clone", "_contiguous", direct=True) if _untouched(c)]
    readers: dict[int, list[Call]] = defaultdict(list)
    if any(c.name == "_contiguous" for c in found):
        for c in calls(loop):
            for t in tensors(c.args):
                readers[id(t)].append(c)
    for site, group in by_line(found).items():
        if len(group) != len([c for c in calls(loop, "clone", "_contiguous", direct=True) if c.site == site]):
            continue  # some of the copies at this line are needed
        if group[0].name == "clone":
            before, after = trials(group, lambda c: pair(both_ways(c.fn, c.args), both_ways(lambda x: x, c.args[:1])), len(loop.observed))
            yield from make("needless copy", loop, site, "neither the copy nor its source is ever written to: drop clone()", before, after)
            continue
        if all(readers[id(c.out)] and not any(r.name in ("view", "_view", "_contiguous") for r in readers[id(c.out)]) for c in group):
            before, after = trials(group, functools.partial(_without_contiguous, readers), len(loop.observed))
            yield from make("needless copy", loop, site, "what reads this takes strided tensors: drop contiguous()", before, after)


def _untouched(c: Call) -> bool:
    src, out = c.args[0], c.out
    if not isinstance(src, Tensor) or not isinstance(out, Tensor) or isinstance(src, torch.nn.Parameter):
        return False
    return (src._version, out._version) == c.versions


def _without_contiguous(readers: dict[int, list[Call]], c: Call) -> tuple[float, float]:
    rest = readers[id(c.out)]

    def run(copy: bool) -> None:
        x = c.fn(*c.args) if copy else c.args[0]
        for r in rest:
            r.fn(*_replaced(r.args, c.out, x))

    with torch.no_grad():
        try:
            return pair(lambda: run(True), lambda: run(False))
        except RuntimeError:
            return 0.0, 0.0  # a view of it cannot be taken otherwise: the copy is needed


def _replaced(args: Any, old: Any, new: Any) -> Any:
    if args is old:
        return new
    if type(args) in (list, tuple):
        return type(args)(_replaced(a, old, new) for a in args)
    return args


def cat_in_loop(loop: Loop) -> Iterator[Hint]:
    """A result grown piece by piece: every cat copies all that was there."""
    chains: dict[Site, list[Call]] = defaultdict(list)
    for site, group in by_line(calls(loop, "cat", "hstack", "vstack")).items():
        grown = {id(group[0].out)} if group else set()
        for c in group[1:]:
            if isinstance(c.args[0], (list, tuple)) and any(id(t) in grown for t in c.args[0]):
                chains[site].append(c)
            grown.add(id(c.out))
    for site, group in chains.items():
        outs = {id(c.out) for c in group}
        pieces = [t for c in group for t in c.args[0] if id(t) not in outs]
        dim = group[0].args[1] if len(group[0].args) > 1 and isinstance(group[0].args[1], int) else 0
        n = len(loop.observed) if len({c.step for c in group}) == len(loop.observed) else 1

        def old(group: list[Call] = group) -> None:
            for c in group:
                c.fn(*c.args)

        with torch.no_grad():
            before, after = pair(old, lambda pieces=pieces, dim=dim: torch.cat(pieces, dim))  # type: ignore[misc]
        yield from make("cat in a loop", loop, site, "append the pieces to a list, and cat once behind the loop", before / n, after / n)


def explicit_double(site: Site) -> bool:
    """Whether the line itself asks for float64."""
    return any(word in site.text for word in ("float64", "double"))


def accidental_double(loop: Loop) -> Iterator[Hint]:
    """float64 data that came from NumPy or Python and drags the computation along."""
    found = [c for c in calls(loop) if any(t.dtype is torch.float64 and t.ndim for t in tensors(c.args))]
    if not found or torch.get_default_dtype() is torch.float64 or any(_all_double(m.module) for s in loop.observed for m in s.modules):
        return
    first = next((c for c in found if c.phase != "data"), found[0])
    if any(explicit_double(c.site) for c in found):
        return
    from_loader = any(c.phase == "data" for c in found)

    def measure(c: Call) -> tuple[float, float]:
        return pair(both_ways(c.fn, c.args), both_ways(c.fn, _single(c.args)))

    before, after = trials([c for c in found if c.name not in ("_cast", "to")], measure, len(loop.observed))
    where = "the loader's batches are" if from_loader else "a tensor that comes in here is"
    message = f"{where} float64 (NumPy's default): {len(found) // len(loop.observed)} ops a step follow; convert the data to float32 once"
    yield from make("float64 by accident", loop, first.site, message, before, after)


def _all_double(module: Any) -> bool:
    return any(p.dtype is torch.float64 for p in module.parameters())


def _single(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.float().detach().requires_grad_(value.requires_grad) if value.dtype is torch.float64 else value
    if type(value) in (list, tuple):
        return type(value)(_single(v) for v in value)
    return value


