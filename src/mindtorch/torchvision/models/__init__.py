"""Models of image classification, without weights: ``models.resnet18(num_classes=10)``."""

from . import alexnet as _alexnet_module
from . import resnet as _resnet_module
from . import vgg as _vgg_module
from ._api import get_model as get_model
from ._api import get_model_builder as get_model_builder
from ._api import get_model_weights as get_model_weights
from ._api import get_weight as get_weight
from ._api import list_models as list_models
from .alexnet import *  # noqa: F403 (builders are made from tables)
from .resnet import *  # noqa: F403 (builders are made from tables)
from .vgg import *  # noqa: F403 (builders are made from tables)

__all__ = [
    "get_model",
    "get_model_builder",
    "get_model_weights",
    "get_weight",
    "list_models",
    *_alexnet_module.__all__,
    *_resnet_module.__all__,
    *_vgg_module.__all__,
]
