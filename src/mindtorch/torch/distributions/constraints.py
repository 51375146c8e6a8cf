"""Sets that parameters and values of distributions must lie in. ``check(value)`` gives a boolean tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindtorch.torch as torch

Tensor = Any


class Constraint:
    """A set of tensors. ``event_dim``: how many trailing dimensions one element of the set has."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Boolean tensor of the batch shape of ``value``."""
        raise NotImplementedError(f"{type(self).__name__} defines no check")

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A set that depends on other parameters; it has no check of its own."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        """A copy with known static properties."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether the constraint needs an instance to be known."""
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):  # noqa: N801 - public name
    """A property of instances that, on the class, stands for a dependent constraint."""

    def __init__(self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _Independent(Constraint):
    """Trailing batch dimensions of a constraint taken as event dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        ok = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if ok.dim() < n:
            expected = self.base_constraint.event_dim + n
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return ok.reshape(ok.shape[: ok.dim() - n] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Support of a mixture: the support of its components, for values that miss the mixture's dimension."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                f"Expected base_constraint to be a Constraint instance, but got {type(base_constraint)}"
            )
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        ok = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        n = value.dim() - self.event_dim
        if ok.dim() < n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return ok.reshape(ok.shape[:n] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Test(Constraint):
    """A set given by a predicate."""

    def __init__(self, name: str, test: Callable[[Tensor], Tensor], discrete: bool = False, event_dim: int = 0) -> None:
        self._name = name
        self._test = test
        self.is_discrete = discrete
        self.event_dim = event_dim

    def check(self, value: Tensor) -> Tensor:
        return self._test(value)

    def __repr__(self) -> str:
        return f"{self._name}()"


class _Bounds(Constraint):
    """An interval; either end may be missing or excluded."""

    template = ""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def __repr__(self) -> str:
        ends = [
            f"{k}={v}"
            for k, v in (("lower_bound", self.lower_bound), ("upper_bound", self.upper_bound))
            if v is not None
        ]
        return f"{self._title()}({', '.join(ends)})"

    def _title(self) -> str:
        return "".join(w.capitalize() for w in type(self).__name__.split("_"))


class greater_than(_Bounds):  # noqa: N801
    """x > lower_bound."""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class greater_than_eq(_Bounds):  # noqa: N801
    """x >= lower_bound."""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class less_than(_Bounds):  # noqa: N801
    """x < upper_bound."""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class interval(_Bounds):  # noqa: N801
    """lower_bound <= x <= upper_bound."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class half_open_interval(_Bounds):  # noqa: N801
    """lower_bound <= x < upper_bound."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class integer_interval(_Bounds):  # noqa: N801
    """Integers from lower_bound to upper_bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounds):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)

    def _title(self) -> str:
        return "IntegerGreaterThan"


class multinomial(Constraint):  # noqa: N801
    """Non-negative counts along the last dimension that sum to at most upper_bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= self.upper_bound)

    def __repr__(self) -> str:
        return f"Multinomial(upper_bound={self.upper_bound})"


class cat(Constraint):  # noqa: N801
    """Constraints of consecutive slices along ``dim``, of the given lengths."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        start, out = 0, []
        for c, n in zip(self.cseq, self.lengths):
            out.append(c.check(value.narrow(self.dim, start, n)))
            start += n
        return torch.cat(out, self.dim)


class stack(Constraint):  # noqa: N801
    """One constraint for each index along ``dim``."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        parts = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return torch.stack([c.check(v) for c, v in zip(self.cseq, parts)], self.dim)


# ------------------------------------------------------------------------------------------ predicates of matrices
def _lower(v: Tensor) -> Tensor:
    return (v.tril() == v).reshape(v.shape[:-2] + (-1,)).all(-1)


def _diagonal(v: Tensor) -> Tensor:
    return torch.diagonal(v, dim1=-2, dim2=-1)


def _cholesky(v: Tensor) -> Tensor:
    return _lower(v) & (_diagonal(v) > 0).all(-1)


def _corr_cholesky(v: Tensor) -> Tensor:
    tol = torch.finfo(v.dtype).eps * v.size(-1) * 10
    return _cholesky(v) & ((torch.linalg.norm(v.detach(), dim=-1) - 1).abs() < tol).all(-1)


def _symmetric(v: Tensor) -> Tensor:
    if v.shape[-2] != v.shape[-1]:
        return torch.zeros(v.shape[:-2], dtype=torch.bool)
    return torch.isclose(v, v.mT, atol=1e-6).all(-2).all(-1)


def _definite(v: Tensor) -> Tensor:
    ok = _symmetric(v)
    return torch.linalg.cholesky_ex(v)[1].eq(0) if bool(ok.all()) else ok


def _semidefinite(v: Tensor) -> Tensor:
    ok = _symmetric(v)
    return torch.linalg.eigvalsh(v).ge(0).all(-1) if bool(ok.all()) else ok


def _one_hot(v: Tensor) -> Tensor:
    return ((v == 0) | (v == 1)).all(-1) & v.sum(-1).eq(1)


def _square(v: Tensor) -> Tensor:
    return torch.full(v.shape[:-2], v.shape[-2] == v.shape[-1], dtype=torch.bool)


dependent = _Dependent()
independent = _Independent
boolean = _Test("Boolean", lambda v: (v == 0) | (v == 1), True)
one_hot = _Test("OneHot", _one_hot, True, 1)
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
real = _Test("Real", lambda v: v == v)
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Test("Simplex", lambda v: (v >= 0).all(-1) & ((v.sum(-1) - 1).abs() < 1e-6), False, 1)
lower_triangular = _Test("LowerTriangular", _lower, False, 2)
lower_cholesky = _Test("LowerCholesky", _cholesky, False, 2)
corr_cholesky = _Test("CorrCholesky", _corr_cholesky, False, 2)
square = _Test("Square", _square, False, 2)
symmetric = _Test("Symmetric", _symmetric, False, 2)
positive_semidefinite = _Test("PositiveSemidefinite", _semidefinite, False, 2)
positive_definite = _Test("PositiveDefinite", _definite, False, 2)

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]
