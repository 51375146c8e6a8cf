"""The op table: one row per op. A row is a signature, a kernel, a promotion kind, a derivative and the forms it appears in.

See ``docs/add-an-op.md`` for the mini language. Registering a name twice in one namespace is an import error.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import types
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from mindtorch.core import autocast, codegen, modes, nodes, tape, views
from mindtorch.core.cells import STAMP
from mindtorch.core.signature import Param, parse, to_ints
from mindtorch.core.tensor import Size
from mindtorch.engine.host.quiet import EXTOBJ
from mindtorch.engine.mindspore import kernels as mindspore_kernels

NS = modes.NS
NS["INTS"] = to_ints
NS["Size"] = Size
_uid = itertools.count()
SPACES: dict[str, dict[str, Any]] = {}
"""namespace -> name -> public function (or property) of the table."""
ROWS: list[Row] = []
mindspore_kernels.ROWS = ROWS


class Vjp:
    """One derivative function for several inputs: ``fn(g, needs, ...)`` returns gradients aligned with ``params``.

    ``uses`` says of a saved tensor for which gradients its values are read: written to since, it is an error only then.
    """

    def __init__(self, params: tuple[str, ...], fn: Callable[..., Any], uses: dict[str, tuple[str, ...]]) -> None:
        self.params = params
        self.fn = fn
        self.uses = uses


def vjp(params: tuple[str, ...], fn: Callable[..., Any], **uses: tuple[str, ...]) -> Vjp:
    """See :class:`Vjp`."""
    return Vjp(params, fn, uses)


def _no_derivative(name: str) -> Callable[..., Any]:
    def rule(g: Any) -> Any:
        raise RuntimeError(f"derivative for {name} is not implemented")

    return rule


class Row:
    """One op. Everything derived from the signature is computed on first use.

    ``node`` names the graph node and ``nodes`` names it by conditions on the arguments. ``keeps`` lists tensors of which the
    derivative reads the shape alone and which PyTorch saves whole: written to since, they are an error there and here.
    ``copied`` lists tensors of which PyTorch's steps save something computed: they may be written to (``core.snapshot``).
    """

    def __init__(self, kind: str, sig: str, kernel: Callable[..., Any], options: dict[str, Any]) -> None:
        self.kind = kind
        self.sig = sig
        self.name = sig.partition("(")[0].strip()
        self.kernel = kernel
        self.promote = options.pop("promote", "none" if kind == "composite" else "first")
        self.half = options.pop("half", "f32" if self.promote in ("same", "float") else "native")
        self.grad = options.pop("grad", None)
        self.inplace = options.pop("inplace", False)
        self.out = options.pop("out", False)
        self.ns = options.pop("ns", "torch Tensor").split()
        self.autocast = autocast.policy(self.name)
        self.node = options.pop("node", None)
        self.nodes: dict[str, str] = options.pop("nodes", {})
        self.keeps = frozenset(options.pop("keeps", ()))
        self.copied = tuple(options.pop("copied", ()))
        self.nondiff = frozenset(options.pop("nondiff", ()))
        self.note = options.pop("note", "")
        self.direct = options.pop("direct", None)
        self.into = options.pop("into", None)
        self._promo = options.pop("promote_params", None)
        seq = options.pop("structseq", None)
        self.structseq = _structseq(self.name, seq) if seq else None
        if kind == "composite" and (self.node or self.keeps):
            self.kernel = _one_step(kernel, self.node, self.keeps)
        if options:
            raise TypeError(f"row {self.name}: unknown options {sorted(options)}")
        self.uid = f"{next(_uid)}_{self.name}"
        self.doc = kernel.__doc__ if isinstance(kernel, types.FunctionType) else f"{self.name}: see torch.{self.name}."
        self.label = self.node or _label(self.name if self.ns != ["special"] else f"special_{self.name}")
        self._nodes: dict[tuple[int, bool, str], type] = {}
        self._which: Any = None
        self._ready = False
        self.fn = codegen.stub(self)
        self.fn.row = self  # type: ignore[attr-defined]
        self.twins: list[Any] = []
        self.inplace_fn: Any = None

    # ------------------------------------------------------------------ lazily derived
    def __getattr__(self, name: str) -> Any:
        if name in ("params", "index", "promoted", "kernel_keywords", "grad_index", "saved", "spread"):
            self.prepare()
            return self.__dict__[name]
        raise AttributeError(name)

    def prepare(self) -> None:
        """Parse the signature and work out what the derivative needs."""
        if self._ready:
            return
        self.name, self.params = parse(self.sig)
        self.index = {p.name: i for i, p in enumerate(self.params)}
        given = self._promo or [p.name for p in self.params if p.type in ("T", "TN", "T?", "TN?", "TL")]
        self.promoted = frozenset(given)
        self._inspect_kernel()
        grad = self.grad
        if grad is None and self.kind != "composite":
            names = [p.name for p in self.params if p.type in ("T", "T?", "TL", "TN", "TN?")]
            grad = self.grad = Vjp(tuple(names), _no_derivative(self.name), {}) if names and self.kind == "op" else {}
        names = list(grad.params if isinstance(grad, Vjp) else grad or ())
        self.grad_index = [self.index[n] for n in names]
        used: list[str] = []
        for fn in [grad.fn] if isinstance(grad, Vjp) else list((grad or {}).values()):
            used += [p for p in inspect.signature(fn).parameters if p not in ("g", "needs") and p not in used]
        for n in used:
            meta = n.rsplit("_", 1)
            if len(meta) == 2 and meta[1] in ("shape", "dtype") and meta[0] in self.index:
                continue
            if n != "out" and n not in self.index and not nodes.is_part(n):
                raise TypeError(f"row {self.name}: derivative uses {n!r}, which is not a parameter")
        self.saved = used
        self._ready = True

    def _inspect_kernel(self) -> None:
        self.kernel_keywords: set[str] = set()
        self.spread = False
        try:
            have = inspect.signature(self.kernel).parameters
        except (TypeError, ValueError):
            return
        self.kernel_keywords = {p.name for p in self.params if p.kwonly and p.name in have}
        self.spread = any(p.kind is p.VAR_POSITIONAL for p in have.values()) and any(
            p.type == "ints*" for p in self.params
        )

    def node_class(self, nout: int, seq: bool = False, label: str = "") -> Any:
        """Node class for results with ``nout`` outputs; ``seq`` when the kernel returned a sequence."""
        got = self._nodes.get((nout, seq, label))
        if got is None:
            got = self._nodes[nout, seq, label] = nodes.node_class(self, nout, seq, label)
        return got

    def label_for(self, values: Sequence[Any]) -> str:
        """Name of the node of one call: that of the first condition of ``nodes`` that holds, "" for the row's own."""
        if not self.nodes:
            return ""
        if self._which is None:
            text = "".join(f"{label!r} if {cond} else " for cond, label in self.nodes.items())
            self._which = eval(f"lambda {', '.join(p.name for p in self.params)}: {text}''")
        return self._which(*values)

    # ------------------------------------------------------------------ calling
    def call_kernel(self, raws: Sequence[Any]) -> Any:
        """The kernel with raw arguments in signature order."""
        pos, kw = [], {}
        for p, v in zip(self.params, raws):
            if p.name in self.kernel_keywords:
                kw[p.name] = v
            elif p.type == "ints*" and self.spread:
                pos += list(v)
            else:
                pos.append(v)
        return self.kernel(*pos, **kw)

    impl = call_kernel

    def as_call(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments that repeat a call."""
        pos: list[Any] = []
        kw: dict[str, Any] = {}
        for p, v in zip(self.params, values):
            if p.kwonly:
                if v is not p.default:
                    kw[p.name] = v
            elif p.type == "ints*":
                pos.append(tuple(v))
            elif v is not Param.none:
                pos.append(v)
        return tuple(pos), kw

    def __repr__(self) -> str:
        return f"<row {self.sig}>"


def _one_step(fn: Callable[..., Any], label: str | None, keeps: frozenset[str]) -> Callable[..., Any]:
    """``fn``, of several recorded steps, as PyTorch's one step: its node's name, and tensors it saves whatever is read."""
    where = [(i, n) for i, n in enumerate(inspect.signature(fn).parameters) if n in keeps]

    @functools.wraps(fn)
    def one(*args: Any, **kwargs: Any) -> Any:
        start = STAMP()
        r = fn(*args, **kwargs)
        kept = [args[i] if i < len(args) else kwargs.get(n) for i, n in where]
        tape.relabel(r, start, label or "", [t for t in kept if t is not None])
        return r

    return one


def _label(name: str) -> str:
    """PyTorch's spelling: a capital for the first letter of a word and for one after a digit (``Log1PBackward0``)."""
    words = name.strip("_").split("_")
    return re.sub(r"\d[a-z]", lambda m: m[0].upper(), "".join(w[:1].upper() + w[1:] for w in words)) + "Backward0"


def _structseq(name: str, fields: str) -> Any:
    base = namedtuple(name, fields.split())  # type: ignore[misc]  # noqa: PYI024

    class seq(base):  # type: ignore[misc,valid-type]  # noqa: N801
        __slots__ = ()

        def __repr__(self) -> str:
            body = ",\n".join(f"{f}={v!r}" for f, v in zip(self._fields, self))
            return f"torch.return_types.{name}(\n{body})"

    seq.__name__ = seq.__qualname__ = name
    seq.__module__ = "torch.return_types"
    SPACES.setdefault("return_types", {})[name] = seq
    return seq


# ------------------------------------------------------------------------------------------ registration
def _put(ns: str, name: str, fn: Any) -> None:
    space = SPACES.setdefault(ns, {})
    if name in space:
        raise ImportError(f"op {name!r} is registered twice in namespace {ns!r}")
    space[name] = fn


def _register(row: Row) -> Any:
    ROWS.append(row)
    for ns in row.ns:
        _put(ns, row.name, row.fn)
    if row.inplace:
        fn = row.inplace_fn = _inplace_twin(row)
        for ns in row.ns:
            if ns in ("torch", "Tensor", "F"):
                _put(ns, fn.__name__, fn)
    return row.fn


def _inplace_twin(row: Row) -> Any:
    """``name_``: writes through directly when it can, else goes to ``core.views.inplace``."""
    fn = codegen.inplace_stub(row, f"{row.name}_")
    fn.row = row
    return fn


def _bind(row: Row, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments in signature order, defaults filled in. TypeError as a Python call would raise."""
    name = f"{row.name}_"
    params = row.params
    star = next((i for i, p in enumerate(params) if p.type == "ints*"), None)
    if star is not None and len(args) > star + 1:
        args = (*args[:star], args[star:])
    positional = [p for p in params if not p.kwonly]
    if len(args) > len(positional):
        raise TypeError(f"{name}() takes {len(positional)} positional arguments but {len(args)} were given")
    values = [p.default for p in params]
    for i, v in enumerate(args):
        values[row.index[positional[i].name]] = v
    for k, v in kwargs.items():
        k = k if k in row.index else {"axis": "dim", "keepdims": "keepdim"}.get(k, k)
        if k not in row.index:
            raise TypeError(f"{name}() got an unexpected keyword argument '{k}'")
        if row.index[k] < len(args) and not params[row.index[k]].kwonly:
            raise TypeError(f"{name}() got multiple values for argument '{k}'")
        values[row.index[k]] = v
    for p, v in zip(params, values):
        if v is Param.none:
            raise TypeError(f"{name}() missing 1 required positional argument: '{p.name}'")
    return tuple(values)


NS["BIND"] = _bind
NS["INPLACE"] = views.inplace
NS["EXTOBJ"] = EXTOBJ


def op(sig: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: the function is the kernel of a new row; returns the public function."""

    def make(kernel: Callable[..., Any]) -> Any:
        return _register(Row("op", sig, kernel, options))

    return make


def view(sig: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator for ops whose kernel returns a NumPy view (or a list of views) of the first argument."""

    def make(kernel: Callable[..., Any]) -> Any:
        return _register(Row("view", sig, kernel, options))

    return make


def composite(sig: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator for ops written over Tensors with other public ops: gradients come free."""

    def make(fn: Callable[..., Any]) -> Any:
        return _register(Row("composite", sig, fn, options))

    return make


def alias(name_or_sig: str, target: Any, ns: str | None = None) -> Any:
    """A second name for a row (``alias("absolute", "abs")``), or a second signature for its positional parameters."""
    row: Row = _find(target) if isinstance(target, str) else target.row
    spaces = ns.split() if ns else row.ns
    if "(" not in name_or_sig:
        twin = codegen.twin(row, name_or_sig, spaces)
        for space in spaces:
            _put(space, name_or_sig, twin)
            if row.inplace and space in ("torch", "Tensor", "F"):
                _put(space, f"{name_or_sig}_", row.inplace_fn)
        return twin

    def fn(*args: Any) -> Any:
        return row.fn(*args)

    fn.__doc__ = f"Alias of ``{row.name}``."
    return _register(
        Row("composite", name_or_sig, fn, {"ns": " ".join(spaces), "out": False, "inplace": False})
    )


def _find(name: str) -> Row:
    for row in reversed(ROWS):
        if row.name == name:
            return row
    raise ImportError(f"alias of unknown op {name!r}")


def put(ns: str, **functions: Any) -> None:
    """Add plain functions or properties to namespaces (creation functions, properties of Tensor)."""
    for name, fn in functions.items():
        for space in ns.split():
            _put(space, name, fn)
            if space == "torch" and getattr(fn, "__module__", "").startswith("mindtorch.ops"):
                fn.__module__, fn.__qualname__, fn.__name__ = "mindtorch.torch", name, name  # where pickle finds it


def namespace(ns: str) -> dict[str, Any]:
    """Public functions of a namespace by name."""
    return dict(SPACES.get(ns, {}))
