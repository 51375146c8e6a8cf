"""Names for type hints."""

from __future__ import annotations

import builtins
import os
from typing import IO, Any, TypeAlias

from mindtorch.core.device import device as _device
from mindtorch.core.dtype import dtype as _dtype
from mindtorch.core.tensor import Size, Tensor
from mindtorch.torch.storage import TypedStorage, UntypedStorage

_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | tuple[Tensor, ...] | list[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = _TensorOrTensors
_symint: TypeAlias = Tensor | int
_dispatchkey: TypeAlias = str
_layout: TypeAlias = Any
_qscheme: TypeAlias = Any

Number: TypeAlias = int | float | bool
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike | IO[bytes]
Storage: TypeAlias = TypedStorage | UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor", "_device", "_dtype", "_size"]
