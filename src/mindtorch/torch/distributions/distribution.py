"""Base of probability distributions: shapes, validation, and the methods every distribution has."""

from __future__ import annotations

import warnings
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.utils import lazy_property

Tensor = Any


class Distribution:
    """``batch_shape`` indexes independent distributions, ``event_shape`` is the shape of one sample."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints: Any = {}
    support: Any = None

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Switch validation of arguments for all distributions."""
        if value not in [True, False]:
            raise ValueError(f"set_default_validate_args expects a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape = torch.Size(batch_shape)
        self._event_shape = torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue
            value = getattr(self, name)
            ok = constraint.check(value)
            if not bool(ok.all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _rebuild(self, source: Any, batch_shape: Any, event_shape: Any) -> None:
        """Shapes and validation flag of an expanded copy of ``source``; its parameters were checked already."""
        Distribution.__init__(self, batch_shape, event_shape, validate_args=False)
        self._validate_args = source._validate_args

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """A distribution of the same kind with parameters expanded to ``batch_shape``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement expand")

    @property
    def batch_shape(self) -> Any:
        """Shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """Shape of a single sample."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """Mean of the distribution."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mean")

    @property
    def mode(self) -> Tensor:
        """Mode of the distribution."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """Variance of the distribution."""
        raise NotImplementedError(f"{type(self).__name__} does not implement variance")

    @property
    def stddev(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples without gradient, shape sample_shape + batch_shape + event_shape."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples through which gradients flow to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} does not implement rsample")

    def sample_n(self, n: int) -> Tensor:
        """Old spelling of ``sample((n,))``."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
        return self.sample(torch.Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density (or mass) at ``value``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Distribution function at ``value``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Quantile of ``value``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first dimension."""
        raise NotImplementedError(f"{type(self).__name__} does not implement enumerate_support")

    def entropy(self) -> Tensor:
        """Entropy over the batch."""
        raise NotImplementedError(f"{type(self).__name__} does not implement entropy")

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return torch.Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Tensor) -> None:
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = len(value.size()) - len(self._event_shape)
        if value.size()[start:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.size()} vs {self._event_shape}."
            )
        for i, j in zip(reversed(value.size()), reversed(self._batch_shape + self._event_shape)):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs "
                    f"{self._batch_shape + self._event_shape}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{self.__class__} does not define `support` to enable sample validation.", stacklevel=3)
            return
        ok = support.check(value)
        if not bool(ok.all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _validated(self, value: Tensor) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        names = [k for k in self.arg_constraints if k in self.__dict__]

        def text(v: Any) -> str:
            return f"{v}" if v.numel() == 1 else f"{v.size()}"

        return f"{self.__class__.__name__}({', '.join(f'{n}: {text(self.__dict__[n])}' for n in names)})"


class Params(Distribution):
    """Distributions whose expansion expands each parameter in ``_params`` (event dimensions kept)."""

    _params: tuple[str, ...] = ()
    _event_dims: dict[str, int] = {}

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Expand the parameters."""
        new = self.__new__(type(self)) if _instance is None else _instance
        batch_shape = torch.Size(batch_shape)
        for name in self._params:
            if name in self.__dict__:
                value = self.__dict__[name]
                n = self._event_dims.get(name, 0)
                tail = value.shape[value.dim() - n :] if n else ()
                setattr(new, name, value.expand(batch_shape + torch.Size(tail)))
        self._expand_extra(new, batch_shape)
        new._rebuild(self, batch_shape, self._event_shape)
        return new

    def _expand_extra(self, new: Any, batch_shape: Any) -> None:
        """Expand parts that are not parameters."""


class ExponentialFamily(Params):
    """Distributions of the form exp(<natural parameters, statistics> - log normaliser + carrier)."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} gives no natural parameters")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} gives no log normalizer")

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError(f"{type(self).__name__} gives no mean carrier measure")

    def entropy(self) -> Tensor:
        """Entropy by differentiating the log normaliser."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normaliser = self._log_normalizer(*params)
        grads = torch.autograd.grad(normaliser.sum(), params, create_graph=True)
        out = -self._mean_carrier_measure + normaliser
        for p, g in zip(params, grads):
            out = out - (p * g).reshape(self._batch_shape + (-1,)).sum(-1)
        return out


class Lazy(Params):
    """Distributions given by probabilities or by logits: the other is computed when asked for."""

    _binary = True

    def _set_either(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Set the one that is given, broadcast with ``others``; returns these and it."""
        from mindtorch.torch.distributions.utils import broadcast_all

        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        values = broadcast_all(*others, logits if probs is None else probs)
        setattr(self, "logits" if probs is None else "probs", values[-1])
        return values

    @property
    def _param(self) -> Tensor:
        return (
            self.__dict__["probs"] if "probs" in self.__dict__ and self._first == "probs" else self.__dict__["logits"]
        )

    @property
    def _first(self) -> str:
        return self.__dict__.get("_given") or ("probs" if "probs" in self.__dict__ else "logits")

    @lazy_property
    def logits(self) -> Tensor:
        """Logits of the probabilities."""
        from mindtorch.torch.distributions.utils import probs_to_logits

        self._given = "probs"
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities of the logits."""
        from mindtorch.torch.distributions.utils import logits_to_probs

        self._given = "logits"
        return logits_to_probs(self.logits, is_binary=self._binary)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @property
    def param_shape(self) -> Any:
        """Shape of the parameter."""
        return self._param.size()
