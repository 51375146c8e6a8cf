"""Layers, losses, containers: ``torch.nn``."""

from __future__ import annotations

from typing import Any

from . import attention, common_types, functional, grad, init, modules, parallel, parameter, utils
from .modules import *  # noqa: F403
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The entries of ``kwargs`` that creation functions take, out of their own names and a nested "factory_kwargs".

    TypeError for other entries and for one given twice.
    """
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    other = kwargs.keys() - names - {"factory_kwargs"}
    if other:
        raise TypeError(f"unexpected kwargs {other}")
    out = dict(kwargs.get("factory_kwargs", {}))
    for name in names & kwargs.keys():
        if name in out:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        out[name] = kwargs[name]
    return out


_ABSENT = {
    "intrinsic": "quantisation",
    "qat": "quantisation",
    "quantizable": "quantisation",
    "quantized": "quantisation",
}


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise AttributeError(
            f"torch.nn.{name} ({_ABSENT[name]}) is not part of mindtorch; train in float or bfloat16 and quantise the exported "
            "weights with the tools of the deployment target"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    *modules.__all__, "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", "attention",
    "common_types", "factory_kwargs", "functional", "grad", "init", "modules", "parallel", "parameter", "utils",
]  # fmt: skip
