"""A captured program: steps over numbered values, the backward programs derived from it, and its place on the tape.

Forward: the steps' kernels in order. What the eager tape would have saved is kept, and the outputs hang on one node. When a
gradient arrives, the rows' own nodes are made again from what was kept and walked once while their rows are recorded: that
is the backward program, which later passes run directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mindtorch.core import dispatch, modes, tape, views
from mindtorch.core.tensor import Cell, Leaf, Lost, Out, Tensor, new, wrap
from mindtorch.graph.derivative import Dead


class Ref:
    """A numbered value as an argument."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def __repr__(self) -> str:
        return f"v{self.slot}"


class Memory(Ref):
    """A numbered value inside an index, which kernels and rules take as a raw array."""

    __slots__ = ()


def refs(a: Any) -> list[int]:
    """Numbers of the values in an argument."""
    if isinstance(a, Ref):
        return [a.slot]
    return [r.slot for r in a if isinstance(r, Ref)] if isinstance(a, (list, tuple)) else []


class Step:
    """One row: its arguments (``Ref`` for values), its outputs' numbers, and which of them were recorded on the tape.

    ``direct`` is the ufunc that the row's fast path would call for these arguments, None for the kernel. ``site`` is where
    the user's code calls the row: (file, line, function).
    """

    __slots__ = ("args", "direct", "outs", "rec", "row", "seq", "site")

    def __init__(
        self, row: Any, args: tuple[Any, ...], outs: tuple[Any, ...], rec: tuple[bool, ...], seq: Any, direct: Any = None
    ) -> None:
        self.row, self.args, self.outs, self.rec, self.seq, self.direct = row, args, outs, rec, seq, direct
        self.site: tuple[str, int, str] | None = None

    def reads(self) -> list[int]:
        """Numbers of the values it reads."""
        found = []
        for a in self.args:
            found += refs(a)
        return found

    def __repr__(self) -> str:
        outs = ", ".join(f"v{o}" for o in self.outs if o is not None)
        return f"{outs}{' = ' if outs else ''}{self.row.name}({', '.join(map(repr, self.args))})"


class Slot:
    """What is known of a value: shape, dtype, key, kind ("input", "state", "const", "value")."""

    __slots__ = ("a", "k", "kind", "np", "root", "shape")

    def __init__(self, a: np.ndarray, k: Any, kind: str, root: int) -> None:
        self.shape, self.np, self.k, self.kind, self.root = a.shape, a.dtype, k, kind, root
        self.a = a.copy() if kind == "const" else None


class Program:
    """Straight-line program. ``given`` are the slots of inputs and states, in the order arrays are passed to ``run``."""

    def __init__(self, steps: list[Step], slots: list[Slot], given: list[int], results: list[int]) -> None:
        self.steps, self.slots, self.given, self.results = steps, slots, given, results
        self.kept: list[int] = []
        self.kept_given: list[tuple[int, int]] = []
        self.kept_results: list[tuple[int, int]] = []
        self.notes: list[tuple[str, str]] = []
        self.mindspore = False
        self.measured = False  # whether the backward pass is to keep the faster backend
        self.said: list[str] = []  # what a backend says of the backward pass
        self.trained: list[bool] = [False] * len(results)
        self.wanted: list[int] = []
        self.plans: dict[Any, Any] = {}
        self.writes = any(not s.outs for s in steps)
        self.effects = any(s.row.kind == "effect" for s in steps)
        self.own: Callable[..., Any] | None = None
        self.why: str | None = None
        self.dead: dict[int, str] = {}
        self.run: Callable[..., Any] | None = None
        self.prune()

    def prune(self) -> None:
        """Drop steps whose results nobody reads, unless they draw random numbers or write."""
        need = set(self.results)
        keep = []
        for s in reversed(self.steps):
            if not s.outs or any(o in need for o in s.outs) or any(s.rec) or draws(s.row):
                need.update(s.reads())
                keep.append(s)
        self.steps = keep[::-1]

    def train(self, trained: Sequence[bool], edges: Sequence[bool]) -> None:
        """Note which results need gradients and which given values receive them; decide what has to be kept."""
        self.trained = list(trained)
        self.wanted = [i for i, e in enumerate(edges) if e]
        self.kept = []
        if not any(trained):
            return
        kept: set[int] = set()
        for s in self.steps:
            if not any(s.rec):
                continue
            row = s.row
            for name in row.saved:
                if name == "out":
                    kept.update(o for o in s.outs if o is not None)
                elif name.startswith("out") and name[3:].isdigit():
                    kept.add(s.outs[int(name[3:])])
                elif name in row.index:
                    kept.update(refs(s.args[row.index[name]]))
        self.keep(sorted(i for i in kept if self.slots[i].kind != "const"))

    def keep(self, kept: list[int]) -> None:
        """Set what runs have to keep for the backward pass, and what of it the user may write to."""
        self.kept = kept
        self.kept_given = [(j, i) for j, i in enumerate(self.given) if i in kept]
        # An output may share memory with what is kept (or be it): written to by the user, it is as stale.
        root = [s.root for s in self.slots]
        self.kept_results = [(n, i) for n, r in enumerate(self.results) for i in self.kept if root[i] == root[r]]

    # ------------------------------------------------------------------------------------------ tape
    def again(self, kept: Sequence[np.ndarray], proxies: dict[int, Tensor]) -> dict[int, Tensor]:
        """Nodes of every recorded step, made anew. Returns the tensors of all values."""
        env: dict[int, Tensor] = dict(proxies)
        have = dict(zip(self.kept, kept))

        def tensor(i: int) -> Tensor:
            t = env.get(i)
            if t is None:
                slot = self.slots[i]
                a = have.get(i)
                t = env[i] = new()
                t.a = slot.a if slot.kind == "const" else hollow(slot) if a is None else a
                t.k, t.n, t.v = slot.k, None, None
            return t

        def value(a: Any) -> Any:
            if isinstance(a, Memory):
                return tensor(a.slot).a
            if isinstance(a, tuple) and refs(a):
                return tuple([value(x) for x in a])
            return tensor(a.slot) if isinstance(a, Ref) else [value(x) for x in a] if isinstance(a, list) else a

        for s in self.steps:
            if not any(s.rec):
                continue
            values = [value(a) for a in s.args]
            outs = [None if o is None else tensor(o) for o in s.outs]
            dispatch._record(s.row, outs, values, s.seq is not None)
            for t, rec in zip(outs, s.rec):
                if t is not None and not rec:
                    t.n = None
        return env

    def gradients(self, node: Any, gs: list[Any], create: bool) -> list[Any]:
        """Gradients of the wanted inputs by walking the nodes made again."""
        kept = node.s[1]
        proxies: dict[int, Tensor] = {}
        asked = []
        have = dict(zip(self.kept, kept))
        for j, edge in zip(self.wanted, node.e):
            i = self.given[j]
            t = new()
            slot = self.slots[i]
            t.a, t.k, t.v = have[i] if i in have else hollow(slot), slot.k, None
            t.n = Leaf(t) if not create else tape.new_node(views.Identity, (edge,))
            proxies[i] = t
            asked.append(t)
        with modes.enable_grad():
            env = self.again(kept, proxies)
        live = [i for i, t in zip(self.results, self.trained) if t]
        roots = [env[i] for i, g in zip(live, gs) if g is not None]
        given = [g for g in gs if g is not None]
        if not roots:
            return [None] * len(asked)
        return list(tape.run_backward(roots, given, create, create, asked, False))


def draws(row: Any) -> bool:
    """Whether a row may draw random numbers: such a step is never dropped."""
    if row.kind not in ("op", "view"):
        return bool(row.kind == "draw")
    file = getattr(getattr(row.kernel, "__code__", None), "co_filename", "") if hasattr(row, "kernel") else ""
    return file.endswith(("dropout.py", "random.py", "random_sample.py", "random_fill.py")) or not file


_EMPTY = np.zeros(16, np.uint8)


def hollow(slot: Slot) -> np.ndarray:
    """An array of the shape and dtype of a value that was not kept; nobody may read it."""
    return np.ndarray(slot.shape, slot.np, _EMPTY, 0, (0,) * len(slot.shape))


def stand_in(program: Program, a: Any) -> Any:
    """A tensor of the dtype and rank of a value, for questions of promotion."""
    if isinstance(a, Ref):
        s = program.slots[a.slot]
        t = new()
        t.a, t.k, t.n, t.v = np.empty((0,) if s.shape else (), s.np), s.k, None, None
        return t
    return [stand_in(program, x) for x in a] if isinstance(a, list) else a


class _GraphNode(tape.Node):
    """The one node of a program on the tape. ``s`` holds the program, what it kept and the tensors to check for writes."""

    __slots__ = ()
    label = "CompiledFunctionBackward"

    def apply(self, g: Any) -> Any:
        """Gradients of the program's inputs."""
        if self.s is None:
            tape.freed()
        program = self.s[0]
        gs = list(g) if self.nout > 1 else [g]
        if program.own is not None:
            return program.own(self, gs)
        if modes.state.grad:
            self.check(None)
            return program.gradients(self, gs, True)
        return backward(program, self, gs)

    def check(self, read: Any) -> None:
        """RuntimeError when something the backward pass reads (None: anything kept) was written to since."""
        for t, i in self.s[2]:
            if t.v is not None and t.v.stamp > self.q and (read is None or i in read):
                tape.stale(self, t.v, tape.type_name(t.k.dtype), t.a.shape)


_NODES: dict[int, type] = {}


def node_for(nout: int) -> type:
    """The node class for programs with ``nout`` outputs that need gradients."""
    cls = _NODES.get(nout)
    if cls is None:
        cls = _NODES[nout] = type("CompiledFunctionBackward", (_GraphNode,), {"__slots__": (), "nout": nout})
    return cls


def attach(program: Program, outs: Sequence[Tensor], kept: Sequence[np.ndarray], given: Sequence[Tensor]) -> None:
    """Hang the outputs that need gradients on a node whose edges are those of the given tensors."""
    for i, text in program.dead.items():
        outs[i].n = tape.new_node(Dead, (), (text,))
    live = [t for t, need in zip(outs, program.trained) if need]
    if not live:
        return
    node = object.__new__(node_for(len(live)))
    node.e = tuple([given[j].n for j in program.wanted])
    for e in node.e:
        if e.__class__ is Lost:
            e.refuse()
    checked = [(given[j], i) for j, i in program.kept_given]
    for t, i in program.kept_results:
        outs[t].v = Cell(outs[t].a)
        checked.append((outs[t], i))
    node.s = (program, kept, checked)
    node.q = tape.STAMP()
    if len(live) > 1:
        for i, t in enumerate(live):
            t.n = Out(node, i)
    else:
        live[0].n = node


def backward(program: Program, node: Any, gs: list[Any]) -> Sequence[Any]:
    """Run the backward program for gradients of this form; the first time, derive it."""
    key = tuple([None if g is None else (g.k, g.a.strides) for g in gs])
    plan = program.plans.get(key)
    if plan is None:
        if any(g is not None and (not g.k.plain or g.a.__class__ is not np.ndarray or type(g) is not Tensor) for g in gs):
            return program.gradients(node, gs, False)
        plan, grads = derive(program, node, gs)
        program.plans[key] = plan
        node.check(plan.read if plan else None)
        return grads
    if plan is False:
        node.check(None)
        return program.gradients(node, gs, False)
    if node.s[2]:
        node.check(plan.read)
    return plan(node.s[1], gs)


def derive(program: Program, node: Any, gs: list[Any]) -> tuple[Any, list[Any]]:
    """Walk the tape once under a recorder: (the plan, or False when it cannot be one; the gradients)."""
    from mindtorch.graph import backends
    from mindtorch.graph.capture import Recorder, recording
    from mindtorch.graph.watch import Watch

    watch = Watch(trusted=True)
    kept = node.s[1]
    known = [wrap(a) for a in kept] + [g for g in gs if g is not None]
    rec = Recorder(watch, known)
    with recording(watch, rec):
        grads = program.gradients(node, gs, False)
        rec.close()
    constants = {id(s.a) for s in program.slots if s.a is not None}
    slots = []
    for i, (a, kind) in enumerate(zip(rec.arrays, rec.kinds)):
        t = rec.tensors[i]
        if kind == "free" and id(a) in constants:
            kind = "const"
        if kind == "free":
            watch.refuse("the backward pass reads a value of unknown origin", None)
        slots.append(Slot(a, t.k if t is not None else None, kind, rec.roots[i]))
    results = [None if g is None else rec.index.get(id(g.a)) for g in grads]
    if any(r is None and g is not None for r, g in zip(results, grads)):
        watch.refuse("a gradient has an unknown origin", None)
    program.notes = watch.reasons
    if watch.reasons or rec.written:
        return False, grads
    inputs = [rec.index[id(t.a)] for t in known]
    sub = Program(rec.steps, slots, inputs, [r for r in results if r is not None])
    read = {i for s in sub.steps for i in s.reads()}
    plan = backends.backward_plan(sub, results, len(kept), gs, program)
    plan.read = frozenset(i for i, t in zip(program.kept, known) if rec.index[id(t.a)] in read)  # type: ignore[attr-defined]
    return plan, grads
