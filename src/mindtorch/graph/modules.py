"""Modules as graphs: the wrapper ``torch.compile`` gives back, and the twin that ``torch.jit.script`` and ``trace`` give."""

from __future__ import annotations

import copy
from typing import Any

from mindtorch.graph.compiled import Compiled
from mindtorch.torch.jit import ScriptModule
from mindtorch.torch.nn import Module

BACKENDS = ("auto", "best", "host", "mindspore", "eager")
_OWN = frozenset(("_orig_mod", "_graph", "training", "forward"))


class OptimizedModule(Module):
    """A module whose calls run captured programs. Its state_dict has the prefix ``_orig_mod.``, as in PyTorch."""

    __module__ = "mindtorch.torch._dynamo.eval_frame"

    def __init__(self, mod: Module, fullgraph: bool = False, backend: str = "auto") -> None:
        super().__init__()
        self.__dict__["training"] = mod.training
        self._modules["_orig_mod"] = mod
        self.__dict__["_graph"] = Compiled(mod._call_impl, fullgraph, backend, owner=mod)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the wrapped module returns."""
        return self._graph(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        mods = self.__dict__.get("_modules")
        if not mods or "_orig_mod" not in mods:
            raise AttributeError(name)
        return mods["_orig_mod"] if name == "_orig_mod" else getattr(mods["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def __deepcopy__(self, memo: Any) -> Any:
        new = OptimizedModule(copy.deepcopy(self._modules["_orig_mod"], memo), self._graph.fullgraph, self._graph.backend)
        memo[id(self)] = new
        return new

    def __reduce__(self) -> Any:
        return OptimizedModule, (self._modules["_orig_mod"], self._graph.fullgraph, self._graph.backend)


def compiled(fn: Any, fullgraph: bool = False, backend: str = "auto") -> Any:
    """``fn`` as a graph: an :class:`OptimizedModule` for modules, a :class:`Compiled` for other callables."""
    if backend not in BACKENDS:
        raise RuntimeError(f"graph: backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if isinstance(fn, (OptimizedModule, Compiled)):
        return fn
    if isinstance(fn, Module):
        return OptimizedModule(fn, fullgraph, backend)
    if not callable(fn):
        raise TypeError(f"graph: expected a function or a Module, got {type(fn).__name__}")
    return Compiled(fn, fullgraph, backend)


# ------------------------------------------------------------------------------------------ torch.jit
_NO_FILE = (
    "TorchScript files cannot be written here: save the weights with torch.save(model.state_dict(), f), or the network "
    "for other programs with torch.onnx.export"
)


class ScriptFunction(Compiled):
    """A function given to ``torch.jit.script`` or ``trace``: captured, with the results of the eager function."""

    __module__ = "mindtorch.torch.jit"

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """RuntimeError: there is no TorchScript file format here."""
        raise RuntimeError(f"ScriptFunction.save: {_NO_FILE}")


class RecursiveScriptModule(ScriptModule):
    """A scripted or traced module: shares everything with the original, and its calls run captured programs."""

    __module__ = "mindtorch.torch.jit"
    _graph: Compiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return type(self)._graph(*args, **kwargs)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """RuntimeError: there is no TorchScript file format here."""
        raise RuntimeError(f"ScriptModule.save: {_NO_FILE}")

    @property
    def original_name(self) -> str:
        """Name of the module's class."""
        return type(self).__mro__[-1].__name__ if len(type(self).__bases__) < 2 else type(self).__bases__[1].__name__

    def _get_name(self) -> str:
        return f"RecursiveScriptModule(original_name={self.original_name})"

    def __deepcopy__(self, memo: Any) -> Any:
        plain = object.__new__(type(self).__bases__[1])
        plain.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return scripted(plain)

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = object.__new__(type(self).__bases__[1])
        plain.__dict__.update(self.__dict__)
        return scripted, (plain,)


def scripted(obj: Any) -> Any:
    """``obj`` (a Module or function) as what ``torch.jit.script`` gives back."""
    if isinstance(obj, (RecursiveScriptModule, ScriptFunction)):
        return obj
    if not isinstance(obj, Module):
        return ScriptFunction(obj)
    cls = type(obj)
    twin_class = type(cls.__name__, (RecursiveScriptModule, cls), {"__module__": cls.__module__})
    twin = object.__new__(twin_class)
    # One dictionary for both: parameters, flags and hooks set on either are seen by the other.
    object.__setattr__(twin, "__dict__", obj.__dict__)
    twin_class._graph = Compiled(obj._call_impl, owner=obj)
    return twin
