"""``torch.einsum``: parsing of both forms, and contraction pair by pair through batched matrix products."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.observe import whole
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host.linalg import same_dtype
from mindtorch.ops.table import op, put, vjp


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
    ndims: Sequence[int], subs: list[list[Any]], out: list[Any] | None
) -> tuple[list[list[Any]], list[Any]]:
    """Ellipses replaced by labels of their own; the implicit output filled in."""
    widths = []
    for have, s in zip(ndims, subs):
        w = have - sum(c is not Ellipsis for c in s)
        check(
            w == 0 or (w > 0 and Ellipsis in s),
            RuntimeError,
            f"einsum(): the number of subscripts in the equation ({len(s)}) does not match the number of dimensions "
            f"({have}) for an operand",
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


@functools.lru_cache(maxsize=512)
def _layout(spec: str) -> tuple[Any, ...]:
    """How to lay out both operands of ``"ij,jk->ik"`` for one batched product, and how to order its result."""
    inputs, out = spec.split("->")
    x, y = inputs.split(",")
    batch = [c for c in x if c in y and c in out]
    gone = [c for c in x if c in y and c not in out]
    only_x, only_y = [c for c in x if c not in y], [c for c in y if c not in x]
    perm_x = tuple(x.index(c) for c in (*batch, *only_x, *gone))
    perm_y = tuple(y.index(c) for c in (*batch, *gone, *only_y))
    have = [*batch, *only_x, *only_y]
    final = tuple(have.index(c) for c in out)
    return perm_x, perm_y, len(batch), len(only_x), len(gone), None if final == tuple(range(len(have))) else final


def _pair_grad(g: Tensor, needs: Sequence[bool], x: Tensor, y: Tensor, spec: str) -> tuple[Any, Any]:
    inputs, out = spec.split("->")
    lx, ly = inputs.split(",")
    gx = _einsum_pair(g, y.conj(), f"{out},{ly}->{lx}") if needs[0] else None
    gy = _einsum_pair(g, x.conj(), f"{out},{lx}->{ly}") if needs[1] else None
    return gx, gy


@op(
    "_einsum_pair(T x, T y, str spec)",
    node="ViewBackward0",
    nodes={"set(spec.partition('->')[0]) <= {',', *spec.partition('->')[2]}": "MulBackward0"},
    half="f32",
    ns="_C",
    grad=vjp(("x", "y"), lambda g, needs, x, y, spec: _pair_grad(g, needs, x, y, spec)),
)
def _einsum_pair(a: np.ndarray, b: np.ndarray, spec: str) -> np.ndarray:
    """One product; every label is in both operands or in one and the result, shared labels have one size."""
    same_dtype(a, b)
    perm_a, perm_b, nb, nx, ng, final = _layout(spec)
    a, b = a.transpose(perm_a), b.transpose(perm_b)
    shape_b, shape_x, shape_g = a.shape[:nb], a.shape[nb : nb + nx], a.shape[nb + nx :]
    shape_y = b.shape[nb + ng :]
    x, k, y = math.prod(shape_x), math.prod(shape_g), math.prod(shape_y)
    if nb:
        n = math.prod(shape_b)
        r = np.matmul(a.reshape(n, x, k), b.reshape(n, k, y))
    else:
        r = a.reshape(x, k).dot(b.reshape(k, y))
    r = r.reshape(shape_b + shape_x + shape_y)
    return r if final is None else r.transpose(final)


def _pair(x: Tensor, lx: list[Any], y: Tensor, ly: list[Any], keep: set[Any]) -> tuple[Tensor, list[Any]]:
    """Contract two operands by one batched product; labels not in ``keep`` are summed."""
    same = x.dtype is y.dtype
    x, lx = _drop(x, lx, keep | set(ly))
    y, ly = _drop(y, ly, keep | set(lx))
    if same and x.dtype is not y.dtype:  # summing made int64 of one of two integer operands
        x, y = x.long(), y.long()
    both = [c for c in lx if c in ly]
    result = [*(c for c in both if c in keep), *(c for c in lx if c not in ly), *(c for c in ly if c not in lx)]
    for c in both:
        i, j = lx.index(c), ly.index(c)
        n, m = x.shape[i], y.shape[j]
        if n == m:
            continue
        if c in keep:  # broadcast the side of size 1
            x = x.expand([m if d == i else s for d, s in enumerate(x.shape)]) if n == 1 else x
            y = y.expand([n if d == j else s for d, s in enumerate(y.shape)]) if m == 1 else y
        elif n == 1:
            y = y.sum(j, keepdim=True, dtype=y.dtype)
        else:
            x = x.sum(i, keepdim=True, dtype=x.dtype)
    order = list(dict.fromkeys((*lx, *ly)))
    code = {c: chr(0x61 + k) for k, c in enumerate(order)}
    spec = "{},{}->{}".format(*("".join(code[c] for c in part) for part in (lx, ly, result)))
    return _einsum_pair(x, y, spec), result


def _drop(t: Tensor, labels: list[Any], keep: set[Any]) -> tuple[Tensor, list[Any]]:
    dims = [i for i, c in enumerate(labels) if c not in keep]
    if dims:
        t = t.sum(tuple(dims))
    return t, [c for c in labels if c in keep]


@whole
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
        labels, result, spec, shared = _prepare(args[0], tuple([t.a.ndim for t in operands]))
        if spec is not None:
            x, y = operands
            sx, sy = x.a.shape, y.a.shape
            if all(sx[i] == sy[j] for i, j in shared):
                return _einsum_pair(x, y, spec)
        return _contract(operands, labels, result)
    operands, subs, out = _parse_sublists(args)
    labels, result = _expand_labels([t.a.ndim for t in operands], subs, out)
    _check_result(labels, result)
    return _contract(operands, labels, result)


@functools.lru_cache(maxsize=512)
def _prepare(equation: str, ndims: tuple[int, ...]) -> tuple[Any, ...]:
    """Labels of operands and result; for a plain product of two also its spec and the pairs of shared dimensions."""
    subs, out = _parse(equation)
    check(
        len(subs) == len(ndims),
        RuntimeError,
        f"einsum(): {'more' if len(subs) < len(ndims) else 'fewer'} operands were provided than specified in the "
        f"equation ({len(ndims)} for {len(subs)})",
    )
    labels, result = _expand_labels(ndims, subs, out)
    _check_result(labels, result)
    spec, shared = None, []
    if len(labels) == 2 and all(len(set(s)) == len(s) for s in labels):
        x, y = labels
        if set(x) <= {*y, *result} and set(y) <= {*x, *result}:
            code = {c: chr(0x61 + k) for k, c in enumerate(dict.fromkeys((*x, *y)))}
            spec = "{},{}->{}".format(*("".join(code[c] for c in part) for part in (x, y, result)))
            shared = [(x.index(c), y.index(c)) for c in x if c in y]
    return labels, result, spec, shared


def _check_result(labels: list[list[Any]], result: list[Any]) -> None:
    """RuntimeError when an output label is repeated or unknown."""
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
