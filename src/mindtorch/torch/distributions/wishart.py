"""The Wishart distribution of positive definite matrices."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.chi2 import Chi2
from mindtorch.torch.distributions.distribution import Distribution
from mindtorch.torch.distributions.utils import lazy_property

Tensor = Any
__all__ = ["Wishart"]


class Wishart(Distribution):
    """Sums of ``df`` outer products of normals, given their covariance, precision, or Cholesky factor."""

    has_rsample = True
    support = constraints.positive_definite

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """``df`` must exceed the dimension less one."""
        n = self.event_shape[-1]
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(n - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        from mindtorch.torch.distributions.multivariate_normal import (
            _precision_to_scale_tril,
        )

        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {k: v for k, v in given.items() if v is not None}
        if len(given) != 1:
            raise ValueError(
                "Expected exactly one of covariance_matrix or precision_matrix or scale_tril to be specified."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, Number):
            batch, event = torch.Size(matrix.shape[:-2]), torch.Size(matrix.shape[-2:])
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            event = torch.Size(matrix.shape[-2:])
            self.df = df.expand(batch)
        if bool((self.df <= event[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}.")
        setattr(self, name, matrix.expand(batch + event))
        self._event_shape = event
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)
        super().__init__(batch, event, validate_args=validate_args)
        n = event[-1]
        steps = torch.arange(n, dtype=self._unbroadcasted_scale_tril.dtype, device=self.df.device)
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - steps.expand(batch + (n,)))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self.__new__(type(self)) if _instance is None else _instance
        batch_shape = torch.Size(batch_shape)
        shape = batch_shape + self.event_shape
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(shape)
        new.df = self.df.expand(batch_shape)
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(shape))
        new._dist_chi2 = self._dist_chi2.expand(batch_shape + self.event_shape[:1])
        new._rebuild(self, batch_shape, self.event_shape)
        return new

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """L L^T."""
        full = self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.transpose(-2, -1)
        return full.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        return torch.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = torch.where(factor <= 0, float("nan"), factor)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        d = v.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (v.pow(2) + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Tensor:
        """Bartlett's decomposition. As PyTorch does, samples that pass the check of the support are drawn once more.

        That makes the draws, and so the numbers, equal to PyTorch's; the distribution is the same either way.
        ``max_try_correction`` bounds how often matrices that come out singular are drawn again (3 batched, else 10).
        """
        tries = 3 if self._batch_shape else 10
        tries = tries if max_try_correction is None else max_try_correction
        sample = self._bartlett(torch.Size(sample_shape))
        again = self._over_batch(self.support.check(sample))
        if not bool(again.any()):
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(tries):
            fresh = self._bartlett(torch.Size((int(again.sum()),)) if again.dim() else torch.Size(()))
            if again.dim():
                sample = sample.clone()
                sample[again] = fresh
            else:
                sample = fresh
            bad = self._over_batch(~self.support.check(fresh))
            if not bool(bad.any()):
                break
            if again.dim():
                rest = again.clone()
                rest[again] = bad
                again = rest
        return sample

    def _over_batch(self, flags: Tensor) -> Tensor:
        """Flags of samples, true when true anywhere in the batch."""
        n = len(self._batch_shape)
        return flags.reshape(flags.shape[: flags.dim() - n] + (-1,)).any(-1) if n else flags

    def _bartlett(self, sample_shape: Any) -> Tensor:
        n = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        i, j = torch.tril_indices(n, n, offset=-1)
        count = int(n * (n - 1) / 2)
        noise[..., i, j] = torch.randn(
            torch.Size(sample_shape) + self._batch_shape + torch.Size((count,)), dtype=noise.dtype, device=noise.device
        )
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.transpose(-2, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validated(value)
        nu, n = self.df, self._event_shape[-1]
        tril = self._unbroadcasted_scale_tril
        half_log_det = tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        solved = torch.cholesky_solve(value, tril)
        return (
            -nu * (n * math.log(2.0) / 2 + half_log_det)
            - torch.mvlgamma(nu / 2, p=n)
            + (nu - n - 1) / 2 * torch.linalg.slogdet(value).logabsdet
            - solved.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2
        )

    def entropy(self) -> Tensor:
        nu, n = self.df, self._event_shape[-1]
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        digammas = torch.digamma((nu.unsqueeze(-1) - torch.arange(n, dtype=nu.dtype)) / 2).sum(-1)
        return (
            (n + 1) * (n * math.log(2.0) / 2 + half_log_det)
            + torch.mvlgamma(nu / 2, p=n)
            - (nu - n - 1) / 2 * digammas
            + nu * n / 2
        )
