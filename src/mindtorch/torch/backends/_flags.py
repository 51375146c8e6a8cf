"""A namespace of switches and answers; each is also a module, so that ``import torch.backends.cudnn`` works."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Flags(ModuleType):
    """``values`` are attributes that can be set, ``functions`` answer a constant, ``switches`` change such a constant.

    AttributeError for a name that is not there, when it is read and when it is set: a misspelt switch must not pass.
    """

    def __init__(
        self,
        name: str,
        values: dict[str, Any] | None = None,
        functions: dict[str, Any] | None = None,
        switches: dict[str, str] | None = None,
    ) -> None:
        super().__init__(f"mindtorch.torch.backends.{name}", f"Switches of torch.backends.{name}.")
        self.__dict__["__spec__"] = ModuleSpec(self.__name__, None)
        state = self.__dict__
        state["_answers"] = dict(functions or {})
        state["_switches"] = dict(switches or {})
        state.update(values or {})
        for fn in functions or {}:
            state[fn] = self._answer(fn)
        for fn, target in (switches or {}).items():
            state[fn] = self._switch(target)
        sys.modules[self.__name__] = self

    def _answer(self, name: str) -> Any:
        def answer(*_args: Any, **_kwargs: Any) -> Any:
            return self._answers[name]

        answer.__name__ = name
        return answer

    def _switch(self, target: str) -> Any:
        def switch(value: Any = None) -> Any:
            if value is not None:
                self._answers[target] = value
            return self._answers.get(target)

        return switch

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__") and name not in self.__dict__ and not isinstance(value, Flags):
            raise AttributeError(f"torch.backends.{self.__name__.rpartition('backends.')[2]} has no switch {name!r}")
        self.__dict__[name] = value

    def set_flags(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Set switches; returns their former values. Positional ones come in the order of definition."""
        names = [n for n in self.__dict__ if not n.startswith("_") and not callable(self.__dict__[n])]
        given = {**dict(zip(names, args)), **{k.lstrip("_"): v for k, v in kwargs.items()}}
        before = tuple(self.__dict__.get(n) for n in given)
        for name, value in given.items():
            if value is not None:
                setattr(self, name, value)
        return before

    @contextlib.contextmanager
    def flags(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """`set_flags` inside a ``with``."""
        before = dict(self.__dict__)
        self.set_flags(*args, **kwargs)
        try:
            yield
        finally:
            self.__dict__.update(before)
