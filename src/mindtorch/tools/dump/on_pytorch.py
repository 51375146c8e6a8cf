"""How calls are seen on PyTorch: a ``__torch_function__`` mode for functions and methods, global hooks for modules."""

from __future__ import annotations

import sys
from typing import Any

from mindtorch.tools import frameworks, values
from mindtorch.tools.dump.modules import ModuleHooks, OptimizerHooks
from mindtorch.tools.dump.names import PREFIX
from mindtorch.tools.dump.stacks import as_written, call_site, operator_at, reflected_at

SKIPPED = frozenset(
    """dim size numel nelement ndimension stride storage storage_offset untyped_storage data_ptr element_size get_device
    item tolist numpy backward requires_grad_ register_hook register_post_accumulate_grad_hook retain_grad detach detach_
    is_floating_point is_complex is_contiguous is_leaf is_same_size is_set_to is_shared is_signed is_pinned is_inference
    is_nonzero is_neg is_conj is_tensor is_coalesced is_sparse is_quantized resolve_conj resolve_neg has_names share_memory_
    pin_memory as_subclass set_ resize_ resize_as_ dim_order type apply_ map_ result_type can_cast new new_tensor new_empty
    new_full new_ones new_zeros new_empty_strided zeros_like ones_like empty_like full_like rand_like randn_like randint_like
    uniform_ normal_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ random_ allclose equal get_default_dtype typename
    data grad real imag to_dense to_sparse as_tensor tensor from_numpy manual_seed broadcast_shapes promote_types
    multinomial compile __len__ __bool__ __int__ __float__ __index__ __complex__ __repr__ __str__ __format__ __hash__
    __contains__ __reduce_ex__ __reduce__ __setstate__ __deepcopy__ __array__ __dir__ __getstate__ __dlpack__ __reversed__
    __array_wrap__ __cuda_array_interface__ __iter__ _is_view""".split()
)
"""Questions about a tensor, its creation and its bookkeeping: no computation to compare."""
CONVERSIONS = frozenset(
    """to float double half bfloat16 int long short char byte bool cfloat cdouble chalf cpu cuda contiguous type_as
    reshape_as""".split()
)
"""Recorded only when they made a new tensor."""
_HOMES = (
    "torch/functional.py", "torch/nn/functional.py", "torch/_tensor.py", "torch/overrides.py", "torch/_jit_internal.py",
    "torch/__init__.py", "torch/linalg/__init__.py", "torch/special/__init__.py", "torch/fft/__init__.py",
)  # fmt: skip
"""Files of PyTorch whose functions a user calls; a call from any other file is PyTorch's own business."""


def split_name(full: str) -> tuple[str, str] | None:
    """``torch.nn.functional.relu`` -> ("Functional", "relu"); None for properties and for what is not public."""
    if full.startswith("torch.functional."):
        full = "torch." + full[len("torch.functional.") :]
    head, _, name = full.rpartition(".")
    kind = PREFIX.get(head + ".")
    if kind is None or kind == "NN" or not name or name in ("__get__", "__set__"):
        return None
    return kind, name


class PyTorchSide:
    """Attached from construction until `remove`."""

    def __init__(self, recorder: Any) -> None:
        torch = frameworks.load(frameworks.PYTORCH)
        self._overrides = torch.overrides
        self._backward = torch.Tensor.backward
        self._names: dict[Any, tuple[str, str] | None] = {}
        self._sites: dict[Any, tuple[str, str] | None] = {}
        self.recorder = recorder
        self._mode = _mode_class(torch)(self._seen)
        self._modules = ModuleHooks(recorder, torch)
        self._optimizers = OptimizerHooks(recorder, torch)
        graph = getattr(torch._C, "_current_graph_task_id", None)
        if graph is not None:
            recorder.in_backward = lambda: graph() != -1
        self._mode.__enter__()

    def remove(self) -> None:
        """Take mode and hooks away, also when modes of the user's were entered on top."""
        above = []
        stack = self._overrides._get_current_function_mode_stack()
        if self._mode in stack:
            while True:
                top = self._overrides._pop_mode()
                if top is self._mode:
                    break
                above.append(top)
            for m in reversed(above):
                self._overrides._push_mode(m)
        self._modules.remove()
        self._optimizers.remove()

    def _name(self, func: Any) -> tuple[str, str] | None:
        try:
            return self._names[func]
        except KeyError:
            pass
        except TypeError:
            return None
        full = self._overrides.resolve_name(func)
        got = None if full is None else split_name(full)
        if got is not None and got[1] in SKIPPED:
            got = None
        self._names[func] = got
        return got

    def _site(self, func: Any, name: tuple[str, str]) -> tuple[str, str] | None:
        """The call as the user wrote it; None when the user did not write it."""
        user, below = call_site(sys._getframe(3), self.recorder.in_layers and bool(self.recorder.module_stack))
        if user is None:
            return None
        key = (func, user.f_code, user.f_lasti, None if below is None else below.f_code)
        try:
            return self._sites[key]
        except KeyError:
            pass
        got: tuple[str, str] | None = name
        if below is not None and not below.f_code.co_filename.replace("\\", "/").endswith(_HOMES):
            got = None
        elif name[0] == "Tensor":
            word = operator_at(user)
            if word is not None:
                word = f"__r{word[2:]}" if self.recorder.in_layers and reflected_at(user) else word
                got = ("Tensor", name[1] if name[1].startswith("__") else word)
        self._sites[key] = got
        return got

    def _given(self, args: Any, kwargs: Any) -> list[tuple[str, Any]]:
        """The arguments as the user wrote them: functions of PyTorch written in Python hand on all they have by name."""
        user, below = call_site(sys._getframe(3), True)
        got = as_written(user, below, False) if user is not None and below is not None and kwargs else None
        placed, named = (args, kwargs) if got is None else got
        return [*values.leaves(tuple(placed), everything=True), *values.leaves(named, everything=True)]

    def _seen(self, func: Any, args: Any, kwargs: Any) -> Any:
        r = self.recorder
        name = self._name(func)
        if func is self._backward and r.alive():
            r.loss(args[0])
        if name is None or not r.alive() or r.in_backward():
            return func(*args, **kwargs)
        found = list(values.leaves(args)) + list(values.leaves(kwargs))
        if not found:
            return func(*args, **kwargs)
        site = self._site(func, name)
        if site is None:
            return func(*args, **kwargs)
        if name[1] in CONVERSIONS:
            out = func(*args, **kwargs)
            if out is found[0][1]:
                return out
            call = r.begin(*site, found)
        else:
            if not r.settings.filter_data:
                found = self._given(args, kwargs) if r.in_layers else [*values.leaves(args, everything=True), *values.leaves(kwargs, everything=True)]
            call = r.begin(*site, found)
            try:
                out = func(*args, **kwargs)
            except BaseException as e:
                if call is not None:
                    r.fail(call, f"{type(e).__name__}: {e}"[:500])
                raise
        if call is not None:
            outs = list(values.leaves(out))
            view = site[1] in RESHAPING or any(written(site[1]) and t._is_view() for _, t in outs)
            r.end(call, outs, gradients=not view)
        return out


RESHAPING = frozenset(
    "t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ as_strided_ resize_ set_".split()
)
"""Change what a tensor is in place: the gradient of the tensor before and behind cannot be told apart."""


def written(name: str) -> bool:
    """Whether a name is that of an operation in place."""
    if name.startswith("__"):
        return name.startswith("__i") and name not in ("__invert__", "__index__", "__iter__", "__int__")
    return name.endswith("_")


def _mode_class(torch: Any) -> Any:
    class Recording(torch.overrides.TorchFunctionMode):  # type: ignore[name-defined]
        """Hands every call to the recorder; inside it the mode is off."""

        def __init__(self, seen: Any) -> None:
            super().__init__()
            self._seen = seen

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return self._seen(func, args, kwargs or {})

    return Recording
