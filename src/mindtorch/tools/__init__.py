"""Tools of the migration guide. ``from mindtorch.tools import mstorch_enable`` lets ``import torch`` mean mindtorch.

Nothing here imports PyTorch, mindtorch.torch or MindSpore until it is used, so the tools run where only one of them is.
"""

from __future__ import annotations

from mindtorch.tools.late import late

_FROM = {
    "as_troubleshooter": "troubleshooter",
    "convert_to_ms_tensor": "convert_tensor",
    "convert_to_torch_tensor": "convert_tensor",
    "custom_op": "custom_op",
    "debug_layer_info": "layers",
    "pth2ckpt": "pth2ckpt",
    "step_timer": "timing.step_timer",
}
"""Public function -> the file it lives in."""

__getattr__, __dir__ = late(__name__, _FROM)
