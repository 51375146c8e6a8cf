"""Transforms of size and place."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import mindtorch.torch as torch

from . import functional as F
from .base import fill_for, happens, uniform
from .modes import InterpolationMode, as_mode


def pair(size: Any, message: str = "Please provide only two dimensions (h, w) for size.") -> tuple[int, int]:
    """(height, width) from one number, one element, or two."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(message)
    return size  # type: ignore[return-value]


def span(value: Any, name: str) -> list[float]:
    """(-value, value) from one number, or the two given. ValueError for a negative number."""
    if isinstance(value, numbers.Number):
        if value < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [0.0 - float(value), float(value)]  # type: ignore[arg-type]
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} should be a sequence of length 2.")
    if len(value) != 2:
        raise ValueError(f"{name} should be a sequence of length 2.")
    return [float(v) for v in value]


def _check_size(size: Any) -> None:
    if not isinstance(size, (int, Sequence)):
        raise TypeError(f"Size should be int or sequence. Got {type(size)}")
    if isinstance(size, Sequence) and len(size) not in (1, 2):
        raise ValueError("If size is a sequence, it should have 1 or 2 values")


class Resize(torch.nn.Module):
    """To ``size``: (height, width), or one number for the shorter side."""

    def __init__(
        self,
        size: Any,
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        _check_size(size)
        self.size = size
        self.max_size = max_size
        self.interpolation = as_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(torch.nn.Module):
    """The middle, padded with zeros where the image is smaller."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = pair(size)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class Pad(torch.nn.Module):
    """Borders on all sides."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if not isinstance(padding, (numbers.Number, tuple, list)):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, (numbers.Number, str, tuple, list)):
            raise TypeError("Got inappropriate fill arg")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
            raise ValueError(
                f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple"
            )
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class RandomCrop(torch.nn.Module):
    """A random part of ``size``, after optional padding."""

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Row, column, height, width; no draw when the image has the size already."""
        _, h, w = F.get_dimensions(img)
        th, tw = output_size
        if h < th or w < tw:
            raise ValueError(f"Required crop size {(th, tw)} is larger than input image size {(h, w)}")
        if w == tw and h == th:
            return 0, 0, h, w
        i = torch.randint(0, h - th + 1, size=(1,)).item()
        j = torch.randint(0, w - tw + 1, size=(1,)).item()
        return i, j, th, tw

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = tuple(pair(size))
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, h, w = F.get_dimensions(img)
        if self.pad_if_needed and w < self.size[1]:
            img = F.pad(img, [self.size[1] - w, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and h < self.size[0]:
            img = F.pad(img, [0, self.size[0] - h], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


class RandomHorizontalFlip(torch.nn.Module):
    """Left and right exchanged with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return F.hflip(img) if happens(self.p) else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top and bottom exchanged with probability ``p``."""

    def forward(self, img: Any) -> Any:
        return F.vflip(img) if happens(self.p) else img


class RandomResizedCrop(torch.nn.Module):
    """A random part, of an area between ``scale`` of the whole and a shape between ``ratio``, resized to ``size``."""

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = pair(size)
        if not isinstance(scale, Sequence):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, Sequence):
            raise TypeError("Ratio should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        self.interpolation = as_mode(interpolation)
        self.antialias = antialias
        self.scale = scale
        self.ratio = ratio

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Row, column, height, width: ten tries, then the largest middle part with a permitted shape."""
        _, height, width = F.get_dimensions(img)
        area = height * width
        log_ratio = torch.log(torch.tensor(ratio))
        for _ in range(10):
            target = area * torch.empty(1).uniform_(scale[0], scale[1]).item()
            shape = torch.exp(torch.empty(1).uniform_(log_ratio[0].item(), log_ratio[1].item())).item()
            w, h = int(round(math.sqrt(target * shape))), int(round(math.sqrt(target / shape)))
            if 0 < w <= width and 0 < h <= height:
                i = torch.randint(0, height - h + 1, size=(1,)).item()
                j = torch.randint(0, width - w + 1, size=(1,)).item()
                return i, j, h, w
        shape = float(width) / float(height)
        w, h = width, height
        if shape < min(ratio):
            h = int(round(w / min(ratio)))
        elif shape > max(ratio):
            w = int(round(h * max(ratio)))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        i, j, h, w = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, i, j, h, w, self.size, self.interpolation, antialias=self.antialias)

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(v, 4) for v in values) for values in (self.scale, self.ratio))
        return (
            f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


class FiveCrop(torch.nn.Module):
    """Four corners and the centre, as a tuple of images."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = pair(size)

    def forward(self, img: Any) -> tuple:
        return F.five_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class TenCrop(FiveCrop):
    """`FiveCrop` of the image and of its mirror image."""

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> tuple:
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, vertical_flip={self.vertical_flip})"


class RandomRotation(torch.nn.Module):
    """Turn by an angle drawn from ``degrees``: (low, high), or (-d, d) for one number."""

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = span(degrees, "degrees")
        self.center = center
        self.interpolation = as_mode(interpolation)
        self.expand = expand
        self.fill = 0 if fill is None else fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """The angle."""
        return uniform(degrees[0], degrees[1])

    def forward(self, img: Any) -> Any:
        angle = self.get_params(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, fill_for(img, self.fill))

    def __repr__(self) -> str:
        text = f"{type(self).__name__}(degrees={self.degrees}, interpolation={self.interpolation.value}"
        text += f", expand={self.expand}"
        if self.center is not None:
            text += f", center={self.center}"
        if self.fill is not None:
            text += f", fill={self.fill}"
        return text + ")"


class RandomAffine(torch.nn.Module):
    """Turn, move, scale and shear by random amounts."""

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        super().__init__()
        self.degrees = span(degrees, "degrees")
        if translate is not None and any(not 0.0 <= t <= 1.0 for t in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and any(s <= 0 for s in scale):
            raise ValueError("scale values should be positive")
        self.translate = translate
        self.scale = scale
        if shear is not None:
            shear = (
                [float(s) for s in shear] if isinstance(shear, Sequence) and len(shear) == 4 else span(shear, "shear")
            )
        self.shear = shear
        self.interpolation = as_mode(interpolation)
        self.fill = 0 if fill is None else fill
        self.center = center

    @staticmethod
    def get_params(
        degrees: Any, translate: Any, scale_ranges: Any, shears: Any, img_size: Sequence[int]
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Angle, move in pixels, scale, shear."""
        angle = uniform(degrees[0], degrees[1])
        move = (0, 0)
        if translate is not None:
            dx, dy = float(translate[0] * img_size[0]), float(translate[1] * img_size[1])
            tx = int(round(uniform(-dx, dx)))
            move = (tx, int(round(uniform(-dy, dy))))
        scale = uniform(*scale_ranges) if scale_ranges is not None else 1.0
        sx = sy = 0.0
        if shears is not None:
            sx = uniform(shears[0], shears[1])
            if len(shears) == 4:
                sy = uniform(shears[2], shears[3])
        return angle, move, scale, (sx, sy)

    def forward(self, img: Any) -> Any:
        _, h, w = F.get_dimensions(img)
        params = self.get_params(self.degrees, self.translate, self.scale, self.shear, [w, h])
        return F.affine(
            img, *params, interpolation=self.interpolation, fill=fill_for(img, self.fill), center=self.center
        )

    def __repr__(self) -> str:
        text = f"{type(self).__name__}(degrees={self.degrees}"
        for name in ("translate", "scale", "shear"):
            if getattr(self, name) is not None:
                text += f", {name}={getattr(self, name)}"
        if self.interpolation is not InterpolationMode.NEAREST:
            text += f", interpolation={self.interpolation.value}"
        if self.fill != 0:
            text += f", fill={self.fill}"
        if self.center is not None:
            text += f", center={self.center}"
        return text + ")"
