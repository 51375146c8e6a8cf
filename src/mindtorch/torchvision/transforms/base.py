"""Chains of transforms, conversions, and transforms without chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch.torch as torch

from . import functional as F


class Compose:
    """Apply ``transforms`` in order."""

    def __init__(self, transforms: Sequence[Callable]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self) -> str:
        inner = "".join(f"\n    {t}" for t in self.transforms)
        return f"{type(self).__name__}({inner}\n)"


class ToTensor:
    """PIL image or array ``(H, W, C)`` to tensor ``(C, H, W)``, bytes scaled to 0..1."""

    def __call__(self, pic: Any) -> Any:
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PILToTensor:
    """PIL image to tensor ``(C, H, W)``, unscaled."""

    def __call__(self, pic: Any) -> Any:
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ToPILImage:
    """Tensor ``(C, H, W)`` or array ``(H, W, C)`` to PIL image."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class Lambda:
    """Apply a function of the user's."""

    def __init__(self, lambd: Callable) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Choice:
    """Base of transforms that choose among others."""

    def __init__(self, transforms: Sequence[Callable]) -> None:
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __repr__(self) -> str:
        inner = "".join(f"\n    {t}" for t in self.transforms)
        return f"{type(self).__name__}({inner}\n)"


class RandomOrder(_Choice):
    """Apply all in a random order (of Python's `random`)."""

    def __call__(self, img: Any) -> Any:
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img


class RandomChoice(_Choice):
    """Apply one, drawn by Python's `random` with weights ``p``."""

    def __init__(self, transforms: Sequence[Callable], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args: Any) -> Any:
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


class RandomApply(torch.nn.Module):
    """Apply all of ``transforms`` with probability ``p``, or none."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Any) -> Any:
        if self.p < torch.rand(1):
            return img
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self) -> str:
        inner = "".join(f"\n    {t}" for t in self.transforms)
        return f"{type(self).__name__}(\n    p={self.p}{inner}\n)"


class Normalize(torch.nn.Module):
    """``(img - mean) / std`` by channel, for tensor images."""

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Any) -> Any:
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mean={self.mean}, std={self.std})"


class ConvertImageDtype(torch.nn.Module):
    """Change a tensor image's type and rescale it to the new range."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"Argument dtype should be of type torch.dtype, got {type(dtype)}")
        self.dtype = dtype

    def forward(self, image: Any) -> Any:
        return F.convert_image_dtype(image, self.dtype)


class Grayscale(torch.nn.Module):
    """To grey with 1 or 3 channels."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, num_output_channels=self.num_output_channels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_output_channels={self.num_output_channels})"


def happens(p: float) -> bool:
    """True with probability ``p``: one draw of the global stream."""
    return bool(torch.rand(1) < p)


def uniform(low: float, high: float) -> float:
    """A float32 draw between ``low`` and ``high``."""
    return float(torch.empty(1).uniform_(float(low), float(high)).item())


def fill_for(img: Any, fill: Any) -> Any:
    """``fill`` as a list of one float a channel for tensors, unchanged for PIL images."""
    if not isinstance(img, torch.Tensor):
        return fill
    if isinstance(fill, (int, float)):
        return [float(fill)] * F.get_image_num_channels(img)
    return [float(f) for f in fill]
