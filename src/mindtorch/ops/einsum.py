"""``torch.einsum``: parsing of both forms, and contraction pair by pair through batched matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor
from mindtorch.ops.linalg import bmm, mm
from mindtorch.ops.table import put


def _parse_sublists(args: Sequence[Any]) -> tuple[list[Tensor], list[list[Any]], list[Any] | None]:
    """The form ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    ops, subs = list(args[0:-1:2]), [list(s) for s in args[1::2]]
    out = list(args[-1]) if len(args) % 2 else None
    return ops, subs, out


def _letters(text: str, ellipsis_ok: bool = True) -> list[Any]:
    out: list[Any] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c == ".":
            check(
                text[i : i + 3] == "..." and ellipsis_ok,
                RuntimeError,
                "einsum(): found '.' that is not part of an ellipsis",
            )
            out.append(Ellipsis)
            i += 3
            continue
        check(c.isalpha(), RuntimeError, f"einsum(): invalid subscript given: {c!r}; subscripts must be in [a-zA-Z]")
        out.append(c)
        i += 1
    return out


def _parse(equation: str) -> tuple[list[list[Any]], list[Any] | None]:
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    return [_letters(s) for s in left.split(",")], _letters(right) if arrow else None


def _expand_labels(
    ops: list[Tensor], subs: list[list[Any]], out: list[Any] | None
) -> tuple[list[list[Any]], list[Any]]:
    """Ellipses replaced by labels of their own; the implicit output filled in."""
    widths = []
    for t, s in zip(ops, subs):
        w = t.a.ndim - sum(c is not Ellipsis for c in s)
        check(
            w == 0 or (w > 0 and Ellipsis in s),
            RuntimeError,
            f"einsum(): the number of subscripts in the equation ({len(s)}) does not match the number of dimensions "
            f"({t.a.ndim}) for an operand",
        )
        widths.append(w if Ellipsis in s else 0)
    top = max(widths, default=0)
    dots = [("...", i) for i in range(top)]
    full = []
    for s, w in zip(subs, widths):
        r: list[Any] = []
        for c in s:
            r += dots[top - w :] if c is Ellipsis else [c]
        full.append(r)
    if out is None:
        flat = [c for r in full for c in r if not isinstance(c, tuple)]
        return full, [*dots, *sorted(c for c in set(flat) if flat.count(c) == 1)]
    result: list[Any] = []
    for c in out:
        result += dots if c is Ellipsis else [c]
    return full, result


def _diagonals(t: Tensor, labels: list[Any]) -> tuple[Tensor, list[Any]]:
    """Repeated labels of one operand become one dimension."""
    labels = list(labels)
    for c in list(dict.fromkeys(labels)):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            check(
                t.shape[i] == t.shape[j] or 1 in (t.shape[i], t.shape[j]),
                RuntimeError,
                f"einsum(): subscript {c} is repeated for an operand but the sizes don't match, {t.shape[j]} != "
                f"{t.shape[i]}",
            )
            t = t.diagonal(0, i, j)
            labels = [x for k, x in enumerate(labels) if k not in (i, j)] + [c]
    return t, labels


def _pair(x: Tensor, lx: list[Any], y: Tensor, ly: list[Any], keep: set[Any]) -> tuple[Tensor, list[Any]]:
    """Contract two operands by one batched product; labels not in ``keep`` are summed."""
    x, lx = _drop(x, lx, keep | set(ly))
    y, ly = _drop(y, ly, keep | set(lx))
    size = {c: max(x.shape[lx.index(c)] if c in lx else 1, y.shape[ly.index(c)] if c in ly else 1) for c in (*lx, *ly)}
    both = [c for c in lx if c in ly]
    gone = [c for c in both if c not in keep]
    batch = [c for c in both if c in keep]
    for c in list(gone):
        if x.shape[lx.index(c)] != y.shape[ly.index(c)]:  # one side has size 1: sum the other first
            if x.shape[lx.index(c)] == 1:
                y = y.sum(ly.index(c), keepdim=True)
            else:
                x = x.sum(lx.index(c), keepdim=True)
            size[c] = 1
    only_x = [c for c in lx if c not in ly]
    only_y = [c for c in ly if c not in lx]
    n = lambda labels: int(np.prod([size[c] for c in labels]))  # noqa: E731 - a local abbreviation
    left = x.permute([lx.index(c) for c in (*batch, *only_x, *gone)])
    left = left.expand([*(size[c] for c in batch), *left.shape[len(batch) :]]).reshape((n(batch), n(only_x), n(gone)))
    right = y.permute([ly.index(c) for c in (*batch, *gone, *only_y)])
    right = right.expand([*(size[c] for c in batch), *right.shape[len(batch) :]]).reshape(
        (n(batch), n(gone), n(only_y))
    )
    r = bmm(left, right) if batch else mm(left.squeeze(0), right.squeeze(0))
    labels = [*batch, *only_x, *only_y]
    return r.reshape([size[c] for c in labels]), labels


def _drop(t: Tensor, labels: list[Any], keep: set[Any]) -> tuple[Tensor, list[Any]]:
    dims = [i for i, c in enumerate(labels) if c not in keep]
    if dims:
        t = t.sum(tuple(dims))
    return t, [c for c in labels if c in keep]


def einsum(*args: Any) -> Tensor:
    """Sum of products by Einstein's convention: an equation and operands, or operands with lists of subscripts."""
    check(
        len(args) >= 2,
        ValueError,
        "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
        "subscripts list",
    )
    if isinstance(args[0], str):
        operands = list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else list(args[1:])
        subs, out = _parse(args[0])
        check(
            len(subs) == len(operands),
            RuntimeError,
            f"einsum(): {'more' if len(subs) < len(operands) else 'fewer'} operands were provided than "
            f"specified in the "
            f"equation ({len(operands)} for {len(subs)})",
        )
    else:
        operands, subs, out = _parse_sublists(args)
    labels, result = _expand_labels(operands, subs, out)
    known = {c for s in labels for c in s}
    for c in result:
        check(
            result.count(c) == 1, RuntimeError, f"einsum(): output subscript {c} appears more than once in the output"
        )
        check(
            c in known,
            RuntimeError,
            f"einsum(): output subscript {c} does not appear in the equation for any input operand",
        )
    return _contract(operands, labels, result)


def _contract(operands: list[Tensor], labels: list[list[Any]], result: list[Any]) -> Tensor:
    sizes: dict[Any, int] = {}
    pending = []
    for t, s in zip(operands, labels):
        t, s = _diagonals(t, s)
        for c, n in zip(s, t.shape):
            check(
                sizes.get(c, 1) in (1, n) or n == 1,
                RuntimeError,
                f"einsum(): operands do not broadcast with remapped shapes: subscript {c} has size {n} and "
                f"{sizes.get(c)}",
            )
            sizes[c] = max(sizes.get(c, 1), n)
        pending.append((t, s))
    x, lx = pending.pop(0)
    while pending:
        y, ly = pending.pop(0)
        keep = set(result).union(*(s for _, s in pending))
        x, lx = _pair(x, lx, y, ly, keep)
    x, lx = _drop(x, lx, set(result))
    return x.permute([lx.index(c) for c in result]) if lx != result else x


put("torch", einsum=einsum)
