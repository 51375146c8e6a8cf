"""The "mindspore" backend: a program as one function over ms.Tensors, traced and compiled by ``ms.jit``.

Every step is the row's MindSpore kernel. A program with a row that has none, that draws random numbers or that writes in
place stays on the host kernels. Results are compared with the host's once, before they are believed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import array, door, kernels
from mindtorch.graph.program import Program, Ref, Step, draws


class Unavailable(Exception):
    """Why a program cannot be compiled."""


_COPIES = frozenset(("_contiguous", "_reshape_copy", "detach"))
"""Rows that only give the same values in another shape or layout, of which a compiled program knows nothing."""


def _placed(program: Program, step: Step) -> Callable[..., Any]:
    """A view as a function: elements gathered from the positions that the host's kernel shows."""
    mint = door.load().mint
    ms = door.load()
    source = program.slots[step.args[0].slot]
    at = np.arange(int(np.prod(source.shape)), dtype=np.int32).reshape(source.shape)
    if step.row.name in ("as_strided", "_strided_tensor"):
        raise Unavailable(f"{step.row.name} depends on the memory's layout")
    got = step.row.call_kernel([at, *step.args[1:]])
    parts = list(got) if step.seq is not None else [got]

    def part(positions: np.ndarray) -> Callable[[Any], Any]:
        shape = positions.shape
        flat = positions.reshape(-1)
        if flat.size == at.size and (flat == at.reshape(-1)).all():
            return lambda x: mint.reshape(x, shape)
        index = ms.Tensor(np.ascontiguousarray(flat))
        return lambda x: mint.reshape(mint.index_select(mint.reshape(x, (-1,)), 0, index), shape)

    fns = [part(np.asarray(p)) for p in parts]
    return (lambda x, *_: tuple([f(x) for f in fns])) if step.seq is not None else lambda x, *_: fns[0](x)


def _kernel(program: Program, step: Step) -> Callable[..., Any]:
    name = step.row.name
    if draws(step.row):
        raise Unavailable(f"{name} draws random numbers from PyTorch's stream")
    if not step.outs:
        raise Unavailable("it writes in place")
    if step.row.kind == "view" or name in _COPIES:
        return _placed(program, step)
    fn = kernels.find(name)
    if fn is None:
        raise Unavailable(f"{name} has no MindSpore kernel")
    return fn


def function(program: Program, results: Sequence[int]) -> Callable[..., Any]:
    """The program over ms.Tensors: ``f(*given) -> tuple``. Unavailable when a step has no kernel."""
    steps = [(_kernel(program, s), s) for s in program.steps]
    constants = {i: array.upload(s.a) for i, s in enumerate(program.slots) if s.kind == "const" and s.a is not None}
    given = list(program.given)

    def body(*tensors: Any) -> Any:
        env = dict(constants)
        env.update(zip(given, tensors))

        def value(a: Any) -> Any:
            return env[a.slot] if isinstance(a, Ref) else [value(e) for e in a] if isinstance(a, list) else a

        for fn, s in steps:
            r = fn(*[value(a) for a in s.args])
            for o, x in zip(s.outs, r if s.seq is not None else (r,)):
                if o is not None:
                    env[o] = x
        return tuple([env[i] for i in results])

    return body


class _no_stack:  # noqa: N801 - a context
    """Keeps ms.jit from reading the source line of every caller: it fails on frames that have none (``python -m``)."""

    def __enter__(self) -> None:
        try:
            import importlib

            self.room: Any = importlib.import_module("mindspore.graph.jit_trace")
            self.old = self.room._get_caller_lines
        except (ImportError, AttributeError):
            self.room = None
            return
        self.room._get_caller_lines = lambda: ([__file__], [1])

    def __exit__(self, *exc: Any) -> None:
        if self.room is not None:
            self.room._get_caller_lines = self.old


def compiled(program: Program, keep: bool, host: Callable[..., Any]) -> Callable[..., Any]:
    """``run(arrays) -> (results, kept)`` by ms.jit. The first call compiles, and compares with ``host``."""
    ms = door.load()
    n = len(program.results)
    wanted = [*program.results, *(program.kept if keep else ())]
    given = set(program.given)
    # What is given back as it came needs no device: MindSpore sees only what it has to compute.
    made = [i for i in dict.fromkeys(wanted) if i not in given]
    if not made:
        raise Unavailable("it computes nothing")
    jitted = ms.jit(function(program, made), capture_mode="trace")
    types = {i: program.slots[i].np for i in made}
    checked = False

    def run(arrays: Sequence[np.ndarray]) -> Any:
        nonlocal checked
        tensors = [array.upload(a) for a in arrays]
        with _no_stack():
            got = jitted(*tensors)
        env: dict[int, np.ndarray] = dict(zip(program.given, arrays))
        for i, t in zip(made, got):
            env[i] = array.download(t, types[i]).copy()
        out = [env[i] for i in wanted]
        if not checked:
            expected = [*host(arrays)[0], *host(arrays)[1]]
            _compare(out, expected)
            checked = True
        return tuple(out[:n]), tuple(out[n:])

    return run


def _compare(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    for a, b in zip(got, expected):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Unavailable("a MindSpore kernel gives another shape or dtype")
        if a.dtype.kind in "fc" and a.size:
            with np.errstate(all="ignore"):
                scale = np.max(np.abs(b), where=np.isfinite(b), initial=1.0)
                close = np.allclose(a, b, rtol=1e-5, atol=1e-5 * scale, equal_nan=True)
        else:
            close = bool((a == b).all())
        if not close:
            raise Unavailable("MindSpore's numbers differ by more than 1e-5")
