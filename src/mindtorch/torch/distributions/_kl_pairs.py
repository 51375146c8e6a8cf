"""Kullback-Leibler divergences between distributions of two families."""

from __future__ import annotations

import math
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions.bernoulli import Bernoulli
from mindtorch.torch.distributions.beta import Beta
from mindtorch.torch.distributions.binomial import Binomial
from mindtorch.torch.distributions.continuous_bernoulli import ContinuousBernoulli
from mindtorch.torch.distributions.exponential import Exponential
from mindtorch.torch.distributions.gamma import Gamma
from mindtorch.torch.distributions.gumbel import Gumbel
from mindtorch.torch.distributions.kl import register_kl
from mindtorch.torch.distributions.laplace import Laplace
from mindtorch.torch.distributions.normal import Normal
from mindtorch.torch.distributions.pareto import Pareto
from mindtorch.torch.distributions.poisson import Poisson
from mindtorch.torch.distributions.uniform import Uniform
from mindtorch.torch.distributions.utils import euler_constant

Tensor = Any


def _infinite_like(x: Tensor) -> Tensor:
    return torch.full_like(x, math.inf)


def _x_log_x(x: Tensor) -> Tensor:
    return torch.special.xlogy(x, x)


def _inf_beta(p: Any, q: Any) -> Tensor:
    return _infinite_like(p.concentration1)


def _inf_exponential(p: Any, q: Any) -> Tensor:
    return _infinite_like(p.rate)


def _inf_gamma(p: Any, q: Any) -> Tensor:
    return _infinite_like(p.concentration)


def _inf_loc(p: Any, q: Any) -> Tensor:
    return _infinite_like(p.loc)


def _inf_pareto(p: Any, q: Any) -> Tensor:
    return _infinite_like(p.scale)


register_kl(Beta, Pareto)(_inf_beta)
for _q in (Beta, Pareto, Uniform):
    register_kl(Exponential, _q)(_inf_exponential)
    register_kl(Gamma, _q)(_inf_gamma)
for _q in (Beta, Exponential, Gamma, Pareto, Uniform):
    register_kl(Gumbel, _q)(_inf_loc)
    register_kl(Laplace, _q)(_inf_loc)
    register_kl(Normal, _q)(_inf_loc)
for _q in (Beta, Uniform):
    register_kl(Pareto, _q)(_inf_pareto)
register_kl(Poisson, Bernoulli)(_inf_exponential)
register_kl(Poisson, Binomial)(_inf_exponential)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, Exponential)
def _beta_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / (p.concentration1 + p.concentration0))


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    t1 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t2 = (q.concentration - 1) * (p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma())
    t3 = q.rate * p.concentration1 / (p.concentration1 + p.concentration0)
    return -p.entropy() + t1 - t2 + t3


@register_kl(Beta, Normal)
def _beta_normal(p: Any, q: Any) -> Tensor:
    mean = p.concentration1 / (p.concentration1 + p.concentration0)
    var = q.scale.pow(2)
    t1 = 0.5 * (var * 2 * math.pi).log()
    t2 = (mean * (1 - mean) / (p.concentration1 + p.concentration0 + 1) + mean.pow(2)) * 0.5
    return -p.entropy() + t1 + (t2 - mean * q.loc + q.loc.pow(2) * 0.5) / var


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Tensor:
    out = -p.entropy() + (q.high - q.low).log()
    return torch.where((q.low > p.support.lower_bound) | (q.high < p.support.upper_bound), math.inf, out)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    t1 = -q.concentration * torch.log(ratio)
    return t1 + ratio + q.concentration.lgamma() + q.concentration * euler_constant - (1 + euler_constant)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    t1 = product.log() - 1
    t2 = torch.exp(q.loc / q.scale) * product / (product + 1)
    return t1 - q.loc / q.scale + t2 + product.reciprocal()


@register_kl(Exponential, Normal)
def _exponential_normal(p: Any, q: Any) -> Tensor:
    var = q.scale.pow(2)
    rate2 = p.rate.pow(2)
    t1 = 0.5 * torch.log(rate2 * var * 2 * math.pi)
    return t1 - 1 + (rate2.reciprocal() - q.loc / p.rate + q.loc.pow(2) * 0.5) / var


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    ratio = q.loc / q.scale
    t1 = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    t2 = torch.log(product) + p.concentration / product
    t3 = torch.exp(ratio) * (1 + product.reciprocal()).pow(-p.concentration) - ratio
    return t1 + t2 + t3


@register_kl(Gamma, Normal)
def _gamma_normal(p: Any, q: Any) -> Tensor:
    var = q.scale.pow(2)
    rate2 = p.rate.pow(2)
    t1 = 0.5 * torch.log(rate2 * var * 2 * math.pi) - p.concentration - p.concentration.lgamma()
    t2 = 0.5 * (p.concentration.pow(2) + p.concentration) / rate2
    t3 = q.loc * p.concentration / p.rate
    return t1 + (p.concentration - 1) * p.concentration.digamma() + (t2 - t3 + 0.5 * q.loc.pow(2)) / var


@register_kl(Gumbel, Normal)
def _gumbel_normal(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    t1 = (ratio / math.sqrt(2 * math.pi)).log()
    t2 = (math.pi * ratio * 0.5).pow(2) / 3
    t3 = ((p.loc + p.scale * euler_constant - q.loc) / q.scale).pow(2) * 0.5
    return -t1 + t2 + t3 - (euler_constant + 1)


@register_kl(Laplace, Normal)
def _laplace_normal(p: Any, q: Any) -> Tensor:
    var = q.scale.pow(2)
    ratio = p.scale.pow(2) / var
    t1 = 0.5 * torch.log(2 * ratio / math.pi)
    return -t1 + ratio + (0.5 * p.loc.pow(2) - p.loc * q.loc + 0.5 * q.loc.pow(2)) / var - 1


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    mean = p.loc / q.scale
    var = (p.scale / q.scale).pow(2)
    shift = q.loc / q.scale
    t1 = var.log() * 0.5
    t3 = torch.exp(-mean + 0.5 * var + shift)
    return -t1 + (mean - shift) + t3 - 0.5 * (1 + math.log(2 * math.pi))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    gap = p.loc - q.loc
    ratio = p.scale / q.scale
    z = gap / p.scale
    t2 = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * z.pow(2))
    t3 = gap * torch.erf(math.sqrt(0.5) * z)
    return -torch.log(ratio) + (t2 + t3) / q.scale - 0.5 * (1 + math.log(0.5 * math.pi))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    product = p.scale * q.rate
    out = (p.alpha / product).log() - p.alpha.reciprocal() + p.alpha * product / (p.alpha - 1) - 1
    return torch.where(p.alpha <= 1, math.inf, out)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    common = p.scale.log() + p.alpha.reciprocal()
    t1 = p.alpha.log() - common
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t4 = q.rate * p.alpha * p.scale / (p.alpha - 1)
    out = t1 + t2 + (1 - q.concentration) * common + t4 - 1
    return torch.where(p.alpha <= 1, math.inf, out)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    var = 2 * q.scale.pow(2)
    common = p.scale / (p.alpha - 1)
    t1 = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    t3 = p.alpha * common.pow(2) / (p.alpha - 2)
    t4 = (p.alpha * common - q.loc).pow(2)
    out = t1 - p.alpha.reciprocal() + (t3 + t4) / var - 1
    return torch.where(p.alpha <= 2, math.inf, out)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t2 = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    t3 = (q.concentration0 - 1) * (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    t4 = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    out = t3 + t4 - torch.log(width) - t2
    return torch.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), math.inf, out)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    out = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return torch.where(p.low < q.support.lower_bound, math.inf, out)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    out = -width.log() + t2 + t3 + q.rate * (p.high + p.low) / 2
    return torch.where(p.low < q.support.lower_bound, math.inf, out)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    common = q.scale / (p.high - p.low)
    high = (p.high - q.loc) / q.scale
    low = (p.low - q.loc) / q.scale
    t1 = common.log() + 0.5 * (high + low)
    return t1 - common * (torch.exp(-high) - torch.exp(-low))


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = (math.sqrt(math.pi * 2) * q.scale / width).log()
    t2 = width.pow(2) / 12
    return t1 + 0.5 * (t2 + ((p.high + p.low - 2 * q.loc) / 2).pow(2)) / q.scale.pow(2)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = (q.alpha * q.scale.pow(q.alpha) * width).log()
    t2 = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    out = t2 * (q.alpha + 1) - t1
    return torch.where(p.low < q.support.lower_bound, math.inf, out)


# ------------------------------------------------------------------------------------------ continuous Bernoulli
def _minus_log(q: Any, mean: Tensor) -> Tensor:
    """-E log q for a continuous Bernoulli q and a distribution on [0, 1] of the given mean."""
    return -mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _cb(p: Any, q: Any) -> Tensor:
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._cont_bern_log_norm() + torch.log1p(-p.probs)
    return t1 + t2 - q._cont_bern_log_norm() - torch.log1p(-q.probs)


@register_kl(Beta, ContinuousBernoulli)
def _beta_cb(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _minus_log(q, p.mean)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_cb(p: Any, q: Any) -> Tensor:
    out = -p.entropy() + _minus_log(q, p.mean)
    return torch.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), math.inf, out)


@register_kl(ContinuousBernoulli, Exponential)
def _cb_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - torch.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _cb_normal(p: Any, q: Any) -> Tensor:
    t2 = 0.5 * (math.log(2.0 * math.pi) + torch.square(q.loc / q.scale)) + torch.log(q.scale)
    t3 = (p.variance + torch.square(p.mean) - 2.0 * q.loc * p.mean) / (2.0 * torch.square(q.scale))
    return -p.entropy() + t2 + t3


@register_kl(ContinuousBernoulli, Uniform)
def _cb_uniform(p: Any, q: Any) -> Tensor:
    out = -p.entropy() + (q.high - q.low).log()
    wide = (q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)
    return torch.where(wide, torch.ones_like(out) * math.inf, out)


@register_kl(ContinuousBernoulli, Pareto)
def _cb_pareto(p: Any, q: Any) -> Tensor:
    return _infinite_like(p.probs)


register_kl(Exponential, ContinuousBernoulli)(_inf_exponential)
register_kl(Gamma, ContinuousBernoulli)(_inf_gamma)
register_kl(Pareto, ContinuousBernoulli)(_inf_pareto)
for _p in (Gumbel, Laplace, Normal):
    register_kl(_p, ContinuousBernoulli)(_inf_loc)
