"""Guards: generated tests that the Python state a captured function read is what it was, and that its tensors are alike.

Tensors of the state (parameters, buffers, closures) are inputs: their place is kept, not their value, so that an optimiser's
step, ``load_state_dict`` or a parameter put in another's place is seen by the next run.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.core.tensor import Parameter, Tensor
from mindtorch.graph.watch import kind_of

_LIMIT = 20_000
_NUMBERS = (int, float, str, bytes, complex)
_OPEN = frozenset(("getattr", "__dict__", "vars", "__getattr__", "__getattribute__", "dir", "hasattr", "setattr"))
_STD = frozenset(sys.stdlib_module_names)


def same(a: Any, b: Any) -> bool:
    """Whether two plain values are one: type, value, and sign of zero."""
    if a.__class__ is not b.__class__:
        return False
    if a.__class__ is float:
        return repr(a) == repr(b)
    if a.__class__ is tuple or a.__class__ is list:
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


class Unwatched(Exception):
    """State that guards cannot watch."""


def _simple(v: Any) -> bool:
    return v is None or v.__class__ in (*_NUMBERS, bool) or (v.__class__ is tuple and all(map(_simple, v)))


class Guards:
    """Collects tests while it walks the state, then compiles them to one function."""

    def __init__(self, names: set[str], hooked: bool, own: set[str]) -> None:
        """``names`` occur in the code that ran, ``own`` of them in the user's or in what keeps state beside modules."""
        self.names, self.own = names, own
        self.open = bool(names & _OPEN)
        self.hooked = hooked
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"same": same, "P": Parameter, "T": Tensor, "np": np}
        self.tensors: list[tuple[Tensor, str, str]] = []
        self.seen: set[int] = set()
        self.held: list[Any] = []
        self.containers: set[int] = set()
        self.count = 0

    def const(self, v: Any) -> str:
        """A name for an object."""
        self.count += 1
        if self.count > _LIMIT:
            raise Unwatched(f"more than {_LIMIT:,} objects of state can be reached")
        name = f"c{self.count}"
        self.scope[name] = v
        return name

    def test(self, cond: str) -> None:
        """Fail when ``cond`` holds."""
        self.lines.append(f"if {cond}: return None")

    def walk(self, v: Any, at: str, what: str) -> None:
        """Watch the value found at the expression ``at``; ``what`` names it in messages."""
        if v is None or v is True or v is False:
            self.test(f"{at} is not {v!r}")
            return
        if _simple(v):
            c = self.const(v)
            self.test(f"{at} is not {c} and not same({at}, {c})")
            return
        if isinstance(v, Tensor):
            self._tensor(v, at, what)
            return
        if isinstance(v, types.MethodType):
            c = self.const(v.__self__)
            f = self.const(v.__func__)
            self.test(f"{at}.__self__ is not {c} or {at}.__func__ is not {f}")
            self._once(v.__self__, c, what)
            self._once(v.__func__, f, what)
            return
        c = self.const(v)
        self.test(f"{at} is not {c}")
        self._once(v, c, what)

    def _once(self, v: Any, c: str, what: str) -> None:
        if id(v) in self.seen:
            return
        self.seen.add(id(v))
        self.held.append(v)
        self.inside(v, c, what)

    def inside(self, v: Any, c: str, what: str) -> None:
        """Watch what an object of known identity, named ``c``, holds."""
        if isinstance(v, (list, tuple, deque)):
            self.containers.add(id(v))
            if not isinstance(v, tuple):
                self.test(f"len({c}) != {len(v)}")
            for i, e in enumerate(v):
                self.walk(e, f"{c}[{i}]", f"{what}[{i}]")
        elif isinstance(v, (dict, types.MappingProxyType)):
            self._dict(v, c, what, False)
        elif isinstance(v, (set, frozenset)):
            self.containers.add(id(v))
            if v.__class__ is set:
                self.test(f"{c} != {self.const(frozenset(v))}")
        elif isinstance(v, types.FunctionType):
            self._function(v, c, what)
        elif isinstance(v, functools.partial):
            self.walk(v.func, f"{c}.func", what)
            self.walk(v.args, f"{c}.args", what)
            self._once(v.keywords, self.const(v.keywords), what)
        elif isinstance(v, types.ModuleType):
            self._module(v, c, what)
        elif isinstance(v, type):
            self._class(v, c, what)
        elif isinstance(v, np.ndarray):
            raise Unwatched(f"{what} is a NumPy array, whose values cannot be watched")
        else:
            self._object(v, c, what)

    def _dict(self, v: Any, c: str, what: str, attributes: bool) -> None:
        self.containers.add(id(v))
        if not attributes:
            self.test(f"len({c}) != {len(v)}")
        for key, e in list(v.items()):
            if attributes and not self.wants(key):
                continue
            k = repr(key) if key.__class__ in (str, int) else self.const(key)
            self.walk(e, f"{c}[{k}]", f"{what}.{key}" if attributes else f"{what}[{key!r}]")

    def wants(self, key: Any) -> bool:
        """Whether an attribute of this name may have been read."""
        if key.__class__ is str and key.startswith("_") and key.endswith("_hooks") and not self.hooked:
            return False
        return self.open or key in self.names or key in ("_parameters", "_buffers", "_modules", "training")

    def _function(self, f: Any, c: str, what: str) -> None:
        if kind_of(f.__code__) != "user":
            return
        self.test(f"{c}.__code__ is not {self.const(f.__code__)}")
        for v in (f.__defaults__, f.__kwdefaults__):
            if v:
                self.inside(v, self.const(v), f"{what}'s default")
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            try:
                v = cell.cell_contents
            except ValueError:
                continue
            self.walk(v, f"{self.const(cell)}.cell_contents", name)

    def _module(self, m: Any, c: str, what: str) -> None:
        root = m.__name__.split(".")[0]
        if root in _STD and root != "__main__" or root in ("mindtorch", "numpy", "torch", "torchvision", "mindspore", "scipy"):
            return
        d = self.const(m.__dict__)
        for key in sorted(self.names & set(m.__dict__)):
            self.walk(m.__dict__[key], f"{d}[{key!r}]", f"{what}.{key}")

    def _class(self, cls: type, c: str, what: str) -> None:
        for base in cls.__mro__:
            if base.__module__.split(".")[0] in ("mindtorch", "builtins", *_STD) and base.__module__ != "__main__":
                continue
            n = self.const(base)
            if id(base) in self.seen and base is not cls:
                continue
            self.seen.add(id(base))
            for key, v in list(base.__dict__.items()):
                if key in self.names and not key.startswith("__"):
                    for sub in cls.__mro__[: cls.__mro__.index(base)]:
                        if key not in sub.__dict__:
                            self.test(f"{key!r} in {self.const(sub)}.__dict__")
                    if isinstance(v, (staticmethod, classmethod)):
                        v = v.__func__
                        self._once(v, self.const(v), f"{what}.{key}")
                    elif isinstance(v, property):
                        self.test(f"{n}.__dict__.get({key!r}) is not {self.const(v)}")
                        if v.fget is not None:
                            self._once(v.fget, self.const(v.fget), f"{what}.{key}")
                    else:
                        self.walk(v, f"{n}.__dict__[{key!r}]", f"{what}.{key}")

    def _object(self, v: Any, c: str, what: str) -> None:
        cls = type(v)
        if cls.__module__.split(".")[0] in ("builtins", "functools", "re", "_thread", "weakref", "enum", "_abc", "_weakref"):
            return
        if isinstance(v, np.dtype) or isinstance(v, np.generic) or cls is np.ufunc:
            return
        d: Any = getattr(v, "__dict__", None)
        if cls.__module__.startswith("mindtorch.") and not hasattr(v, "_modules"):
            # An optimiser that is only called needs no guard: its step reads what it needs.
            for key in sorted(self.own & set(d or ())) if d is not None else ():
                self.walk(d[key], f"{self.const(d)}[{key!r}]", f"{what}.{key}")
            return
        if d is None or any("__slots__" in b.__dict__ and b.__dict__["__slots__"] for b in cls.__mro__[:-1]):
            if cls.__flags__ & (1 << 9):  # a class written in Python
                raise Unwatched(f"{what} is a {cls.__name__}, whose attributes cannot be watched")
            return
        self.test(f"{c}.__class__ is not {self.const(cls)}")
        self._once(cls, self.const(cls), what)
        if isinstance(v, (OrderedDict,)):
            return
        name = self.const(d)
        self._dict(d, name, what, True)
        # An attribute found on the class may later be hidden by one of the instance.
        missing = [k for k in sorted(self.names) if k not in d and not k.startswith("__") and _on_class(cls, k)]
        if missing:
            self.test(" or ".join(f"{k!r} in {name}" for k in missing))

    def _tensor(self, t: Tensor, at: str, what: str) -> None:
        name = f"t{len(self.tensors)}"
        self.tensors.append((t, name, what))
        self.lines.append(f"{name} = {at}")
        self.test(alike(name, t, self.const))

    def compile(self, used: list[str]) -> Callable[[], Any]:
        """``guard() -> list of the tensors named in used``, None when something differs."""
        body = [*self.lines, f"return [{', '.join(used)}]"]
        # Deep functions make the compiler slow, not wrong; an exception means that something is not where it was.
        text = "\n".join(["def guard():", "    try:", *(f"        {s}" for s in body), "    except Exception: return None"])
        exec(compile(text, "<mindtorch guards>", "exec"), self.scope)
        return self.scope["guard"]


def _on_class(cls: type, key: str) -> bool:
    return any(key in b.__dict__ for b in cls.__mro__[:-1])


def alike(name: str, t: Tensor, const: Callable[[Any], str]) -> str:
    """Condition that the tensor named differs from ``t`` in what a program was specialised for."""
    cls = "P" if type(t) is Parameter else "T" if type(t) is Tensor else const(type(t))
    has = "is None" if t.n is not None else "is not None"
    return (
        f"{name}.__class__ is not {cls} or {name}.k is not {const(t.k)} or {name}.a.shape != {t.a.shape!r} "
        f"or {name}.a.strides != {t.a.strides!r} or {name}.n {has}"
    )
