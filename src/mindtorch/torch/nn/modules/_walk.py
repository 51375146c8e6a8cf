"""Walking a tree of modules: children, parameters, buffers, and look-up by dotted path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..parameter import Parameter


class Walking:
    """Part of Module: iteration over the tree and access by path."""

    def _named_members(
        self, get_members_fn: Callable[[Any], Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Names and members ``get_members_fn(module)`` gives for each module; None and (by default) repeats left out."""
        seen: set[Any] = set()
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """Parameters of this module and (``recurse``) of all below it, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Like :meth:`parameters`, with dotted names that start with ``prefix``."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """Buffers of this module and (``recurse``) of all below it, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Like :meth:`buffers`, with dotted names that start with ``prefix``."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Any]:
        """Direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Direct submodules with their names, each once."""
        seen: set[Any] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module (named ``prefix``) and all below it with dotted names."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    # ---------------------------------------------------------------------------------------- access by path
    def get_submodule(self, target: str) -> Any:
        """The module at dotted path ``target`` ("" is this one). AttributeError names the step that fails."""
        module: Any = self
        for step in target.split(".") if target else ():
            if not hasattr(module, step):
                raise AttributeError(f"{module._get_name()} has no attribute `{step}`")
            module = getattr(module, step)
            if not isinstance(module, Walking):
                raise AttributeError(f"`{step}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put ``module`` at dotted path ``target``. Its parent must exist; ``strict``: the place itself must exist too."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Walking):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not hasattr(parent, name):
            if strict:
                raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        elif not isinstance(getattr(parent, name), Walking):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _leaf_of(self, target: str) -> tuple[Any, str, Any]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name, getattr(module, name)

    def get_parameter(self, target: str) -> Any:
        """The parameter at dotted path ``target``. AttributeError when there is none."""
        _, name, value = self._leaf_of(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Any:
        """The buffer at dotted path ``target``. AttributeError when there is none."""
        module, name, value = self._leaf_of(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return value

    # ---------------------------------------------------------------------------------------- modes of the tree
    def apply(self, fn: Callable[[Any], None]) -> Any:
        """Call ``fn`` on every module, children first. Returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Any:
        """Set ``training`` on the whole tree. ValueError unless ``mode`` is a bool."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set ``requires_grad`` of all parameters. Returns self."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or (``set_to_none=False``) fill them with zero in place."""
        for p in self.parameters():
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                if p.grad.grad_fn is not None:
                    p.grad.detach_()
                else:
                    p.grad.requires_grad_(False)
                p.grad.zero_()

    def share_memory(self) -> Any:
        """Move parameters and buffers to memory that other processes can share. Returns self."""
        return self._apply(lambda t: t.share_memory_())

