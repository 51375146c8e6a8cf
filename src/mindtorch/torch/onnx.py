"""``torch.onnx``: there is no ONNX exporter here. Programs that import it run; asking it for a file is refused in words."""

from __future__ import annotations

from typing import Any


class OnnxExporterError(RuntimeError):
    """An export failed."""


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> Any:
    """OnnxExporterError: no file is written. The weights can be moved to PyTorch, which has an exporter."""
    raise OnnxExporterError(
        f"torch.onnx.export: {type(model).__name__} cannot be written as ONNX from here, no exporter exists; save the "
        "weights with torch.save(model.state_dict(), file), load them into the same class under PyTorch and export there"
    )


def is_in_onnx_export() -> bool:
    """False: no export ever runs."""
    return False
