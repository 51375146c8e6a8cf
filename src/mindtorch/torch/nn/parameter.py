"""Parameter, Buffer, and their not yet shaped forms that lazy modules start with."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
from mindtorch.core.tensor import Parameter, Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


class _BufferMeta(type(Tensor)):  # type: ignore[misc]
    """A buffer is a plain tensor that carries a mark, so that operations on it stay on the fast path."""

    def __instancecheck__(cls, x: Any) -> bool:
        if cls is not Buffer:
            return type.__instancecheck__(cls, x)
        return isinstance(x, Tensor) and bool(x.__dict__) and getattr(x, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """``Buffer(data)``: a tensor that a Module registers as buffer when assigned. ``persistent``: part of the state_dict."""

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = torch.empty(0)
        t = data.detach().requires_grad_(data.requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t


_ALLOWED = frozenset(
    ["copy_", "is_complex", "is_floating_point", "half", "float", "char", "short", "int", "long", "cuda", "cpu", "to", "get_device", "_has_compatible_shallow_copy_type", "double", "bfloat16", "detach", "requires_grad_", "empty_like", "type", "dim", "__get__"]
)
_NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` when trying "
    "to load an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before accessing "
    "their attributes."
)


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet; ``materialize`` turns it into an ordinary one in place."""

    __slots__ = ()
    cls_to_become: type

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary tensor (parameter) of ``shape`` with uninitialised values."""
        data = torch.empty(
            shape, device=self.data.device if device is None else device, dtype=self.data.dtype if dtype is None else dtype
        )
        self.data = data
        self.__class__ = self.cls_to_become
        self.k = data.k

    @property
    def shape(self) -> Any:
        """RuntimeError: there is none yet."""
        raise RuntimeError(_NO_SHAPE)

    def share_memory_(self) -> Any:
        """RuntimeError: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters before "
            "calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __reduce_ex__(self, proto: Any) -> Any:
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _ALLOWED:
            return Parameter.__torch_function__(func, types, args, kwargs)
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a `LazyModule` or "
            f"explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` with "
            "a dummy batch to initialize the parameters before calling torch functions"
        )


def is_lazy(param: Any) -> bool:
    """Whether ``param`` still waits for its shape."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape is inferred by the first forward of its lazy module."""

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is inferred by the first forward of its lazy module."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        t = Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype, self.persistent)
        return memo[id(self)]
