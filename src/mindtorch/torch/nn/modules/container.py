"""Sequential and the containers of modules and parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import mindtorch.torch as torch

from ..parameter import Parameter
from .module import Module, _addindent

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _pairs(source: Any, kind: str) -> Iterator[tuple[Any, Any]]:
    """Key/value pairs of ``source``, checked the way ``dict.update`` does."""
    if isinstance(source, (OrderedDict, Mapping, ModuleDict, ParameterDict)):
        yield from source.items()
        return
    for i, item in enumerate(source):
        iterable = isinstance(item, Iterable)
        if not iterable:
            raise TypeError(f"{kind} update sequence element #{i} should be Iterable; is{type(item).__name__}")
        if len(item) != 2:
            raise ValueError(f"{kind} update sequence element #{i} has length {len(item)}; 2 is required")
        yield item[0], item[1]


def _need_iterable(what: str, source: Any, of: str = "an iterable") -> None:
    if not isinstance(source, Iterable):
        raise TypeError(f"{what} should be called with {of}, but got {type(source).__name__}")


class Container(Module):
    """Old container: keyword arguments become children. Prefer Module."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Modules applied one after the other; from positional arguments or one OrderedDict of names."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _name_at(self, index: Any) -> str:
        n = len(self)
        i = operator.index(index)
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range")
        return next(islice(self._modules, i % n, None))

    def _renumber(self) -> None:
        self._modules = OrderedDict((str(i), m) for i, m in enumerate(self._modules.values()))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __setitem__(self, idx: int, module: Any) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: Any) -> None:
        if isinstance(idx, slice):
            for name in list(self._modules)[idx]:
                delattr(self, name)
        else:
            delattr(self, self._name_at(idx))
        self._renumber()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [k for k in super().__dir__() if not k.isdigit()]

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        out = Sequential()
        for module in (*self, *other):
            out.append(module)
        return out

    def __iadd__(self, other: Any) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(list(other))

    def __mul__(self, times: Any) -> Any:
        self._check_times(times)
        out = Sequential()
        for _ in range(times):
            for module in self:
                out.append(module)
        return out

    def _check_times(self, times: Any) -> None:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")

    def __rmul__(self, times: Any) -> Any:
        return self * times

    def __imul__(self, times: Any) -> Any:
        self._check_times(times)
        return self.extend(list(self) * (times - 1))

    def pop(self, key: Any) -> Any:
        """Remove and return the module at ``key``; later ones move up."""
        module = self[key]
        del self[key]
        return module

    def append(self, module: Any) -> Any:
        """Add a module at the end. Returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Any) -> Any:
        """Put ``module`` before position ``index`` (-n..n). Returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index + n if index < 0 else index, module)
        self._modules = OrderedDict((str(i), m) for i, m in enumerate(modules))
        return self

    def extend(self, sequential: Iterable[Any]) -> Any:
        """Add modules at the end. Returns self."""
        for module in list(sequential):
            self.append(module)
        return self

    def forward(self, input: Any) -> Any:
        """The last module's output."""
        for module in self._modules.values():
            input = module(input)
        return input


class _ListOf(Module):
    """What the lists of modules and of parameters share; their members have the names "0", "1", ..."""

    def _get_abs_string_index(self, idx: Any) -> str:
        i = operator.index(idx)
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range")
        return str(i % n)

    def __iadd__(self, values: Iterable[Any]) -> Any:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [k for k in super().__dir__() if not k.isdigit()]


class ModuleList(_ListOf):
    """A list of modules that are registered."""

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx: int, module: Any) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx: Any) -> None:
        if isinstance(idx, slice):
            for k in range(len(self))[idx]:
                delattr(self, str(k))
        else:
            delattr(self, self._get_abs_string_index(idx))
        self._modules = dict(zip(map(str, range(len(self._modules))), self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __add__(self, other: Iterable[Any]) -> Any:
        out = ModuleList()
        for i, module in enumerate(chain(self, other)):
            out.add_module(str(i), module)
        return out

    def __repr__(self) -> str:
        if not self._modules:
            return self._get_name() + "()"
        groups: list[tuple[int, int, str]] = []
        for i, text in enumerate(map(repr, self)):
            if groups and groups[-1][2] == text:
                groups[-1] = (groups[-1][0], i, text)
            else:
                groups.append((i, i, text))
        lines = [
            f"({a}): {_addindent(text, 2)}" if a == b else f"({a}-{b}): {b - a + 1} x {_addindent(text, 2)}"
            for a, b, text in groups
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index: int, module: Any) -> None:
        """Put ``module`` before position ``index``."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        for i, m in enumerate(modules):
            self._modules[str(i)] = m

    def append(self, module: Any) -> Any:
        """Add a module at the end. Returns self."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Remove and return the module at ``key``."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Any]) -> Any:
        """Add modules at the end. Returns self."""
        _need_iterable("ModuleList.extend", modules)
        start = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(start + i), module)
        return self


class ModuleDict(Module):
    """A dictionary of modules that are registered, in insertion order."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return the module ``key``."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """Names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Names with modules."""
        return self._modules.items()

    def values(self) -> Any:
        """Modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add from a mapping or an iterable of pairs."""
        _need_iterable("ModuleDict.update", modules, "an iterable of key/value pairs")
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, torch.Tensor) and not isinstance(value, Parameter) else value


def _entries(pairs: Iterable[tuple[Any, Any]], type_of: Callable[[Any], Any]) -> str:
    """One line for each entry; ``type_of`` a tensor is what PyTorch prints for it."""
    lines = []
    for key, p in pairs:
        if isinstance(p, torch.Tensor):
            size = "x".join(map(str, p.size()))
            kind = "Parameter" if isinstance(p, Parameter) else "Tensor"
            where = "" if p.device.type == "cpu" else f" ({p.device})"
            lines.append(f"  ({key}): {kind} containing: [{type_of(p)} of size {size}{where}]")
        else:
            lines.append(f"  ({key}): Object of type: {type(p).__name__}")
    return "\n".join(lines)


class ParameterList(_ListOf):
    """A list whose tensors are parameters; other values are kept as they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            out = self.__class__()
            for i in range(len(self))[idx]:
                out.append(self[i])
            return out
        return getattr(self, self._get_abs_string_index(idx))

    def __setitem__(self, idx: int, value: Any) -> None:
        setattr(self, self._get_abs_string_index(idx), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def append(self, value: Any) -> Any:
        """Add a value at the end. Returns self."""
        at = len(self)
        self._size += 1
        self[at] = value
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Add values at the end. Returns self."""
        if not isinstance(values, Iterable) or isinstance(values, torch.Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line for each entry."""
        return _entries(enumerate(self), lambda p: p.dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary whose tensors are parameters; other values are kept as they are. Mappings are taken in their own
    order."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        attr = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, attr, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> Any:
        """A new ParameterDict with the same values."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, set to ``default`` first when it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all."""
        for k in list(self._keys):
            del self[k]

    def pop(self, key: str) -> Any:
        """Remove and return the value of ``key``."""
        v = self[key]
        del self[key]
        return v

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair."""
        k, _ = self._keys.popitem()
        self._keys[k] = None
        return k, self.pop(k)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, else ``default``."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> Any:
        """A new ParameterDict that has ``default`` under each of ``keys``."""
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> Any:
        """Names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names with values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """Values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add from a mapping or an iterable of pairs."""
        _need_iterable("ParametersDict.update", parameters, "an iterable of key/value pairs")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            parameters = sorted(parameters.items())
        for key, value in _pairs(parameters, "ParameterDict"):
            self[key] = value

    def extra_repr(self) -> str:
        """One line for each entry."""
        return _entries(self.items(), torch.typename)

    def __call__(self, input: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> Any:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: Any) -> Any:
        out = other.copy()
        out.update(self)
        return out

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self
