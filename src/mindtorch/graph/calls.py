"""Calls of captured functions: what specialises them, how results are put together, when the eager function runs instead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from mindtorch.core import autocast, modes
from mindtorch.core import dtype as D
from mindtorch.core.generator import default_generator
from mindtorch.core.tensor import Leaf, Tensor, cell_of, new
from mindtorch.graph import backends, derivative, effects
from mindtorch.graph.capture import Recorder, plain
from mindtorch.graph.guards import Guards, Unwatched, alike
from mindtorch.graph.program import Program, Ref, Slot, Step, attach, draws
from mindtorch.graph.readings import Diverged, Reading, number
from mindtorch.graph.watch import Watch, global_names, keeps_state


class _State(threading.local):
    capturing = False


state = _State()


class NotCaptured(Exception):
    """Why a run did not become a program."""


# ------------------------------------------------------------------------------------------ what specialises
def sign(args: tuple[Any, ...], kwargs: dict[str, Any], objects: list[Any]) -> tuple[tuple[Any, ...], list[Tensor]]:
    """(key of the call: everything about the arguments that a program depends on, the tensors among them)."""
    tensors: list[Tensor] = []
    seen: dict[int, int] = {}

    def part(v: Any) -> Any:
        if isinstance(v, Tensor):
            a = v.a
            first = seen.setdefault(id(a), len(tensors))
            tensors.append(v)
            return (v.__class__, v.k, a.shape, a.strides, v.n is not None, first)
        c = v.__class__
        if c is int or c is str or c is bool or v is None:
            return (c, v)
        if c is list or c is tuple:
            return (c, *[part(e) for e in v])
        if c is dict:
            return (c, *[(k, part(e)) for k, e in v.items()])
        if plain(v) and not isinstance(v, (list, tuple, dict, slice)):
            return (c, repr(v))
        objects.append(v)
        return (c, id(v))

    key = [part(v) for v in args]
    if kwargs:
        key.append(("kwargs", *[(k, part(v)) for k, v in kwargs.items()]))
    cast = (autocast.state.dtype, autocast.state.cache) if autocast.state.enabled else None
    return (modes.state.grad, D.get_default_dtype(), cast, *key), tensors


# ------------------------------------------------------------------------------------------ results
class Results:
    """Takes a function's result apart into numbered values and puts it together again."""

    def __init__(self, rec: Recorder, given: list[Tensor]) -> None:
        self.rec, self.given = rec, given
        self.slots: list[int] = []
        self.known: dict[int, int] = {}
        self.whole: dict[int, Tensor] = {}

    def take(self, v: Any) -> Any:
        """Recipe of one part of the result."""
        if isinstance(v, Tensor):
            return self._tensor(v)
        if isinstance(v, Reading):
            return self._reading(v) if v.recorder is not None else ("const", v.use())
        if v.__class__ is str and self.rec.reads:
            raise NotCaptured("a text that may hold a value that was read is given back")
        if isinstance(v, tuple) and hasattr(v, "_fields") or v.__class__ in (list, tuple):
            return ("seq", v.__class__, [self.take(e) for e in v])
        if v.__class__ is dict:
            return ("dict", list(v), [self.take(e) for e in v.values()])
        if plain(v) and not isinstance(v, slice):
            return ("const", v)
        raise NotCaptured(f"a result of type {type(v).__name__} cannot be made without running the function")

    def _reading(self, v: Reading) -> Any:
        """A number that was read and is given back: its tensor is a result of the program, of which nobody sees more."""
        kind, i = self._tensor(v.tensor)
        return ("read" if kind == "slot" else kind, i)

    def _tensor(self, t: Tensor) -> Any:
        for j, g in enumerate(self.given):
            if g is t:
                return ("given", j)
        i = self.rec.slot(t)
        if self.whole.get(i, t) is not t:
            raise NotCaptured("two results share memory")
        if i in self.known:
            return ("slot", self.known[i])
        root = self.rec.roots[i]
        if self.rec.kinds[root] not in ("value", "const"):
            raise NotCaptured("a result is a view of an argument or parameter")
        if any(self.rec.roots[k] == root for k in self.slots):
            raise NotCaptured("two results share memory")
        if t.n.__class__ is Leaf and self.rec.kinds[i] in ("const", "value"):
            raise NotCaptured("a result is a new leaf")
        self.whole[i] = t
        self.known[i] = len(self.slots)
        self.slots.append(i)
        return ("slot", self.known[i])


def build(recipe: Any, outs: list[Tensor], given: list[Tensor]) -> Any:
    """The result from its recipe."""
    kind = recipe[0]
    if kind == "slot":
        return outs[recipe[1]]
    if kind == "read":
        return number(outs[recipe[1]].a)
    if kind == "given":
        return given[recipe[1]]
    if kind == "const":
        return recipe[1]
    if kind == "dict":
        return {k: build(r, outs, given) for k, r in zip(recipe[1], recipe[2])}
    parts = [build(r, outs, given) for r in recipe[2]]
    cls = recipe[1]
    return parts if cls is list else tuple(parts) if cls is tuple else cls(*parts)


# ------------------------------------------------------------------------------------------ one specialisation
class Undo:
    """Takes back what a program did before a value led elsewhere: memory of outside at ``places``, the random stream."""

    def __init__(self, places: list[int], draws: bool) -> None:
        self.places, self.draws = places, draws
        self.saved: list[tuple[Any, Any]] = []
        self.stream: bytes | None = None

    def take(self, given: list[Tensor]) -> Undo:
        """Remember how things are."""
        self.saved = [(given[j].a, given[j].a.copy()) for j in self.places]
        self.stream = bytes(default_generator.stream.state()) if self.draws else None
        return self

    def back(self) -> None:
        """Make them so again."""
        for a, old in self.saved:
            a[...] = old
        if self.stream is not None:
            default_generator.stream.restore(self.stream)


def undo_for(program: Program) -> Undo | None:
    """What has to be remembered for the program's decisions; None when it takes none."""
    last = max((n for n, s in enumerate(program.steps) if s.row.kind == "decide"), default=None)
    if last is None:
        return None
    before = program.steps[:last]
    roots = {program.slots[s.args[0].slot].root for s in before if s.row.kind == "write"}
    return Undo([j for j, i in enumerate(program.given) if i in roots], any(draws(s.row) for s in before))


class Entry:
    """One program with its guards and the recipe of its result."""

    def __init__(self, program: Program, guard: Callable[[], Any], recipe: Any, written: list[int], ninputs: list[int]) -> None:
        self.program, self.guard, self.recipe = program, guard, recipe
        self.written, self.inputs = written, ninputs
        self.trained = any(program.trained)
        self.run = backends.host(program, self.trained)
        self.runs = {"host": self.run}
        self.keys = [program.slots[i].k for i in program.results]
        self.single = recipe == ("slot", 0)
        self.backend = "host"
        self.times: dict[str, list[float]] = {"eager": [], "host": []}
        self.chosen: str | None = None
        self.notes: list[str] = []
        self.undo = undo_for(program)
        if program.why is not None:
            self.notes.append(program.why)

    def compile_mindspore(self) -> bool:
        """Compile with ms.jit. False, with a note, when that cannot be."""
        from mindtorch.graph import jitted

        try:
            run, notes = jitted.compiled(self.program, self.trained)
        except Exception as e:  # whatever MindSpore cannot compile, the host kernels compute
            self.notes.append(f"not compiled by MindSpore: {str(e)[:300] or type(e).__name__}")
            return False
        self.notes += notes
        self.runs["mindspore"] = run
        return True

    def on(self, backend: str) -> None:
        """Run the forward pass on "host" or on what was compiled by "mindspore"."""
        self.run, self.backend = self.runs[backend], backend

    def use(self, backend: str) -> None:
        """Let the backward pass follow, when it is derived anew."""
        self.on(backend)
        if self.program.mindspore != (backend == "mindspore"):
            self.program.mindspore = backend == "mindspore"
            self.program.measured = bool(self.times["host"])
            self.program.plans.clear()
            if self.program.own is not None and self.program.mindspore:
                self.program.said.append("backward pass: on the host: it was recorded from the tape")

    def __call__(self, given: list[Tensor]) -> Any:
        raw = [t.a for t in given]
        undo = None if self.undo is None else self.undo.take(given)
        try:
            arrays, kept = self.run(raw, given) if self.program.effects else self.run(raw)
        except Diverged:
            undo.back()
            raise
        outs = []
        for a, k in zip(arrays, self.keys):
            t = new()
            t.a, t.k, t.n, t.v = a, k, None, None
            outs.append(t)
        if self.written:
            for j in self.written:
                cell_of(given[j]).bump()
        if self.trained or self.program.dead:
            attach(self.program, outs, kept, given)
        return outs[0] if self.single else build(self.recipe, outs, given)


def containers(v: Any, found: set[int]) -> set[int]:
    """Identities of the containers among arguments."""
    if isinstance(v, (list, tuple, dict, set)):
        found.add(id(v))
        for e in v.values() if isinstance(v, dict) else v:
            containers(e, found)
    return found


def entry_from(
    rec: Recorder, watch: Watch, tensors: list[Tensor], roots: list[Any], result: Any, args: tuple[Any, Any],
    history: tuple[Any, dict[int, str], list[Tensor]] | None,
) -> Entry:  # fmt: skip
    """A specialisation from what was recorded; ``history`` is the derivative that :func:`own_history` recorded.

    NotCaptured when it would not be sound.
    """
    if watch.reasons:
        raise NotCaptured("")
    guards = _guards(watch, roots)
    for owner, name, _ in watch.mutated:
        if id(owner) in guards.containers or id(owner) in containers(args, set()):
            raise NotCaptured(f"{name} changes a container that outlives the call")
    inputs = [n for n, t in enumerate(tensors) if rec.index.get(id(t.a)) is not None]
    inputs = [n for n in inputs if all(tensors[m].a is not tensors[n].a for m in range(n))]
    places = _places(guards, rec, {id(tensors[n].a) for n in inputs})
    free = [i for i, k in enumerate(rec.kinds) if k == "free"]
    for i in free:
        if id(rec.arrays[i]) not in places:
            raise NotCaptured("a tensor is used that comes from neither the arguments nor known state")
    states = [places[id(rec.arrays[i])] for i in free]
    given = [tensors[n] for n in inputs] + [t for t, _ in states]
    for n, i in enumerate([rec.index[id(t.a)] for t in given]):
        if rec.tensors[i] is not given[n] and any(r.slot == i for s in rec.steps if s.row.kind == "effect" for r in s.args[:1]):
            raise NotCaptured("a tensor with a gradient shares its memory object with another")
    _grad_guards(guards, rec, {id(t): name for t, name in states})
    results = Results(rec, given)
    recipe = results.take(result)
    if watch.reasons:
        raise NotCaptured("")
    program = _program(rec, results, given, history)
    used = [n for _, n in states]
    numbers = program.given
    return Entry(program, guards.compile(used), recipe, [numbers.index(i) for i in rec.written], inputs)


def _program(rec: Recorder, results: Results, given: list[Tensor], history: Any) -> Program:
    steps = rec.steps
    kinds = list(rec.kinds)
    slots = []
    for i, (a, t, r) in enumerate(zip(rec.arrays, rec.tensors, rec.roots)):
        kind = "state" if kinds[i] == "free" else kinds[i]
        slots.append(Slot(rec.initial.get(i, a), None if t is None else t.k, kind, r))
    for i in sorted(rec.touched):
        if kinds[i] == "const":  # written to in each run: each begins with a copy
            slots.append(Slot(rec.initial[i], slots[i].k, "const", len(slots)))
            steps.insert(0, Step(effects.COPY, (Ref(len(slots) - 1),), (i,), (False,), None))
            slots[i].kind, slots[i].a = "value", None
    if history is not None:
        for s in steps:
            s.rec = (False,) * len(s.rec)
    _own_gradients(steps, slots, set(results.slots))
    program = Program(steps, slots, [rec.index[id(t.a)] for t in given], results.slots)
    live = [results.whole[i].n is not None for i in results.slots]
    if history is None:
        program.train(live, [t.n is not None for t in given])
        return program
    own, dead, tensors = history
    lost = {id(tensors[at]): text for at, text in dead.items()}
    whole = [results.whole[i] for i in results.slots]
    program.dead = {n: lost[id(t)] for n, t in enumerate(whole) if id(t) in lost}
    if own is not None:
        _trained(program, own, [id(t) for at, t in enumerate(tensors) if at not in dead], whole, rec.own or "writes")
    return program


def _trained(program: Program, own: Any, alive: list[int], whole: list[Tensor], why: str) -> None:
    """Let the results that gradients flow to receive them in the order in which the derivative takes them."""
    order = [next((n for n, t in enumerate(whole) if id(t) == i), -1) for i in alive]
    if -1 in order or order != sorted(order):
        raise NotCaptured("a result with a history of its own is given back in a way that is not known")
    program.trained = [n in order for n in range(len(whole))]
    program.wanted = [j for j, i in enumerate(program.given) if i in own.grads]
    program.own = derivative.plan(program, own, program.slots)
    program.why = f"the derivative was recorded at the capture ({why}), and there is no second one"


def own_history(rec: Recorder, watch: Watch, out: Any) -> tuple[Any, dict[int, str], list[Tensor]] | None:
    """The derivative recorded from the tape, where the rows' nodes could not be made again later; None where they can."""
    watch.paused = True
    rec.close()
    if watch.reasons:
        return None
    live = derivative.results_of(out, [])
    if rec.own is None and not (live and _writes_matter(rec)):
        return None
    if not live:
        return None, {}, []
    watch.paused = False
    return (*derivative.record(rec, watch, live), live)


def _writes_matter(rec: Recorder) -> bool:
    """Whether memory from outside is written to that gradients are computed from."""
    written = set(rec.written)
    return any(written & {rec.roots[i] for i in s.reads()} for s in rec.steps if any(s.rec))


def _own_gradients(steps: list[Step], slots: list[Slot], results: set[int]) -> None:
    """Mark which gradients a leaf may take over as they are: memory that nothing else of the program sees."""
    shared: dict[int, int] = {}
    for s in slots:
        shared[s.root] = shared.get(s.root, 0) + 1
    last = {i: n for n, s in enumerate(steps) for i in s.reads()}
    for n, s in enumerate(steps):
        if s.row is effects.STORE:
            i = s.args[1].slot
            owned = slots[i].kind == "value" and slots[i].root == i and shared[i] == 1 and last[i] == n and i not in results
            s.args = (*s.args[:2], owned)


def _grad_guards(guards: Guards, rec: Recorder, names: dict[int, str]) -> None:
    """What the function found in ``grad`` before it changed it there."""
    for t, first in rec.grads.values():
        if first is None:
            continue
        if id(t) not in names:
            raise NotCaptured("grad of an argument is read")
        g, name = first[0], names[id(t)]
        if g is None:
            guards.test(f"{name}.n.grad is not None")
        else:
            guards.lines.append(f"g_{name} = {name}.n.grad")
            guards.test(f"g_{name} is None or {alike(f'g_{name}', g, guards.const)}")


def _guards(watch: Watch, roots: list[Any]) -> Guards:
    from mindtorch.torch.nn.modules import _hooks

    names: set[str] = set()
    own: set[str] = set()
    for code in watch.frames:
        here = {*code.co_names, *[n for c in code.co_consts for n in getattr(c, "co_names", ())]}  # inner functions too
        names |= here
        if keeps_state(code):
            own |= here
    hooked = _hooks.HOOKED
    g = Guards(names, hooked, own)
    h = g.const(_hooks)
    g.test(f"{h}.HOOKED is not {hooked}" + (f" or {h}._has_any_global_hook()" if hooked else ""))
    if hooked and _hooks._has_any_global_hook():
        raise NotCaptured("hooks for every module are registered")
    try:
        for v in roots:
            g._once(v, g.const(v), getattr(v, "__name__", type(v).__name__))
        for code, (scope, cells) in watch.frames.items():
            if "mindtorch" in str(scope.get("__name__", "")).split(".")[0]:
                continue
            d = g.const(scope)
            for n in sorted(global_names(code) & set(scope)):
                g.walk(scope[n], f"{d}[{n!r}]", n)
            for n, v in cells.items():
                _cell(g, n, v)
    except Unwatched as e:
        raise NotCaptured(str(e)) from None
    return g


def _cell(g: Guards, name: str, v: Any) -> None:
    """A closure variable of a frame: found through its function when that was reached, else it must be constant."""
    if id(v) in g.seen or isinstance(v, Tensor) or v is None or isinstance(v, (bool, int, float, str)):
        return
    g._once(v, g.const(v), name)


def _places(guards: Guards, rec: Recorder, inputs: set[int]) -> dict[int, tuple[Tensor, str]]:
    """Where the state's tensors are: id of array -> (tensor, name in the guard). One tensor in two places stays one."""
    places: dict[int, tuple[Tensor, str]] = {}
    for t, name, what in guards.tensors:
        known = places.get(id(t.a))
        if id(t.a) in inputs and id(t.a) in rec.index:
            raise NotCaptured(f"an argument is also part of the state ({what})")
        if known is None:
            places[id(t.a)] = (t, name)
        else:
            guards.test(f"{name} is not {known[1]}")
    return places
