"""Image operations on PIL images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from .modes import PIL_NUMBER, InterpolationMode


def is_image(img: Any) -> bool:
    """Whether ``img`` is a PIL image."""
    return isinstance(img, Image.Image)


def dimensions(img: Any) -> list[int]:
    """Channels, height, width."""
    return [channels(img), img.height, img.width]


def channels(img: Any) -> int:
    """Number of bands."""
    return len(img.getbands())


def hflip(img: Any) -> Any:
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img.crop((left, top, left + width, top + height))


def resize(img: Any, size: Sequence[int], mode: InterpolationMode, antialias: bool | None) -> Any:
    """``size`` is (height, width). PIL always antialiases."""
    return img.resize((size[1], size[0]), PIL_NUMBER[mode])


def _fill(img: Any, fill: Any, name: str = "fill") -> Any:
    """``fill`` in the form PIL wants for the image's bands."""
    n = channels(img)
    if fill is None:
        fill = 0
    if isinstance(fill, (int, float)) and n > 1:
        return tuple([fill] * n)
    if isinstance(fill, (list, tuple)):
        if len(fill) == 1:
            return tuple(fill) * n if n > 1 else fill[0]
        if len(fill) != n:
            raise ValueError(
                f"The number of elements in '{name}' does not match the number of channels of the image "
                f"({len(fill)} != {n})"
            )
        fill = tuple(fill)
    if img.mode != "F" and isinstance(fill, (list, tuple)):
        return tuple(int(v) for v in fill)
    return int(fill) if img.mode not in ("F",) and isinstance(fill, float) else fill


def pad(img: Any, left: int, top: int, right: int, bottom: int, fill: Any, mode: str) -> Any:
    if mode == "constant":
        value = _fill(img, fill)
        if img.mode == "P":
            palette = img.getpalette()
            out = ImageOps.expand(img, border=(left, top, right, bottom), fill=value)
            out.putpalette(palette)
            return out
        return ImageOps.expand(img, border=(left, top, right, bottom), fill=value)
    cuts = [min(v, 0) for v in (left, top, right, bottom)]
    if any(cuts):
        img = img.crop((-cuts[0], -cuts[1], img.width + cuts[2], img.height + cuts[3]))
        left, top, right, bottom = (max(v, 0) for v in (left, top, right, bottom))
    array = np.asarray(img)
    widths = ((top, bottom), (left, right)) + ((0, 0),) * (array.ndim - 2)
    out = Image.fromarray(np.pad(array, widths, mode=mode))  # type: ignore[call-overload]
    if img.mode == "P":
        out = out.convert("P")
        out.putpalette(img.getpalette())
    return out


def adjust_brightness(img: Any, factor: float) -> Any:
    return ImageEnhance.Brightness(img).enhance(factor)


def adjust_contrast(img: Any, factor: float) -> Any:
    return ImageEnhance.Contrast(img).enhance(factor)


def adjust_saturation(img: Any, factor: float) -> Any:
    return ImageEnhance.Color(img).enhance(factor)


def adjust_sharpness(img: Any, factor: float) -> Any:
    return ImageEnhance.Sharpness(img).enhance(factor)


def adjust_hue(img: Any, factor: float) -> Any:
    mode = img.mode
    if mode in ("L", "1", "I", "F"):
        return img
    h, s, v = img.convert("HSV").split()
    # Hue is a byte on a circle: the shift wraps around.
    turned = (np.asarray(h, dtype=np.int32) + int(factor * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8), "L"), s, v)).convert(mode)


def adjust_gamma(img: Any, gamma: float, gain: float) -> Any:
    mode = img.mode
    table = [int((255 + 1 - 1e-3) * gain * pow(v / 255.0, gamma)) for v in range(256)] * 3
    return img.convert("RGB").point(table).convert(mode)


def to_grayscale(img: Any, bands: int) -> Any:
    gray = img.convert("L")
    if bands == 1:
        return gray
    if bands == 3:
        array = np.asarray(gray, dtype=np.uint8)
        return Image.fromarray(np.dstack([array] * 3), "RGB")
    raise ValueError("num_output_channels should be either 1 or 3")


def rotate(img: Any, angle: float, mode: InterpolationMode, expand: bool, center: Any, fill: Any) -> Any:
    return img.rotate(angle, PIL_NUMBER[mode], expand, center, fillcolor=_fill(img, fill))


def affine(img: Any, matrix: list[float], mode: InterpolationMode, fill: Any) -> Any:
    return img.transform(img.size, Image.Transform.AFFINE, matrix, PIL_NUMBER[mode], fillcolor=_fill(img, fill))


def invert(img: Any) -> Any:
    return ImageOps.invert(img)


def posterize(img: Any, bits: int) -> Any:
    return ImageOps.posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    return ImageOps.solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    return ImageOps.autocontrast(img)


def equalize(img: Any) -> Any:
    return ImageOps.equalize(img)


def box_blur(img: Any, radius: float) -> Any:
    return img.filter(ImageFilter.BoxBlur(radius))
