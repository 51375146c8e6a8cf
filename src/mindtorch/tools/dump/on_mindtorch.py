"""How calls are seen on mindtorch: the dispatcher's observer for functions, methods and operators, global hooks for modules.

Nothing is patched. The observer learns which row runs; under which of its names the user called it is read from the
user's instruction.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType, ModuleType
from typing import Any

from mindtorch.tools import frameworks, values
from mindtorch.tools.dump.modules import ModuleHooks, OptimizerHooks
from mindtorch.tools.dump.names import PREFIX
from mindtorch.tools.dump.on_pytorch import RESHAPING, SKIPPED, written
from mindtorch.tools.dump.stacks import as_written, call_site, callee_at, operator_at, reflected_at

_SPACES = {"F": "Functional", "torch": "Torch", "Tensor": "Tensor", "linalg": "Linalg", "fft": "FFT", "special": "Special"}
_HIDDEN = object()
"""Token of a call that is not the user's, or is part of one that is recorded."""


class _Names:
    """Public names of the functions of the op table and of Tensor."""

    def __init__(self) -> None:
        from mindtorch.core.tensor import Tensor
        from mindtorch.ops.table import SPACES

        self.of: dict[int, list[tuple[str, str]]] = {}
        self._plain: dict[Any, Any] = {}
        self._functions: list[Any] = []
        for space, kind in _SPACES.items():
            for name, fn in SPACES.get(space, {}).items():
                self._add(kind, name, fn)
        for name, fn in vars(Tensor).items():
            self._add("Tensor", name, fn)

    def _add(self, kind: str, name: str, fn: Any) -> None:
        code = getattr(fn, "__code__", None)
        if code is None:
            return
        names = self.of.setdefault(id(fn), [])
        if (kind, name) not in names:
            names.append((kind, name))
        self._functions.append(fn)
        if not hasattr(fn, "row") and fn not in self._plain.setdefault(code, []):
            self._plain[code].append(fn)

    def at(self, row: Any, below: FrameType) -> list[tuple[str, str]]:
        """Names of the public function that runs in frame ``below`` and has come to ``row``; none if it is private.

        Functions made by one factory share their code: then the names of all of them.
        """
        code = below.f_code
        stub = below.f_locals.get("_row") if code.co_name in ("_stub", "_inplace_stub") else None
        if stub is not None:
            return self.of.get(id(stub.fn if code.co_name == "_stub" else stub.inplace_fn), [])
        for fn in (row.fn, row.inplace_fn):
            if fn is not None and fn.__code__ is code:
                return self.of.get(id(fn), [])
        if code.co_filename.startswith("<mindtorch op"):
            return next((self.of[id(f)] for f in self._functions if f.__code__ is code), [])
        return [name for fn in self._plain.get(code, ()) for name in self.of[id(fn)]]


class MindtorchSide:
    """Attached from construction until `remove`. It is the observer itself."""

    def __init__(self, recorder: Any) -> None:
        from mindtorch.core import observe

        torch = frameworks.load(frameworks.MINDTORCH)
        self.recorder = recorder
        self._observe = observe
        self._names = _Names()
        self._sites: dict[Any, tuple[str, str] | None] = {}
        self._local = threading.local()
        self._modules = ModuleHooks(recorder, torch)
        self._optimizers = OptimizerHooks(recorder, torch)
        recorder.in_backward = lambda: observe.state.walks > 0
        observe.attach(self)

    def remove(self) -> None:
        """Stop observing and take the hooks away."""
        self._observe.detach(self)
        self._modules.remove()
        self._optimizers.remove()

    # ------------------------------------------------------------------ the observer
    def before(self, row: Any, args: Any) -> Any:
        """A row is about to run: the user's call, or a part of one."""
        if self._observe.state.walks or not self.recorder.alive():
            return _HIDDEN
        frame = sys._getframe(1)
        if self._inside(frame):
            return _HIDDEN
        user, below = call_site(frame, self.recorder.in_layers and bool(self.recorder.module_stack))
        if user is None or below is None:
            return _HIDDEN
        site = self._site(row, user, below)
        if site is None:
            # What a framework function does inside is looked at again for each of its rows; it is not remembered as open.
            return _HIDDEN
        call = self.recorder.begin(*site, self._inputs(row, args, site, user, below))
        self._local.open = (below, call)
        return below, call, site[1], site[1] in RESHAPING or (written(site[1]) and _is_view(below))

    def after(self, row: Any, args: Any, out: Any, token: Any) -> None:
        """The row that `before` opened has returned."""
        if token is _HIDDEN:
            return
        below, call, name, view = token
        # What an in-place function does behind its row (views made again from their base) is still part of it.
        self._local.open = (below, None) if written(name) else None
        if call is None:
            return
        if out is None and written(name) or name == "__setitem__":
            out = args[0] if name != "__setitem__" else None
        self.recorder.end(call, list(values.leaves(out)), gradients=not view)

    def backward(self, roots: Any) -> None:
        """A backward pass begins at ``roots``."""
        if len(roots) == 1 and self.recorder.alive():
            self.recorder.loss(roots[0])

    def _inside(self, frame: FrameType | None) -> bool:
        """Whether a recorded call is open in this thread; one that raised is closed here."""
        opened = getattr(self._local, "open", None)
        if opened is None:
            return False
        while frame is not None:
            if frame is opened[0]:
                return True
            frame = frame.f_back
        self._local.open = None
        if opened[1] is not None:
            self.recorder.fail(opened[1], "raised")
        return False

    def _inputs(self, row: Any, args: Any, site: tuple[str, str], user: FrameType, below: FrameType) -> list[tuple[str, Any]]:
        everything = not self.recorder.settings.filter_data
        if self.recorder.in_layers:
            method = site[0] == "Tensor" and operator_at(user) is None
            got = as_written(user, below, method)
            if got is not None:
                return [*values.leaves(tuple(got[0]), everything=True), *values.leaves(got[1], everything=True)]
        if everything and hasattr(row, "params"):  # numbers that the user did not give are none of the call's
            args = [None if _is_default(v, p.default) else v for p, v in zip(row.params, args)]
        found = list(values.leaves(tuple(args), everything=everything))
        if not hasattr(row, "params") and args and isinstance(args[-1], dict):
            found = list(values.leaves(tuple(args[:-1]), everything=everything))
            found += values.leaves(args[-1], everything=everything)
        return found

    # ------------------------------------------------------------------ names
    def _site(self, row: Any, user: FrameType, below: FrameType) -> tuple[str, str] | None:
        """Kind and name as the user wrote them; None when it is a framework function that calls, or no computation."""
        key = (id(row), user.f_code, user.f_lasti, below.f_code)
        try:
            return self._sites[key]
        except KeyError:
            pass
        got = self._written(self._names.at(row, below), user)
        if got is not None and got[1] == "__iter__":
            got = ("Tensor", "unbind")
        if got is not None and got[1] in SKIPPED:
            got = None
        if below.f_code.co_name not in ("_stub", "_inplace_stub"):
            self._sites[key] = got
        return got

    def _written(self, names: list[tuple[str, str]], user: FrameType) -> tuple[str, str] | None:
        if not names:
            return None
        word = operator_at(user)
        if word is not None:
            reflected = "__r" + word[2:]
            turned = self.recorder.in_layers and reflected_at(user)
            for w in (reflected, word) if turned else (word, reflected):
                if ("Tensor", w) in names:
                    return "Tensor", w
        if len(names) == 1:
            return names[0]
        callee = callee_at(user) or ""
        last = callee.rpartition(".")[2]
        same = [n for n in names if n[1] == last]
        if not same:
            return _preferred([n for n in names if n[1] == "__iter__" or not n[1].startswith("__")] or names)
        kind = _kind_of(callee, user)
        return next((n for n in same if n[0] == kind), _preferred(same))


def _preferred(names: list[tuple[str, str]]) -> tuple[str, str]:
    order = ["Functional", "Torch", "Tensor", "Linalg", "Special", "FFT"]
    return min(names, key=lambda n: (n[1].startswith("_"), order.index(n[0])))


def _kind_of(callee: str, user: FrameType) -> str:
    """Functional, Torch ... when the called expression starts at a module, else Tensor."""
    words = callee.split(".")
    if words[0] == "()":
        return "Tensor"
    obj = user.f_locals.get(words[0], user.f_globals.get(words[0]))
    for w in words[1:-1]:
        if not isinstance(obj, ModuleType):
            return "Tensor"
        obj = getattr(obj, w, None)
    if len(words) > 1:
        if not isinstance(obj, ModuleType):
            return "Tensor"
        home = obj.__name__.removeprefix("mindtorch.")
        return PREFIX.get(home + ".", "Torch")
    if words[0] not in user.f_locals and words[0] not in user.f_globals:
        return "Tensor"  # abs(x) and the like
    return "Functional" if "functional" in getattr(obj, "__module__", "") else "Torch"


def _is_default(v: Any, default: Any) -> bool:
    return v is default or (type(v) in (int, float, str) and type(v) is type(default) and v == default)


def _is_view(below: FrameType) -> bool:
    """Whether the tensor that an in-place function was called on is a view of another."""
    for x in below.f_locals.values():
        first = x[0] if isinstance(x, tuple) and x else x
        if values.is_tensor(first):
            return hasattr(first, "b")
    return False


