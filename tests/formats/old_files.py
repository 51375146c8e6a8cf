"""Checkpoints that nothing installed writes any more: PyTorch's tar, and the zip of mindtorch 0.4.0."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import tarfile
import types
import zipfile
from typing import Any

import numpy as np

import torch


def tar_checkpoint() -> io.BytesIO:
    """A file as PyTorch 0.1 wrote it: two tensors, one of them over a view of the other's storage."""
    values = np.arange(6, dtype="<f4")
    storages = io.BytesIO()
    pickle.dump(1, storages, 2)
    pickle.dump((11, "cpu", torch.FloatStorage), storages, 2)
    storages.write(struct.pack("<q", 6) + values.tobytes())
    pickle.dump([(12, 11, 2, 3)], storages, 2)
    tensors = io.BytesIO()
    pickle.dump(2, tensors, 2)
    for key, storage, size, stride, offset in ((1, 11, (2, 3), (3, 1), 0), (2, 12, (3,), (1,), 0)):
        pickle.dump((key, storage, torch.FloatTensor), tensors, 2)
        tensors.write(struct.pack("<ii", len(size), 0) + struct.pack(f"<{2 * len(size) + 1}q", *size, *stride, offset))

    class Ref:
        def __init__(self, key: int) -> None:
            self.key = key

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return obj.key if isinstance(obj, Ref) else None

    main = io.BytesIO()
    Pickler(main, 2).dump({"a": Ref(1), "b": Ref(2)})
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:") as tar:
        for name, data in (("storages", storages), ("tensors", tensors), ("pickle", main)):
            info = tarfile.TarInfo(name)
            info.size = len(data.getvalue())
            tar.addfile(info, io.BytesIO(data.getvalue()))
    out.seek(0)
    return out


def version_040_checkpoint(arrays: dict[str, np.ndarray], narrow: str = "Float", bits: int = 32) -> bytes:
    """A file as mindtorch 0.4.0 wrote a dict of tensors of dtype ``narrow`` (``Float`` 32, ``BFloat`` 16, ...)."""
    kinds, functions = types.ModuleType("mindtorch.torch.common.dtype"), types.ModuleType("mindtorch.torch._utils")

    class Kind:
        def __getstate__(self) -> Any:
            return (bits,)

    def rebuild(data: Any, kind: Any) -> Any:
        raise AssertionError("written only, never called here")

    Kind.__module__, Kind.__qualname__, Kind.__name__ = kinds.__name__, narrow, narrow
    rebuild.__module__, rebuild.__qualname__ = functions.__name__, "_rebuild_mindtorch_tensor"
    rebuild.__name__ = rebuild.__qualname__
    setattr(kinds, narrow, Kind)
    functions._rebuild_mindtorch_tensor = rebuild  # type: ignore[attr-defined]

    class Written:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __reduce__(self) -> Any:
            return rebuild, (self.array, Kind())

    places = {m.__name__: m for m in (kinds, functions)}
    before = {name: sys.modules.get(name) for name in places}
    sys.modules.update(places)
    try:
        text = pickle.dumps({k: Written(v) for k, v in arrays.items()}, 2)
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", text)
    return out.getvalue()
