"""Activations: elementwise functions as modules, softmax family, PReLU."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._attention import MultiheadAttention
from .module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


def _inplace(flag: bool, lead: str = ", ") -> str:
    return f"{lead}inplace=True" if flag else ""


class _Inplace(Module):
    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class _InplaceOnly(_Inplace):
    """An activation whose only setting is ``inplace``, and which shows it."""

    def extra_repr(self) -> str:
        """``inplace=True`` or nothing."""
        return _inplace(self.inplace, "")


class _Alpha(Module):
    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Settings."""
        return f"alpha={self.alpha}{_inplace(self.inplace)}"


class _Shrink(Module):
    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Settings."""
        return str(self.lambd)


class Threshold(Module):
    """``x`` where ``x > threshold``, else ``value``."""

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Settings."""
        return f"threshold={self.threshold}, value={self.value}{_inplace(self.inplace)}"


class ReLU(_InplaceOnly):
    """``max(0, x)``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.relu(input, self.inplace) if self.inplace else F.relu(input)


class RReLU(Module):
    """Leaky ReLU whose slope is drawn from [lower, upper] in training, and is their mean in evaluation."""

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Settings."""
        return f"lower={self.lower}, upper={self.upper}{_inplace(self.inplace)}"


class Hardtanh(Module):
    """``x`` clipped to [min_val, max_val]. ValueError unless max_val > min_val."""

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            _renamed("min_value", "min_val")
            min_val = min_value
        if max_value is not None:
            _renamed("max_value", "max_val")
            max_val = max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Settings."""
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace(self.inplace)}"


def _renamed(old: str, new: str) -> None:
    import warnings

    warnings.warn(f"keyword argument `{old}` is deprecated and rename to `{new}`", FutureWarning, stacklevel=3)


class ReLU6(Hardtanh):
    """``x`` clipped to [0, 6]."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """``inplace=True`` or nothing."""
        return _inplace(self.inplace, "")


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return torch.sigmoid(input)


class Hardsigmoid(_Inplace):
    """``relu6(x + 3) / 6``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.hardsigmoid(input, self.inplace)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return torch.tanh(input)


class SiLU(_InplaceOnly):
    """``x * sigmoid(x)``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.silu(input, self.inplace) if self.inplace else F.silu(input)


class Mish(_InplaceOnly):
    """``x * tanh(softplus(x))``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.mish(input, self.inplace)


class Hardswish(_Inplace):
    """``x * relu6(x + 3) / 6``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.hardswish(input, self.inplace)


class ELU(_Alpha):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InplaceOnly):
    """Scaled ELU with the self-normalising constants."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.selu(input, self.inplace)


class GLU(Module):
    """First half along ``dim`` times the sigmoid of the second half."""

    __constants__ = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """``dim`` is halved."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Settings."""
        return f"dim={self.dim}"


class GELU(Module):
    """``x * Phi(x)``; ``approximate="tanh"`` uses the tanh formula."""

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Settings."""
        return f"approximate={self.approximate!r}"


class Hardshrink(_Shrink):
    """0 where ``|x| <= lambd``, else ``x``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.hardshrink(input, self.lambd)


class LeakyReLU(Module):
    """``x`` where positive, else ``negative_slope * x``."""

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Settings."""
        return f"negative_slope={self.negative_slope}{_inplace(self.inplace)}"


class LogSigmoid(Module):
    """``log(sigmoid(x))``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.logsigmoid(input)


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, linear above ``threshold``."""

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(_Shrink):
    """``x`` moved towards 0 by ``lambd``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.softshrink(input, self.lambd)


class PReLU(Module):
    """Leaky ReLU whose slope is learnt: weight (num_parameters), for all channels (1) or one each."""

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to ``init``."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Settings."""
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.tanhshrink(input)


class _OverDim(Module):
    """A normalisation along ``dim``; None picks it from the number of dimensions, with a warning."""

    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        """Settings."""
        return f"dim={self.dim}"


class Softmin(_OverDim):
    """Softmax of ``-x`` along ``dim``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_OverDim):
    """``exp(x) / sum(exp(x))`` along ``dim``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        dim = self.dim
        return F.softmax(input, dim, _stacklevel=5) if dim is None else F.softmax(input, dim)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


class LogSoftmax(_OverDim):
    """Logarithm of softmax along ``dim``."""

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.log_softmax(input, self.dim, _stacklevel=5)
