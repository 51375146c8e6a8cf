"""Rules about Python loops: many small calls where one would do, and attention written out."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from mindtorch import torch
from mindtorch.core.tensor import Tensor
from mindtorch.tools.advice.record import Call, Loop
from mindtorch.tools.advice.rules_ops import calls, key, make
from mindtorch.tools.advice.sources import Site, calls_method, carried, tree
from mindtorch.tools.advice.trial import Hint, agree, both_ways, leaf, once, pair

_ROWS = 8
"""Fewer passes than this are no loop over rows."""
_TAKES = ("_part", "select", "unbind", "narrow")
_PUTS = ("stack", "cat", "_put", "copy_", "index_put")


def _loop_line(c: Call) -> int | None:
    """The line of the innermost loop around the call. The line that names what is looped over belongs to it, too."""
    around = tree(c.site.file).loop(c.site.line)
    if around is None and c.name == "unbind":
        around = next((n for n in tree(c.site.file).loops if n.lineno == c.site.line and isinstance(n, ast.For)), None)
    return around.lineno if around is not None else None


def _scalars(text: str) -> bool:
    """Whether the line makes Python numbers of elements."""
    try:
        node = ast.parse(text.rstrip(":").removeprefix("el") if text.startswith(("if", "elif", "while")) else text)
    except SyntaxError:
        try:
            node = ast.parse(text + " pass")
        except SyntaxError:
            return ".item()" in text
    return calls_method(node, "item") or any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("float", "int") for n in ast.walk(node)
    )


def item_in_loop(loop: Loop) -> Iterator[Hint]:
    """Elements taken out one by one as Python numbers."""
    groups: dict[Site, list[Call]] = defaultdict(list)
    for c in calls(loop, "_part", "select", direct=True):
        if isinstance(c.out, Tensor) and c.out.numel() == 1 and _loop_line(c) is not None and _scalars(c.site.text):
            groups[c.site].append(c)
    for site, group in groups.items():
        n = len(loop.observed)
        if len(group) < _ROWS * n:
            continue
        bases = {id(c.args[0]): c.args[0] for c in group}

        def old(group: list[Call] = group) -> None:
            for c in group:
                c.fn(*c.args).item()

        def new(bases: dict[int, Tensor] = bases) -> None:
            for b in bases.values():
                b.tolist()

        before, after = pair(old, new)
        text = f"{len(group) // n} elements a step leave a tensor one by one: compute on the whole tensor, or take tolist() once"
        yield from make("item in a loop", loop, site, text, before / n, after / n)


def rows(loop: Loop) -> Iterator[Hint]:
    """A Python loop that treats one row after the other."""
    groups: dict[tuple[str, int], list[Call]] = defaultdict(list)
    for c in calls(loop):
        line = _loop_line(c) if c.phase != "data" else None
        if line is not None and not _scalars(c.site.text):
            groups[c.site.file, line].append(c)
    for (file, line), group in groups.items():
        taken = [c for c in group if c.name in _TAKES and c.site.direct]
        n = len(loop.observed)
        passes = max((sum(x.name == "unbind" and len(x.out) or 1 for x in taken if x.site == c.site) for c in taken), default=0)
        around = next((x for x in tree(file).loops if x.lineno == line), None)
        if passes < _ROWS * n or around is None or carried(around):
            continue
        before, after = _vectorised(group, n)
        text = f"{passes // n} rows a step are treated one by one: the same ops on the whole tensor need one call each"
        yield from make("loop over rows", loop, Site(file, line), text, before, after)


def _vectorised(group: list[Call], n: int) -> tuple[float, float]:
    """Seconds a step of the calls as they were, and of each op once on its arguments stacked."""
    before = after = 0.0
    alike: dict[Any, list[Call]] = defaultdict(list)
    for c in group:
        index = "" if c.name in _TAKES else key(c.args)
        alike[c.site.line, c.name, index].append(c)
    for (_, name, _), same in alike.items():
        args = leaf(same[0].args)
        one = once(lambda f=same[0].fn, args=args: f(*args), 0.02)  # type: ignore[misc]
        before += one * len(same) / n
        if name not in (*_TAKES, *_PUTS):
            after += min(_stacked_time(same, one), one * len(same)) / n
    return before, after


def _stacked_time(same: list[Call], one: float) -> float:
    """Seconds of one call on all arguments stacked; where the op does not take them, as long as the calls took."""
    args = []
    for column in zip(*(c.args for c in same)):
        alone = all(x is column[0] for x in column) or not isinstance(column[0], Tensor)
        args.append(column[0] if alone else torch.stack([x.detach() for x in column]).requires_grad_(column[0].requires_grad))
    try:
        return once(lambda: same[0].fn(*args), 0.02)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return one * len(same)


def printing(loop: Loop) -> Iterator[Hint]:
    """print in every step."""
    lines: dict[Site, float] = defaultdict(float)
    for s in loop.plain:
        for x in s.spans:
            if x.kind == "print" and x.site is not None:
                lines[x.site] += x.seconds / len(loop.plain)
    for site, seconds in lines.items():
        yield from make("print in the step", loop, site, "print every 50th step only", seconds, seconds / 50)


# -------------------------------------------------------------------------------------------- attention
_SCALING = ("_true_div", "div", "mul", "add", "masked_fill", "where")


def attention(loop: Loop) -> Iterator[Hint]:
    """matmul, scale, mask, softmax, matmul: one call does it."""
    found: dict[Site, list[tuple[float, float]]] = defaultdict(list)
    for s in loop.observed:
        makers = {id(c.out): c for c in s.calls}
        for second in (c for c in s.calls if c.name in ("matmul", "bmm")):
            chain = _chain(second, makers)
            if chain is not None:
                times = _attention_times(chain, second)
                if times is not None:
                    found[second.site].append(times)
    for site, all_times in found.items():
        before, after = (sum(t[i] for t in all_times) / len(loop.observed) for i in (0, 1))
        text = "attention written out: torch.nn.functional.scaled_dot_product_attention does it in one call"
        yield from make("unfused attention", loop, site, text, before, after)


def _chain(second: Call, makers: dict[int, Call]) -> list[Call] | None:
    """The calls from q @ k to the softmax, when ``second`` is the product of a softmax of such with v."""
    c = makers.get(id(second.args[0]))
    if c is not None and c.name == "dropout":
        c = makers.get(id(c.args[0]))
    if c is None or c.name != "softmax" or second.args[0].ndim < 3:
        return None
    chain = [c]
    while c is not None and c.name not in ("matmul", "bmm"):
        c = makers.get(id(c.args[0]))
        if c is None or (c.name not in _SCALING and c.name not in ("matmul", "bmm")):
            return None
        chain.append(c)
    return chain[::-1]


def _attention_times(chain: list[Call], second: Call) -> tuple[float, float] | None:
    q, k_t = chain[0].args[:2]
    v = second.args[1]
    scale, mask = 1.0, None
    for c in chain[1:-1]:
        other = c.args[1]
        if c.name in ("_true_div", "div", "mul") and isinstance(other, (int, float)):
            scale = scale / other if "div" in c.name else scale * other
        elif c.name == "add" and isinstance(other, Tensor) and mask is None:
            mask = other
        elif c.name == "masked_fill" and mask is None:
            mask = ~other
        else:
            return None

    def old(q: Any, k_t: Any, v: Any) -> Any:
        x = chain[0].fn(q, k_t)
        for c in chain[1:]:
            x = c.fn(x, *c.args[1:])
        return second.fn(x, v)

    def new(q: Any, k_t: Any, v: Any) -> Any:
        fused = torch.nn.functional.scaled_dot_product_attention
        return fused(q, k_t.transpose(-2, -1), v, attn_mask=mask, scale=scale)

    both = both_ways(old, [q, k_t, v]), both_ways(new, [q, k_t, v])
    return pair(*both) if agree(both[0](), both[1]()) else None
