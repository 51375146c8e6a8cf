"""Image operations on tensors ``(..., C, H, W)``: floating point in 0..1, or integers in the whole range of their
type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindtorch.torch as torch
import mindtorch.torch.nn.functional as F

from .modes import InterpolationMode


def is_image(img: Any) -> bool:
    """Whether ``img`` is a tensor of at least two dimensions."""
    return isinstance(img, torch.Tensor) and img.ndim >= 2


def check(img: Any) -> None:
    """TypeError unless ``img`` is an image tensor."""
    if not is_image(img):
        raise TypeError("Tensor is not a torch image.")


def channels(img: Any) -> int:
    return img.shape[-3] if img.ndim > 2 else 1


def dimensions(img: Any) -> list[int]:
    """Channels, height, width."""
    check(img)
    return [channels(img), img.shape[-2], img.shape[-1]]


def check_channels(img: Any, permitted: tuple[int, ...]) -> None:
    """TypeError unless the image has one of these numbers of channels."""
    c = dimensions(img)[0]
    if c not in permitted:
        raise TypeError(f"Input image tensor permitted channel values are {list(permitted)}, but found {c}")


def max_value(dtype: Any) -> int:
    """White: 1 for floating point, the largest value for integers."""
    return 1 if dtype.is_floating_point else torch.iinfo(dtype).max if dtype is not torch.bool else 1


def hflip(img: Any) -> Any:
    check(img)
    return img.flip(-1)


def vflip(img: Any) -> Any:
    check(img)
    return img.flip(-2)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Parts outside of the image are zero."""
    check(img)
    h, w = img.shape[-2:]
    right, bottom = left + width, top + height
    if left < 0 or top < 0 or right > w or bottom > h:
        inside = img[..., max(top, 0) : bottom, max(left, 0) : right]
        edges = [max(-left + min(0, right), 0), max(right - max(w, left), 0)]
        edges += [max(-top + min(0, bottom), 0), max(bottom - max(h, top), 0)]
        return pad(inside, edges[0], edges[2], edges[1], edges[3], 0, "constant")
    return img[..., top:bottom, left:right]


def _batched(img: Any, dtypes: list) -> tuple[Any, bool, bool, Any]:
    """A 4-d image in one of ``dtypes``; whether it was given a batch dimension or another dtype, and the old dtype."""
    added = img.ndim < 4
    if added:
        img = img.unsqueeze(0)
    old = img.dtype
    cast = old not in dtypes
    return (img.to(dtypes[0]) if cast else img), added, cast, old


def _unbatched(img: Any, added: bool, cast: bool, old: Any) -> Any:
    if added:
        img = img.squeeze(0)
    if cast:
        if not old.is_floating_point:
            img = torch.round(img)
        img = img.to(old)
    return img


def resize(img: Any, size: Sequence[int], mode: InterpolationMode, antialias: bool | None) -> Any:
    """``size`` is (height, width)."""
    check(img)
    name = mode.value
    if name not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        kind = ValueError if mode is InterpolationMode.LANCZOS else NotImplementedError
        raise kind(f"interpolation {name} is for PIL images; tensors have nearest, nearest-exact, bilinear, bicubic")
    antialias = bool(antialias) and name in ("bilinear", "bicubic")
    x, *undo = _batched(img, [torch.float32, torch.float64])
    x = F.interpolate(
        x,
        size=list(size),
        mode=name,
        align_corners=False if name in ("bilinear", "bicubic") else None,
        antialias=antialias,
    )
    if name == "bicubic" and img.dtype == torch.uint8:
        x = x.clamp(min=0, max=255)
    return _unbatched(x, *undo)


def pad(img: Any, left: int, top: int, right: int, bottom: int, fill: Any, mode: str) -> Any:
    check(img)
    if isinstance(fill, (list, tuple)):
        if len(fill) != 1:
            raise ValueError("Argument fill of a tensor image must be a number or a sequence of one number")
        fill = fill[0]
    if mode == "symmetric":
        return _pad_symmetric(img, left, top, right, bottom)
    x, *undo = _batched(img, [torch.float32, torch.float64])
    how = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}[mode]
    edges = [left, right, top, bottom]
    x = F.pad(x, edges, mode=how, value=float(fill or 0)) if how == "constant" else F.pad(x, edges, mode=how)
    return _unbatched(x, *undo)


def _pad_symmetric(img: Any, left: int, top: int, right: int, bottom: int) -> Any:
    h, w = img.shape[-2:]
    if left < 0 or top < 0 or right < 0 or bottom < 0:
        img = img[..., max(-top, 0) : h - max(-bottom, 0), max(-left, 0) : w - max(-right, 0)]
        left, top, right, bottom = (max(v, 0) for v in (left, top, right, bottom))
        h, w = img.shape[-2:]
    columns = [*range(left - 1, -1, -1), *range(w), *range(w - 1, w - 1 - right, -1)]
    rows = [*range(top - 1, -1, -1), *range(h), *range(h - 1, h - 1 - bottom, -1)]
    return img[..., torch.tensor(rows)[:, None], torch.tensor(columns)[None, :]]


# ---- colour


def blend(a: Any, b: Any, ratio: float) -> Any:
    """``ratio * a + (1 - ratio) * b`` cut to the range of ``a``'s type."""
    return (ratio * a + (1.0 - ratio) * b).clamp(0, max_value(a.dtype)).to(a.dtype)


def rgb_to_grayscale(img: Any, bands: int = 1) -> Any:
    check(img)
    check_channels(img, (1, 3))
    if bands not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if channels(img) == 3:
        r, g, b = img.unbind(dim=-3)
        gray = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(dim=-3)
    else:
        gray = img.clone()
    if bands == 3:
        return gray.expand(*img.shape[:-3], 3, *img.shape[-2:])
    return gray


def adjust_brightness(img: Any, factor: float) -> Any:
    check_channels(img, (1, 3))
    return blend(img, torch.zeros_like(img), factor)


def adjust_contrast(img: Any, factor: float) -> Any:
    check_channels(img, (1, 3))
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    gray = rgb_to_grayscale(img) if channels(img) == 3 else img
    return blend(img, gray.to(dtype).mean(dim=(-3, -2, -1), keepdim=True), factor)


def adjust_saturation(img: Any, factor: float) -> Any:
    check_channels(img, (1, 3))
    return img if channels(img) == 1 else blend(img, rgb_to_grayscale(img), factor)


def adjust_hue(img: Any, factor: float) -> Any:
    check_channels(img, (1, 3))
    if channels(img) == 1:
        return img
    old = img.dtype
    h, s, v = _rgb_to_hsv(convert_dtype(img, torch.float32)).unbind(dim=-3)
    rgb = _hsv_to_rgb(torch.stack(((h + factor) % 1.0, s, v), dim=-3))
    return convert_dtype(rgb, old)


def _rgb_to_hsv(img: Any) -> Any:
    r, g, b = img.unbind(dim=-3)
    top, low = img.max(dim=-3).values, img.min(dim=-3).values
    gray = top == low
    span = top - low
    one = torch.ones_like(top)
    s = span / torch.where(gray, one, top)
    div = torch.where(gray, one, span)
    rc, gc, bc = (top - r) / div, (top - g) / div, (top - b) / div
    hr = (top == r) * (bc - gc)
    hg = ((top == g) & (top != r)) * (2.0 + rc - bc)
    hb = ((top != g) & (top != r)) * (4.0 + gc - rc)
    h = torch.fmod((hr + hg + hb) / 6.0 + 1.0, 1.0)
    return torch.stack((h, s, top), dim=-3)


def _hsv_to_rgb(img: Any) -> Any:
    h, s, v = img.unbind(dim=-3)
    sector = torch.floor(h * 6.0)
    f = h * 6.0 - sector
    sector = sector.to(torch.int32) % 6
    p = (v * (1.0 - s)).clamp(0.0, 1.0)
    q = (v * (1.0 - s * f)).clamp(0.0, 1.0)
    t = (v * (1.0 - s * (1.0 - f))).clamp(0.0, 1.0)
    # Which of v, q, p, t each channel is, by sixth of the circle.
    table = ((v, q, p, p, t, v), (t, v, v, q, p, p), (p, p, t, v, v, q))
    mask = [(sector == i).to(img.dtype) for i in range(6)]
    out = [sum(m * value for m, value in zip(mask, row)) for row in table]
    return torch.stack(out, dim=-3)


def adjust_gamma(img: Any, gamma: float, gain: float) -> Any:
    check_channels(img, (1, 3))
    old = img.dtype
    x = convert_dtype(img, torch.float32) if not torch.is_floating_point(img) else img
    return convert_dtype((gain * x**gamma).clamp(0, 1), old)


def invert(img: Any) -> Any:
    check_channels(img, (1, 3))
    return max_value(img.dtype) - img


def posterize(img: Any, bits: int) -> Any:
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    check_channels(img, (1, 3))
    return img & -int(2 ** (8 - bits))


def solarize(img: Any, threshold: float) -> Any:
    check_channels(img, (1, 3))
    if threshold > max_value(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return torch.where(img >= threshold, invert(img), img)


def autocontrast(img: Any) -> Any:
    check_channels(img, (1, 3))
    bound = max_value(img.dtype)
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    low = img.amin(dim=(-2, -1), keepdim=True).to(dtype)
    high = img.amax(dim=(-2, -1), keepdim=True).to(dtype)
    scale = bound / (high - low)
    flat = torch.isfinite(scale).logical_not()
    low[flat] = 0
    scale[flat] = 1
    return ((img - low) * scale).clamp(0, bound).to(img.dtype)


def equalize(img: Any) -> Any:
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    check_channels(img, (1, 3))
    flat = img.reshape(-1, *img.shape[-2:])
    return torch.stack([_equalize_channel(c) for c in flat]).reshape(img.shape)


def _equalize_channel(c: Any) -> Any:
    hist = torch.bincount(c.reshape(-1).to(torch.int64), minlength=256)
    step = int((hist.sum() - hist[hist != 0][-1]).item()) // 255
    if step == 0:
        return c
    table = torch.div(torch.cumsum(hist, 0) + step // 2, step, rounding_mode="floor")
    table = F.pad(table, [1, 0])[:-1].clamp(0, 255)
    return table[c.to(torch.int64)].to(torch.uint8)


# ---- filters


def _filter(img: Any, kernel: Any) -> Any:
    """The same kernel on every channel, without padding."""
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    x, *undo = _batched(img, [dtype])
    c = x.shape[-3]
    x = F.conv2d(x, kernel.to(x.dtype).expand(c, 1, *kernel.shape), groups=c)
    return _unbatched(x, *undo)


def adjust_sharpness(img: Any, factor: float) -> Any:
    check_channels(img, (1, 3))
    if img.shape[-1] <= 2 or img.shape[-2] <= 2:
        return img
    kernel = torch.ones(3, 3)
    kernel[1, 1] = 5.0
    soft = img.clone()
    soft[..., 1:-1, 1:-1] = _filter(img, kernel / kernel.sum())
    return blend(img, soft, factor)


def gaussian_kernel(size: int, sigma: float, dtype: Any) -> Any:
    """``(size,)`` weights that sum to one."""
    half = (size - 1) * 0.5
    x = torch.linspace(-half, half, steps=size, dtype=dtype)
    weight = torch.exp(-0.5 * (x / sigma).pow(2))
    return weight / weight.sum()


def gaussian_blur(img: Any, size: Sequence[int], sigma: Sequence[float]) -> Any:
    check(img)
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    x, y = (gaussian_kernel(n, s, dtype) for n, s in zip(size, sigma))
    edges = [size[0] // 2, size[0] // 2, size[1] // 2, size[1] // 2]
    t, *undo = _batched(img, [dtype])
    t = F.pad(t, edges, mode="reflect")
    return _unbatched(_filter(t, y[:, None] * x[None, :]), *undo)


# ---- geometry


def _sample(img: Any, grid: Any, mode: InterpolationMode, fill: Any) -> Any:
    """Pixels of ``img`` at ``grid``; outside of it zero, or ``fill``."""
    x, *undo = _batched(img, [grid.dtype])
    n = x.shape[0]
    grid = grid.expand(n, *grid.shape[1:])
    if fill is not None:
        x = torch.cat((x, torch.ones(n, 1, *x.shape[-2:], dtype=x.dtype)), dim=1)
    x = F.grid_sample(x, grid, mode=mode.value, padding_mode="zeros", align_corners=False)
    if fill is not None:
        mask = x[:, -1:].expand(n, x.shape[1] - 1, *x.shape[-2:])
        x = x[:, :-1]
        values = fill if isinstance(fill, (tuple, list)) else [float(fill)]
        colour = torch.tensor(values, dtype=x.dtype).view(1, len(values), 1, 1).expand_as(x)
        if mode is InterpolationMode.NEAREST:
            x = torch.where(mask < 0.5, colour, x)
        else:
            x = x * mask + (1.0 - mask) * colour
    return _unbatched(x, *undo)


def _grid(matrix: Any, w: int, h: int, out_w: int, out_h: int) -> Any:
    """Where each output pixel comes from, in the units of `grid_sample`: ``(1, out_h, out_w, 2)``."""
    base = torch.empty(1, out_h, out_w, 3, dtype=matrix.dtype)
    base[..., 0].copy_(torch.linspace(-out_w * 0.5 + 0.5, out_w * 0.5 + 0.5 - 1, steps=out_w))
    base[..., 1].copy_(torch.linspace(-out_h * 0.5 + 0.5, out_h * 0.5 + 0.5 - 1, steps=out_h).unsqueeze(-1))
    base[..., 2].fill_(1)
    scaled = matrix.transpose(1, 2) / torch.tensor([0.5 * w, 0.5 * h], dtype=matrix.dtype)
    return base.view(1, out_h * out_w, 3).bmm(scaled).view(1, out_h, out_w, 2)


def _rotated_size(matrix: list[float], w: int, h: int) -> tuple[int, int]:
    """Width and height of the smallest image that holds the turned one."""
    corners = torch.tensor(
        [[-0.5 * w, -0.5 * h, 1.0], [-0.5 * w, 0.5 * h, 1.0], [0.5 * w, 0.5 * h, 1.0], [0.5 * w, -0.5 * h, 1.0]]
    )
    points = torch.matmul(corners, torch.tensor(matrix, dtype=torch.float).view(2, 3).T)
    low, high = points.min(dim=0).values, points.max(dim=0).values
    low, high = low + torch.tensor((w * 0.5, h * 0.5)), high + torch.tensor((w * 0.5, h * 0.5))
    # Rounding first keeps sizes such as 4.00001 from growing a row.
    tol = 1e-4
    size = torch.ceil((high / tol).trunc_() * tol) - torch.floor((low / tol).trunc_() * tol)
    return int(size[0]), int(size[1])


def affine(img: Any, matrix: list[float], mode: InterpolationMode, fill: Any, expand: bool = False) -> Any:
    """``matrix`` (6 numbers) maps output to input coordinates around the centre."""
    check(img)
    if mode not in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        raise ValueError(f"Interpolation mode '{mode.value}' is unsupported with Tensor input: use nearest or bilinear")
    h, w = img.shape[-2:]
    out_w, out_h = _rotated_size(matrix, w, h) if expand else (w, h)
    dtype = img.dtype if torch.is_floating_point(img) else torch.float32
    theta = torch.tensor(matrix, dtype=dtype).reshape(1, 2, 3)
    return _sample(img, _grid(theta, w, h, out_w, out_h), mode, fill)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool) -> Any:
    check(img)
    out = img if inplace else img.clone()
    out[..., i : i + h, j : j + w] = v
    return out


# ---- types


def convert_dtype(img: Any, dtype: Any) -> Any:
    """Change the type and rescale to its range. RuntimeError where the new type cannot hold the values."""
    if img.dtype == dtype:
        return img
    if img.is_floating_point():
        if dtype.is_floating_point:
            return img.to(dtype)
        if (img.dtype == torch.float32 and dtype in (torch.int32, torch.int64)) or (
            img.dtype == torch.float64 and dtype == torch.int64
        ):
            raise RuntimeError(f"The cast from {img.dtype} to {dtype} cannot be performed safely.")
        # A little less than one step is added so that 1.0 still becomes the largest value and steps are equally wide.
        return img.mul(float(max_value(dtype)) + 1.0 - 1e-3).to(dtype)
    white = float(max_value(img.dtype))
    if dtype.is_floating_point:
        return img.to(dtype) / white
    new = float(max_value(dtype))
    if white > new:
        return torch.div(img, int((white + 1) // (new + 1)), rounding_mode="floor").to(dtype)
    return img.to(dtype) * int((new + 1) // (white + 1))
