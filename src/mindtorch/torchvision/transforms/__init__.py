"""Transforms of images (PIL images and tensors): classes here, functions in `functional`."""

from . import functional as functional
from .transforms import CenterCrop as CenterCrop
from .transforms import ColorJitter as ColorJitter
from .transforms import Compose as Compose
from .transforms import ConvertImageDtype as ConvertImageDtype
from .transforms import FiveCrop as FiveCrop
from .transforms import GaussianBlur as GaussianBlur
from .transforms import Grayscale as Grayscale
from .transforms import InterpolationMode as InterpolationMode
from .transforms import Lambda as Lambda
from .transforms import Normalize as Normalize
from .transforms import Pad as Pad
from .transforms import PILToTensor as PILToTensor
from .transforms import RandomAdjustSharpness as RandomAdjustSharpness
from .transforms import RandomAffine as RandomAffine
from .transforms import RandomApply as RandomApply
from .transforms import RandomAutocontrast as RandomAutocontrast
from .transforms import RandomChoice as RandomChoice
from .transforms import RandomCrop as RandomCrop
from .transforms import RandomEqualize as RandomEqualize
from .transforms import RandomErasing as RandomErasing
from .transforms import RandomGrayscale as RandomGrayscale
from .transforms import RandomHorizontalFlip as RandomHorizontalFlip
from .transforms import RandomInvert as RandomInvert
from .transforms import RandomOrder as RandomOrder
from .transforms import RandomPosterize as RandomPosterize
from .transforms import RandomResizedCrop as RandomResizedCrop
from .transforms import RandomRotation as RandomRotation
from .transforms import RandomSolarize as RandomSolarize
from .transforms import RandomVerticalFlip as RandomVerticalFlip
from .transforms import Resize as Resize
from .transforms import TenCrop as TenCrop
from .transforms import ToPILImage as ToPILImage
from .transforms import ToTensor as ToTensor

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
    "functional",
]
