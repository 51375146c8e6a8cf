"""Transforms of colour, sharpness, and random erasing."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import mindtorch.torch as torch

from . import functional as F
from .base import happens, uniform


class ColorJitter(torch.nn.Module):
    """Change brightness, contrast, saturation and hue by random factors, in a random order."""

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        super().__init__()
        self.brightness = self._range(brightness, "brightness")
        self.contrast = self._range(contrast, "contrast")
        self.saturation = self._range(saturation, "saturation")
        self.hue = self._range(hue, "hue", center=0, bound=(-0.5, 0.5), clip=False)

    @staticmethod
    def _range(
        value: Any, name: str, center: float = 1, bound: tuple[float, float] = (0, float("inf")), clip: bool = True
    ) -> tuple[float, float] | None:
        """(low, high) from one number or two; None when nothing would change."""
        if isinstance(value, numbers.Number):
            if value < 0:  # type: ignore[operator]
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            ends = [center - float(value), center + float(value)]  # type: ignore[arg-type]
            if clip:
                ends[0] = max(ends[0], 0.0)
        elif isinstance(value, (tuple, list)) and len(value) == 2:
            ends = [float(value[0]), float(value[1])]
        else:
            raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
        if not bound[0] <= ends[0] <= ends[1] <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {ends}.")
        return None if ends[0] == ends[1] == center else (ends[0], ends[1])

    @staticmethod
    def get_params(brightness: Any, contrast: Any, saturation: Any, hue: Any) -> tuple:
        """The order, and the four factors (None where nothing changes)."""
        order = torch.randperm(4)
        factors = [None if r is None else uniform(r[0], r[1]) for r in (brightness, contrast, saturation, hue)]
        return order, *factors

    def forward(self, img: Any) -> Any:
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        change = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in order.tolist():
            if factors[i] is not None:
                img = change[i](img, factors[i])
        return img

    def __repr__(self) -> str:
        values = ", ".join(f"{n}={getattr(self, n)}" for n in ("brightness", "contrast", "saturation", "hue"))
        return f"{type(self).__name__}({values})"


class _WithChance(torch.nn.Module):
    """Base of transforms that change the image with probability ``p``."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def change(self, img: Any) -> Any:
        """The changed image."""
        raise NotImplementedError(f"{type(self).__name__} must define change()")

    def forward(self, img: Any) -> Any:
        return self.change(img) if happens(self.p) else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomGrayscale(_WithChance):
    """To grey with probability ``p``; the number of channels stays."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def change(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, num_output_channels=F.get_dimensions(img)[0])


class RandomInvert(_WithChance):
    """The negative with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def change(self, img: Any) -> Any:
        return F.invert(img)


class RandomAutocontrast(_WithChance):
    """Full contrast with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def change(self, img: Any) -> Any:
        return F.autocontrast(img)


class RandomEqualize(_WithChance):
    """Flat histograms with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def change(self, img: Any) -> Any:
        return F.equalize(img)


class RandomPosterize(_WithChance):
    """Fewer bits with probability ``p``."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def change(self, img: Any) -> Any:
        return F.posterize(img, self.bits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bits={self.bits},p={self.p})"


class RandomSolarize(_WithChance):
    """Bright pixels inverted with probability ``p``."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def change(self, img: Any) -> Any:
        return F.solarize(img, self.threshold)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(threshold={self.threshold},p={self.p})"


class RandomAdjustSharpness(_WithChance):
    """Sharper (or softer) with probability ``p``."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sharpness_factor={self.sharpness_factor},p={self.p})"


class GaussianBlur(torch.nn.Module):
    """Gaussian blur with a width drawn from ``sigma``."""

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        size = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(size) != 2:
            raise ValueError("Kernel size should be a tuple/list of two integers")
        if any(n <= 0 or n % 2 == 0 for n in size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        self.kernel_size = size
        if isinstance(sigma, numbers.Number):
            if sigma <= 0:  # type: ignore[operator]
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)
        elif not (isinstance(sigma, Sequence) and len(sigma) == 2):
            raise TypeError("sigma should be a single number or a list/tuple with length 2.")
        if not 0.0 < sigma[0] <= sigma[1]:
            raise ValueError(f"sigma values should be positive and of the form (min, max). Got {sigma}")
        self.sigma = sigma

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """The width."""
        return uniform(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, list(self.kernel_size), [sigma, sigma])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, sigma={self.sigma})"


class RandomErasing(torch.nn.Module):
    """Overwrite a random rectangle of a tensor image with ``value``: a number, one a channel, or "random" noise."""

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float], value: list[float] | None = None) -> tuple:
        """Row, column, height, width, and what to write there; the whole image when ten tries found no place."""
        c, img_h, img_w = img.shape[-3:]
        log_ratio = torch.log(torch.tensor(ratio))
        for _ in range(10):
            area = img_h * img_w * torch.empty(1).uniform_(scale[0], scale[1]).item()
            shape = torch.exp(torch.empty(1).uniform_(log_ratio[0].item(), log_ratio[1].item())).item()
            h, w = int(round(math.sqrt(area * shape))), int(round(math.sqrt(area / shape)))
            if not (h < img_h and w < img_w):
                continue
            v = (
                torch.empty([c, h, w], dtype=torch.float32).normal_()
                if value is None
                else torch.tensor(value)[:, None, None]
            )
            i = torch.randint(0, img_h - h + 1, size=(1,)).item()
            j = torch.randint(0, img_w - w + 1, size=(1,)).item()
            return i, j, h, w, v
        return 0, 0, img_h, img_w, img

    def forward(self, img: Any) -> Any:
        if not happens(self.p):
            return img
        value = [float(self.value)] if isinstance(self.value, (int, float)) else self.value
        value = None if isinstance(value, str) else list(value)
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise ValueError(
                f"If value is a sequence, it should have either a single value or {img.shape[-3]} "
                "(number of input channels)"
            )
        return F.erase(img, *self.get_params(img, self.scale, self.ratio, value), self.inplace)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(p={self.p}, scale={self.scale}, ratio={self.ratio}, "
            f"value={self.value}, inplace={self.inplace})"
        )
