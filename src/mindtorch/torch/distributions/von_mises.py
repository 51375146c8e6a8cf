"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.distribution import Params
from mindtorch.torch.distributions.utils import broadcast_all

Tensor = Any
__all__ = ["VonMises"]


_I0 = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633, 0.00392377),
)
_I1 = (
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
    (0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654, -0.00420059),
)


def _poly(y: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    out = y.new_full((), coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out = c + y * out
    return out


def _log_bessel(x: Tensor, order: int = 0) -> Tensor:
    """log of the modified Bessel function of order 0 or 1, by the polynomials of Abramowitz and Stegun 9.8."""
    small_c, large_c = _I0 if order == 0 else _I1
    y = (x / 3.75) * (x / 3.75)
    small = _poly(y, small_c)
    if order == 1:
        small = x.abs() * small
    large = x - 0.5 * x.log() + _poly(3.75 / x, large_c).log()
    return torch.where(x < 3.75, small.log(), large)


class VonMises(Params):
    """Angles around ``loc`` with ``concentration``; sampled by the rejection of Best and Fisher (1979)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, torch.Size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return type(self)(self.loc.expand(batch_shape), self.concentration.expand(batch_shape), validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validated(value)
        out = self.concentration * torch.cos(value - self.loc)
        return out - math.log(2 * math.pi) - _log_bessel(self.concentration)

    def _proposal_r(self) -> Tensor:
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        r = (1 + rho**2) / (2 * rho)
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, r)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            x = torch.empty(shape, dtype=torch.float64)
            loc, kappa, r = self.loc.double(), self.concentration.double(), self._proposal_r()
            kappa, r = kappa.expand(shape), r.expand(shape)
            done = torch.zeros(shape, dtype=torch.bool)
            while not bool(done.all()):
                u1, u2, u3 = torch.rand((3,) + tuple(shape), dtype=torch.float64).unbind()
                z = torch.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                if bool(accept.any()):
                    x = torch.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                    done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        return 1 - (_log_bessel(k, 1) - _log_bessel(k, 0)).exp()
