"""Grids of images, and saving them."""

from __future__ import annotations

import math
from typing import Any

import mindtorch.torch as torch

__all__ = ["make_grid", "save_image"]


def _scaled(image: Any, low: float, high: float) -> None:
    image.clamp_(min=low, max=high)
    image.sub_(low).div_(max(high - low, 1e-5))


@torch.no_grad()
def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[int, int] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Any:
    """A mini-batch ``(B, C, H, W)`` (or a list of images, or one) as one image ``(C, H', W')`` with ``nrow`` images a
    row.

    ``normalize`` shifts to (0, 1) by ``value_range`` or the extremes of the batch (of each image with ``scale_each``).
    """
    if not (torch.is_tensor(tensor) or (isinstance(tensor, list) and all(torch.is_tensor(t) for t in tensor))):
        raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
    if isinstance(tensor, list):
        tensor = torch.stack(tensor, dim=0)
    if tensor.dim() == 2:
        tensor = tensor.unsqueeze(0)
    if tensor.dim() == 3:
        tensor = (torch.cat((tensor, tensor, tensor), 0) if tensor.size(0) == 1 else tensor).unsqueeze(0)
    if tensor.dim() == 4 and tensor.size(1) == 1:
        tensor = torch.cat((tensor, tensor, tensor), 1)
    if normalize:
        tensor = tensor.clone()
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        for part in tensor if scale_each else [tensor]:
            low, high = value_range if value_range is not None else (float(part.min()), float(part.max()))
            _scaled(part, low, high)
    if tensor.size(0) == 1:
        return tensor.squeeze(0)
    count, channels = tensor.size(0), tensor.size(1)
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    height, width = tensor.size(2) + padding, tensor.size(3) + padding
    grid = tensor.new_full((channels, height * rows + padding, width * columns + padding), pad_value)
    for k in range(count):
        top, left = k // columns * height + padding, k % columns * width + padding
        grid[:, top : top + height - padding, left : left + width - padding].copy_(tensor[k])
    return grid


@torch.no_grad()
def save_image(tensor: Any, fp: Any, format: str | None = None, **kwargs: Any) -> None:
    """Write a tensor with values in (0, 1) as an image file; a batch becomes a grid (`make_grid` takes ``kwargs``)."""
    from PIL import Image

    grid = make_grid(tensor, **kwargs)
    array = grid.mul(255).add_(0.5).clamp_(0, 255).permute(1, 2, 0).to("cpu", torch.uint8).numpy()
    Image.fromarray(array).save(fp, format=format)
