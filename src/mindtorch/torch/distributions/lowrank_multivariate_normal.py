"""Normals whose covariance is low rank plus diagonal."""

from __future__ import annotations

import math
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.distribution import Distribution
from mindtorch.torch.distributions.multivariate_normal import batch_mahalanobis
from mindtorch.torch.distributions.utils import lazy_property, standard_normal

Tensor = Any
__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Covariance W W^T + diag(d), with W = ``cov_factor`` (n, r) and d = ``cov_diag`` (n,)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        batch = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand(batch + event)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch + event)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        super().__init__(batch, event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self.__new__(type(self)) if _instance is None else _instance
        batch_shape = torch.Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new.cov_diag = self.cov_diag.expand(batch_shape + self.event_shape)
        new.cov_factor = self.cov_factor.expand(batch_shape + self.cov_factor.shape[-2:])
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._rebuild(self, batch_shape, self.event_shape)
        return new

    @lazy_property
    def _capacitance_tril(self) -> Tensor:
        """Cholesky factor of I + W^T D^-1 W (r, r)."""
        w = self._unbroadcasted_cov_factor
        wt = w.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        k = torch.matmul(wt, w)
        return torch.linalg.cholesky(k + torch.eye(k.shape[-1], dtype=k.dtype, device=k.device))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """Diagonal of the covariance."""
        v = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return v.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W W^T + diag(d)."""
        w = self._unbroadcasted_cov_factor
        full = torch.matmul(w, w.mT) + torch.diag_embed(self._unbroadcasted_cov_diag)
        return full.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return torch.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance, by Woodbury's identity."""
        d = self._unbroadcasted_cov_diag
        wt = self._unbroadcasted_cov_factor.mT / d.unsqueeze(-2)
        a = torch.linalg.solve_triangular(self._capacitance_tril, wt, upper=False)
        full = torch.diag_embed(d.reciprocal()) - torch.matmul(a.mT, a)
        return full.expand(self._batch_shape + self._event_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        w_shape = shape[:-1] + self.cov_factor.shape[-1:]
        eps_w = standard_normal(w_shape, self.loc.dtype, self.loc.device)
        eps_d = standard_normal(shape, self.loc.dtype, self.loc.device)
        low = torch.matmul(self._unbroadcasted_cov_factor, eps_w.unsqueeze(-1)).squeeze(-1)
        return self.loc + low + self._unbroadcasted_cov_diag.sqrt() * eps_d

    def _log_det(self) -> Tensor:
        inner = 2 * self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return inner + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validated(value)
        x = value - self.loc
        d = self._unbroadcasted_cov_diag
        wt = self._unbroadcasted_cov_factor.mT / d.unsqueeze(-2)
        wx = torch.matmul(wt, x.unsqueeze(-1)).squeeze(-1)
        m = (x.pow(2) / d).sum(-1) - batch_mahalanobis(self._capacitance_tril, wx)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + m)

    def entropy(self) -> Tensor:
        h = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return h if len(self._batch_shape) == 0 else h.expand(self._batch_shape)
