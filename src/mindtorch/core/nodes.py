"""The graph node class of a row: its ``apply`` unpacks what was saved and calls the derivative of each wanted input."""

from __future__ import annotations

import inspect
from typing import Any

from mindtorch.core import tape
from mindtorch.core.tensor import Tensor

ORDER: dict[tuple[str, str], tuple[int, ...]] = {}
"""Edges of nodes that are several nodes in PyTorch, in the order gradients reach them there: by row and label."""


def is_part(name: str) -> bool:
    """Whether a derivative names one output of several (``out1``)."""
    return name.startswith("out") and name[3:].isdigit()


def node_class(row: Any, nout: int, seq: bool = False, label: str = "") -> type:
    """The node class of a row; ``apply`` unpacks what was saved and calls the derivative of each wanted input."""
    text, scope = _apply_source(row, seq)
    local: dict[str, Any] = {}
    exec(compile(text, f"<mindtorch derivative of {row.name}>", "exec"), scope, local)
    label = label or row.label
    body: dict[str, Any] = {"__slots__": (), "label": label, "apply": local["apply"], "nout": nout, "row": row, "__module__": "mindtorch"}
    body["order"] = ORDER.get((row.name, label))
    return type(label, (tape.Node,), body)


def _unpacked(row: Any) -> dict[str, str]:
    """Source that gives each saved value, checked when (and only when) a rule asks for it."""
    where = {"g": "g"}
    for i, name in enumerate(row.saved):
        v = f"s{i}"
        kind = row.params[row.index[name]].type if name in row.index else ""
        if name == "out" or is_part(name):
            v = f"OUTS(nd, {v})"
        elif kind == "TL":
            v = f"[CHECK(nd, x) for x in {v}]"
        elif kind in ("T", "T?", "TN", "TN?"):
            v = f"CHECK(nd, {v})"
        elif name.endswith("_shape") and name[:-6] in row.keeps:
            v = f"CHECK(nd, {v}).a.shape"
        where[name] = v
    return where


def _apply_source(row: Any, seq: bool = False) -> tuple[str, dict[str, Any]]:
    scope: dict[str, Any] = {"CHECK": check_saved, "OUTS": _outs, "FREED": tape.freed, "LOOSE": loose, "SPLIT": _split_lists}
    lists = any(row.params[j].type == "TL" for j in row.grad_index)
    names = [f"s{i}" for i in range(len(row.saved))] + (["counts"] if lists else [])
    lines = ["def apply(nd, g):"]
    if names:
        lines += ["    s = nd.s", "    if s is None: FREED()", f"    {', '.join(names)}, = s"]
    if seq:
        lines.append("    if nd.nout == 1: g = (g,)")
    lines.append("    e = nd.e")
    where = _unpacked(row)
    for name, readers in (() if isinstance(row.grad, dict) else row.grad.uses.items()):
        at = row.saved.index(name)
        wanted = " or ".join(f"needs[{row.grad.params.index(p)}]" for p in readers) or "False"
        where[name] = f"({where[name]} if {wanted} else LOOSE(s{at}))"

    def call(fname: str, fn: Any) -> str:
        args = []
        for p in inspect.signature(fn).parameters:
            args.append("needs" if p == "needs" else where[p])
        return f"{fname}({', '.join(args)})"

    rule = row.grad
    if not isinstance(rule, dict):
        scope["VJP"] = rule.fn
        if lists:
            lines.append("    needs = SPLIT(e, counts)")
            lines.append(f"    r = {call('VJP', rule.fn)}")
            lines.append("    return [x for y, c in zip(r, counts) for x in ([y] if c < 0 else (y if y is not None else [None] * c))]")
        else:
            lines.append("    needs = [x is not None for x in e]")
            r = call("VJP", rule.fn)
            lines.append(f"    r = {r}")
            lines.append("    return r if r.__class__ is tuple or r.__class__ is list else (r,)")
        return "\n".join(lines), scope
    parts = []
    for i, (param, fn) in enumerate(rule.items()):
        scope[f"G{i}"] = fn
        text = call(f"G{i}", fn)
        if lists:
            lines.append(f"    _w = SPLIT(e, counts)[{i}]")
            lines.append(f"    p{i} = {text} if (any(_w) if _w.__class__ is list else _w) else None")
            parts.append(f"p{i}")
        elif len(rule) == 1:
            parts.append(text)
        else:
            parts.append(f"({text} if e[{i}] is not None else None)")
        del param
    if lists:
        lines.append(f"    r = ({', '.join(parts)},)")
        lines.append("    return [x for y, c in zip(r, counts) for x in ([y] if c < 0 else (y if y is not None else [None] * c))]")
    else:
        lines.append(f"    return ({', '.join(parts)},)")
    return "\n".join(lines), scope


def _split_lists(e: Any, counts: Any) -> list[Any]:
    out: list[Any] = []
    i = 0
    for c in counts:
        if c < 0:
            out.append(e[i] is not None)
            i += 1
        else:
            out.append([x is not None for x in e[i : i + c]])
            i += c
    return out


def check_saved(nd: Any, x: Any) -> Any:
    """A saved input, unless it was written to since."""
    if x.__class__ is tape.Packed:
        return x.unpack()
    if isinstance(x, Tensor):
        v = x.v
        if v is not None and v.stamp > nd.q:
            tape.stale(nd, v, tape.type_name(x.k.dtype), x.a.shape)
    return x


def loose(x: Any) -> Any:
    """A saved input of which only shape and dtype are read: it may have been written to."""
    return x.unpack() if x.__class__ is tape.Packed else x


class _Outs:
    """Saved outputs of a node with several: each is unpacked, and checked, only when a rule reads it."""

    __slots__ = ("entries", "node")

    def __init__(self, node: Any, entries: tuple[Any, ...]) -> None:
        self.node, self.entries = node, entries

    def __getitem__(self, i: int) -> Any:
        return _one_out(self.node, self.entries[i])

    def __len__(self) -> int:
        return len(self.entries)


def _one_out(nd: Any, s: Any) -> Any:
    if s is None:
        return None
    t = tape.unpack(nd, s)
    if s.__class__ is tape.Packed and t.n is None:
        t.n = nd
    return t


def _outs(nd: Any, s: Any) -> Any:
    if s.__class__ is tuple and (not s or not hasattr(s[0], "dtype")):
        return _Outs(nd, s)
    return _one_out(nd, s)
