"""Tensors to and from MindSpore: shared memory on the CPU, the same memory on an accelerator."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.device import accelerators
from mindtorch.core.tensor import Tensor, wrap
from mindtorch.engine.mindspore import array as A
from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import np_dtype
from mindtorch.ops.table import put


def to_mindspore(t: Tensor) -> Any:
    """The tensor as an ms.Tensor, sharing memory where it lies row-major in host memory.

    RuntimeError when gradients are recorded: ``detach()`` first, or use :class:`CellModule`.
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"to_mindspore(): argument 't' must be a torch.Tensor, not {type(t).__name__}")
    if t.requires_grad:
        raise RuntimeError("Can't give a Tensor that requires grad to MindSpore. Use tensor.detach(), or interop.CellModule for gradients.")
    if isinstance(t.a, A.DeviceArray):
        return A.read(t.a)
    if t.a.dtype.name == A.BFLOAT16_NAME:
        return A.upload(t.a)
    return door.tensor(t.a if t.a.flags.c_contiguous else np.ascontiguousarray(t.a).reshape(t.a.shape))


def from_mindspore(t: Any) -> Tensor:
    """An ms.Tensor (or Parameter) as a tensor: on the accelerator when there is one, else on the CPU sharing its memory."""
    ms = door.load()
    if not isinstance(t, ms.Tensor):
        raise TypeError(f"from_mindspore(): argument 't' must be a mindspore.Tensor, not {type(t).__name__}")
    kind = np_dtype(t)
    if accelerators() and str(ms.get_context("device_target")) != "CPU":
        return wrap(A.made(t, next(iter(accelerators().values())), kind))
    return wrap(A.download(t, kind))


put("Tensor", to_mindspore=to_mindspore)
put("torch", from_mindspore=from_mindspore)
