"""State of a tensor: strided host memory, an interned key, a version cell, an autograd edge. Behaviour is bound by ``ops``.

A tensor has four slots that are always set (see ``docs/how-it-works.md``):

``a``  the ``numpy.ndarray`` that is its memory, strides included; views share memory with their base.
``k``  an interned :class:`Key`: dtype, device and whether the fast paths may take the tensor.
``n``  its autograd edge: None (needs no gradient), a ``Leaf``, a ``Node`` or an ``Out`` of a node with several outputs.
``v``  a :class:`Cell` shared by all views of the same memory; None until the first view or in-place operation.

``b`` is set only on views: ``(parent, function, arguments)``, enough to make the view again.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mindtorch.core import device as _device
from mindtorch.core import dtype as _dtype
from mindtorch.core import modes
from mindtorch.core.cells import Cell, HeldCell, base_of


class Numbers(dict):  # type: ignore[type-arg]
    """Python numbers as cached 0-dim arrays of one dtype. Zeros are kept apart: ``-0.0 == 0.0`` for a dict."""

    __slots__ = ("minus", "np", "zero")

    def __init__(self, np_dtype: np.dtype) -> None:
        super().__init__()
        self.np = np_dtype
        self.zero = np.zeros((), np_dtype)
        self.minus = -self.zero if np_dtype.kind in "fc" else self.zero
        self.minus = np.asarray(self.minus, np_dtype)

    def __missing__(self, number: Any) -> np.ndarray:
        if number == 0:
            return self.minus if math.copysign(1.0, number) < 0 else self.zero
        from mindtorch.core.dispatch import scalar

        return scalar(number, self.np)


class Key:
    """dtype and device of a tensor, interned, so that ``x.k is y.k`` decides whether a fast path applies."""

    __slots__ = ("cat", "device", "diff", "dtype", "fc", "ff", "floats", "half", "ints", "loose", "np", "pf", "plain", "sub")

    def __init__(self, d: _dtype.dtype, dev: _device.device, plain: bool) -> None:
        self.dtype = d
        self.np = d.np
        self.device = dev
        self.plain = plain
        self.cat = d.category
        self.half = d in (_dtype.float16, _dtype.bfloat16)
        self.diff = d.category >= _dtype.FLOAT
        self.ff = plain and d in (_dtype.float32, _dtype.float64)
        self.fc = plain and d.category >= _dtype.FLOAT and not self.half
        self.pf = plain and not self.half
        self.floats = Numbers(d.np)
        self.ints = Numbers(d.np)
        self.sub: Key = self
        self.loose = False

    def __repr__(self) -> str:
        return f"Key({self.dtype}, {self.device}, plain={self.plain})"


_NS = modes.NS
PLAIN: dict[int, Key] = {}
"""CPU keys by NumPy type number: the one look-up a result of a new dtype needs."""
_META: dict[int, Key] = {}
_ELSEWHERE: dict[_device.device, dict[int, Key]] = {}
for _d in _dtype.ALL:
    _k = PLAIN[_d.np.num] = Key(_d, _device.cpu, True)
    _k.sub = Key(_d, _device.cpu, False)
    _k.sub.sub = _k.sub
    _META[_d.np.num] = Key(_d, _device.meta, False)


def key_of(d: _dtype.dtype, dev: _device.device = _device.cpu) -> Key:
    """The key of plain tensors of dtype ``d`` on ``dev``."""
    if dev is _device.cpu or dev.type == "cpu":
        return PLAIN[d.np.num]
    if dev.type == "meta":
        return _META[d.np.num]
    table = _ELSEWHERE.get(dev)
    if table is None:
        table = _ELSEWHERE[dev] = {e.np.num: Key(e, dev, False) for e in _dtype.ALL}
    return table[d.np.num]


class Size(tuple):
    """Shape of a tensor: a tuple of ints with ``numel()``."""

    __slots__ = ()
    __module__ = "mindtorch.torch"

    def numel(self) -> int:
        """Number of elements of a tensor of this shape."""
        n = 1
        for s in self:
            n *= s
        return n

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def __getitem__(self, i: Any) -> Any:
        r = tuple.__getitem__(self, i)
        return Size(r) if r.__class__ is tuple else r

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, n: Any) -> Size:
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)


_new_size = functools.partial(tuple.__new__, Size)


class TensorMeta(type):
    """Lets ``isinstance(x, torch.FloatTensor)`` style classes exist beside the one real class."""


if TYPE_CHECKING:
    from mindtorch.core.bound import Bound
else:
    Bound = object


class Tensor(Bound, metaclass=TensorMeta):
    """A multi-dimensional array with autograd. Methods are bound by ``mindtorch.ops.bind``."""

    __slots__ = ("__dict__", "__weakref__", "a", "b", "k", "n", "v")
    __module__ = "mindtorch.torch"

    a: np.ndarray
    k: Key
    n: Any
    v: Cell | None
    b: tuple[Any, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        from mindtorch.core import legacy

        return legacy.construct(cls, args, kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """State is made by ``__new__``; subclasses may define their own ``__init__``."""

    # -------------------------------------------------------------------------------------- shape and type
    @property
    def shape(self) -> Size:
        """Size of every dimension."""
        return _new_size(self.a.shape)

    @property
    def dtype(self) -> _dtype.dtype:
        """Element type."""
        return self.k.dtype

    @property
    def device(self) -> _device.device:
        """Where the memory is."""
        return self.k.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.a.ndim

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.a.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.a.nbytes

    # -------------------------------------------------------------------------------------- autograd state
    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        return self.n is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(bool(value))

    @property
    def is_leaf(self) -> bool:
        """True when no recorded operation made this tensor."""
        n = self.n
        return n is None or n.__class__ is Leaf

    @property
    def grad_fn(self) -> Any:
        """The graph node that made this tensor, or None for leaves."""
        n = self.n
        if n is None or n.__class__ is Leaf:
            return None
        if n.__class__ is Lost:
            n.refuse()
        return n.node if n.__class__ is Out else n

    @property
    def output_nr(self) -> int:
        """Which output of ``grad_fn`` this tensor is."""
        return self.n.i if self.n.__class__ is Out else 0

    @property
    def grad(self) -> Tensor | None:
        """Accumulated gradient of a leaf (or of a tensor that retains it)."""
        n = self.n
        if n.__class__ is Leaf:
            return n.grad
        return self.__dict__.get("_grad")

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            _check_grad(self, value)
        n = self.n
        if n.__class__ is Leaf:
            n.grad = value
        else:
            self.__dict__["_grad"] = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _version(self) -> int:
        if self.v.__class__ is HeldCell:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self.v is None else self.v.ver

    @property
    def _base(self) -> Tensor | None:
        got = base_of(self)
        return None if got is self else got

    def _is_view(self) -> bool:
        return base_of(self) is not self

    @property
    def data(self) -> Tensor:
        """The same memory without history; writes through it are not counted by the version check."""
        t = wrap_like(self, self.a)
        t.v = Cell(self.a) if self.v is None else (HeldCell if self.v.__class__ is HeldCell else Cell)(self.v.root)
        return t

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self.n is not None and not value.k.diff:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        self.a = value.a
        self.k = value.k.sub if self.k.sub is self.k and self.k.device.type == "cpu" else value.k
        self.v = None if value.v is None else Cell(value.v.root)

    # -------------------------------------------------------------------------------------- subclasses
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Default of subclasses: run ``func`` on the data and give the results the subclass's type."""
        from mindtorch.core import overrides

        return overrides.default_torch_function(cls, func, types, args, kwargs or {})

    @staticmethod
    def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:  # noqa: PLW0211
        t = object.__new__(cls)
        t.a, t.v, t.n = data.a, data.v, None
        t.k = data.k if cls is Parameter or cls is Tensor or issubclass(cls, Parameter) else data.k.sub
        if require_grad:
            t.n = Leaf(t)
        return t

    def as_subclass(self, cls: type) -> Any:
        """The same data and history seen as ``cls``, a subclass of Tensor."""
        t = object.__new__(cls)
        t.a, t.v, t.n = self.a, self.v, self.n
        t.k = self.k.sub if cls is not Tensor and not issubclass(cls, Parameter) else key_of(self.k.dtype, self.k.device)
        return t

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

    __array_priority__ = 1000


new = functools.partial(object.__new__, Tensor)
"""The cheapest way to an empty tensor; the caller sets ``a``, ``k``, ``v`` and ``n``."""


class Leaf:
    """Edge to a tensor the user made: holds its gradient and hooks. ``grad_fn`` of a leaf's place in ``next_functions``."""

    __slots__ = ("__dict__", "__weakref__", "grad", "ref")

    hooks: Any = None
    post: Any = None
    q = 1 << 62

    def __init__(self, t: Tensor) -> None:
        import weakref

        self.ref = weakref.ref(t)
        self.grad: Tensor | None = t.__dict__.pop("_grad", None) if "_grad" in t.__dict__ else None

    @property
    def variable(self) -> Tensor | None:
        """The tensor whose gradient is accumulated here."""
        return self.ref()

    next_functions: tuple[Any, ...] = ()

    def name(self) -> str:
        """Name of the node as PyTorch gives it."""
        return "torch::autograd::AccumulateGrad"

    def register_hook(self, hook: Any) -> Any:
        """Call ``hook(grad_inputs, grad_outputs)`` after the gradient was accumulated."""
        from mindtorch.core import hooks

        return hooks.add(self, "post_node", hook)

    def register_prehook(self, hook: Any) -> Any:
        """Call ``hook(grad_outputs)`` before the gradient is accumulated."""
        from mindtorch.core import hooks

        return hooks.add(self, "pre_node", hook)

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


Leaf.__name__ = Leaf.__qualname__ = "AccumulateGrad"


class Out:
    """Edge to output ``i`` of a node with several outputs."""

    __slots__ = ("i", "node")

    def __init__(self, node: Any, i: int) -> None:
        self.node = node
        self.i = i


class Lost:
    """Edge of a view whose base was written to and which PyTorch then lets nobody use: see ``core.views``."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def refuse(self) -> None:
        """Say why the view has no history."""
        raise RuntimeError(self.text)


class Parameter(Tensor):
    """A tensor that a Module registers by itself when assigned as attribute. Shares the plain key: fast paths take it."""

    __slots__ = ()
    __module__ = "mindtorch.torch.nn.parameter"

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        """``data``: tensor whose memory is shared (an empty one when None)."""
        if data is None:
            data = wrap(np.empty((0,), _dtype.get_default_dtype().np))
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter(): argument 'data' must be Tensor, not {type(data).__name__}")
        if requires_grad and not data.k.diff:
            raise RuntimeError(_ONLY_FLOAT)
        t = Tensor._make_subclass(cls, data, bool(requires_grad))
        if type(data) is not Tensor and not isinstance(data, Parameter):
            t.k = data.k
        return t

    def __repr__(self) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + Tensor.__repr__(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        r = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = r
        return r

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Parameters take no part in overriding."""
        return func(*args, **(kwargs or {}))


_ONLY_FLOAT = "Only Tensors of floating point and complex dtype can require gradients"


# ------------------------------------------------------------------------------------------ making tensors
def array_key(a: Any) -> Key:
    """Key of memory that may be an accelerator's (``engine.mindspore.array``) or a subclass of the host's."""
    store = getattr(a, "store", None)
    k = PLAIN[a.dtype.num]
    return k if store is None else key_of(k.dtype, store.device)


def constant(a: np.ndarray) -> Tensor:
    """A tensor an operation makes for itself: it may meet an accelerator's tensors, which a user's CPU tensor may not."""
    t = wrap(a)
    if a.__class__ is np.ndarray and _device.accelerators():
        t.k = loose_key(t.k)
    return t


def loose_key(k: Key) -> Key:
    """The key of CPU tensors that operations made for themselves."""
    got = _LOOSE.get(k.np.num)
    if got is None:
        got = _LOOSE[k.np.num] = Key(k.dtype, _device.cpu, False)
        got.loose = True
    return got


_LOOSE: dict[int, Key] = {}


def values(t: Tensor) -> np.ndarray:
    """The values of a tensor in host memory, from wherever they are; not to be written to."""
    return t.a if t.a.__class__ is np.ndarray else t.a.on_host() if hasattr(t.a, "on_host") else t.a


def filled_like(x: Tensor, value: float) -> Tensor:
    """``value`` in the shape and dtype and on the device of ``x``, without history."""
    a = np.zeros(x.a.shape, x.k.np) if value == 0 else np.full(x.a.shape, value, x.k.np)
    return wrap(a) if x.a.__class__ is np.ndarray else wrap(x.a.beside(a))


def wrap(a: np.ndarray) -> Tensor:
    """A fresh tensor over ``a`` (no copy): no history, its own version count."""
    t = new()
    t.a = a
    t.k = PLAIN[a.dtype.num] if a.__class__ is np.ndarray else array_key(a)
    fresh = _NS["FRESH"]
    t.v = fresh if fresh is None else fresh(a)
    t.n = None
    return t


def wrap_like(x: Tensor, a: np.ndarray) -> Tensor:
    """A fresh plain tensor over ``a`` on the device of ``x``."""
    t = new()
    t.a = a
    k = PLAIN[a.dtype.num]
    t.k = k if x.k.device.type == "cpu" else key_of(k.dtype, x.k.device)
    t.v = None
    t.n = None
    return t


def cell_of(x: Tensor) -> Cell:
    """The version cell of ``x``, made on first need."""
    c = x.v
    if c is None:
        c = x.v = Cell(x.a)
    return c


def address(a: np.ndarray) -> int:
    """Address of the first element."""
    return a.__array_interface__["data"][0]


def root_array(x: Tensor) -> np.ndarray:
    """The whole memory behind ``x`` as a flat array of its dtype, shared, starting at the storage's first element."""
    a = x.a if x.v is None else x.v.root
    if a.ndim == 1 and a.flags.c_contiguous:
        flat = a
    elif a.flags.c_contiguous:
        flat = a.reshape(-1)
    elif a.flags.f_contiguous:
        flat = a.T.reshape(-1)
    else:
        span = 1 + sum((n - 1) * (s // a.itemsize) for n, s in zip(a.shape, a.strides)) if a.size else 0
        flat = np.lib.stride_tricks.as_strided(a, (span,), (a.itemsize,))
    return flat if flat.dtype == x.a.dtype else flat.view(np.uint8)[: flat.nbytes // x.a.itemsize * x.a.itemsize].view(x.a.dtype)


def _check_grad(t: Tensor, g: Any) -> None:
    if not isinstance(g, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(g).__name__}")
    if g is t:
        raise RuntimeError("can't assign Variable as its own grad")
    if g.a.shape != t.a.shape:
        raise RuntimeError(
            f"assigned grad has data of a different size: expected {list(t.a.shape)}, got {list(g.a.shape)}"
        )
    if g.k.np is not t.k.np:
        raise RuntimeError(
            f"assigned grad has data of a different type: expected {t.k.dtype}, got {g.k.dtype}; convert it with .to()"
        )
