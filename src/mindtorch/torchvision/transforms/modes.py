"""How pixels between pixels are made."""

from __future__ import annotations

from enum import Enum
from typing import Any


class InterpolationMode(Enum):
    """Interpolation of resizing and rotating. BOX, HAMMING and LANCZOS are for PIL images only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# PIL's own numbers, which old scripts pass.
_BY_NUMBER = {
    0: InterpolationMode.NEAREST,
    1: InterpolationMode.LANCZOS,
    2: InterpolationMode.BILINEAR,
    3: InterpolationMode.BICUBIC,
    4: InterpolationMode.BOX,
    5: InterpolationMode.HAMMING,
}
PIL_NUMBER = {mode: number for number, mode in _BY_NUMBER.items()} | {InterpolationMode.NEAREST_EXACT: 0}


def as_mode(value: Any) -> InterpolationMode:
    """An `InterpolationMode` from itself or from PIL's number. TypeError for something else."""
    if isinstance(value, int) and value in _BY_NUMBER:
        return _BY_NUMBER[value]
    if not isinstance(value, InterpolationMode):
        raise TypeError(
            "Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant"
        )
    return value
