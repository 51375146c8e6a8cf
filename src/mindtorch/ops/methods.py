"""What remains of Tensor: sizes and strides, iteration, autograd entry points, storage, text, pickling."""

from __future__ import annotations

import copy as _copy
from typing import Any

import numpy as np

from mindtorch.core import device as _device
from mindtorch.core import dtype as D
from mindtorch.core import hooks, modes, views
from mindtorch.core.cells import Cell, HeldCell
from mindtorch.core.errors import bounded, check, wrap_dim
from mindtorch.core.promote import result_type
from mindtorch.core.signature import to_ints
from mindtorch.core.tensor import Leaf, Out, Size, Tensor, address, cell_of, root_array
from mindtorch.ops.table import put


# ------------------------------------------------------------------------------------------ sizes
def size(self: Tensor, dim: Any = None) -> Any:
    """Shape, or the size of one dimension."""
    return self.shape if dim is None else self.a.shape[wrap_dim(int(dim), self.a.ndim)]


def stride(self: Tensor, dim: Any = None) -> Any:
    """Strides in elements, or the stride of one dimension."""
    s = tuple(v // self.a.itemsize for v in self.a.strides)
    if self.a.size <= 1 or 0 in self.a.shape or 1 in self.a.shape:
        s = _tidy(self.a.shape, s)
    return s if dim is None else s[wrap_dim(int(dim), self.a.ndim)]


def _tidy(shape: Any, s: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy leaves strides of empty arrays arbitrary and gives new axes 0; make them PyTorch's."""
    if 0 not in shape:
        t = list(s)
        for i in range(len(t) - 1, -1, -1):
            if t[i] == 0 and shape[i] == 1:
                t[i] = shape[i + 1] * t[i + 1] if i + 1 < len(t) else 1
        return tuple(t)
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= max(n, 1)
    return tuple(reversed(out))


def storage_offset(self: Tensor) -> int:
    """Elements between the start of the storage and the first element."""
    if self.v is None or self.v.root is self.a or self.a.size == 0:
        return 0
    return (address(self.a) - address(root_array(self))) // self.a.itemsize


def _len(self: Tensor) -> int:
    if self.a.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return self.a.shape[0]


def _iter(self: Tensor) -> Any:
    if self.a.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def _contains(self: Tensor, x: Any) -> bool:
    if isinstance(x, (Tensor, int, float, complex, bool)):
        return bool((self == x).any().item())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(x)}.")


# ------------------------------------------------------------------------------------------ autograd
@bounded
def backward(self: Tensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None) -> None:
    """Gradients of this tensor with respect to the leaves (or ``inputs``), accumulated in their ``grad``."""
    from mindtorch.core.backward import backward as run

    run((self,), None if gradient is None else (gradient,), retain_graph, create_graph, inputs=inputs)


def register_hook(self: Tensor, hook: Any) -> Any:
    """Call ``hook(grad)`` when the gradient of this tensor is known; what it returns replaces it."""
    n = self.n
    if n is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return hooks.add_tensor_hook(n.node, n.i, hook) if n.__class__ is Out else hooks.add_tensor_hook(n, 0, hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Any) -> Any:
    """Call ``hook(param)`` after the gradient of this leaf was accumulated."""
    if self.n is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.n.__class__ is not Leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return hooks.add(self.n, "post", hook)


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf in ``grad``."""
    import weakref

    if self.n is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self.n.__class__ is Leaf or self.__dict__.get("_retains"):
        return
    ref = weakref.ref(self)

    def keep(g: Tensor) -> None:
        t = ref()
        if t is not None:
            old = t.__dict__.get("_grad")
            t.__dict__["_grad"] = g if old is None else old + g

    self.__dict__["_retains"] = True
    handle = register_hook(self, keep)
    table = handle._dicts[0]
    table["retain_grad", handle.id] = table.pop(handle.id)


def detach_(self: Tensor) -> Tensor:
    """Forget the history of this tensor."""
    if hasattr(self, "b"):
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    self.n = None
    return self


# ------------------------------------------------------------------------------------------ memory
def resize_(self: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Change the shape in place; existing elements are kept, new ones are uninitialised."""
    shape = to_ints(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    check(self.n is None, RuntimeError, "cannot resize variables that require grad")
    n = int(np.prod(shape)) if shape else 1
    flat = root_array(self)[storage_offset(self) :] if self.a.flags.c_contiguous else self.a.reshape(-1)
    if n <= flat.size:
        self.a = flat[:n].reshape(shape)
    else:
        z = np.zeros(n, self.a.dtype)
        z[: flat.size] = flat
        self.a = z.reshape(shape)
        self.v = Cell(self.a)
    return self


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to the shape of another tensor."""
    return resize_(input, the_template.a.shape, memory_format=memory_format)


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Take over the memory of another tensor or storage."""
    if source is None:
        self.a, self.v = np.empty((0,), self.a.dtype), None
        return self
    if isinstance(source, Tensor) and size is None:
        self.a, self.v = source.a, cell_of(source)
        return self
    root = root_array(source) if isinstance(source, Tensor) else source._array(self.k.np)
    shape = (root.size,) if size is None else to_ints(size)
    step = to_ints(stride) if stride is not None else _tidy((*shape, 0), (0,) * (len(shape) + 1))[:-1]
    item = root.itemsize
    self.a = np.ndarray(shape, root.dtype, root, storage_offset * item, tuple(s * item for s in step))
    self.v = Cell(root)
    return self


def untyped_storage(self: Tensor) -> Any:
    """The bytes behind this tensor, shared."""
    from mindtorch.torch import _utils

    return _utils.untyped_storage(self)


def storage(self: Tensor) -> Any:
    """The typed storage behind this tensor."""
    from mindtorch.torch import _utils

    return _utils.typed_storage(self)


# ------------------------------------------------------------------------------------------ text and copies
def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    from mindtorch.core import overrides, printing

    if not self.k.plain and overrides.wanted((self,)):
        r = overrides.call(_repr, (self,), {})
        if r is not NotImplemented:
            return r
    name = self.grad_fn.name() if self.grad_fn is not None else None
    return printing.tensor_str(
        self.a, self.k.dtype.name, requires_grad=self.requires_grad, grad_fn_name=name, device=str(self.k.device),
        default_dtype=D.get_default_dtype().name, name=_shown_class(self),
    )  # fmt: skip


def _shown_class(self: Tensor) -> str:
    """"tensor", or the name of a subclass of the user's."""
    cls = type(self)
    return "tensor" if cls.__module__.startswith("mindtorch.") else cls.__name__


def _format(self: Tensor, spec: str) -> str:
    if self.a.ndim == 0 and self.k.device.type != "meta":
        return format(self.item(), spec)
    return object.__format__(self, spec)


def _copied_memory(self: Tensor, memo: dict[Any, Any]) -> tuple[Any, Cell]:
    """The tensor's view of a copy of its whole storage; tensors that share a storage share its copy."""
    on_device = self.a.__class__ is not np.ndarray and hasattr(self.a, "store")
    root = self.a.store if on_device else root_array(self)  # type: ignore[attr-defined]
    key = ("mindtorch storage", id(root) if on_device else address(root))
    copy = memo.get(key)
    if copy is None:
        copy = memo[key] = self.a.whole() if on_device else root.copy()  # type: ignore[attr-defined]
        memo.setdefault(("mindtorch keep",), []).append(root)
    if on_device:
        return self.a.within(copy), Cell(copy)  # type: ignore[attr-defined]
    at = storage_offset(self) * self.a.itemsize
    return (np.ndarray(self.a.shape, copy.dtype, copy, at, self.a.strides) if self.a.size else self.a.copy()), Cell(copy)


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    if self.n is not None and self.n.__class__ is not Leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. If you "
            "were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage."
        )
    cls = type(self)
    t = object.__new__(cls)
    t.k, t.n = self.k, None
    t.a, t.v = _copied_memory(self, memo)
    memo[id(self)] = t
    if self.n is not None:
        t.n = Leaf(t)
        if self.n.grad is not None:
            t.n.grad = _copy.deepcopy(self.n.grad, memo)
    for k, v in self.__dict__.items():
        if not k.startswith("_retains"):
            t.__dict__[k] = _copy.deepcopy(v, memo)
    return t


def _reduce_ex(self: Tensor, proto: int) -> Any:
    from mindtorch.torch import _utils

    return _utils.reduce_tensor(self, proto)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating one."""
    return input.k.cat == D.FLOAT


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return input.k.cat == D.COMPLEX


def numel(input: Tensor) -> int:
    """Number of elements."""
    return input.a.size


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether shapes are equal."""
    return input.a.shape == other.a.shape


def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace every element by ``callable(element)`` (slow, CPU only)."""
    flat = [callable(v) for v in self.a.reshape(-1).tolist()]
    self.a[...] = np.array(flat, self.a.dtype).reshape(self.a.shape)
    cell_of(self).bump()
    return self


def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace every element by ``callable(element, other)``."""
    b = np.broadcast_to(tensor.a, self.a.shape)
    flat = [callable(x, y) for x, y in zip(self.a.reshape(-1).tolist(), b.reshape(-1).tolist())]
    self.a[...] = np.array(flat, self.a.dtype).reshape(self.a.shape)
    cell_of(self).bump()
    return self


def _moved(fn: Any) -> Any:
    def method_(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        r = fn(self, *args, **kwargs)
        self.a, self.n = r.a, r.n
        self.v = cell_of(r)
        return self

    return method_


def new_(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A tensor of the same type from sizes or data (old style)."""
    from mindtorch.core import legacy
    from mindtorch.core.tensor import wrap

    got = legacy._array(args, self.k.dtype, "the same type")
    return got if isinstance(got, Tensor) else wrap(got)


put(
    "Tensor",
    size=size, dim=lambda self: self.a.ndim, ndimension=lambda self: self.a.ndim, nelement=numel, numel=numel, stride=stride,
    storage_offset=storage_offset, data_ptr=lambda self: address(self.a) if self.a.size else 0,
    const_data_ptr=lambda self: address(self.a), element_size=lambda self: self.a.itemsize,
    __len__=_len, __iter__=_iter, __contains__=_contains, __hash__=object.__hash__, __reversed__=lambda self: self.flip(0),
    backward=backward, register_hook=register_hook, retain_grad=retain_grad, detach_=detach_, new=new_,
    register_post_accumulate_grad_hook=register_post_accumulate_grad_hook, requires_grad_=views.requires_grad_,
    retains_grad=property(lambda self: bool(self.__dict__.get("_retains"))),
    resize_=resize_, resize_as_=resize_as_, set_=set_, untyped_storage=untyped_storage,
    storage=storage, __repr__=_repr, __str__=_repr, __format__=_format, __deepcopy__=_deepcopy, __reduce_ex__=_reduce_ex,
    is_floating_point=is_floating_point, is_complex=is_complex, is_same_size=is_same_size,
    is_signed=lambda self: self.k.dtype.is_signed, is_inference=lambda self: self.v.__class__ is HeldCell, is_pinned=lambda self, device=None: False,
    pin_memory=lambda self, device=None: self,
    get_device=lambda self: -1 if self.k.device.index is None else self.k.device.index,
    is_cuda=property(lambda self: self.k.device.type == "cuda"), is_cpu=property(lambda self: self.k.device.type == "cpu"),
    is_meta=property(lambda self: self.k.device.type == "meta"), is_mps=property(lambda self: False),
    is_sparse=property(lambda self: False), is_quantized=property(lambda self: False), is_mkldnn=property(lambda self: False),
    is_nested=property(lambda self: False), is_xpu=property(lambda self: False), is_npu=property(lambda self: self.k.device.type == "npu"),
    names=property(lambda self: (None,) * self.a.ndim), name=property(lambda self: None),
    is_set_to=lambda self, o: self.a.shape == o.a.shape and self.a.strides == o.a.strides and address(self.a) == address(o.a),
    apply_=apply_, map_=map_, is_coalesced=lambda self: True, to_dense=lambda self, dtype=None: self if dtype is None else self.to(dtype), has_names=lambda self: False,
    dim_order=lambda self: tuple(sorted(range(self.a.ndim), key=lambda d: -self.a.strides[d])),
    t_=_moved(lambda x: x.t()), transpose_=_moved(lambda x, a, b: x.transpose(a, b)), squeeze_=_moved(lambda x, *d, **k: x.squeeze(*d, **k)),
    unsqueeze_=_moved(lambda x, dim: x.unsqueeze(dim)), swapaxes_=_moved(lambda x, a, b: x.transpose(a, b)),
    swapdims_=_moved(lambda x, a, b: x.transpose(a, b)), as_strided_=_moved(lambda x, *a, **k: x.as_strided(*a, **k)),
    resize=lambda self, *s: self.clone().resize_(*s), resize_as=lambda self, other: self.clone().resize_as_(other),
)  # fmt: skip


def share_memory_(self: Tensor) -> Tensor:
    """Move the memory to where other processes see it: forked ones, and those the tensor is sent to by multiprocessing."""
    from mindtorch.core import shared

    if shared.region_of(self.a) is None:
        shared.register()
        self.a = shared.share(self.a)
        self.v = Cell(self.a)
    return self


def is_shared(self: Tensor) -> bool:
    """Whether the memory was moved by `share_memory_`."""
    from mindtorch.core import shared

    return shared.region_of(self.a) is not None


put("Tensor", share_memory_=share_memory_, is_shared=is_shared)


def _result_type(tensor1: Any, tensor2: Any) -> D.dtype:
    """Common dtype of two tensors or numbers."""
    return result_type((tensor1, tensor2))


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def is_nonzero(input: Tensor) -> bool:
    """Truth of a one-element tensor."""
    if input.a.size != 1:
        raise RuntimeError("Boolean value of Tensor with " + ("no values" if not input.a.size else "more than one value") + " is ambiguous")
    return bool(input.a.item() != 0)


put(
    "torch",
    resize_as_=resize_as_, detach_=detach_, get_device=lambda input: input.get_device(),
    as_strided_=lambda input, *a, **k: input.as_strided_(*a, **k),
    result_type=_result_type, is_tensor=is_tensor, is_floating_point=is_floating_point, is_complex=is_complex, numel=numel,
    is_nonzero=is_nonzero, is_same_size=is_same_size, is_signed=lambda input: input.k.dtype.is_signed,
    is_inference=lambda input: input.v.__class__ is HeldCell, promote_types=D.promote_types, can_cast=D.can_cast, finfo=D.finfo, iinfo=D.iinfo,
    get_default_dtype=D.get_default_dtype, set_default_dtype=D.set_default_dtype, device=_device.device, dtype=D.dtype, Size=Size,
    get_default_device=_device.get_default_device, set_default_device=_device.set_default_device,
    no_grad=modes.no_grad, enable_grad=modes.enable_grad, set_grad_enabled=modes.set_grad_enabled, is_grad_enabled=modes.grad_on,
    inference_mode=modes.inference_mode, is_inference_mode_enabled=modes.is_inference_mode_enabled,
    is_storage=lambda obj: type(obj).__name__ in ("UntypedStorage", "TypedStorage"),
)  # fmt: skip
put("Tensor", is_nonzero=is_nonzero)
