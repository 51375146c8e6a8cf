"""Generates, on an op's first call, the fast path of its public function; ``core.nodes`` makes its graph node.

All generated functions share one globals dict (``modes.NS``). The fast path is optimistic: it tests that tensors are plain
and agree, calls the kernel, wraps and records; anything else, errors included, goes to ``dispatch.slow``, which explains.
"""

from __future__ import annotations

import types
from typing import Any

from mindtorch.core import modes
from mindtorch.core.errors import trim
from mindtorch.core.nodes import is_part
from mindtorch.engine.host import alloc

NS = modes.NS
NS["TRIM"] = trim
_CONSTANTS = (str, int, float, bool, type(None), tuple)


def _stub(*args: Any, _row: Any = None, **kwargs: Any) -> Any:
    _compile(_row)  # type: ignore[name-defined]  # noqa: F821
    try:
        return _row.fn(*args, **kwargs)
    except Exception as err:
        __tracebackhide__ = True  # noqa: F841 - what test runners and notebooks look for
        raise TRIM(err)  # type: ignore[name-defined]  # noqa: B904, F821


def _home(spaces: Any) -> str:
    """Module under which pickle finds the function: a network keeps ``F.relu`` as an attribute and is saved whole."""
    for space, name in (("torch", ""), ("F", ".nn.functional"), ("linalg", ".linalg"), ("special", ".special"), ("fft", ".fft")):
        if space in spaces:
            return f"mindtorch.torch{name}"
    return "mindtorch.torch"


def stub(row: Any) -> Any:
    """A function that turns itself into the real one on its first call (its code object is replaced)."""
    fn = types.FunctionType(_stub.__code__, NS, row.name)
    fn.__kwdefaults__ = {"_row": row}
    fn.__qualname__ = row.name
    fn.__module__ = _home(row.ns)
    fn.__doc__ = row.doc
    return fn


def twin(row: Any, name: str, spaces: Any) -> Any:
    """A second public function of a row, under a name of its own: its code is replaced together with the first's."""
    fn = stub(row)
    fn.__name__ = fn.__qualname__ = name
    fn.__module__ = _home(spaces)
    fn.row = row
    row.twins.append(fn)
    return fn


def _inplace_stub(*args: Any, _row: Any = None, **kwargs: Any) -> Any:
    _compile_inplace(_row)  # type: ignore[name-defined]  # noqa: F821
    try:
        return _row.inplace_fn(*args, **kwargs)
    except Exception as err:
        __tracebackhide__ = True  # noqa: F841
        raise TRIM(err)  # type: ignore[name-defined]  # noqa: B904, F821


def inplace_stub(row: Any, name: str) -> Any:
    """Like :func:`stub`, for the in-place twin."""
    fn = types.FunctionType(_inplace_stub.__code__, NS, name)
    fn.__kwdefaults__ = {"_row": row}
    fn.__qualname__ = name
    fn.__module__ = _home(row.ns)
    fn.__doc__ = f"In-place form of ``{row.name}``."
    return fn


def _compile_twin(row: Any) -> None:
    row.prepare()
    fn, real = row.inplace_fn, compile_inplace(row)
    if real is None:
        NS[f"R{row.uid}"] = row
        scope: dict[str, Any] = {}
        text = "\n".join(["def _fn(*args, **kwargs):", *_guarded(f"INPLACE(R{row.uid}, BIND(R{row.uid}, args, kwargs))")])
        exec(compile(text, f"<mindtorch op {row.name}_>", "exec"), NS, scope)
        real = scope["_fn"]
    fn.__code__, fn.__defaults__, fn.__kwdefaults__ = real.__code__.replace(co_name=fn.__name__), real.__defaults__, real.__kwdefaults__


NS["_compile_inplace"] = _compile_twin


def compile_row(row: Any) -> None:
    """Replace the stub's code by the generated fast path. The first one is the process's first computation."""
    alloc.ensure()
    row.prepare()
    uid = row.uid
    NS[f"R{uid}"] = row
    NS[f"K{uid}"] = row.kernel
    NS[f"F{uid}"] = row.fn
    text = _source(row)
    scope: dict[str, Any] = {}
    exec(compile(text, f"<mindtorch op {row.name}>", "exec"), NS, scope)
    real = scope["_fn"]
    for fn in (row.fn, *row.twins):
        fn.__code__, fn.__defaults__ = real.__code__.replace(co_name=fn.__name__), real.__defaults__
        fn.__kwdefaults__ = real.__kwdefaults__


# ------------------------------------------------------------------------------------------ public function
def _header(row: Any) -> tuple[str, str, bool]:
    parts: list[str] = []
    star = False
    kw = any(p.name in ("dim", "keepdim", "dims") or p.type == "ints*" for p in row.params)
    kwonly = False
    for p in row.params:
        if p.type == "ints*":
            parts.append(f"*{p.name}")
            star = True
            continue
        if p.kwonly and not kwonly:
            kwonly = True
            if not star:
                parts.append("*")
        text = p.name
        if p.default is not p.none:
            text += f"={p.default!r}"
        elif p.name == "dim" and kw or star:
            text += "=MISSING"
        elif any("=" in q for q in parts) and not kwonly:
            text += "=MISSING"
        parts.append(text)
    if row.out:
        if not star and not kwonly:
            parts.append("*")
        parts.append("out=None")
    if kw:
        parts.append("**kw")
    names = "(" + "".join(f"{p.name}, " for p in row.params) + ")"
    return ", ".join(parts), names, kw


def _source(row: Any) -> str:
    sig, names, kw = _header(row)
    uid = row.uid
    lines = [f"def _fn({sig}):"]
    for p in row.params:
        if p.type == "ints*":
            lines += [
                f"    if len({p.name}) == 1 and {p.name}[0].__class__ is not int:",
                f"        {p.name} = tuple({p.name}[0]) if {p.name}[0].__class__ in (tuple, list, Size) else INTS({p.name}[0])",
            ]
    if kw:
        lines += _other("kw", f"KW(R{uid}, {names}, kw)")
    if row.out:
        lines += _other("out is not None", f"OUT(R{uid}, {names}, out)")
    if row.kind == "composite":
        return "\n".join(lines + _composite_body(row, names))
    body = ["    while not MODE:", *(f"    {line}" for line in _op_body(row, names))]
    return "\n".join([*lines, *body, *_guarded(f"SLOW(R{uid}, {names})")])


def _other(cond: str, call: str) -> list[str]:
    return [f"    if {cond}:", *(f"    {line}" for line in _guarded(call))]


def _guarded(call: str) -> list[str]:
    """Source that returns ``call``, an error of which leaves without the frames below this one."""
    return [f"    try: return {call}", "    except Exception as _e:", "        __tracebackhide__ = True; raise TRIM(_e)"]


def _composite_body(row: Any, names: str) -> list[str]:
    uid = row.uid
    tests = []
    for p in row.params:
        if p.type in ("T", "TN"):
            tests.append(f"({p.name}.__class__ is not T and {p.name}.__class__ is not P)")
            break
    cond = " or ".join(["MODE", *tests])
    miss = [p.name for p in row.params if p.default is p.none and p.name == "dim"]
    cond = " or ".join([cond, *(f"{m} is MISSING" for m in miss)])
    call = _call(row, uid, lambda p: p.name)
    return _guarded(f"SLOW(R{uid}, {names}) if {cond} else {call}")


def _call(row: Any, uid: int, raw: Any) -> str:
    args = []
    keyword = row.kernel_keywords
    for p in row.params:
        args.append(f"{p.name}={raw(p)}" if p.name in keyword else raw(p))
    return f"K{uid}({', '.join(args)})"


def _scalar_pair(row: Any) -> bool:
    """Rows of the form (T input, TN other): numbers are looked up as cached 0-dim arrays."""
    ts = [p for p in row.params if p.type in ("T", "TN", "T?", "TN?", "TL")]
    return row.promote in ("same", "float") and [p.type for p in ts] == ["T", "TN"] and ts[0] is row.params[0]


def _numeric(row: Any, first: Any) -> frozenset[str]:
    """Tensor-or-number parameters after the first tensor: numbers are looked up as cached 0-dim arrays."""
    if row.promote not in ("same", "float"):
        return frozenset()
    return frozenset(p.name for p in row.params if p.type in ("TN", "TN?") and p is not first)


def _op_body(row: Any, names: str) -> list[str]:
    uid = row.uid
    slow = "break"
    tens = [p for p in row.params if p.type in ("T", "TN", "T?", "TN?")]
    lists = [p for p in row.params if p.type == "TL"]
    out = ["    try:"]
    first = tens[0] if tens else None
    if lists and (first is None or row.params.index(lists[0]) < row.params.index(first)):
        first = lists[0]
    if first is None:
        return [f"    {slow}"]
    nums = _numeric(row, first)
    out += _key_tests(row, first, tens, lists, nums, slow)
    for p in row.params:
        if p.type in ("ints", "dims", "ints?", "dims?"):
            none = f"{p.name} is not None and " if p.type.endswith("?") or p.default is None else ""
            out.append(
                f"        if {none}{p.name}.__class__ is not tuple: "
                f"{p.name} = ({p.name},) if {p.name}.__class__ is int else INTS({p.name})"
            )

    def raw(p: Any) -> str:
        if p.name in nums:
            return f"_b_{p.name}"
        if p.type in ("T", "TN"):
            return f"{p.name}.a"
        if p.type in ("T?", "TN?"):
            return f"(None if {p.name} is None else {p.name}.a)"
        if p.type == "TL":
            return f"_l_{p.name}"
        return p.name

    direct = _direct(row)
    if direct is not None:
        tensors = ", ".join(raw(p) for p in row.params if p.type in ("T", "TN"))
        cond = direct[1]
        NS[f"U{uid}"] = direct[0]
        fast = f"U{uid}({tensors}, extobj=EXTOBJ)"
        out.append(f"        _r = {fast} if {cond} else {_call(row, uid, raw)}" if cond else f"        _r = {fast}")
    else:
        out.append(f"        _r = {_call(row, uid, raw)}")
    out.append("    except Exception: break")
    return out + _finish(row, names, first, tens, lists, nums)


def _direct(row: Any) -> Any:
    """The ufunc that the fast path may call without the kernel's Python frame, and the condition on other parameters."""
    if row.direct is not None:
        return row.direct
    fn = getattr(row.kernel, "ufunc", None)
    return None if fn is None or fn.nout != 1 else (fn, "")


def compile_inplace(row: Any) -> Any:
    """A fast in-place twin that writes through when nothing is recorded: rows of one ufunc, and rows with ``into``."""
    direct, into = _direct(row), row.into
    if (direct is None and into is None) or not row.params or row.params[0].type != "T":
        return None
    first, rest = row.params[0], [p for p in row.params[1:] if p.type in ("T", "TN", "T?", "TN?", "TL")]
    if any(p.type not in ("T", "TN") for p in rest) or (into is None and rest and not _scalar_pair(row)):
        return None
    sig, names, kw = _header(row)
    if kw:
        return None
    sig = sig.replace(", *, out=None", "").replace(", out=None", "")
    x, uid, nums = first.name, row.uid, _numeric(row, first)
    cond = "MODE" if direct is None or not direct[1] or into is not None else f"MODE or not ({direct[1]})"
    lines = ["    try:", *_key_tests(row, first, [first, *rest], [], nums, "break")]
    lines += [f"        _b_{p.name} = {p.name}.a; _n_{p.name} = {p.name}.n" for p in rest if p.name not in nums]
    recorded = " or ".join(f"{n} is not None" for n in [f"{x}.n", *(f"_n_{p.name}" for p in rest)])
    # A part of the same memory may be what is read: whether the two overlap is for the slow path to say.
    read = [f"_b_{p.name}" for p in rest]
    other = "".join(f" or {b}.base is _a or _a.base is {b} or (_a.base is {b}.base and _a.base is not None)" for b in read)
    lines += [
        f"        if ({recorded}) and (GRAD or grad_on()): break",
        f"        _a = {x}.a; _v = {x}.v",
        f"        if _v is None: _v = {x}.v = Cell(_a)",
        f"        elif _v.__class__ is not Cell and (GRAD or _v.__class__ is not MarkedCell) or 0 in _a.strides{other}: break",
        *_write(row, uid, direct, read),
        "    except Exception: break",
        "    _v.bump()",
        f"    return {x}",
    ]
    NS[f"R{uid}"], NS[f"W{uid}"] = row, into
    scope: dict[str, Any] = {}
    body = [f"    while not ({cond}):", *(f"    {line}" for line in lines)]
    text = "\n".join([f"def _fn({sig}):", *body, *_guarded(f"INPLACE(R{uid}, {names})")])
    exec(compile(text, f"<mindtorch op {row.name}_>", "exec"), NS, scope)
    return scope["_fn"]


def _write(row: Any, uid: int, direct: Any, read: list[str]) -> list[str]:
    """The write itself: by the ufunc's ``out`` where it applies, else by ``into``, which tells whether it could."""
    if direct is not None:
        NS[f"U{uid}"] = direct[0]
    ufunc = f"U{uid}({', '.join(['_a', *read])}, _a, extobj=EXTOBJ)"
    if row.into is None:
        return [f"        {ufunc}"]
    args = ", ".join(f"_b_{p.name}" if p.type in ("T", "TN") else p.name for p in row.params[1:])
    into = f"if not W{uid}(_a, {args}): break"
    if direct is None or not direct[1]:
        return [f"        {into}"]
    return [f"        if {direct[1]}: {ufunc}", f"        el{into}"]


def _gate(row: Any) -> str:
    if row.promote == "float":
        return "_k.fc" if row.half == "f32" else "(_k.plain and _k.diff)"
    return "_k.pf" if row.half == "f32" else "_k.plain"


def _key_tests(row: Any, first: Any, tens: list[Any], lists: list[Any], nums: frozenset[str], slow: str) -> list[str]:
    out = []
    out.append(f"        _k = {first.name}[0].k" if first.type == "TL" else f"        _k = {first.name}.k")
    out.append(f"        if not {_gate(row)}: {slow}")
    same = row.promote in ("same", "float")
    for p in tens:
        if p is first:
            continue
        match = same and p.name in row.promoted
        test = f"{p.name}.k is not _k" if match else f"not {p.name}.k.plain"
        if not match and row.half == "f32":
            test = f"not {p.name}.k.pf"
        if p.name in nums:
            out += [
                f"        _c = {p.name}.__class__",
                "        if _c is T or _c is P:",
                f"            if {test}: {slow}",
                f"            _b_{p.name} = {p.name}.a",
                f"            _n_{p.name} = {p.name}.n",
                "        elif _c is float and _k.cat > 1:",
                f"            _b_{p.name} = _k.floats[{p.name}]; _n_{p.name} = None",
                "        elif _c is int and _k.cat > 0:",
                f"            _b_{p.name} = _k.ints[{p.name}]; _n_{p.name} = None",
                *([f"        elif {p.name} is None: _b_{p.name} = _n_{p.name} = None"] if p.type == "TN?" else []),
                f"        else: {slow}",
            ]
            continue
        opt = f"{p.name} is not None and " if p.type.endswith("?") else ""
        out.append(f"        if {opt}{test}: {slow}")
    for p in lists:
        if p is first:
            out.append(f"        if {p.name}.__class__ is not list and {p.name}.__class__ is not tuple: {slow}")
        test = "_t.k is _k" if same and p.name in row.promoted or p is first else ("_t.k.pf" if row.half == "f32" else "_t.k.plain")
        # one loop for arrays and history: two comprehensions cost more than the rest of the fast path
        out += [
            f"        _l_{p.name} = []; _g_{p.name} = False",
            f"        for _t in {p.name}:",
            f"            if not ({test}): _l_{p.name} = None; break",
            f"            _l_{p.name}.append(_t.a)",
            f"            if _t.n is not None: _g_{p.name} = True",
            f"        if _l_{p.name} is None: {slow}",
        ]
    return out


def _finish(row: Any, names: str, first: Any, tens: list[Any], lists: list[Any], nums: frozenset[str]) -> list[str]:
    uid = row.uid
    out = ["    if _r.__class__ is not nd:"]
    fix = "".join(f"list({p.name}), " if p.type == "TL" else f"{p.name}, " for p in row.params)
    out += [
        f"        if _r.__class__ is tuple or _r.__class__ is list: return FINISH(R{uid}, _r, ({fix}))",
        "        _r = asarray(_r)",
        "    _t = new(); _t.a = _r; _d = _r.dtype",
        "    _k = _t.k = _k if _d is _k.np else PLAIN[_d.num]",
    ]
    if row.kind == "view":
        rest = "(" + "".join(f"{p.name}, " for p in row.params[1:]) + ")"
        x = row.params[0].name
        out += [
            f"    _c = {x}.v",
            f"    if _c is None: _c = {x}.v = Cell({x}.a)",
            "    _t.v = _c",
            f"    _t.b = ({x}, F{uid}, {rest})",
            "    if not GRAD: MADE(_t)",
        ]
    else:
        out.append("    _t.v = FRESH if FRESH is None else FRESH(_r)")
    if not row.grad_index:
        return [*out, "    _t.n = None", "    return _t"]
    tests = []
    for j in row.grad_index:
        p = row.params[j]
        if p.type == "TL":
            tests.append(f"_g_{p.name}")
        elif p.name in nums:
            tests.append(f"_n_{p.name} is not None")
        elif p.type.endswith("?"):
            tests.append(f"({p.name} is not None and {p.name}.n is not None)")
        else:
            tests.append(f"{p.name}.n is not None")
    out.append(f"    if ({' or '.join(tests)}) and _k.diff and (GRAD or grad_on()):")
    return out + _record(row, nums) + ["    else: _t.n = None", "    return _t"]


def _record(row: Any, nums: frozenset[str]) -> list[str]:
    """Inline recording of a node with one output."""
    edges, shapes, counts, has_list = [], [], [], False
    for j in row.grad_index:
        p = row.params[j]
        if p.type == "TL":
            edges.append(f"*[_u.n for _u in {p.name}]")
            shapes.append(f"*[_u.a.shape for _u in {p.name}]")
            counts.append(f"len({p.name})")
            has_list = True
            continue
        counts.append("-1")
        n = f"{p.name}.n"
        s = f"{p.name}.a.shape"
        if p.name in nums:
            n, s = f"_n_{p.name}", f"_b_{p.name}.shape" if p.type == "TN" else f"(_b_{p.name} if _b_{p.name} is None else _b_{p.name}.shape)"
        elif p.type.endswith("?"):
            n, s = f"(None if {p.name} is None else {n})", f"(None if {p.name} is None else {s})"
        edges.append(n)
        shapes.append(s)
    saved = []
    for name in row.saved:
        p = row.params[row.index[name]] if name in row.index else None
        if is_part(name):
            saved.append("None")
        elif p is None and name != "out":
            saved.append(_meta_text(row, name, nums))
        elif p is not None and p.type == "TL":
            saved.append(f"list({name})")
        else:
            saved.append("(_r, _k, _c, 0)" if name == "out" else name)
    if has_list:
        saved.append(f"({', '.join(counts)},)")
    out = [f"        _n = onew({_node_text(row)}); _n.e = ({', '.join(edges)},)"]
    if "out" in row.saved:
        out.append("        _c = _t.v")
        out.append("        if _c is None: _c = _t.v = Cell(_r)")
    out.append(f"        _n.s = ({''.join(s + ', ' for s in saved)})")
    if saved:
        out.append("        if INFERENCE: SAVABLE(_n.s)")
    if row.promote in ("same", "float") and (len(shapes) > 1 or any(p.type in ("TN", "T") for p in row.params[1:])):
        multi = [s for s in shapes if not s.startswith("*")]
        if nums and len(multi) == 2 and len(shapes) == 2 and not any("None" in s for s in shapes):
            out.append(f"        if {shapes[0]} != {shapes[1]}: _n.m = ({shapes[0]}, {shapes[1]})")
        else:
            out.append(f"        _s = ({', '.join(shapes)},)")
            out.append("        for _u in _s:")
            out.append("            if _u is not None and _u != _r.shape: _n.m = _s")
    out.append("        _n.q = STAMP(); _t.n = _n")
    out += [f"        WATCH(_n, {name})" for name in row.copied]
    return out


def _node_text(row: Any) -> str:
    """Source for the node's class: of the first condition in ``row.nodes`` that holds, else the row's own."""
    text = f"N{row.uid}"
    NS[text] = row.node_class(1)
    for i, cond in reversed(list(enumerate(row.nodes))):
        NS[f"N{row.uid}_{i}"] = row.node_class(1, label=row.nodes[cond])
        text = f"N{row.uid}_{i} if {cond} else {text}"
    return text


def _meta_text(row: Any, name: str, nums: frozenset[str]) -> str:
    """Source for ``input_shape`` / ``input_dtype`` of a parameter: saved without keeping the tensor."""
    param, what = name.rsplit("_", 1)
    p = row.params[row.index[param]]
    if param in row.keeps:
        return param
    if p.type == "TL":
        return f"[_u.{'a.shape' if what == 'shape' else 'k.dtype'} for _u in {param}]"
    if param in nums and p.type == "TN":
        return f"_b_{param}.shape" if what == "shape" else "_k.dtype"
    text = f"{param}.a.shape" if what == "shape" else f"{param}.k.dtype"
    return f"(None if {param} is None else {text})" if p.type.endswith("?") else text


NS["_compile"] = compile_row
