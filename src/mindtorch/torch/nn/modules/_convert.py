"""Converting a module's parameters and buffers: dtype, device, memory format."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import mindtorch.torch as torch

from ..parameter import Parameter

_TO_FORMS = """
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
"""


def _bad_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    got = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
    return TypeError(f"to() received an invalid combination of arguments - got ({got}), but expected one of:{_TO_FORMS}")


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    """device, dtype, non_blocking and memory_format out of the three forms of ``to``."""
    rest = dict(kwargs)
    memory_format = rest.pop("memory_format", None)
    head = args[0] if args else None
    if isinstance(head, torch.dtype):
        names = ("dtype", "non_blocking", "copy")
    elif isinstance(head, torch.Tensor):
        names = ("tensor", "non_blocking", "copy")
    else:
        names = ("device", "dtype", "non_blocking", "copy")
    values: dict[str, Any] = dict(zip(names, args))
    if len(args) > len(names) or set(values) & set(rest) or set(rest) - {"tensor", "device", "dtype", "non_blocking", "copy"}:
        raise _bad_to(args, kwargs)
    values.update(rest)
    other = values.get("tensor")
    device, dtype = values.get("device"), values.get("dtype")
    if other is not None:
        device, dtype = other.device, other.dtype
    if device is not None and not isinstance(device, (torch.device, str, int)) or isinstance(device, bool):
        raise _bad_to(args, kwargs)
    if isinstance(device, (str, int)):
        device = torch.device(device)
    return device, dtype, bool(values.get("non_blocking", False)), memory_format


def _same_kind(old: Any, new: Any) -> bool:
    """Whether ``old.data = new`` may be used: not between real memory and the meta device, nor for tensor subclasses."""
    return old.is_meta == new.is_meta


class Converting:
    """Part of Module: ``to`` and its relatives."""

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        """Replace every parameter (keeping its identity), gradient and buffer by ``fn`` of it. Returns self."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
        for name, param in self._parameters.items():
            if param is None:
                continue
            with torch.no_grad():
                fresh = fn(param)
            grad = param.grad
            if not overwrite and _same_kind(param, fresh):
                param.data = fresh
                target = param
            else:
                target = Parameter(fresh, param.requires_grad)
                self._parameters[name] = target
            if grad is not None:
                with torch.no_grad():
                    fresh_grad = fn(grad)
                if target is param and _same_kind(grad, fresh_grad) and not overwrite:
                    grad.data = fresh_grad
                else:
                    target.grad = fresh_grad.requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """``to(device, dtype, non_blocking)``, ``to(dtype)``, ``to(tensor)``, ``to(memory_format=...)``; in place, returns self.

        Only floating point and complex members change dtype; ``memory_format`` applies to members of 4 or 5 dimensions.
        """
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, and some modules "
                    "might not work as expected when using complex tensors as parameters or buffers.",
                    stacklevel=2,
                )

        def convert(t: Any) -> Any:
            want = dtype if t.is_floating_point() or t.is_complex() else None
            try:
                if memory_format is not None and t.dim() in (4, 5):
                    return t.to(device, want, non_blocking, memory_format=memory_format)
                return t.to(device, want, non_blocking)
            except NotImplementedError as err:
                if "Cannot copy out of meta tensor" in str(err):
                    raise NotImplementedError(
                        "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                        "torch.nn.Module.to() when moving module from meta to a different device."
                    ) from None
                raise

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move to ``device`` without copying: values are whatever the memory holds."""
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers, integer ones included, to ``dst_type``."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Any:
        """Floating point members to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Any:
        """Floating point members to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Any:
        """Floating point members to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Any:
        """Floating point members to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Any:
        """Members to host memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Any:
        """Members to an accelerator known as "cuda"; raises as ``Tensor.cuda`` does where there is none."""
        return self._apply(lambda t: t.cuda(device))

    def npu(self, device: Any = None) -> Any:
        """Members to the NPU; raises as ``Tensor.npu`` does where there is none."""
        return self._apply(lambda t: t.npu(device))

    def xpu(self, device: Any = None) -> Any:
        """Members to an XPU: raises, there is none here."""
        return self._apply(lambda t: t.to(f"xpu:{device or 0}"))

    def ipu(self, device: Any = None) -> Any:
        """Members to an IPU: raises, there is none here."""
        return self._apply(lambda t: t.to(f"ipu:{device or 0}"))

    def mtia(self, device: Any = None) -> Any:
        """Members to an MTIA device: raises, there is none here."""
        return self._apply(lambda t: t.to(f"mtia:{device or 0}"))
