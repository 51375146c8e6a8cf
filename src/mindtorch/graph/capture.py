"""Records a straight-line program of rows over numbered values while a function runs eagerly."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from mindtorch.core import codegen, dispatch, modes, observe
from mindtorch.core import dtype as D
from mindtorch.core.generator import default_generator
from mindtorch.core.tensor import Parameter, Tensor, wrap
from mindtorch.graph.effects import ALIAS
from mindtorch.graph.program import Memory, Ref, Step
from mindtorch.graph.readings import Reading, use_all
from mindtorch.graph.watch import Watch, place
from mindtorch.graph.writes import RAW, Writes

_VARYING = frozenset(
    "nonzero masked_select unique unique_consecutive bincount repeat_interleave argwhere _unique histc combinations".split()
)
"""Rows whose result has a shape that depends on values."""
_PLAIN = (int, float, bool, str, complex, type(None), slice, type(Ellipsis), D.dtype)


def _direct(row: Any, values: list[Any]) -> Any:
    """The ufunc that the fast path of ``row`` calls for these arguments, None when that is the kernel."""
    direct = codegen._direct(row)
    if direct is None:
        return None
    scope = {p.name: v for p, v in zip(row.params, values)}
    return direct[0] if not direct[1] or eval(direct[1], dict(modes.NS), scope) else None


def plain(v: Any) -> bool:
    """Whether an argument is a constant of the program."""
    if isinstance(v, (tuple, list)):
        return all(plain(e) for e in v)
    if isinstance(v, dict):
        return all(plain(e) for e in v.values())
    return isinstance(v, _PLAIN) and not isinstance(v, np.generic) or type(v).__module__ == "mindtorch.core.device"


class Recorder(Writes):
    """Observer that writes down rows. ``inputs`` are the tensors the program is given; others must be found later."""

    def __init__(self, watch: Watch, inputs: list[Tensor]) -> None:
        self.watch = watch
        self.thread = threading.get_ident()
        self.index: dict[int, int] = {}
        self.arrays: list[np.ndarray] = []
        self.tensors: list[Tensor | None] = []
        self.kinds: list[str] = []
        self.edges: list[Any] = []
        self.versions: list[int] = []
        self.roots: list[int] = []
        self.steps: list[Step] = []
        self.initial: dict[int, np.ndarray] = {}
        self.written: list[int] = []
        self.writes = 0
        self.without: dict[int, int] = {}
        self.own: str | None = None
        self.suspended = 0
        self.reads: list[Reading] = []
        self.splits: list[tuple[str, str]] = []
        self.finished = False
        self.grads: dict[int, tuple[Tensor, Any]] = {}
        self.touched: set[int] = set()
        self.draws = False
        self.position = self._stream()
        self.start = self.position
        for t in inputs:
            if id(t.a) in self.index:
                continue  # the same memory given twice is one value
            self.add(t, "input")

    # ------------------------------------------------------------------------------------------ values
    def add(self, t: Tensor, kind: str) -> int:
        """Number a tensor's array."""
        slot = len(self.arrays)
        self.index[id(t.a)] = slot
        self.arrays.append(t.a)
        self.tensors.append(t)
        self.kinds.append(kind)
        self.edges.append(t.n)
        self.versions.append(0 if t.v is None else t.v.ver)
        self.roots.append(slot)
        if kind == "const":
            if self.versions[slot]:
                self.refuse("a new tensor was written to outside of known operations")
            self.initial[slot] = t.a.copy()
        return slot

    def bare(self, t: Tensor, i: int) -> int:
        """The same memory without history: a value of its own."""
        j = self.without.get(i)
        if j is None:
            j = self.without[i] = self.add(t, "value")
            self.index[id(t.a)] = i
            self.roots[j] = self.roots[i]
            self.step(Step(ALIAS, (Ref(i),), (j,), (False,), None))
        return j

    def constant(self, a: np.ndarray) -> int:
        """Number a constant of the program."""
        return self.add(wrap(a), "const")

    def slot(self, t: Tensor) -> int:
        """Number of the value ``t`` holds; tensors never seen are free: a constant or something that lives outside."""
        if type(t) is not Tensor and type(t) is not Parameter:
            self.refuse(f"{type(t).__name__} is a subclass of Tensor")
        if t.k.device.type != "cpu" or t.a.__class__ is not np.ndarray:
            self.refuse(f"a tensor on {t.k.device} is not for the graph")
        elif not t.k.plain and not t.k.loose:
            self.refuse(f"a tensor of dtype {t.k.dtype} (conj or neg) is not for the graph")
        i = self.index.get(id(t.a))
        if i is None:
            return self.add(t, "const" if id(t.a) in self.watch.created else "free")
        if t.n is not self.edges[i] and not self.watch.trusted:
            self.own = "memory is used with another history than it was made with"
        known = self.tensors[i]
        if known is not None and known.n is None and t.n is not None and self.kinds[i] in ("input", "free"):
            self.tensors[i], self.edges[i], self.versions[i] = t, t.n, 0 if t.v is None else t.v.ver
            self.own = "memory is used with its history after it was without"
            return i
        if t.n is None and self.edges[i] is not None and not self.watch.trusted and known is not None:
            return self.bare(t, i)
        if known is not None and (known is t or known.v is t.v) and (0 if t.v is None else t.v.ver) != self.versions[i]:
            self.refuse("a tensor was written to outside of known operations")
        return i

    def spec(self, v: Any) -> Any:
        """An argument as the program keeps it."""
        if isinstance(v, Tensor):
            return Ref(self.slot(v))
        if self.reads:
            use_all(v)
            if isinstance(v, Reading):
                return v.use()
        if isinstance(v, list) and any(isinstance(e, Tensor) for e in v):
            return [self.spec(e) for e in v]
        if isinstance(v, tuple) and any(isinstance(e, np.ndarray) for e in v):
            return tuple([self._position(e) if isinstance(e, np.ndarray) else e for e in v])
        if not plain(v):
            self.refuse(f"an argument of type {type(v).__name__} cannot be a constant of the graph")
        return v

    def _position(self, a: np.ndarray) -> Memory:
        """An array inside an index: that of a tensor, or what a list of numbers was made into."""
        i = self.index.get(id(a))
        return Memory(self.constant(a) if i is None else i)

    def refuse(self, why: str) -> None:
        """Note a reason at the user's line."""
        self.watch.refuse(why, sys._getframe(1))

    @staticmethod
    def _stream() -> bytes:
        return bytes(default_generator.stream.state())

    # ------------------------------------------------------------------------------------------ observer
    def before(self, row: Any, args: Any) -> Any:
        """Where the row begins: rows inside it come first."""
        if self.suspended or threading.get_ident() != self.thread:
            return None
        kind = getattr(row, "kind", "whole")
        if kind in ("op", "view"):
            now = self._stream()
            if now != self.position:
                self.refuse("random numbers are drawn outside of known operations")
            self.position = now
        elif kind == "whole" and row.name in RAW:
            self.slot(args[0])  # as it is before it is written to
        return len(self.steps), self.writes

    def after(self, row: Any, args: Any, out: Any, token: Any) -> None:
        """Write the row down."""
        if token is None:
            return
        kind = getattr(row, "kind", "whole")
        if kind == "composite":
            return
        if kind == "whole":
            if self.writes == token[1]:  # else the rows inside did it
                self.raw_write(row, args)
            return
        if row.name in _VARYING or row.name == "_index" and any(getattr(e, "dtype", None) == np.bool_ for e in args[1]):
            self.refuse(f"{row.name} has a result whose shape depends on values")
        now = self._stream()
        self.draws = self.draws or now != self.position
        self.position = now
        values = self._promoted(row, list(args), token[0])
        specs = tuple(self.spec(v) for v in values)
        seq = isinstance(out, (tuple, list))
        outs = list(out) if seq else [out]
        slots = []
        for t in outs:
            if t is None:
                slots.append(None)
                continue
            known = self.index.get(id(t.a))
            if known is not None:
                self.refuse(f"{row.name} gave back its input")
            i = self.add(t, "value")
            if row.kind == "view":
                src = specs[0].slot if isinstance(specs[0], Ref) else i
                self.roots[i] = self.roots[src]
            else:
                self._shared(t, i, specs)
            slots.append(i)
        rec = tuple(t is not None and t.n is not None for t in outs)
        self.step(Step(row, specs, tuple(slots), rec, type(out) if seq else None, _direct(row, values)))

    def step(self, step: Step) -> None:
        """Append a step, with the user's line it stands for."""
        step.site = place(sys._getframe(1))
        self.steps.append(step)

    def _shared(self, t: Tensor, i: int, specs: tuple[Any, ...]) -> None:
        """A kernel may return its input's memory (contiguous of what is contiguous): one root then."""
        for s in specs:
            for r in s if isinstance(s, list) else (s,):
                if isinstance(r, Ref) and np.may_share_memory(t.a, self.arrays[r.slot]):
                    self.roots[i] = self.roots[r.slot]

    def _promoted(self, row: Any, values: list[Any], start: int) -> list[Any]:
        """Arguments after promotion: the casts were recorded just before, as rows of their own."""
        if row.promote not in ("same", "float"):
            return values
        d = dispatch._target(row, values)
        casts = {s.args[0].slot: s.outs[0] for s in self.steps[start:] if s.row.name == "_cast"}

        def cast(t: Any) -> Any:
            if not isinstance(t, Tensor) or t.k.dtype is d:
                return t
            i = casts.get(self.slot(t))
            if i is None:
                self.refuse(f"{row.name} promotes an operand in a way that is not known")
                return t
            return self.tensors[i]

        for j, p in enumerate(row.params):
            if p.name in row.promoted:
                v = values[j]
                values[j] = [cast(t) for t in v] if isinstance(v, list) else cast(v)
        return values

    # ------------------------------------------------------------------------------------------ the end
    def close(self) -> None:
        """Check that nothing happened behind the rows."""
        if self._stream() != self.position:
            self.refuse("random numbers are drawn outside of known operations")
        for i, (t, kind) in enumerate(zip(self.tensors, self.kinds)):
            if t is None or self.index.get(id(t.a)) != i:
                continue
            if (0 if t.v is None else t.v.ver) != self.versions[i]:
                self.refuse("a tensor was written to outside of known operations")
            if t.n is not self.edges[i] and not self.watch.trusted:
                if kind in ("input", "free"):
                    self.refuse("the history of a tensor from outside was changed")
                self.own = "a tensor's history was changed after it was made"


class recording:  # noqa: N801 - a context
    """Attaches a recorder, and the watch around it."""

    def __init__(self, watch: Watch, recorder: Recorder) -> None:
        self.watch, self.recorder = watch, recorder

    def __enter__(self) -> Recorder:
        observe.attach(self.recorder)
        self.watch.recorder = self.recorder
        self.watch.__enter__()
        return self.recorder

    def __exit__(self, *exc: Any) -> None:
        self.watch.__exit__(*exc)
        observe.detach(self.recorder)


def allowed_now() -> str | None:
    """Why nothing can be captured or run as a graph at this moment; None when it can."""
    if observe.OBSERVERS:
        return "a tool observes operations"
    if modes.state.inference:
        return "inference mode is on"
    if getattr(modes.state, "pack", None) or getattr(modes.state, "anomaly", False):
        return "saved-tensor hooks or anomaly detection are on"
    return None
