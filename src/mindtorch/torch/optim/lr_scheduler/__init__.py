"""Learning-rate schedules: made over an optimiser, stepped after it."""

from .base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from .base import LRScheduler as LRScheduler
from .base import _LRScheduler as _LRScheduler
from .compose import ChainedScheduler as ChainedScheduler
from .compose import SequentialLR as SequentialLR
from .cyclic import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from .cyclic import CyclicLR as CyclicLR
from .cyclic import OneCycleLR as OneCycleLR
from .decay import ConstantLR as ConstantLR
from .decay import CosineAnnealingLR as CosineAnnealingLR
from .decay import ExponentialLR as ExponentialLR
from .decay import LambdaLR as LambdaLR
from .decay import LinearLR as LinearLR
from .decay import MultiplicativeLR as MultiplicativeLR
from .decay import MultiStepLR as MultiStepLR
from .decay import PolynomialLR as PolynomialLR
from .decay import StepLR as StepLR
from .plateau import ReduceLROnPlateau as ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

# PyTorch has these classes in one module of this name; pickles and reprs show it.
for _name in (*__all__, "_LRScheduler"):
    globals()[_name].__module__ = __name__
del _name
