"""Turns programs into callables. "host": generated Python that calls the rows' kernels and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from mindtorch.core import dispatch
from mindtorch.core.tensor import Tensor, cell_of, wrap
from mindtorch.engine.host.quiet import EXTOBJ
from mindtorch.graph import choice, effects
from mindtorch.graph.program import Program, Ref, Step, refs, stand_in
from mindtorch.graph.readings import Diverged


def _update(running: np.ndarray, value: np.ndarray, momentum: float) -> None:
    f = running.dtype.type
    np.multiply(running, f(1 - momentum), running, extobj=EXTOBJ)
    np.add(running, np.multiply(value, f(momentum), extobj=EXTOBJ), running, extobj=EXTOBJ)


class _Source:
    """Source text of a program and the constants it names."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.scope: dict[str, Any] = {
            "EXTOBJ": EXTOBJ, "asarray": np.asarray, "UPDATE": _update, "CAST": dispatch.cast_into, "nd": np.ndarray, "F32": np.float32,
        }  # fmt: skip
        self.count = 0
        self.lines: list[str] = []
        self.steps: list[Step | None] = []
        for i, s in enumerate(program.slots):
            if s.kind == "const":
                self.scope[f"v{i}"] = s.a

    def name(self, value: Any) -> str:
        """Text of a constant: literal where that is exact and cheap, else a name in the scope."""
        if value is None or value is True or value is False or value.__class__ is int:
            return repr(value)
        self.count += 1
        self.scope[f"c{self.count}"] = value
        return f"c{self.count}"

    def add(self, line: str, step: Step | None = None) -> None:
        """One line; ``step`` is what an error in it is blamed on."""
        self.lines.append(f"    {line}")
        self.steps.append(step)

    def raw(self, step: Step, p: Any, a: Any, single: bool = False) -> str:
        """Text of one kernel argument, as ``dispatch`` prepares it."""
        if isinstance(a, Ref):
            return self.value(a.slot, single)
        if isinstance(a, tuple) and refs(a):
            return f"({''.join((f'v{e.slot}' if isinstance(e, Ref) else self.name(e)) + ', ' for e in a)})"
        if p.type == "TL":
            return f"[{', '.join(self.value(r.slot, single) for r in a)}]"
        if p.type in ("TN", "TN?") and a is not None:
            np_dtype = self.target(step)
            return self.name(dispatch.scalar(a, np.dtype(np.float32) if single and np_dtype.itemsize == 2 else np_dtype))
        return self.name(a)

    def target(self, step: Step) -> np.dtype:
        """dtype that numbers given for tensors take in this step."""
        values = [stand_in(self.program, a) for a in step.args]
        return dispatch._target(step.row, values).np

    def call(self, step: Step) -> str:
        """Text of the kernel's call: the bare ufunc where the fast path of the row would call it."""
        row = step.row
        half = self.half(step)
        raws = [self.raw(step, p, a, half is not None) for p, a in zip(row.params, step.args)]
        if step.direct is not None and half is None:
            tensors = [r for p, r in zip(row.params, raws) if p.type in ("T", "TN")]
            return f"{self.name(step.direct)}({', '.join(tensors)}, extobj=EXTOBJ)"
        parts, kws = [], []
        for p, r, a in zip(row.params, raws, step.args):
            if p.name in row.kernel_keywords:
                kws.append(f"{p.name}={r}")
            elif p.type == "ints*" and row.spread:
                parts += [repr(int(v)) for v in a]
            else:
                parts.append(r)
        text = f"{self.name(row.kernel)}({', '.join([*parts, *kws])})"
        if half is None:
            return text
        values = [stand_in(self.program, a) for a in step.args]
        return f"{self.name(lambda r: dispatch._round(r, half, row, values))}({text})"

    def half(self, step: Step) -> Any:
        """dtype that the result of a step is rounded to, when its kernel computes in single precision instead."""
        if step.row.half != "f32":
            return None
        values = [stand_in(self.program, a) for a in step.args]
        if not any(t.k.half for v in values for t in (v if isinstance(v, list) else (v,)) if isinstance(t, Tensor)):
            return None
        return dispatch._prepare(step.row, values)[1]

    def value(self, i: int, single: bool) -> str:
        """Text of a value, of half ones in single precision where the kernel wants them so."""
        k = self.program.slots[i].k
        return f"v{i}.astype(F32)" if single and k is not None and k.half else f"v{i}"

    def special(self, s: Step) -> str:
        """Text of a step that is no row: an effect, which receives Tensors first, a write, a copy of what will be written."""
        if s.row.kind == "draw":
            return f"v{s.outs[0]} = {self.name(s.row.run)}()"
        if s.row.kind == "copy":
            return f"v{s.outs[0]} = v{s.args[0].slot}{s.row.text}"
        values = [f"v{a.slot}" if isinstance(a, Ref) else repr(a) for a in s.args]
        if s.row.kind == "effect":
            given = [f"T[{self.program.given.index(a.slot)}]" for a in s.args[: s.row.tensors]]
            values = given + (values[s.row.tensors :] if s.row.tensors else [])
        outs = "".join(f"v{o} = " for o in s.outs)
        return f"{outs}{self.name(s.row.run)}({', '.join(values)})"

    def step(self, s: Step, dead: list[int]) -> None:
        """Lines of one step; values in ``dead`` are not read again."""
        if s.row.kind == "segment":
            outs, args = "".join(f"v{o}, " for o in s.outs), ", ".join(f"v{i}" for i in s.reads())
            self.add(f"{outs} = {self.name(s.row.run)}({args})", s)
        elif s.row is effects.WRITE:
            self.add(f"CAST(v{s.args[0].slot}, v{s.args[1].slot})", s)
        elif s.row is effects.UPDATE:
            self.add(f"UPDATE(v{s.args[0].slot}, v{s.args[1].slot}, {self.name(s.args[2])})", s)
        elif s.row.kind in ("effect", "write", "copy", "draw", "decide"):
            self.add(self.special(s), s)
        elif s.seq is None:
            o = s.outs[0]
            call = self.call(s)
            if self.program.slots[o].shape == ():
                call = f"asarray({call})"
            self.add(f"v{o} = {call}", s)
        else:
            targets = ", ".join("_" if o is None else f"v{o}" for o in s.outs)
            self.add(f"{targets}{',' if len(s.outs) == 1 else ''} = {self.call(s)}", s)
            for o in s.outs:
                if o is not None and self.program.slots[o].shape == ():
                    self.add(f"v{o} = asarray(v{o})", s)
        if dead:
            self.add(f"{' = '.join(f'v{i}' for i in dead)} = None")


def _deaths(program: Program, returned: set[int]) -> dict[int, list[int]]:
    """Step number -> values last read (or made, never read) there."""
    last: dict[int, int] = {}
    for n, s in enumerate(program.steps):
        for i in [*s.reads(), *(o for o in s.outs if o is not None)]:
            last[i] = n
    out: dict[int, list[int]] = {}
    for i, n in last.items():
        if i not in returned and program.slots[i].kind != "const":
            out.setdefault(n, []).append(i)
    return out


def host(program: Program, keep: bool) -> Callable[..., Any]:
    """``run(arrays) -> (results, kept)``: kernels in order, without dispatch, wrapping or tape."""
    src = _Source(program)
    returned = set(program.results) | (set(program.kept) if keep else set())
    dead = _deaths(program, returned)
    if program.given:
        src.add(f"{', '.join(f'v{i}' for i in program.given)}, = given")
    for n, s in enumerate(program.steps):
        src.step(s, dead.get(n, []))
    results = "".join(f"v{i}, " for i in program.results)
    kept = "".join(f"v{i}, " for i in program.kept) if keep else ""
    src.add(f"return ({results}), ({kept})")
    consts = [n for n in src.scope if n[0] == "v" and n[1:].isdigit() and any(n == f"v{i}" for i in returned)]
    if consts:  # a constant that is given out must stay as it is here
        src.lines.insert(0, "    " + "; ".join(f"{n} = {n}_.copy()" for n in consts))
        src.steps.insert(0, None)
        for name in consts:
            src.scope[f"{name}_"] = src.scope.pop(name)
    return _compiled(src, "given, T" if program.effects else "given")


def _compiled(src: _Source, params: str) -> Callable[..., Any]:
    text = "\n".join([f"def run({params}):", *src.lines])
    scope: dict[str, Any] = src.scope
    file = f"<mindtorch graph {id(src):#x}>"
    exec(compile(text, file, "exec"), scope)
    run = scope["run"]
    steps = [None, *src.steps]

    def guarded(*args: Any) -> Any:
        try:
            return run(*args)
        except Diverged:
            raise
        except Exception as e:
            tb, line = e.__traceback__, None
            while tb is not None:
                if tb.tb_frame.f_code is run.__code__:
                    line = tb.tb_lineno
                tb = tb.tb_next
            step = steps[line - 1] if line is not None else None
            if step is None:
                raise
            if step.row.kind in ("op", "view") and not isinstance(e, (RuntimeError, TypeError, NotImplementedError, MemoryError)):
                e = dispatch.translate(step.row, [stand_in(src.program, a) for a in step.args], e)
            _blame(_located(e, step), getattr(step, "site", None))

    guarded.source = text  # type: ignore[attr-defined]
    return guarded


def _located(e: BaseException, step: Step) -> BaseException:
    """``e`` with the user's line that the step was captured from, for who words the message."""
    site = getattr(step, "site", None)
    if site is not None and getattr(e, "graph_site", None) is None:
        e.graph_site = site  # type: ignore[attr-defined]
    return e


def _blame(e: BaseException, site: tuple[str, int, str] | None) -> NoReturn:
    """Raise ``e`` from the line of the user's function that a step stands for: the function itself did not run."""
    if site is None:
        raise e
    file, line, name = site
    code = compile("\n" * (line - 1) + "raise error from None", file, "exec").replace(co_name=name, co_qualname=name)
    exec(code, {"error": e.with_traceback(None)})
    raise e


def _runner(program: Program, forward: Program) -> Callable[..., Any]:
    """The backward program on the backend of the forward one, on the host where that cannot be."""
    if forward.mindspore:
        from mindtorch.graph import jitted

        said = forward.said
        try:
            run, notes = jitted.compiled(program, False, trusted=True)
        except Exception as e:  # whatever MindSpore cannot compile, the host kernels compute
            said.append(f"backward pass: not compiled by MindSpore: {str(e)[:300]}")
        else:
            said += [f"backward pass: {note}" for note in notes]
            if not forward.measured:
                return run
            runs = {"host": host(program, False), "mindspore": run}
            return choice.Contest(runs, lambda text: said.append(f"backward pass: {text}"))
    return host(program, False)


def backward_plan(
    program: Program, results: list[Any], nkept: int, gs: list[Any], forward: Program
) -> Callable[..., Any]:
    """``plan(kept, gs) -> gradients`` from a recorded backward program; ``results`` are slots, None for no gradient."""
    run = _runner(program, forward)
    first = {i: n for n, i in enumerate(program.given)}
    order = [i for i in results if i is not None]
    given = [j for j, g in enumerate(gs) if g is not None]
    passed = [first.get(i) for i in order]

    def plan(kept: Sequence[np.ndarray], grads: list[Any]) -> list[Any]:
        arrays, _ = run([*kept, *[grads[j].a for j in given]])
        made: dict[int, Any] = {}
        out: list[Any] = []
        n = 0
        for i in results:
            if i is None:
                out.append(None)
                continue
            t = made.get(i)
            if t is None:
                at = passed[n]
                if at is None:
                    t = wrap(arrays[n])
                elif at >= nkept:
                    t = grads[given[at - nkept]]
                else:  # what is kept belongs to others: a view is never taken over
                    t = wrap(arrays[n][...])
                made[i] = t
            n += 1
            out.append(t)
        return out

    plan.program, plan.run = program, run  # type: ignore[attr-defined]
    return plan


def bumped(tensors: Sequence[Any]) -> None:
    """Count a write on each of the tensors."""
    for t in tensors:
        cell_of(t).bump()
