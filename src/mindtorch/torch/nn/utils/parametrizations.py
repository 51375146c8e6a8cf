"""Ready parametrisations: weight_norm, spectral_norm, orthogonal."""

from __future__ import annotations

import enum
from typing import Any

import mindtorch.torch as torch

from .. import functional as F
from ..modules.module import Module
from . import parametrize
from .weight_norm import norm_except_dim, normed

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _OrthMaps(enum.Enum):
    matrix_exp = enum.auto()
    cayley = enum.auto()
    householder = enum.auto()


def _is_orthogonal(q: Any, eps: float | None = None) -> bool:
    n, k = q.size(-2), q.size(-1)
    eye = torch.eye(k, dtype=q.dtype, device=q.device)
    tol = 10.0 * n * torch.finfo(q.dtype).eps if eps is None else eps
    return torch.allclose(q.mH @ q, eye, atol=tol)


def _make_orthogonal(a: Any) -> Any:
    """The Q of a QR factorisation whose R has a positive diagonal, n >= k."""
    x, tau = torch.geqrf(a)
    return torch.linalg.householder_product(x, tau) * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix with orthonormal rows or columns (whichever are fewer) from an unconstrained one."""

    base: Any

    def __init__(self, weight: Any, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Any:
        """(..., n, k) -> the same shape, orthonormal."""
        wide = x.size(-2) < x.size(-1)
        if wide:
            x = x.mT
        n, k = x.size(-2), x.size(-1)
        if self.orthogonal_map == _OrthMaps.householder:
            below = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
            q = torch.linalg.householder_product(below, tau)
            # the diagonal holds only signs
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            low = x.tril()
            if n != k:
                low = torch.cat([low, low.new_zeros(n, n - k).expand(*low.shape[:-2], -1, -1)], dim=-1)
            skew = low - low.mH
            if self.orthogonal_map == _OrthMaps.matrix_exp:
                q = torch.matrix_exp(skew)
            else:
                eye = torch.eye(n, dtype=skew.dtype, device=skew.device)
                q = torch.linalg.solve(torch.add(eye, skew, alpha=-0.5), torch.add(eye, skew, alpha=0.5))
            if n != k:
                q = q[..., :k]
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, q: Any) -> Any:
        """What ``forward`` maps to the orthogonal matrix ``q`` (orthogonalised first with trivialisation)."""
        if q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}.")
        given = q
        wide = q.size(-2) < q.size(-1)
        if wide:
            q = q.mT
        n, k = q.size(-2), q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map != _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            a, tau = torch.geqrf(q)
            signs = a.diagonal(dim1=-2, dim2=-1).sign()
            signs = torch.where(tau == 0.0, -signs, signs)
            a.diagonal(dim1=-2, dim2=-1).copy_(signs)
            return a.mT if wide else a
        if n == k:
            q = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        else:
            # complete the columns to a basis
            rest = torch.randn(*q.size()[:-2], n, n - k, dtype=q.dtype, device=q.device)
            q = _make_orthogonal(torch.cat([q, rest], dim=-1))
        self.base = q
        # with -I as the unconstrained matrix every map gives the identity
        out = torch.zeros_like(given)
        out.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return out


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Keep the matrix (or batch) ``module.name`` orthogonal. ``orthogonal_map``: matrix_exp, cayley or householder."""
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    orth = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, orth, unsafe=True)
    return module


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """``g * v / |v|``."""
        return normed(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """Norm and direction."""
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Split ``module.name`` into norm (original0) and direction (original1). Old state dicts (_g, _v) still load."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: Any, prefix: str, *rest: Any) -> None:
        g, v = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if g in state_dict and v in state_dict:
            where = f"{prefix}parametrizations.{name}."
            state_dict[where + "original0"] = state_dict.pop(g)
            state_dict[where + "original1"] = state_dict.pop(v)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            h, w = matrix.size()
            u = matrix.new_empty(h).normal_(0, 1)
            v = matrix.new_empty(w).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=self.eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=self.eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _power_method(self, matrix: Any, n: int) -> None:
        with torch.no_grad():
            for _ in range(n):
                self._u.copy_(F.normalize(torch.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(torch.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        """``weight / sigma``; in training the estimate of sigma moves on."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # copies: a later forward changes the buffers before this one's backward
        u, v = self._u.clone(), self._v.clone()
        sigma = torch.vdot(u, torch.mv(matrix, v))
        return weight / sigma

    def right_inverse(self, value: Any) -> Any:
        """Values are taken as given."""
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide ``module.name`` by (an estimate of) its largest singular value."""
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        nn = torch.nn
        dim = 1 if isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)) else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
