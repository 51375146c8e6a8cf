"""Image operations as functions. Each takes a PIL image or a tensor ``(..., C, H, W)`` and gives one of the same
kind."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

import mindtorch.torch as torch

from . import _pil, _tensor
from .modes import InterpolationMode as InterpolationMode
from .modes import as_mode


def _kind(img: Any) -> Any:
    """The module that handles ``img``. TypeError when it is no image."""
    if isinstance(img, torch.Tensor):
        return _tensor
    if _pil.is_image(img):
        return _pil
    raise TypeError(f"Unexpected type {type(img)}: an image is a PIL image or a tensor")


def get_dimensions(img: Any) -> list[int]:
    """Channels, height, width."""
    return _kind(img).dimensions(img)


def get_image_size(img: Any) -> list[int]:
    """Width, height."""
    _, h, w = get_dimensions(img)
    return [w, h]


def get_image_num_channels(img: Any) -> int:
    """Number of channels."""
    return _kind(img).channels(img)


# ---- conversions

_PIL_DTYPES = {"I": np.int32, "I;16": np.int16, "F": np.float32}


def to_tensor(pic: Any) -> Any:
    """A PIL image or an array ``(H, W)`` or ``(H, W, C)`` as a tensor ``(C, H, W)``; bytes are scaled to 0..1."""
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        img = torch.from_numpy(np.ascontiguousarray((pic[:, :, None] if pic.ndim == 2 else pic).transpose(2, 0, 1)))
    elif _pil.is_image(pic):
        array = np.array(pic, _PIL_DTYPES.get(pic.mode, np.uint8), copy=True)
        if pic.mode == "1":
            array = 255 * array
        array = array.reshape(pic.height, pic.width, len(pic.getbands()))
        img = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    return img.to(dtype=torch.get_default_dtype()).div(255) if img.dtype == torch.uint8 else img


def pil_to_tensor(pic: Any) -> Any:
    """A PIL image as a tensor ``(C, H, W)`` of its own type, unscaled."""
    if not _pil.is_image(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    array = np.array(pic, copy=True).reshape(pic.height, pic.width, len(pic.getbands()))
    return torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))


def convert_image_dtype(image: Any, dtype: Any = None) -> Any:
    """Change a tensor image's type and rescale its values to the range of the new type (float32 by default)."""
    if not isinstance(image, torch.Tensor):
        raise TypeError("Input img should be Tensor Image")
    return _tensor.convert_dtype(image, torch.float32 if dtype is None else dtype)


_MODES = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor ``(C, H, W)`` or an array ``(H, W, C)`` as a PIL image. Floating point tensors are scaled by 255.

    ValueError for a shape or mode that does not fit; TypeError for a type PIL has no image for.
    """
    from PIL import Image

    array = _as_hwc(pic)
    if array.shape[2] == 1:
        array = array[:, :, 0]
        natural = {"uint8": "L", "int16": "I;16", "int32": "I", "float32": "F", "uint16": "I;16"}.get(str(array.dtype))
        if natural is None:
            raise TypeError(f"Input type {array.dtype} is not supported")
        if mode is not None and mode != natural:
            raise ValueError(f"Incorrect mode ({mode}) supplied for input type {array.dtype}. Should be {natural}")
        return Image.fromarray(array, mode=natural) if natural != "I;16" else Image.fromarray(array.astype(np.uint16))
    bands = array.shape[2]
    if bands not in _MODES:
        raise ValueError(f"pic should not have > 4 channels. Got {bands} channels.")
    if mode is not None and mode not in _MODES[bands]:
        raise ValueError(f"Only modes {list(_MODES[bands])} are supported for {bands}D inputs")
    if array.dtype != np.uint8:
        raise TypeError(f"Input type {array.dtype} is not supported")
    return Image.fromarray(array, mode=mode or {2: "LA", 3: "RGB", 4: "RGBA"}[bands])


def _as_hwc(pic: Any) -> np.ndarray:
    """An array ``(H, W, C)``, contiguous."""
    if isinstance(pic, torch.Tensor):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        if pic.ndim == 2:
            pic = pic.unsqueeze(0)
        if pic.shape[-3] > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {pic.shape[-3]} channels.")
        pic = pic.detach().cpu()
        if pic.is_floating_point():
            pic = pic.mul(255).to(torch.uint8)
        return np.ascontiguousarray(pic.numpy().transpose(1, 2, 0))
    if not isinstance(pic, np.ndarray):
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    if pic.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    return np.ascontiguousarray(pic[:, :, None] if pic.ndim == 2 else pic)


def normalize(tensor: Any, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Any:
    """``(tensor - mean) / std`` by channel. ValueError when a deviation is zero in the tensor's type."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tensor.size()}"
        )
    out = tensor if inplace else tensor.clone()
    mean = torch.as_tensor(mean, dtype=out.dtype, device=out.device)
    std = torch.as_tensor(std, dtype=out.dtype, device=out.device)
    if (std == 0).any():
        raise ValueError(f"std evaluated to zero after conversion to {out.dtype}, leading to division by zero.")
    mean = mean.view(-1, 1, 1) if mean.ndim == 1 else mean
    std = std.view(-1, 1, 1) if std.ndim == 1 else std
    return out.sub_(mean).div_(std)


# ---- size and place


def resized_size(shape: tuple[int, int], size: Sequence[int], max_size: int | None = None) -> list[int]:
    """Height and width after resizing an image of ``shape`` (height, width) so that its shorter side is ``size[0]``."""
    if len(size) == 2:
        return list(size)
    h, w = shape
    short, long = (w, h) if w <= h else (h, w)
    new_short, new_long = size[0], int(size[0] * long / short)
    if max_size is not None:
        if max_size <= size[0]:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested size for the smaller edge "
                f"size = {size}"
            )
        if new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return [new_long, new_short] if w <= h else [new_short, new_long]


def resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Resize to ``size``: (height, width), or one number for the shorter side (the longer at most ``max_size``)."""
    mode = as_mode(interpolation)
    kind = _kind(img)
    wanted = [size] if isinstance(size, int) else list(size)
    if len(wanted) not in (1, 2):
        raise ValueError("Size must be an int or a 1 or 2 element tuple/list")
    if max_size is not None and len(wanted) != 1:
        raise ValueError("max_size should only be passed if size specifies the length of the smaller edge.")
    _, h, w = kind.dimensions(img)
    target = resized_size((h, w), wanted, max_size)
    return img if [h, w] == target else kind.resize(img, target, mode, antialias)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Add borders: one number, (left/right, top/bottom), or (left, top, right, bottom)."""
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    if not isinstance(padding, (numbers.Number, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    edges = [padding] if isinstance(padding, numbers.Number) else list(padding)
    if len(edges) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(edges)} element tuple")
    left, top, right, bottom = (edges * 4)[:4] if len(edges) < 4 else edges
    return _kind(img).pad(img, left, top, right, bottom, fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The part from row ``top`` and column ``left``; zero outside of the image."""
    return _kind(img).crop(img, top, left, height, width)


def _pair(size: Any) -> list:
    number = isinstance(size, numbers.Number)
    return [int(size)] * 2 if number else list(size)


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle of the image, padded with zeros where the image is smaller."""
    size = _pair(output_size)
    th, tw = size * 2 if len(size) == 1 else size
    _, h, w = get_dimensions(img)
    if tw > w or th > h:
        left, top = max((tw - w) // 2, 0), max((th - h) // 2, 0)
        right, bottom = max((tw - w + 1) // 2, 0), max((th - h + 1) // 2, 0)
        img = pad(img, [left, top, right, bottom], fill=0)
        _, h, w = get_dimensions(img)
        if (tw, th) == (w, h):
            return img
    return crop(img, int(round((h - th) / 2.0)), int(round((w - tw) / 2.0)), th, tw)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """`crop`, then `resize`."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    return _kind(img).hflip(img)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return _kind(img).vflip(img)


def five_crop(img: Any, size: Any) -> tuple:
    """The four corners and the centre."""
    pair = _pair(size)
    if len(pair) == 1:
        pair = pair * 2
    if len(pair) != 2:
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    th, tw = pair
    _, h, w = get_dimensions(img)
    if tw > w or th > h:
        raise ValueError(f"Requested crop size {(th, tw)} is bigger than input size {(h, w)}")
    corners = [crop(img, y, x, th, tw) for y, x in ((0, 0), (0, w - tw), (h - th, 0), (h - th, w - tw))]
    return (*corners, center_crop(img, [th, tw]))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple:
    """`five_crop` of the image and of its mirror image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


# ---- rotation and shear


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False,
    center: list[int] | None = None,
    fill: Any = None,
) -> Any:
    """Turn counter-clockwise by ``angle`` degrees, about ``center`` (x, y) or the middle."""
    mode = as_mode(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")
    if _kind(img) is _pil:
        return _pil.rotate(img, angle, mode, expand, center, fill)
    _, h, w = get_dimensions(img)
    middle = [0.0, 0.0] if center is None else [1.0 * (c - s * 0.5) for c, s in zip(center, (w, h))]
    matrix = inverse_affine_matrix(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return _tensor.affine(img, matrix, mode, fill, expand)


def inverse_affine_matrix(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> list[float]:
    """Six numbers that map output to input coordinates of: shear, scale and turn about ``center``, then move."""
    rot, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    (cx, cy), (tx, ty) = center, translate
    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    matrix = [x / scale for x in (d, -b, 0.0, -c, a, 0.0)]
    matrix[2] += matrix[0] * (-cx - tx) + matrix[1] * (-cy - ty) + cx
    matrix[5] += matrix[3] * (-cx - tx) + matrix[4] * (-cy - ty) + cy
    return matrix


def affine(
    img: Any,
    angle: float,
    translate: list[int],
    scale: float,
    shear: Any,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
    center: list[int] | None = None,
) -> Any:
    """Turn (clockwise), move, scale and shear about ``center`` or the middle; the size stays."""
    mode = as_mode(interpolation)
    if not isinstance(translate, (list, tuple)) or len(translate) != 2:
        raise ValueError("translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if not isinstance(shear, (numbers.Number, list, tuple)):
        raise TypeError("Shear should be either a single value or a sequence of two values")
    shear = [shear, 0.0] if isinstance(shear, numbers.Number) else [*shear, 0.0][:2]
    _, h, w = get_dimensions(img)
    if _kind(img) is _pil:
        about = [w * 0.5, h * 0.5] if center is None else center
        return _pil.affine(img, inverse_affine_matrix(about, angle, translate, scale, shear), mode, fill)
    about = [0.0, 0.0] if center is None else [1.0 * (c - s * 0.5) for c, s in zip(center, (w, h))]
    moved = [1.0 * t for t in translate]
    return _tensor.affine(img, inverse_affine_matrix(about, angle, moved, scale, shear), mode, fill)


# ---- colour


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """A PIL image in grey, with 1 or 3 bands."""
    if not _pil.is_image(img):
        raise TypeError("Input should be PIL Image")
    return _pil.to_grayscale(img, num_output_channels)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """An image in grey, with 1 or 3 channels."""
    if _kind(img) is _pil:
        return _pil.to_grayscale(img, num_output_channels)
    return _tensor.rgb_to_grayscale(img, num_output_channels)


def _factor(name: str, value: float) -> None:
    if value < 0:
        raise ValueError(f"{name} ({value}) is not non-negative.")


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 is black, 1 the image itself, 2 twice as bright."""
    _factor("brightness_factor", brightness_factor)
    return _kind(img).adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 is all grey, 1 the image itself."""
    _factor("contrast_factor", contrast_factor)
    return _kind(img).adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 is black and white, 1 the image itself."""
    _factor("saturation_factor", saturation_factor)
    return _kind(img).adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Turn the circle of hues by ``hue_factor``, between -0.5 and 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    return _kind(img).adjust_hue(img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """``gain * img ** gamma`` on values scaled to 0..1."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    return _kind(img).adjust_gamma(img, gamma, gain)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """0 is blurred, 1 the image itself, 2 sharpened."""
    _factor("sharpness_factor", sharpness_factor)
    return _kind(img).adjust_sharpness(img, sharpness_factor)


def invert(img: Any) -> Any:
    """The negative."""
    return _kind(img).invert(img)


def posterize(img: Any, bits: int) -> Any:
    """Keep ``bits`` bits of each channel."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    return _kind(img).posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """Invert pixels at and above ``threshold``."""
    return _kind(img).solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    """Stretch each channel so that its darkest is black and its lightest white."""
    return _kind(img).autocontrast(img)


def equalize(img: Any) -> Any:
    """Make the histogram of each channel flat."""
    return _kind(img).equalize(img)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Gaussian blur; sizes are odd numbers (x, y). Without ``sigma`` it is ``0.15 * size + 0.35``."""
    size = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(size) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(size)}")
    for n in size:
        if n % 2 == 0 or n < 0:
            raise ValueError(f"kernel_size should have odd and positive integers. Got {size}")
    if sigma is None:
        sigma = [n * 0.15 + 0.35 for n in size]
    sigma = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else list(sigma) * (2 if len(sigma) == 1 else 1)
    if len(sigma) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(sigma)}")
    if any(s <= 0.0 for s in sigma):
        raise ValueError(f"sigma should have positive values. Got {sigma}")
    if _kind(img) is _tensor:
        return _tensor.gaussian_blur(img, size, sigma)
    out = _tensor.gaussian_blur(pil_to_tensor(img), size, sigma)
    return to_pil_image(out, mode=img.mode)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """A tensor image with the rectangle at row ``i``, column ``j`` set to ``v``."""
    if not isinstance(img, torch.Tensor):
        raise TypeError(f"erase takes a tensor image, got {type(img)}")
    return _tensor.erase(img, i, j, h, w, v, inplace)
