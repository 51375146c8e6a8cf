"""All transform classes in one module, under the name torchvision has for it."""

from .base import Compose as Compose
from .base import ConvertImageDtype as ConvertImageDtype
from .base import Grayscale as Grayscale
from .base import Lambda as Lambda
from .base import Normalize as Normalize
from .base import PILToTensor as PILToTensor
from .base import RandomApply as RandomApply
from .base import RandomChoice as RandomChoice
from .base import RandomOrder as RandomOrder
from .base import ToPILImage as ToPILImage
from .base import ToTensor as ToTensor
from .colour import ColorJitter as ColorJitter
from .colour import GaussianBlur as GaussianBlur
from .colour import RandomAdjustSharpness as RandomAdjustSharpness
from .colour import RandomAutocontrast as RandomAutocontrast
from .colour import RandomEqualize as RandomEqualize
from .colour import RandomErasing as RandomErasing
from .colour import RandomGrayscale as RandomGrayscale
from .colour import RandomInvert as RandomInvert
from .colour import RandomPosterize as RandomPosterize
from .colour import RandomSolarize as RandomSolarize
from .geometry import CenterCrop as CenterCrop
from .geometry import FiveCrop as FiveCrop
from .geometry import Pad as Pad
from .geometry import RandomAffine as RandomAffine
from .geometry import RandomCrop as RandomCrop
from .geometry import RandomHorizontalFlip as RandomHorizontalFlip
from .geometry import RandomResizedCrop as RandomResizedCrop
from .geometry import RandomRotation as RandomRotation
from .geometry import RandomVerticalFlip as RandomVerticalFlip
from .geometry import Resize as Resize
from .geometry import TenCrop as TenCrop
from .modes import InterpolationMode as InterpolationMode

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
]
