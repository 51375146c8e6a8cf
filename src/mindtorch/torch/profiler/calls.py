"""Events of public functions that are no rows of the op table: creation, and values that leave a tensor.

They are plain functions whose speed matters, so nothing in them asks whether somebody profiles. While somebody does, their code
object is another one, which calls the original through `_observed`; that reaches every name a program has bound them to.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Protocol


class Hearer(Protocol):
    """Who is told of calls."""

    def call_begins(self, names: tuple[str, ...], args: Any) -> Any:
        """A call with events of these names, each inside the one before, begins. What it returns goes to `call_ends`."""

    def call_ends(self, token: Any, args: Any, out: Any) -> None:
        """It has returned ``out``; None when it raised."""


_SAME = (
    "arange empty empty_like empty_strided eye full full_like linspace logspace normal ones ones_like rand rand_like randint "
    "randint_like randn randn_like randperm range scalar_tensor tril_indices triu_indices zeros zeros_like hann_window "
    "hamming_window blackman_window bartlett_window kaiser_window empty_permuted is_nonzero block_diag gru lstm rnn_relu rnn_tanh"
).split()
_DATA = ("tensor", "as_tensor", "from_numpy", "asarray", "frombuffer")
_ITEM = ("aten::item", "aten::_local_scalar_dense")
_READ = ("aten::resolve_conj", "aten::resolve_neg")
_METHODS = {
    "item": _ITEM,
    "__bool__": ("aten::is_nonzero", *_ITEM),
    **dict.fromkeys(("tolist", "numpy", "__array__"), _READ),
    **{n: (f"aten::{n}",) for n in ("new_zeros", "new_ones", "new_full", "new_empty", "detach", "detach_", "bernoulli_", "cauchy_", "exponential_", "geometric_",
        "log_normal_", "normal_", "random_", "uniform_", "resize_", "set_")},
    "new_tensor": ("aten::lift_fresh",),
    **dict.fromkeys(
        ("to", "cpu", "float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "type_as"), ("aten::to",)
    ),
}  # fmt: skip
_hearers: list[Hearer] = []
_swapped: list[tuple[FunctionType, CodeType]] = []
_lock = threading.RLock()


def _targets() -> list[tuple[FunctionType, tuple[str, ...]]]:
    from mindtorch.core import legacy
    from mindtorch.core.tensor import Tensor
    from mindtorch.ops.table import SPACES

    public = SPACES["torch"]
    found = [(public[n], (f"aten::{n}",)) for n in _SAME if n in public]
    found += [(public[n], ("aten::lift_fresh",)) for n in _DATA if n in public]
    found += [(vars(Tensor)[n], names) for n, names in _METHODS.items() if n in vars(Tensor)]
    found.append((legacy.construct, ("aten::lift_fresh",)))
    # A row tells its observers itself.
    return [(f, names) for f, names in found if f.__class__ is FunctionType and not hasattr(f, "row")]


def hear(hearer: Hearer) -> None:
    """Tell ``hearer`` of calls from now on."""
    with _lock:
        if not _hearers:
            done: set[int] = set()
            for fn, names in _targets():
                if id(fn) not in done:
                    done.add(id(fn))
                    _swapped.append((fn, fn.__code__))
                    fn.__code__ = _calling(fn.__code__, _observed(_twin(fn), names))
        _hearers.append(hearer)


def unhear(hearer: Hearer) -> None:
    """Tell it no longer."""
    with _lock:
        if hearer in _hearers:
            _hearers.remove(hearer)
        if not _hearers:
            while _swapped:
                fn, code = _swapped.pop()
                fn.__code__ = code


def _in_child() -> None:
    for hearer in list(_hearers):
        unhear(hearer)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _twin(fn: FunctionType) -> FunctionType:
    """A function that does what ``fn`` does, whatever becomes of the code of ``fn``."""
    twin = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    twin.__kwdefaults__ = fn.__kwdefaults__
    return twin


def _observed(fn: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        tokens = [(h, h.call_begins(names, args)) for h in _hearers]
        out = None
        try:
            out = fn(*args, **kwargs)
            return out
        finally:
            for h, token in reversed(tokens):
                h.call_ends(token, args, out)

    return call


_PLACE = 986_543_210_123
"""Stands in the text of `_shell` where the function to call goes."""


@functools.lru_cache(maxsize=16)
def _shell(cells: int) -> CodeType:
    """Code that calls `_PLACE` with all its arguments, and has so many free variables."""
    names = [f"cell{i}" for i in range(cells)]
    made = "".join(f"    {n} = None\n" for n in names)
    uses = f"        if False:\n            {', '.join(names)}\n" if names else ""
    text = f"def outer():\n{made}    def call(*args, **kwargs):\n{uses}        target = {_PLACE}\n        return target(*args, **kwargs)\n    return call\n"
    space: dict[str, Any] = {}
    exec(compile(text, "<mindtorch profiled>", "exec", dont_inherit=True), space)
    return space["outer"]().__code__


def _calling(like: CodeType, target: Callable[..., Any]) -> CodeType:
    """Code that calls ``target``, to be set on a function whose code is ``like``: it must have as many free variables."""
    shell = _shell(len(like.co_freevars))
    return shell.replace(co_consts=tuple(target if c == _PLACE else c for c in shell.co_consts), co_name=like.co_name)
