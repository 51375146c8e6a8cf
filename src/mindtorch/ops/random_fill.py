"""In-place random fills: ``normal_`` and its family. Elements are visited in memory order, as PyTorch does."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core import modes
from mindtorch.core.errors import check
from mindtorch.core.generator import stream_for
from mindtorch.core.signature import to_int
from mindtorch.core.tape import Node, new_node
from mindtorch.core.tensor import Tensor, cell_of
from mindtorch.core.views import check_writable, rebase
from mindtorch.engine.host import random as K
from mindtorch.engine.host.mt19937 import Stream
from mindtorch.ops.random import Fill, _check_range, _type_name, public
from mindtorch.ops.table import put


class _Overwritten(Node):
    """History of a tensor that was filled: nothing flows back through it."""

    __slots__ = ()
    label = "NormalBackward0"

    def apply(self, g: Tensor) -> Any:
        """Zeros."""
        return (g.new_zeros(g.a.shape),)


def _node(label: str) -> type[Node]:
    return type("_Overwritten", (_Overwritten,), {"__slots__": (), "label": label})


_NODES = {
    name: _node(label)
    for name, label in (
        ("normal_", "NormalBackward0"),
        ("uniform_", "UniformBackward0"),
        ("random_", "RandomBackward0"),
        ("bernoulli_", "BernoulliBackward1"),
        ("exponential_", "ExponentialBackward0"),
        ("cauchy_", "CauchyBackward0"),
        ("geometric_", "GeometricBackward0"),
        ("log_normal_", "LogNormalBackward0"),
    )
}


def _fill(x: Any, name: str, generator: Any, fill: Fill) -> Tensor:
    """Check, draw, write, and note the write."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    s = stream_for(generator, name)
    if x.k.device.type == "meta":
        return x
    check_writable(x, name)
    fill(s, x.a)
    cell_of(x).bump()
    if x.n is not None and modes.state.grad:
        rebase(x, new_node(_NODES[name], (x.n,)))
    return x


def _num(v: Any) -> float:
    return float(v.item()) if isinstance(v, Tensor) else float(v)


def _text(v: float) -> str:
    return f"{v:g}"


def _has(x: Any, name: str, categories: tuple[int, ...], error: type[Exception], message: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    if x.k.cat not in categories:
        raise error(message.format(_type_name(x.k.dtype)))


def normal_(x: Any, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with normal numbers of the given mean and standard deviation."""
    m, sd = _num(mean), _num(std)
    if not sd >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {_text(sd)}")
    _has(x, "normal_", (D.FLOAT, D.COMPLEX), NotImplementedError, "\"normal_kernel_cpu\" not implemented for '{}'")
    return _fill(x, "normal_", generator, lambda s, a: K.normal_into(s, a, m, sd))


def uniform_(x: Any, *args: Any, generator: Any = None, to: Any = None, **kw: Any) -> Tensor:
    """Fill with uniform numbers: ``uniform_(from=0, to=1)``."""
    low = args[0] if args else kw.pop("from", 0.0)
    high = args[1] if len(args) > 1 else 1.0 if to is None else to
    check(len(args) < 3 and not kw, TypeError, "uniform_() takes (from=0, to=1, *, generator=None)")
    lo, hi = _num(low), _num(high)
    _has(x, "uniform_", (D.FLOAT, D.COMPLEX), NotImplementedError, "\"check_uniform_bounds\" not implemented for '{}'")
    if not lo <= hi:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={_text(lo)} > to={_text(hi)}"
        )
    return _fill(x, "uniform_", generator, lambda s, a: K.uniform_into(s, a, lo, hi))


def random_(x: Any, *args: Any, generator: Any = None, to: Any = None, **kw: Any) -> Tensor:
    """Fill with integers: ``random_()`` over the dtype's range, ``random_(to)``, ``random_(from, to)``."""
    low = kw.pop("from", None)
    check(len(args) < 3 and not kw, TypeError, "random_() takes (), (to) or (from, to), and generator by keyword")
    if len(args) == 2:
        low, to = args
    elif len(args) == 1:
        low, to = (args[0], to) if to is not None else (0 if low is None else low, args[0])
    if low is None and to is None:
        name = x.k.dtype.name
        return _fill(x, "random_", generator, lambda s, a: K.put(a, K.random_default(s, a.size, a.dtype, name)))
    lo = 0 if low is None else to_int(low)
    hi = _top(x.k.dtype) + 1 if to is None else to_int(to)
    if not lo < hi:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={lo} >= to={hi}")

    def fill(s: Stream, a: np.ndarray) -> None:
        _check_range(a.dtype, lo, hi)
        K.put(a, K.integers(s, a.size, lo, hi))

    return _fill(x, "random_", generator, fill)


def _top(d: D.dtype) -> int:
    """The largest integer ``random_`` gives in a dtype."""
    if d.category == D.FLOAT:
        return 1 << K.DIGITS[d.name]
    return 1 if d is D.bool_ else int(np.iinfo(d.np).max)


def bernoulli_(x: Any, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with 0 and 1; ``p``: the probability of 1, a number or a tensor that broadcasts to the shape."""
    if isinstance(p, Tensor) and p.a.ndim:
        return _fill(x, "bernoulli_", generator, lambda s, a: _bernoulli_tensor(s, a, p))
    q = _num(p)
    if not 0 <= q <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={_text(q)}")
    if isinstance(p, Tensor):
        return _fill(x, "bernoulli_", generator, lambda s, a: _bernoulli_tensor(s, a, p))
    return _fill(x, "bernoulli_", generator, lambda s, a: K.put(a, K.bernoulli(s, a.size, q, np.dtype(np.bool_))))


def _bernoulli_tensor(s: Stream, a: np.ndarray, p: Tensor) -> None:
    text = f"\"bernoulli_tensor_cpu_p_\" not implemented for '{_type_name(p.k.dtype)}'"
    check(p.k.cat == D.FLOAT, NotImplementedError, text)
    q = np.broadcast_to(p.a, a.shape)
    K.check_probabilities(q)
    t = K.in_memory_order(a)
    wide = q.dtype == np.float64
    u = (s.unit(a.size) if wide else s.unit32(a.size)).reshape(t.shape)
    values = np.empty(a.shape, u.dtype)
    _same_order(a, values)[...] = u
    a[...] = values < (q if wide else q.astype(np.float32))


def _same_order(a: np.ndarray, values: np.ndarray) -> np.ndarray:
    """``values`` permuted the way ``in_memory_order`` permutes ``a``."""
    if a.flags.c_contiguous or a.ndim < 2:
        return values
    order = sorted(range(a.ndim), key=lambda i: -abs(a.strides[i]) if a.shape[i] > 1 else 0)
    return values.transpose(order)


_CONTINUOUS = (
    "distribution is a continuous probability distribution. dtype must be a floating point but you specified {}"
)


def exponential_(x: Any, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with exponentially distributed numbers of rate ``lambd``."""
    rate = _num(lambd)
    text = f"Exponential {_CONTINUOUS}"
    _has(x, "exponential_", (D.FLOAT,), RuntimeError, text)
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={_text(rate)}")
    return _fill(x, "exponential_", generator, lambda s, a: K.put(a, K.exponential(s, a.size, a.dtype, rate)))


def cauchy_(x: Any, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with Cauchy distributed numbers."""
    m, sd = _num(median), _num(sigma)
    text = f"Cauchy {_CONTINUOUS}"
    if not sd > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={_text(sd)}")
    _has(x, "cauchy_", (D.FLOAT,), RuntimeError, text)
    return _fill(x, "cauchy_", generator, lambda s, a: K.put(a, K.cauchy(s, a.size, a.dtype, m, sd)))


def geometric_(x: Any, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials up to the first success of probability ``p``."""
    q = _num(p)
    if not 0 < q < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={_text(q)}")
    _has(x, "geometric_", (D.INT, D.FLOAT), NotImplementedError, "\"geometric_cpu\" not implemented for '{}'")
    return _fill(x, "geometric_", generator, lambda s, a: K.put(a, K.geometric(s, a.size, a.dtype, q)))


def log_normal_(x: Any, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fill with exp of normal numbers; ``mean`` and ``std`` are those of the normal."""
    m, sd = _num(mean), _num(std)
    if not sd > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={_text(sd)}")
    _has(x, "log_normal_", (D.FLOAT,), NotImplementedError, "\"log_normal_cpu\" not implemented for '{}'")
    return _fill(x, "log_normal_", generator, lambda s, a: K.put(a, K.log_normal(s, a.size, a.dtype, m, sd)))


for _fn in (normal_, uniform_, random_, bernoulli_, exponential_, cauchy_, geometric_, log_normal_):
    put("Tensor", **{_fn.__name__: public(_fn)})
