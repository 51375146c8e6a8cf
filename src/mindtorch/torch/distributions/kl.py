"""Kullback-Leibler divergences, one function per pair of families, chosen by class as methods are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import total_ordering
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions import (
    bernoulli,
    beta,
    binomial,
    categorical,
    cauchy,
    dirichlet,
    exponential,
    gamma,
    geometric,
    gumbel,
    half_normal,
    independent,
    laplace,
    lowrank_multivariate_normal,
    multivariate_normal,
    normal,
    one_hot_categorical,
    pareto,
    poisson,
    transformed_distribution,
    uniform,
)
from mindtorch.torch.distributions.distribution import Distribution, ExponentialFamily
from mindtorch.torch.distributions.utils import euler_constant, sum_rightmost

Tensor = Any
__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Callable[..., Any]] = {}

Bernoulli = bernoulli.Bernoulli
Beta = beta.Beta
Binomial = binomial.Binomial
Categorical = categorical.Categorical
Cauchy = cauchy.Cauchy
Dirichlet = dirichlet.Dirichlet
Exponential = exponential.Exponential
Gamma = gamma.Gamma
Geometric = geometric.Geometric
Gumbel = gumbel.Gumbel
HalfNormal = half_normal.HalfNormal
Independent = independent.Independent
Laplace = laplace.Laplace
LowRank = lowrank_multivariate_normal.LowRankMultivariateNormal
MultivariateNormal = multivariate_normal.MultivariateNormal
Normal = normal.Normal
OneHotCategorical = one_hot_categorical.OneHotCategorical
Pareto = pareto.Pareto
Poisson = poisson.Poisson
TransformedDistribution = transformed_distribution.TransformedDistribution
Uniform = uniform.Uniform


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function computes KL(p || q) for instances of the two classes and of their subclasses."""
    if not isinstance(type_p, type) or not issubclass(type_p, Distribution):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")
    if not isinstance(type_q, type) or not issubclass(type_q, Distribution):
        raise TypeError(f"Expected type_q to be a Distribution subclass but got {type_q}")

    def decorator(fn: Callable[..., Any]) -> Callable[..., Any]:
        _KL_REGISTRY[type_p, type_q] = fn
        _KL_MEMOIZE.clear()
        return fn

    return decorator


@total_ordering
class _Match:
    """Pairs ordered by how near they are in the class order: the first argument's classes first."""

    def __init__(self, *types: type) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Match) and self.types == other.types

    def __hash__(self) -> int:
        return hash(self.types)

    def __le__(self, other: _Match) -> bool:
        for x, y in zip(self.types, other.types):
            if not issubclass(x, y):
                return False
            if x is not y:
                break
        return True


def _dispatch(type_p: type, type_q: type) -> Callable[..., Any]:
    found = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not found:
        return NotImplemented  # type: ignore[return-value]
    left = min(_Match(*m) for m in found).types
    right = min(_Match(*reversed(m)) for m in found).types
    by_left, by_right = _KL_REGISTRY[left], _KL_REGISTRY[right[::-1]]  # type: ignore[index]
    if by_left is not by_right:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, "
            f"{right[0].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return by_left


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), of the batch shape. NotImplementedError for pairs that have no closed form here."""
    key = (type(p), type(q))
    fn = _KL_MEMOIZE.get(key)
    if fn is None:
        fn = _KL_MEMOIZE[key] = _dispatch(*key)
    if fn is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return fn(p, q)


# ------------------------------------------------------------------------------------------ one family
@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    sp = torch.nn.functional.softplus
    a = p.probs * (sp(-q.logits) - sp(-p.logits))
    a = torch.where(q.probs == 0, math.inf, a)
    a = torch.where(p.probs == 0, 0.0, a)
    b = (1 - p.probs) * (sp(q.logits) - sp(p.logits))
    b = torch.where(q.probs == 1, math.inf, b)
    b = torch.where(p.probs == 1, 0.0, b)
    return a + b


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    sp = p.concentration1 + p.concentration0
    sq = q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + sp.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + sq.lgamma()
    t3 = (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
    t4 = (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0)
    return t1 - t2 + t3 + t4 + (sq - sp) * torch.digamma(sp)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    more = p.total_count > q.total_count
    kl = torch.where(more, math.inf, kl)
    return kl


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = torch.where((q.probs == 0).expand_as(t), math.inf, t)
    t = torch.where((p.probs == 0).expand_as(t), 0.0, t)
    return t.sum(-1)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    t = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return t - (4 * p.scale * q.scale).log()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    sp, sq = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = sp.lgamma() - sq.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t3 = p.concentration - q.concentration
    t4 = p.concentration.digamma() - sp.digamma().unsqueeze(-1)
    return t1 - t2 + (t3 * t4).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p: Any, q: Any) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    p_params = [x.detach().requires_grad_() for x in p._natural_params]
    q_params = q._natural_params
    normaliser = p._log_normalizer(*p_params)
    grads = torch.autograd.grad(normaliser.sum(), p_params, create_graph=True)
    out = q._log_normalizer(*q_params) - normaliser
    for a, b, g in zip(p_params, q_params, grads):
        out = out - sum_rightmost((b - a) * g, len(q.event_shape))
    return out


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * torch.digamma(p.concentration)
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    c1 = p.scale / q.scale
    c2 = q.loc / q.scale
    c3 = p.loc / q.scale
    t1 = -c1.log() - c2 + c3
    t2 = c1 * euler_constant
    t3 = torch.exp(c2 + (1 + c1).lgamma() - c3)
    return t1 + t2 + t3 - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    gap = (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * torch.exp(-gap / p.scale) - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    t1 = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + t1 - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    a = q.alpha / p.alpha
    out = q.alpha * ratio.log() - a.log() + a - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, math.inf, out)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms:
        raise NotImplementedError("KL of transformed distributions with different transforms has no closed form")
    if p.event_shape != q.event_shape:
        raise NotImplementedError("KL of transformed distributions with different event shapes has no closed form")
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), extra)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), math.inf, out)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independent distributions with different reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ------------------------------------------------------------------------------------------ multivariate normals
def _factor(d: Any) -> Tensor:
    return d._unbroadcasted_scale_tril if isinstance(d, MultivariateNormal) else d.scale_tril


def _any_multivariate(p: Any, q: Any) -> Tensor:
    """Through Cholesky factors, whichever way the covariances were given."""
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be computed"
        )
    lp, lq = _factor(p), _factor(q)
    half = lq.diagonal(dim1=-2, dim2=-1).log().sum(-1) - lp.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    batch = torch.broadcast_shapes(q.batch_shape, p.batch_shape)
    n = p.event_shape[0]
    solved = torch.linalg.solve_triangular(lq.expand(batch + (n, n)), lp.expand(batch + (n, n)), upper=False)
    trace = solved.pow(2).sum(-1).sum(-1)
    gap = multivariate_normal.batch_mahalanobis(lq, q.loc - p.loc)
    return half + 0.5 * (trace + gap - n)


for _p in (MultivariateNormal, LowRank):
    for _q in (MultivariateNormal, LowRank):
        register_kl(_p, _q)(_any_multivariate)
