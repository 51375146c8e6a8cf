"""The "mindspore" backend: what MindSpore can compute of a program runs as functions over ms.Tensors, compiled by ``ms.jit``.

The steps are sorted into segments (``segments``): those whose row has a MindSpore kernel with the host's numbers, and the
rest, which stays on the host kernels: random draws, writes, effects, rows without a kernel. Each step is tried alone before
anything is compiled, because a compilation that fails takes the process down at its end; each segment is compared with the
host's kernels once, on numbers made up for it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mindtorch.core import dispatch
from mindtorch.engine.host.quiet import quiet
from mindtorch.engine.mindspore import array, door, kernels, positions, traced
from mindtorch.graph import segments
from mindtorch.graph.program import Program, Ref, Step, draws, refs, stand_in


class Unavailable(Exception):
    """Why a step or program cannot be compiled."""


_COPIES = frozenset(("_contiguous", "_reshape_copy", "detach"))
"""Rows that only give the same values in another shape or layout, of which a compiled program knows nothing."""
_TYPES = frozenset("float32 float64 int64 int32 uint8 int8 int16 bool".split())


class Segment:
    """Stands in for a row: several steps compiled into one function over arrays."""

    kind, name = "segment", "ms.jit"
    saved: tuple[str, ...] = ()

    def __init__(self, run: Callable[..., Any], steps: list[Step]) -> None:
        self.run, self.steps = run, steps


# ------------------------------------------------------------------------------------------ one step
def refused(program: Program, step: Step, trusted: bool) -> str | None:
    """Why a step stays on the host whatever its kernel; None when its kernel may be tried.

    ``trusted``: indices among the inputs have been checked already, by the forward pass.
    """
    name = step.row.name
    if step.row.kind not in ("op", "view"):
        return f"{name} changes something outside of the graph"
    if draws(step.row):
        return f"{name} draws random numbers from PyTorch's stream"
    if any(isinstance(a, tuple) and refs(a) for a in step.args):
        return f"{name}: an index that holds tensors"
    used = [program.slots[i] for i in [*step.reads(), *(o for o in step.outs if o is not None)]]
    for s in used:
        if s.np.name not in _TYPES:
            return f"{name} on {s.np.name}"
        if 0 in s.shape:
            return f"{name} on no elements"
    read = [program.slots[i] for i in step.reads()]
    if not trusted and any(s.np.kind == "i" and s.kind in ("input", "state") for s in read) and any(s.np.kind == "f" for s in used):
        return f"{name}: whether indices are in range is checked on the host"
    return None


def kernel(program: Program, step: Step) -> Callable[..., Any]:
    """The step as a function over ms.Tensors, tried on numbers made up. Unavailable when it has none with the host's numbers."""
    name = step.row.name
    values = [made_up(program, a, n) for n, a in enumerate(step.args)]
    want = _listed(_on_host(program, step, values), step)
    if step.row.kind == "view" or name in _COPIES:
        if name in ("as_strided", "_strided_tensor"):
            raise Unavailable(f"{name} depends on the memory's layout")
        fn = _placed(program, step)
    else:
        found = kernels.find(name)
        if found is None:
            raise Unavailable(f"{name}: {kernels.reason(name)}")
        fn = found
    try:
        got = _listed(fn(*[_given(v) for v in values]), step)
        arrays = [None if t is None else array.download(t, w.dtype) for t, w in zip(got, want)]
    except Exception as e:  # whatever MindSpore cannot compute, the host kernels compute
        text = str(e).strip().splitlines()
        raise Unavailable(f"{name}: {text[0][:160] if text else type(e).__name__}") from None
    for o, a, w in zip(step.outs, arrays, want):
        if o is not None:
            compare(name, a, w)
    return fn


def _placed(program: Program, step: Step) -> Callable[..., Any]:
    """A view as a function, from the positions that the host's kernel shows."""
    source = program.slots[step.args[0].slot]
    at = np.arange(int(np.prod(source.shape)), dtype=np.int32).reshape(source.shape)
    got = step.row.call_kernel([at, *step.args[1:]])
    fns = [positions.function(at, np.asarray(p)) for p in _listed(got, step)]
    return (lambda x, *_: tuple([f(x) for f in fns])) if step.seq is not None else lambda x, *_: fns[0](x)


def _listed(out: Any, step: Step) -> list[Any]:
    return list(out) if step.seq is not None else [out]


def made_up(program: Program, a: Any, n: int) -> Any:
    """An array in place of a value: of its shape and dtype, with numbers that most functions are defined for."""
    if isinstance(a, list):
        return [made_up(program, e, n + 7 * k) for k, e in enumerate(a)]
    if not isinstance(a, Ref):
        return a
    s = program.slots[a.slot]
    return s.a if s.kind == "const" and s.a is not None else numbers(s.shape, s.np, a.slot + n)


def numbers(shape: Sequence[int], dtype: np.dtype, seed: int, low: float = 0.25) -> np.ndarray:
    """Floats in [low, low + 0.75), zeros for integers, True for truth values."""
    if dtype.kind == "f":
        return np.random.default_rng(seed).uniform(low, low + 0.75, shape).astype(dtype)
    return np.ones(shape, dtype) if dtype.kind == "b" else np.zeros(shape, dtype)


def _given(v: Any) -> Any:
    return array.upload(v) if isinstance(v, np.ndarray) else [_given(e) for e in v] if isinstance(v, list) else v


def _on_host(program: Program, step: Step, values: list[Any]) -> Any:
    """The host kernel's result for arrays."""
    raws = []
    for p, v, a in zip(step.row.params, values, step.args):
        if p.type in ("TN", "TN?") and v is not None and not isinstance(a, Ref):
            v = dispatch.scalar(v, dispatch._target(step.row, [stand_in(program, x) for x in step.args]).np)
        raws.append(v)
    try:
        with quiet():
            out = step.row.call_kernel(raws)
            return [np.asarray(x) for x in out] if step.seq is not None else np.asarray(out)
    except Exception as e:  # the numbers made up are not what the kernel takes
        raise Unavailable(f"{step.row.name} cannot be tried alone: {str(e)[:120]}") from None


def compare(name: str, a: Any, b: np.ndarray) -> None:
    """Unavailable when ``a`` is not ``b`` within 1e-5 of its largest value."""
    if a is None or a.shape != b.shape or a.dtype != b.dtype:
        raise Unavailable(f"{name}: MindSpore's kernel gives another shape or dtype")
    if a.dtype.kind in "fc" and a.size:
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(b), where=np.isfinite(b), initial=1.0)
            close = np.allclose(a, b, rtol=1e-5, atol=1e-5 * scale, equal_nan=True)
    else:
        close = bool((a == b).all())
    if not close:
        raise Unavailable(f"{name}: MindSpore's numbers differ by more than 1e-5")


# ------------------------------------------------------------------------------------------ segments
def body(program: Program, steps: list[Step], fns: list[Callable[..., Any]], given: list[int], made: list[int]) -> Callable[..., Any]:
    """The steps over ms.Tensors: ``f(*given) -> tuple of made``."""
    read = {i for s in steps for i in s.reads()}
    constants = {
        i: array.upload(s.a) for i, s in enumerate(program.slots) if i in read and s.kind == "const" and s.a is not None
    }

    def run(*tensors: Any) -> Any:
        env = dict(constants)
        env.update(zip(given, tensors))

        def value(a: Any) -> Any:
            return env[a.slot] if isinstance(a, Ref) else [value(e) for e in a] if isinstance(a, list) else a

        for fn, s in zip(fns, steps):
            r = fn(*[value(a) for a in s.args])
            for o, x in zip(s.outs, r if s.seq is not None else (r,)):
                if o is not None:
                    env[o] = x
        return tuple([env[i] for i in made])

    return run


def _jitted(program: Program, steps: list[Step], fns: list[Callable[..., Any]], given: list[int], made: list[int]) -> Callable[..., Any]:
    """The steps over arrays, compiled, and compared with the host's kernels on numbers made up."""
    from mindtorch.graph import backends

    types = [program.slots[i].np for i in made]
    host = backends.host(part(program, steps, given, made), False)
    # Around zero: sums of many positive numbers would drive functions to where rounding is all there is. And other numbers
    # than those it was traced with: what became a constant of the graph by mistake shows then.
    samples = [
        [numbers(program.slots[i].shape, program.slots[i].np, i + seed, -0.375) for i in given] for seed in (0, 1000)
    ]
    call = traced.traced(body(program, steps, fns, given, made), [door.tensor(np.asarray(a, order="C")) for a in samples[0]])
    own = [False] * len(made)

    def run(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        got = call(*[door.tensor(np.asarray(a, order="C")) for a in arrays])
        # what would share its memory with something else is copied
        return tuple([array.download(t, d) if o else array.download(t, d).copy() for t, d, o in zip(got, types, own)])

    seen = [run(*tried) for tried in samples]
    for tried, got in zip(samples, seen):
        for i, a, b in zip(made, got, host(tried)[0]):
            compare(f"value {i} of {len(steps)} steps compiled together", a, b)
    own[:] = _own(call, samples, seen, types)

    def careful(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        try:
            return run(*arrays)
        except Exception:  # what fails on these values says so in the host kernel's words, or does not fail there
            return tuple(host(arrays)[0])

    return careful


def _own(call: Callable[..., Any], samples: list[Any], seen: list[Any], types: list[np.dtype]) -> list[bool]:
    """Which results have memory of their own: neither that of an argument, nor of another result, nor of an earlier call."""
    runs = []
    for tried in samples:
        given = [np.asarray(a, order="C") for a in tried]
        got = [array.download(t, d) for t, d in zip(call(*[door.tensor(a) for a in given]), types)]
        runs.append((given, got))
    owned = []
    for n, (a, b) in enumerate(zip(runs[0][1], seen[0])):
        others = [*runs[0][0], *runs[1][0], *runs[1][1], *(g for m, g in enumerate(runs[0][1]) if m != n)]
        owned.append(bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f")) and not any(np.may_share_memory(a, o) for o in others))
    return owned


def part(program: Program, steps: list[Step], given: list[int], made: list[int]) -> Program:
    """A program of some of the steps."""
    p = copy.copy(program)
    p.steps, p.given, p.results, p.kept, p.effects = steps, given, made, [], False
    return p


def _segment(program: Program, numbers_: list[int], fns: dict[int, Callable[..., Any]], needed: set[int]) -> list[Step]:
    """Steps in place of a run: the compiled function, and views of what it gives, which cost the host nothing."""
    steps = [program.steps[n] for n in numbers_]
    inside = {o for s in steps for o in s.outs if o is not None}
    wanted = needed & inside
    views: list[Step] = []
    for s in reversed(steps):
        if s.row.kind == "view" and wanted & set(s.outs):
            views.append(s)
            wanted -= set(s.outs)
            wanted |= set(s.reads()) & inside
    used = set(wanted)
    kept: list[int] = []
    for n in reversed(numbers_):
        s = program.steps[n]
        if used & set(s.outs):
            used.update(s.reads())
            kept.append(n)
    kept.reverse()
    steps = [program.steps[n] for n in kept]
    inside = {o for s in steps for o in s.outs if o is not None}
    given = [i for i in dict.fromkeys(i for s in steps for i in s.reads()) if i not in inside and program.slots[i].kind != "const"]
    made = sorted(wanted)
    if not steps:
        return views[::-1]
    run = _jitted(program, steps, [fns[n] for n in kept], given, made)
    one = Step(Segment(run, steps), tuple(Ref(i) for i in given), tuple(made), (False,) * len(made), tuple)
    return [one, *views[::-1]]


def _free(step: Step) -> bool:
    return step.row.kind == "view" or step.row.name in _COPIES


def _usable(program: Program, trusted: bool) -> tuple[dict[int, Callable[..., Any]], list[tuple[str, Any]]]:
    """Functions of the steps that can be compiled, and (reason, place) of those that cannot."""
    fns: dict[int, Callable[..., Any]] = {}
    reasons: list[tuple[str, Any]] = []
    for n, s in enumerate(program.steps):
        why = refused(program, s, trusted)
        if why is None:
            try:
                fns[n] = kernel(program, s)
            except Unavailable as e:
                why = str(e)
        if why is not None and s.row.kind in ("op", "view") and all(r != why for r, _ in reasons):
            reasons.append((why, getattr(s, "site", None)))
    read: set[int] = set()
    for n in reversed(range(len(program.steps))):
        s = program.steps[n]
        if n in fns and _free(s) and not read & set(s.outs):
            del fns[n]  # a view that only the host reads
        if n in fns:
            read.update(s.reads())
    return fns, reasons


def compiled(program: Program, keep: bool, trusted: bool = False) -> tuple[Callable[..., Any], list[str]]:
    """(``run`` with the arguments and results of ``backends.host``, what stays on the host and why).

    ``trusted``: indices among what is given were checked before. Unavailable when nothing can be compiled.
    """
    from mindtorch.graph import backends

    fns, reasons = _usable(program, trusted)
    notes = [f"on the host: {why}" + (f" ({site[0]}:{site[1]})" if site else "") for why, site in reasons]
    if all(_free(program.steps[n]) for n in fns):
        raise Unavailable("; ".join(why for why, _ in reasons[:3]) or "it computes nothing")
    steps: list[Step] = []
    done = 0
    for jit, numbers_ in segments.sort(program, fns.__contains__):
        part_ = [program.steps[n] for n in numbers_]
        if not jit or all(map(_free, part_)):
            steps += part_
            continue
        mine = set(numbers_)
        needed = {*program.results, *(program.kept if keep else ())}
        needed.update(i for n, s in enumerate(program.steps) if n not in mine for i in s.reads())
        try:
            steps += _segment(program, numbers_, fns, needed)
            done += 1
        except Unavailable as e:
            notes.append(f"on the host: {e}")
            steps += part_
    if not done:
        raise Unavailable("; ".join(notes[:3]))
    whole = copy.copy(program)
    whole.steps = steps
    return backends.host(whole, keep), [f"{done} part(s) compiled by ms.jit", *notes]
