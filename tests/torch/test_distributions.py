"""Distributions against PyTorch: samples bit for bit or to rounding, densities, moments, gradients, divergences."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import mindtorch.torch as mt
import mindtorch.torch.distributions as md
import torch

td = torch.distributions
P = np.array([0.1, 0.5, 0.9], "float32")
Q = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], "float32")
L = np.array([-1.0, 0.3, 2.0], "float32")
S = np.array([0.5, 1.0, 2.5], "float32")
COV = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]], "float32")
TRIL = np.linalg.cholesky(COV).astype("float32")

CASES = {
    "Normal": (L, S),
    "Normal-numbers": (0.5, 2.0),
    "Uniform": (L, L + S),
    "Bernoulli": (P,),
    "Bernoulli-logits": {"logits": L},
    "Categorical": (Q,),
    "Categorical-logits": {"logits": Q},
    "OneHotCategorical": (Q,),
    "OneHotCategoricalStraightThrough": (Q,),
    "Gamma": (S, S + 1),
    "Chi2": (S,),
    "Dirichlet": (Q * 5,),
    "Beta": (S, S + 1),
    "Exponential": (S,),
    "Laplace": (L, S),
    "Cauchy": (L, S),
    "StudentT": (S + 2, L, S),
    "Poisson": (S * 5,),
    "Geometric": (P,),
    "Binomial": (10, P),
    "NegativeBinomial": (5.0, P),
    "Multinomial": (10, Q),
    "MultivariateNormal": (L, COV),
    "MultivariateNormal-tril": {"loc": L, "scale_tril": TRIL},
    "MultivariateNormal-precision": {"loc": L, "precision_matrix": COV},
    "LowRankMultivariateNormal": (L, Q.T.copy(), S),
    "LogNormal": (L, S),
    "LogisticNormal": (L, S),
    "HalfNormal": (S,),
    "HalfCauchy": (S,),
    "Gumbel": (L, S),
    "Weibull": (S, S + 1),
    "Pareto": (S, S + 2),
    "InverseGamma": (S + 2, S),
    "Kumaraswamy": (S, S + 1),
    "FisherSnedecor": (S + 1, S + 5),
    "RelaxedBernoulli": (np.float32(0.7), P),
    "RelaxedOneHotCategorical": (np.float32(0.7), Q),
    "VonMises": (L, S),
    "ContinuousBernoulli": (P,),
    "LKJCholesky": (3, np.float32(1.5)),
    "GeneralizedPareto": (L, S, np.array([0.1, 0.0, 0.3], "float32")),
    "Wishart": (np.float32(5.0), COV),
}


def build(name, grad=False):
    """The same distribution in both libraries, with their tensor parameters."""
    args = CASES[name]
    cls = name.partition("-")[0]
    out, params = [], []
    for m, d in ((mt, md), (torch, td)):
        mine = []

        def conv(v, m=m, mine=mine):
            if isinstance(v, (np.ndarray, np.floating)):
                t = m.tensor(np.array(v), requires_grad=grad)
                mine.append(t)
                return t
            return v

        if isinstance(args, dict):
            out.append(getattr(d, cls)(**{k: conv(v) for k, v in args.items()}))
        else:
            out.append(getattr(d, cls)(*[conv(v) for v in args]))
        params.append(mine)
    return out, params


def close(a, b, rtol=2e-5, atol=1e-6):
    x, y = a.detach().numpy(), b.detach().numpy()
    assert x.shape == y.shape
    np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def seed(s=0):
    mt.manual_seed(s)
    torch.manual_seed(s)


@pytest.mark.parametrize("name", CASES)
def test_samples(name):
    for shape in ((), (4,), (3, 2), (30,)):
        (d, e), _ = build(name)
        seed(1)
        a, b = d.sample(shape), e.sample(shape)
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]
        close(a, b)
        assert mt.get_rng_state().numpy().tobytes() == torch.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("name", CASES)
def test_log_prob_and_gradient(name):
    (d, e), (p, q) = build(name, grad=True)
    torch.manual_seed(2)
    value = e.sample((5,)).detach().numpy().copy()
    a, b = d.log_prob(mt.tensor(value)), e.log_prob(torch.tensor(value))
    close(a, b, 1e-4, 1e-5)
    if not p:
        return
    a.sum().backward()
    b.sum().backward()
    for x, y in zip(p, q):
        if y.grad is not None:
            close(x.grad, y.grad, 1e-3, 1e-4)


RS = [n for n in CASES if getattr(getattr(td, n.partition("-")[0]), "has_rsample", False) and n != "Normal-numbers"]


@pytest.mark.parametrize("name", RS)
def test_rsample_gradient(name):
    (d, e), (p, q) = build(name, grad=True)
    assert d.has_rsample
    seed(3)
    shape = () if name == "Wishart" else (6,)  # PyTorch cannot differentiate its own redrawn batches
    a, b = d.rsample(shape), e.rsample(shape)
    close(a, b)
    (a * a).sum().backward()
    (b * b).sum().backward()
    for x, y in zip(p, q):
        if y.grad is not None:
            close(x.grad, y.grad, 3e-3, 1e-4)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("what", ["mean", "variance", "stddev", "mode", "entropy"])
def test_moments(name, what):
    (d, e), _ = build(name)
    try:
        want = getattr(e, what)
        want = want() if what == "entropy" else want
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            got = getattr(d, what)
            got()
        return
    got = getattr(d, what)
    close(got() if what == "entropy" else got, want, 1e-4, 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_cdf_and_icdf(name):
    (d, e), _ = build(name)
    torch.manual_seed(4)
    value = e.sample((5,)).numpy().copy()
    for what, v in (("cdf", value), ("icdf", np.full((3,), 0.3, "float32"))):
        try:
            want = getattr(e, what)(torch.tensor(v))
        except (NotImplementedError, RuntimeError, AttributeError):
            continue
        close(getattr(d, what)(mt.tensor(v)), want, 2e-4, 2e-5)


@pytest.mark.parametrize("name", CASES)
def test_shapes_repr_and_expand(name):
    (d, e), _ = build(name)
    assert tuple(d.batch_shape) == tuple(e.batch_shape)
    assert tuple(d.event_shape) == tuple(e.event_shape)
    if name not in ("RelaxedBernoulli", "RelaxedOneHotCategorical"):
        assert repr(d) == repr(e)
    shape = (2,) + tuple(e.batch_shape)
    try:
        f = e.expand(shape)
    except NotImplementedError:
        return
    g = d.expand(shape)
    assert type(g) is type(d) and tuple(g.batch_shape) == shape
    seed(5)
    close(g.sample((2,)), f.sample((2,)))


def test_enumerate_support():
    for name in ("Bernoulli", "Categorical", "OneHotCategorical", "Binomial"):
        (d, e), _ = build(name)
        for expand in (True, False):
            close(d.enumerate_support(expand), e.enumerate_support(expand))


# ------------------------------------------------------------------------------------------ compositions
def test_independent_and_mixture():
    (n, o), _ = build("Normal")
    a, b = md.Independent(n, 1), td.Independent(o, 1)
    v = np.array([[0.1, 0.2, 0.3]], "float32")
    close(a.log_prob(mt.tensor(v)), b.log_prob(torch.tensor(v)))
    close(a.entropy(), b.entropy())
    assert repr(a) == repr(b)
    mix, mox = md.Categorical(mt.tensor(P)), td.Categorical(torch.tensor(P))
    a, b = md.MixtureSameFamily(mix, n), td.MixtureSameFamily(mox, o)
    seed(2)
    close(a.sample((7,)), b.sample((7,)))
    close(a.log_prob(mt.tensor(v[0])), b.log_prob(torch.tensor(v[0])))
    close(a.mean, b.mean)
    close(a.variance, b.variance)
    close(a.cdf(mt.tensor(v[0])), b.cdf(torch.tensor(v[0])))


def test_transformed_distribution():
    (n, o), _ = build("Normal")
    for make in (
        lambda m: [m.transforms.AffineTransform(1.0, 2.0), m.transforms.SigmoidTransform()],
        lambda m: [m.transforms.ExpTransform(), m.transforms.AffineTransform(0.5, -1.0)],
        lambda m: [m.transforms.TanhTransform()],
        lambda m: [m.transforms.SoftplusTransform()],
        lambda m: [m.transforms.StickBreakingTransform()],
    ):
        a, b = md.TransformedDistribution(n, make(md)), td.TransformedDistribution(o, make(td))
        seed(2)
        x, y = a.sample((4,)), b.sample((4,))
        close(x, y)
        close(a.log_prob(mt.tensor(y.numpy())), b.log_prob(y), 1e-4, 1e-4)


TRANSFORMS = [
    ("ExpTransform", ()),
    ("PowerTransform", (2.0,)),
    ("SigmoidTransform", ()),
    ("TanhTransform", ()),
    ("SoftplusTransform", ()),
    ("AffineTransform", (1.0, 2.0)),
    ("StickBreakingTransform", ()),
    ("SoftmaxTransform", ()),
    ("CorrCholeskyTransform", ()),
]


@pytest.mark.parametrize("name, args", TRANSFORMS)
def test_transforms(name, args):
    x = np.array([0.1, 0.4, 0.9], "float32")
    if name == "PowerTransform":
        a, b = md.transforms.PowerTransform(mt.tensor(2.0)), td.transforms.PowerTransform(torch.tensor(2.0))
    else:
        a, b = getattr(md.transforms, name)(*args), getattr(td.transforms, name)(*args)
    y, z = a(mt.tensor(x)), b(torch.tensor(x))
    close(y, z)
    close(a.inv(y), b.inv(z), 1e-4, 1e-5)
    assert a.inv.inv is a
    assert a == a and tuple(a.forward_shape((3,))) == tuple(b.forward_shape((3,)))
    if b.bijective:
        close(a.log_abs_det_jacobian(mt.tensor(x), y), b.log_abs_det_jacobian(torch.tensor(x), z), 1e-4, 1e-5)


def test_biject_to():
    x = np.array([0.1, -0.4, 0.9], "float32")
    for make in (
        lambda c: c.positive,
        lambda c: c.unit_interval,
        lambda c: c.simplex,
        lambda c: c.real,
        lambda c: c.interval(-1.0, 3.0),
        lambda c: c.greater_than(2.0),
        lambda c: c.less_than(2.0),
        lambda c: c.corr_cholesky,
    ):
        for reg in ("biject_to", "transform_to"):
            a, b = getattr(md, reg)(make(md.constraints)), getattr(td, reg)(make(td.constraints))
            close(a(mt.tensor(x)), b(torch.tensor(x)))


def test_constraints():
    v = np.array([[0.2, 0.8, 0.0], [1.0, 2.0, -1.0], [1.0, 0.0, 0.0]], "float32")
    for name in (
        "boolean",
        "simplex",
        "positive",
        "nonnegative",
        "unit_interval",
        "real",
        "one_hot",
        "nonnegative_integer",
    ):
        a, b = getattr(md.constraints, name), getattr(td.constraints, name)
        assert repr(a) == repr(b)
        assert a.is_discrete == b.is_discrete and a.event_dim == b.event_dim
        np.testing.assert_array_equal(a.check(mt.tensor(v)).numpy(), b.check(torch.tensor(v)).numpy())
    for name in ("lower_triangular", "lower_cholesky", "positive_definite", "symmetric", "square"):
        a, b = getattr(md.constraints, name), getattr(td.constraints, name)
        for m in (v, COV, TRIL):
            assert bool(a.check(mt.tensor(m)).all()) == bool(b.check(torch.tensor(m)).all()), name


# ------------------------------------------------------------------------------------------ divergences
PAIRS = {(p.__name__, q.__name__) for p, q in td.kl._KL_REGISTRY}
OWN_TEST = ("ExponentialFamily", "TransformedDistribution")


@pytest.mark.parametrize("p, q", sorted((p, q) for p, q in PAIRS if "Independent" not in (p, q) and p not in OWN_TEST))
def test_kl(p, q):
    (a, b), _ = build(p)
    (c, d), _ = build(q)
    if p == q and p not in ("Binomial", "Multinomial"):
        (c, d) = shifted(p)
    try:
        want = td.kl_divergence(b, d)
    except (NotImplementedError, ValueError) as error:
        with pytest.raises(type(error)):
            md.kl_divergence(a, c)
        return
    close(md.kl_divergence(a, c), want, 2e-4, 2e-5)


def shifted(name):
    """A second instance of the family with other parameters."""
    args = CASES[name]
    changed = tuple(v[::-1].copy() if isinstance(v, np.ndarray) and v.ndim == 1 else v for v in args)
    if name in ("Categorical", "OneHotCategorical", "Dirichlet"):
        changed = tuple(v[:, ::-1].copy() for v in args)
    CASES["_"] = changed
    try:
        out = []
        for m, d in ((mt, md), (torch, td)):
            conv = [m.tensor(np.array(v)) if isinstance(v, np.ndarray) else v for v in changed]
            out.append(getattr(d, name)(*conv))
        return out
    finally:
        del CASES["_"]


def test_kl_of_composed_distributions():
    (n, o), _ = build("Normal")
    (m, p) = shifted("Normal")
    close(
        md.kl_divergence(md.Independent(n, 1), md.Independent(m, 1)),
        td.kl_divergence(td.Independent(o, 1), td.Independent(p, 1)),
    )
    (a, b), _ = build("LogNormal")
    (c, d) = shifted("LogNormal")
    close(md.kl_divergence(a, c), td.kl_divergence(b, d))
    with pytest.raises(NotImplementedError, match="No KL"):
        md.kl_divergence(n, md.Categorical(mt.tensor(P)))


def test_register_kl_prefers_the_nearest_class():
    class Mine(md.Normal):
        pass

    class Yours(md.Normal):
        pass

    @md.register_kl(Mine, Yours)
    def _rule(p, q):
        return mt.tensor(7.0)

    assert md.kl_divergence(Mine(0.0, 1.0), Yours(0.0, 1.0)).item() == 7.0
    assert math.isclose(md.kl_divergence(Yours(0.0, 1.0), Mine(0.0, 1.0)).item(), 0.0)


# ------------------------------------------------------------------------------------------ validation
BAD = [
    ("Normal(m.tensor([0.0, 1.0]), m.tensor([1.0, -1.0]))", "Expected parameter scale"),
    ("Bernoulli(m.tensor([1.5]))", "Expected parameter probs"),
    ("Bernoulli(m.tensor([0.5])).log_prob(m.tensor([0.5]))", "within the support"),
    ("Normal(m.zeros(2), m.ones(2)).log_prob(m.zeros(3))", "not broadcastable"),
    ("Bernoulli()", "Either `probs` or `logits`"),
    ("Categorical(m.tensor(0.5))", "at least one-dimensional"),
    ("Uniform(m.tensor([1.0]), m.tensor([0.0]))", "Expected parameter"),
    ("MultivariateNormal(m.zeros(2))", "Exactly one of"),
]


@pytest.mark.parametrize("code, text", BAD)
def test_validation(code, text):
    for m, d in ((torch, td), (mt, md)):
        with pytest.raises(ValueError) as info:
            eval("d." + code.replace("m.", "m."), {"m": m, "d": d})  # noqa: S307
        assert text in str(info.value)


def test_validation_can_be_switched_off():
    d = md.Normal(mt.zeros(2), -mt.ones(2), validate_args=False)
    assert d.log_prob(mt.zeros(2)).shape == (2,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert md.Normal(0.0, 1.0).sample().shape == ()
