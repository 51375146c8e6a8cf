"""Transforms of images (PIL images and tensors): classes here, functions in `functional`."""

from . import functional as functional
from .transforms import *
from .transforms import __all__ as _classes

__all__ = [*_classes, "functional"]
