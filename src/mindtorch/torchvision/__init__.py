"""torchvision: data sets on local disk, image transforms, models without weights, and box operations."""

from . import datasets as datasets
from . import models as models
from . import ops as ops
from . import transforms as transforms
from . import utils as utils

__version__ = "0.29.1+mindtorch"


def get_image_backend() -> str:
    """The library images are loaded with."""
    return "PIL"


def set_image_backend(backend: str) -> None:
    """Only "PIL" is there. ValueError for another name."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend {backend!r}: images are loaded with 'PIL'")
