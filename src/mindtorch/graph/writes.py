"""The part of the recorder that sees memory written to: in-place operations, gradients of leaves, optimisers.

A program works on memory as the eager function does: a write is a step that writes to the same array, of which other values
may be views. Only a value that nothing else sees takes a new number instead, which saves the copy.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from mindtorch.core.tensor import Leaf, Tensor, wrap
from mindtorch.engine.host.quiet import quiet
from mindtorch.graph import effects, readings
from mindtorch.graph.program import Ref, Step
from mindtorch.ops import convert

RAW = frozenset(("_update_now", "copy_", "fill_", "zero_", "setitem"))
"""Functions, shown as a whole, that may write to the memory of their first argument without a row."""


READERS = frozenset((convert.item.__code__, convert._scalar(float).__code__))


class Writes:
    """Mixed into ``Recorder``."""

    # state of the recorder, made there
    thread: int
    index: dict[int, int]
    arrays: list[np.ndarray]
    tensors: list[Tensor | None]
    kinds: list[str]
    edges: list[Any]
    versions: list[int]
    roots: list[int]
    steps: list[Step]
    written: list[int]
    initial: dict[int, np.ndarray]
    touched: set[int]
    grads: dict[int, tuple[Tensor, Any]]
    writes: int
    suspended: int
    pending: Step
    own: str | None
    watch: Any
    add: Any
    slot: Any
    refuse: Any
    step: Any
    constant: Any
    reads: list[readings.Reading]
    splits: list[tuple[str, str]]
    finished: bool
    position: bytes
    draws: bool
    _stream: Any

    # ------------------------------------------------------------------------------------------ memory
    def _mine(self) -> bool:
        return not self.suspended and threading.get_ident() == self.thread

    def write(self, x: Tensor, step: Step) -> None:
        """Append a step that writes to the memory of ``x``, which has just been done."""
        i = self.index[id(x.a)]
        root = self.roots[i]
        if self.kinds[root] in ("free", "input"):
            self.written.append(root)
        else:
            self.touched.add(root)
        self.step(step)
        self.writes += 1
        self.refresh(root, x)

    def refresh(self, root: int, x: Tensor | None = None) -> None:
        """The version counts of a memory after a write that was recorded."""
        for k, (r, t) in enumerate(zip(self.roots, self.tensors)):
            if t is not None and (r == root or (x is not None and x.v is not None and t.v is x.v)):
                self.versions[k] = 0 if t.v is None else t.v.ver

    def raw_write(self, row: Any, args: Any) -> None:
        """A whole function that wrote straight to memory."""
        if row.name not in RAW:
            return  # plain Python around rows, which were seen
        x = args[0]
        i = self.slot_of_written(x)
        if row.name == "_update_now":
            self.write(x, Step(effects.UPDATE, (Ref(i), Ref(self.slot(args[1])), float(args[2])), (), (), None))
        elif row.name == "copy_":
            self.write(x, Step(effects.WRITE, (Ref(i), Ref(self.slot(args[1]))), (), (), None))
        elif row.name in ("fill_", "zero_"):
            self.write(x, Step(effects.WRITE, (Ref(i), Ref(self._filling(x, args[1]))), (), (), None))
        else:
            self._setitem(x, i, args[1], args[2])

    def slot_of_written(self, x: Tensor) -> int:
        """Number of a tensor that has been written to since it was looked at."""
        i = self.index.get(id(x.a))
        if i is None:
            i = self.add(x, "free")
        return i

    def _filling(self, x: Tensor, value: Any) -> int:
        if isinstance(value, Tensor):
            return self.slot(value)
        with quiet():
            return self.constant(np.asarray(value).astype(x.a.dtype))

    def _setitem(self, x: Tensor, i: int, index: Any, value: Any) -> None:
        from mindtorch.ops import subscript

        items = index if isinstance(index, tuple) else (index,)
        places = [n for n, e in enumerate(items) if isinstance(e, Tensor)]
        if isinstance(value, np.ndarray) or any(isinstance(e, np.ndarray) for e in items):
            self.refuse("setitem copies values from outside")
            return
        if any(isinstance(e, (list, tuple)) and any(isinstance(q, Tensor) for q in e) for e in items):
            self.refuse("setitem has tensors in a list as an index")
            return
        v = Ref(self._filling(x, value))
        if places:
            row = effects.put_at(tuple(None if n in places else e for n, e in enumerate(items)), places)
            args = (Ref(i), v, *[Ref(self.slot(items[n])) for n in places])
        else:
            row, args = effects.put(subscript.normalise(x, index)[0]), (Ref(i), v)
        self.write(x, Step(row, args, (), (), None))

    # ------------------------------------------------------------------------------------------ in-place twins
    def _alone(self, i: int) -> bool:
        """Whether nothing else sees this memory."""
        return self.kinds[i] == "value" and self.roots[i] == i and self.roots.count(i) == 1 and i not in self.touched

    def shadowed(self, shadow: Tensor, x: Tensor) -> None:
        """``shadow`` stands for ``x`` in the operation whose result is about to be written over ``x``."""
        if not self._mine():
            return
        i = self.slot(x)
        if shadow.a is x.a:
            return
        if self._alone(i):
            self.index[id(shadow.a)] = i
            self.watch.held.append(shadow)  # its identity is in the index
            return
        j = self.add(shadow, "value")
        self.step(Step(effects.COPY, (Ref(i),), (j,), (False,), None))

    def wrote(self, x: Tensor, r: Tensor) -> None:
        """The value of ``r`` now is that of ``x``."""
        if not self._mine():
            return
        i, j = self.index.get(id(x.a)), self.index.get(id(r.a))
        if i is None or j is None:
            self.refuse("an in-place write of something unknown")
            return
        if self.kinds[self.roots[i]] in ("input", "free") and x.n.__class__ not in (Leaf, type(None)):
            self.refuse("an in-place operation gives a tensor from outside another history")
        if self._alone(i) and self._alone(j) and self.arrays[j].dtype == x.a.dtype and self.arrays[j].strides == x.a.strides:
            # From here on the name stands for the new value.
            self.watch.held.append(r)
            self.index[id(x.a)] = j
            if x.n is not r.n:
                self.own = "an in-place operation changed what requires a gradient"
            self.edges[j], self.versions[j], self.tensors[j] = x.n, 0 if x.v is None else x.v.ver, x
            self.writes += 1
            return
        if x.n is not None or r.n is not None:
            self.own = "an in-place operation on memory that is seen elsewhere, with gradients"
        self.edges[i] = x.n if self.kinds[i] not in ("input", "free") else self.edges[i]
        self.write(x, Step(effects.WRITE, (Ref(i), Ref(j)), (), (), None))

    # ------------------------------------------------------------------------------------------ gradients
    def walking(self) -> None:
        """A backward pass begins inside the function."""
        if not self.watch.trusted:
            self.own = "a backward pass runs inside the function"

    def _outside(self, t: Tensor, what: str) -> int | None:
        i = self.index.get(id(t.a))
        if i is None:
            i = self.slot(t)
        if self.kinds[i] not in ("input", "free") or self.tensors[i] is not t:
            self.refuse(f"the gradient of a tensor made inside the function is {what}")
            return None
        return i

    def stored(self, leaf: Any, g: Tensor) -> None:
        """A backward pass added ``g`` to the gradient of a leaf."""
        if not self._mine():
            return
        t = leaf.ref()
        if leaf.__dict__:
            self.refuse("hooks are registered on a parameter")
        if leaf.grad is not None and leaf.grad.n is not None:
            self.refuse("gradients with a history are accumulated")
        i = self._outside(t, "accumulated")
        if i is None:
            return
        self.grads.setdefault(id(t), (t, None))
        self.step(Step(effects.STORE, (Ref(i), Ref(self.slot(g))), (), (), None))
        self.writes += 1
        at = self.index.get(id(leaf.grad.a))
        if at is not None:
            self.refresh(self.roots[at])

    def read_grad(self, t: Tensor) -> None:
        """The function's Python takes ``t.grad``."""
        if not self._mine():
            return
        if t.n.__class__ is not Leaf:
            self.refuse("grad of a tensor that is no leaf is read")
            return
        i = self._outside(t, "read")
        if i is None:
            return
        g = t.grad
        self.grads.setdefault(id(t), (t, (g,)))
        if g is None:
            return
        j = self.add(g, "value")
        self.touched.add(j)  # it lives outside: a write to it is a write
        self.step(Step(effects.GRAD, (Ref(i),), (j,), (False,), None))

    def set_grad(self, t: Tensor, value: Any) -> None:
        """The function's Python sets ``t.grad``."""
        if not self._mine():
            return
        i = self._outside(t, "set") if t.n.__class__ is Leaf else None
        if i is None:
            self.refuse("grad of a tensor that is no leaf is set")
            return
        self.grads.setdefault(id(t), (t, None))
        more = () if value is None else (Ref(self.slot(value)),)
        self.step(Step(effects.SET_GRAD, (Ref(i), *more), (), (), None))
        self.writes += 1

    # ------------------------------------------------------------------------------------------ values that Python reads
    def decide(self, t: Tensor, how: str, ask: Any, answer: Any) -> None:
        """Python goes on by a value: the program asks again."""
        if not self._mine() or self.finished:
            return
        why = "decides by a value" if answer.__class__ is bool else "uses a value"
        if self.watch.strict:
            self.refuse(f"{how} {why}")
        if any(s.row.kind == "effect" and not s.row.name.endswith(".zero_grad") and s.row is not effects.GRAD for s in self.steps):
            self.refuse(f"{how} {why} after gradients or parameters were changed")
        self.step(Step(readings.Decide(f"if_{how}", ask, answer), (Ref(self.slot(t)),), (), (), None))
        site = self.steps[-1].site
        split = (f"{how} {why}: {readings.OUTCOMES}", f"{site[0]}:{site[1]}" if site is not None else "the call")
        if split not in self.splits:
            self.splits.append(split)

    def read(self, t: Tensor, value: Any) -> Any:
        """``item()`` was called."""
        inside = self.watch.inside
        if not self._mine() or self.watch.trusted or inside is None or inside.f_code not in READERS:
            return value
        if inside.f_locals.get("kind") is int:
            return value  # decided on already
        i = self.slot(t)
        if value.__class__ is not float:
            self.decide(t, "item", readings.number, value)
            return value
        got = readings.Reading(value)
        got.recorder, got.tensor = self, wrap(t.a.copy())
        j = self.add(got.tensor, "value")
        self.step(Step(effects.COPY, (Ref(i),), (j,), (False,), None))
        self.reads.append(got)
        return got

    # ------------------------------------------------------------------------------------------ random numbers
    def drew(self, call: dict[str, Any], out: Any) -> None:
        """A function of ``torch.rand``'s kind was called: it draws again in each run."""
        fn, kwargs = call.get("fn") or call["full"], call["kwargs"]
        args = call["args"] if "args" in call else call["size"]
        what = fn.__name__
        if any(kwargs.get(k) for k in ("generator", "out", "requires_grad")):
            self.refuse(f"{what} with a generator, out= or requires_grad=True")
            return
        like = [wrap(np.empty_like(a.a)) if isinstance(a, Tensor) else a for a in args]
        self.position = self._stream()
        self.draws = True
        j = self.add(out, "value")
        draw = effects.Draw(what, lambda: fn(*like, **kwargs).a)
        self.step(Step(draw, (), (j,), (False,), None))

    # ------------------------------------------------------------------------------------------ optimisers
    def begin(self, effect: effects.Effect, params: list[Tensor]) -> None:
        """A call begins that becomes one step; what it does inside is its own."""
        for p in params:
            self.grads.setdefault(id(p), (p, None))
        known = [self.index[id(p.a)] for p in params if id(p.a) in self.index]
        self.pending = Step(effect, tuple(Ref(i) for i in known), (), (), None)
        self.suspended += 1

    def end(self) -> None:
        """The call is over: it may have written to everything it knows."""
        self.suspended -= 1
        self.step(self.pending)
        self.writes += 1
        for i, t in enumerate(self.tensors):
            if t is None:
                continue
            if t.a is not self.arrays[i] and self.index.get(id(self.arrays[i])) == i and self.kinds[i] in ("input", "free"):
                self.refuse("an optimiser put other memory in a parameter's place")
            self.versions[i] = 0 if t.v is None else t.v.ver
