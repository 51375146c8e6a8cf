"""The backward program of a capture whose history cannot be made again from its rows: recorded from the tape itself.

In-place operations on parts of memory, custom autograd.Functions and backward passes inside the function leave a history that
only the eager run has. So the tape of that run is walked once, at the capture, with gradients of ones for the results; its
rows are the backward program. Hooks of the tensors outside see nothing of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import modes, tape
from mindtorch.core.tensor import Leaf, Out, Tensor, wrap


class Own:
    """``steps`` compute, from values of the program and the slots ``given`` (gradients of results), the slots in ``grads``."""

    def __init__(self, steps: list[Any], given: list[int], grads: dict[int, int]) -> None:
        self.steps, self.given, self.grads = steps, given, grads


class Dead(tape.Node):
    """History of a result through which no gradient can flow any more; saying so is left to who tries."""

    __slots__ = ()
    label = "CompiledFunctionBackward"

    def apply(self, g: Any) -> Any:
        """The error that the eager tape gives."""
        raise RuntimeError(self.s[0])


def results_of(v: Any, found: list[Tensor]) -> list[Tensor]:
    """Tensors with a history in a result, each once."""
    if isinstance(v, Tensor):
        if v.n is not None and v.n.__class__ is not Leaf and all(v is not t for t in found):
            found.append(v)
    elif isinstance(v, (list, tuple)):
        for e in v:
            results_of(e, found)
    elif isinstance(v, dict):
        for e in v.values():
            results_of(e, found)
    return found


class _Apart:
    """Keeps a walk from leaving the function: nodes of outside have no edges and no hooks meanwhile."""

    def __init__(self, edges: list[Any]) -> None:
        self.nodes = {id(n): n for n in (e.node if e.__class__ is Out else e for e in edges)}

    def __enter__(self) -> None:
        self.kept: list[tuple[Any, Any]] = []
        for n in self.nodes.values():
            if n.__class__ is Leaf:
                self.kept.append((n, dict(n.__dict__)))
                n.__dict__.clear()
            else:
                self.kept.append((n, (n.e, n.h)))
                n.e = ()
                n.h = None

    def __exit__(self, *exc: Any) -> None:
        for n, what in self.kept:
            if n.__class__ is Leaf:
                n.__dict__.update(what)
            else:
                n.e = what[0]
                if what[1] is not None:
                    n.h = what[1]
                else:
                    n.__dict__.pop("h", None)


def _walk(live: list[Tensor], gs: list[Tensor], wanted: list[Tensor]) -> list[Any]:
    with _Apart([t.n for t in wanted]):
        return list(tape.run_backward(live, gs, True, False, wanted, False))


def record(rec: Any, watch: Any, live: list[Tensor]) -> tuple[Own | None, dict[int, str]]:
    """(the backward program for ``live``, messages of those of them, by their place, through which nothing can flow)."""
    external = [i for i, k in enumerate(rec.kinds) if k in ("input", "free") and rec.index.get(id(rec.arrays[i])) == i]
    external = [i for i in external if rec.tensors[i].n is not None]
    wanted = [rec.tensors[i] for i in external]
    dead: dict[int, str] = {}
    steps = rec.steps
    n = len(steps)
    trusted, watch.trusted = watch.trusted, True
    try:
        try:
            _walk(live, [wrap(np.ones(t.a.shape, t.a.dtype)) for t in live], wanted)
        except RuntimeError:
            for at, t in enumerate(live):  # which of them are freed or overwritten?
                try:
                    _walk([t], [wrap(np.ones(t.a.shape, t.a.dtype))], wanted)
                except RuntimeError as e:
                    dead[at] = str(e)
        del steps[n:]
        alive = [t for at, t in enumerate(live) if at not in dead]
        if not alive:
            return None, dead
        gs = [wrap(np.ones(t.a.shape, t.a.dtype)) for t in alive]
        given = [rec.add(g, "grad") for g in gs]
        got = _walk(alive, gs, wanted)
        grads = {i: rec.slot(g) for i, g in zip(external, got) if g is not None}
    finally:
        watch.trusted = trusted
    own = Own(steps[n:], given, grads)
    del steps[n:]
    return own, dead


def plan(program: Any, own: Own, slots: list[Any]) -> Any:
    """``run(node, gs) -> gradients of program.wanted``, and what the program has to keep for it is set."""
    from mindtorch.graph import backends
    from mindtorch.graph.program import Program

    results = [own.grads.get(program.given[j]) for j in program.wanted]
    made = {o for s in own.steps for o in s.outs if o is not None}
    read = {i for s in own.steps for i in s.reads()} | {i for i in results if i is not None}
    program.keep(sorted(i for i in read if i not in made and i not in own.given and slots[i].kind != "const"))
    sub = Program(own.steps, slots, [*program.kept, *own.given], [r for r in results if r is not None])
    forms = [slots[i] for i in own.given]
    stand_ins = [wrap(np.empty(s.shape, s.np)) for s in forms]
    run = backends.backward_plan(sub, results, len(program.kept), stand_ins, program)

    def back(node: Any, gs: list[Any]) -> Any:
        if modes.state.grad:
            raise RuntimeError(
                "graph: this function's derivative is a program without history (in-place writes, a custom Function or a "
                "backward pass inside), so it cannot be differentiated again; call the function eagerly for create_graph=True"
            )
        node.check(None)
        full = [wrap(np.zeros(s.shape, s.np)) if g is None else g if g.a.flags.c_contiguous else wrap(np.ascontiguousarray(g.a))
                for g, s in zip(gs, forms)]  # fmt: skip
        return run(node.s[1], full)

    back.program = sub  # type: ignore[attr-defined]
    return back
