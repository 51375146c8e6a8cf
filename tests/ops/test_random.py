"""Random ops against PyTorch: the same seed gives the same bits and leaves the generator at the same place."""

from __future__ import annotations

import warnings

import ml_dtypes  # noqa: F401 - registers bfloat16
import numpy as np
import pytest

import mindtorch.torch as mt
import mindtorch.torch.nn.functional as F
import torch
from mindtorch.engine.host import jit

SIZES = [*range(1, 41), 100, 1000, 4097]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["uint8", "int8", "int16", "int32", "int64"]


def pair(name):
    return getattr(mt, name), getattr(torch, name)


def seed(s=0):
    mt.manual_seed(s)
    torch.manual_seed(s)


def same(a, b, ulp=0):
    if b.dtype is torch.bfloat16:
        assert a.dtype is mt.bfloat16
        a, b = a.float(), b.float()
    x, y = a.detach().numpy(), b.detach().numpy()
    assert x.shape == y.shape and x.dtype == y.dtype, (x.shape, y.shape, x.dtype, y.dtype)
    if ulp:
        np.testing.assert_array_max_ulp(x, y, ulp)
    else:
        np.testing.assert_array_equal(x, y)


def same_place():
    assert mt.get_rng_state().numpy().tobytes() == torch.get_rng_state().numpy().tobytes()


@pytest.fixture(params=["numpy", "numba"])
def body(request, monkeypatch):
    if request.param == "numba":
        pytest.importorskip("numba")
        monkeypatch.setattr(jit, "_eager", True)
    else:
        monkeypatch.setattr(jit, "_off", True)
        monkeypatch.setattr(jit.Fused, "__call__", lambda self, *args: self.fallback(*args))
    return request.param


# ------------------------------------------------------------------------------------------ creation
@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
@pytest.mark.parametrize("name", ["rand", "randn"])
def test_rand_and_randn(name, dtype, body):
    d, t = pair(dtype)
    for s in (0, 5):
        seed(s)
        for n in SIZES:
            same(getattr(mt, name)(n, dtype=d), getattr(torch, name)(n, dtype=t))
        same_place()


@pytest.mark.parametrize(
    "bounds", [(0, 1), (0, 10), (-5, 7), (0, 2**28 - 1), (0, 2**28), (0, 2**32), (-(2**63), 2**63 - 1)]
)
def test_randint(bounds, body):
    seed()
    for n in (1, 7, 1000):
        same(mt.randint(*bounds, (n,)), torch.randint(*bounds, (n,)))
    same_place()


def test_randint_forms():
    seed()
    same(mt.randint(10, (3, 4)), torch.randint(10, (3, 4)))
    same(mt.randint(3, 10, size=(2,), dtype=mt.float32), torch.randint(3, 10, size=(2,), dtype=torch.float32))
    same(mt.randint(high=9, size=(5,)), torch.randint(high=9, size=(5,)))
    same(mt.randint(low=2, high=9, size=[5], dtype=mt.uint8), torch.randint(low=2, high=9, size=[5], dtype=torch.uint8))
    same_place()


@pytest.mark.parametrize("n", [0, 1, 2, 10, 1000, 4097])
def test_randperm(n, body):
    seed(3)
    same(mt.randperm(n), torch.randperm(n))
    same(mt.randperm(n, dtype=mt.int32), torch.randperm(n, dtype=torch.int32))
    same_place()


def test_like_follows_memory_order():
    x, y = mt.zeros(6, 5).t(), torch.zeros(6, 5).t()
    seed(1)
    for name in ("rand_like", "randn_like"):
        a, b = getattr(mt, name)(x), getattr(torch, name)(y)
        same(a, b)
        assert a.stride() == b.stride()
    same(mt.randint_like(x, 9), torch.randint_like(y, 9))
    same(mt.randint_like(x, 3, 9, dtype=mt.int64), torch.randint_like(y, 3, 9, dtype=torch.int64))
    same_place()


def test_creation_options():
    assert mt.rand(2, requires_grad=True).requires_grad
    seed()
    out, ref = mt.empty(3), torch.empty(3)
    assert mt.randn(3, out=out) is out
    same(out, torch.randn(3, out=ref))
    assert mt.rand([2, 3]).shape == (2, 3)
    assert mt.rand((2, 3)).shape == (2, 3)
    assert mt.rand(size=(2, 3)).shape == (2, 3)
    assert mt.rand(2, 3, device="meta").device.type == "meta"


# ------------------------------------------------------------------------------------------ in place
FILLS = {
    "uniform_": ((), (-1.3, 2.7)),
    "normal_": ((), (1.3, 2.7)),
    "exponential_": ((), (1.7,)),
    "cauchy_": ((), (1.3, 1.7)),
    "log_normal_": ((), (0.3, 0.7)),
    "geometric_": ((0.3,), (0.03,)),
    "bernoulli_": ((), (0.3,), (0.0,), (1.0,)),
    "random_": ((), (9,), (2, 9)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FILLS)
def test_fills(name, dtype, body):
    d, t = pair(dtype)
    for args in FILLS[name]:
        seed(2)
        for n in (1, 2, 3, 15, 16, 17, 31, 40, 1000):
            a, b = mt.empty(n, dtype=d), torch.empty(n, dtype=t)
            assert getattr(a, name)(*args) is a
            getattr(b, name)(*args)
            same(a, b)
        same_place()


@pytest.mark.parametrize("name", FILLS)
def test_fills_of_strided_tensors(name):
    args = FILLS[name][0]
    seed(4)
    for make in (
        lambda m: m.zeros(8, 6).t(),
        lambda m: m.zeros(40)[::2],
        lambda m: m.zeros(4, 5, 6).permute(2, 0, 1),
        lambda m: m.zeros(6, 8)[:, 1:4],
        lambda m: m.zeros(2, 3, 4, 5).transpose(1, 3),
    ):
        a, b = make(mt), make(torch)
        getattr(a, name)(*args)
        getattr(b, name)(*args)
        same(a, b)
    same_place()


@pytest.mark.parametrize("dtype", [*INTS, "bool"])
def test_integer_fills(dtype):
    d, t = pair(dtype)
    seed(6)
    for call in (
        "random_()",
        "bernoulli_(0.4)",
        *([] if dtype == "bool" else ["random_(100)", "random_(3, 90)", "geometric_(0.3)"]),
    ):
        a, b = mt.empty(50, dtype=d), torch.empty(50, dtype=t)
        eval(f"a.{call}"), eval(f"b.{call}")  # noqa: S307, B018
        same(a, b)
    same_place()


def test_random_from_only():
    seed()
    for low in (-(2**63), -5):
        a, b = mt.empty(9, dtype=mt.int64), torch.empty(9, dtype=torch.int64)
        a.random_(low, None)
        b.random_(low, None)
        same(a, b)
    same_place()


def test_bernoulli_with_tensors():
    p = np.random.default_rng(0).random((5, 7))
    for kind in ("float32", "float64"):
        seed(1)
        q = p.astype(kind)
        same(mt.bernoulli(mt.tensor(q)), torch.bernoulli(torch.tensor(q)))
        same(mt.bernoulli(mt.tensor(q).t()), torch.bernoulli(torch.tensor(q).t()))
        a, b = mt.zeros(5, 7), torch.zeros(5, 7)
        same(a.bernoulli_(mt.tensor(q)), b.bernoulli_(torch.tensor(q)))
        a, b = mt.zeros(7, 5).t(), torch.zeros(7, 5).t()
        same(a.bernoulli_(mt.tensor(q)), b.bernoulli_(torch.tensor(q)))
        same(mt.bernoulli(mt.tensor(q), 0.3), torch.bernoulli(torch.tensor(q), 0.3))
        same_place()


def test_complex_fills():
    seed(1)
    for d in ("complex64", "complex128"):
        for n in (3, 8, 20):
            a, b = mt.zeros(n, dtype=pair(d)[0]), torch.zeros(n, dtype=pair(d)[1])
            same(a.normal_(), b.normal_())
            same(a.uniform_(), b.uniform_())
    same_place()


# ------------------------------------------------------------------------------------------ sampling
def test_normal_overloads():
    m = np.linspace(-2, 2, 40).astype("float32")
    s = np.linspace(0, 3, 40).astype("float32")
    seed()
    same(mt.normal(mt.tensor(m), mt.tensor(s)), torch.normal(torch.tensor(m), torch.tensor(s)))
    same(mt.normal(mt.tensor(m), 2.5), torch.normal(torch.tensor(m), 2.5))
    same(mt.normal(mt.tensor(m)), torch.normal(torch.tensor(m)))
    same(mt.normal(1.5, mt.tensor(s)), torch.normal(1.5, torch.tensor(s)))
    same(mt.normal(1.5, 2.5, (4, 9)), torch.normal(1.5, 2.5, (4, 9)))
    same(mt.normal(1.5, 2.5, size=(3,)), torch.normal(1.5, 2.5, size=(3,)))
    same(
        mt.normal(mt.tensor(m.reshape(8, 5)), mt.tensor(s[:5])),
        torch.normal(torch.tensor(m.reshape(8, 5)), torch.tensor(s[:5])),
    )
    same_place()


def test_multinomial():
    w = np.random.default_rng(1).random((6, 9)).astype("float32")
    w[2, 4] = 0
    for d in ("float32", "float64", "float16", "bfloat16"):
        seed(3)
        a, b = mt.tensor(w).to(pair(d)[0]), torch.tensor(w).to(pair(d)[1])
        for k, replace in ((1, False), (1, True), (5, False), (8, False), (30, True)):
            same(mt.multinomial(a, k, replace), torch.multinomial(b, k, replace))
        same(mt.multinomial(a[0], 4), torch.multinomial(b[0], 4))
        same(mt.multinomial(a[0], 4, replacement=True), torch.multinomial(b[0], 4, replacement=True))
        same_place()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rejection_samplers(dtype, body):
    d, t = pair(dtype)
    seed(2)
    rates = np.repeat([0.0, 0.3, 3.0, 9.9, 10.0, 50.0, 1e4], 40)
    same(mt.poisson(mt.tensor(rates, dtype=d)), torch.poisson(torch.tensor(rates, dtype=t)))
    shapes = np.repeat([0.05, 0.3, 0.5, 1.0, 2.5, 100.0], 40)
    same(mt._standard_gamma(mt.tensor(shapes, dtype=d)), torch._standard_gamma(torch.tensor(shapes, dtype=t)))
    n = np.repeat([5, 5, 100, 100, 1000, 0, 10, 10], 30).astype(float)
    p = np.repeat([0.3, 0.8, 0.02, 0.3, 0.9, 0.3, 0.0, 1.0], 30)
    same(
        mt.binomial(mt.tensor(n, dtype=d), mt.tensor(p, dtype=d)),
        torch.binomial(torch.tensor(n, dtype=t), torch.tensor(p, dtype=t)),
    )
    a = shapes.reshape(40, 6)
    # the sum over a row may be added up in another order
    same(mt._sample_dirichlet(mt.tensor(a, dtype=d)), torch._sample_dirichlet(torch.tensor(a, dtype=t)), ulp=2)
    same_place()


def test_gamma_and_dirichlet_gradients():
    a = np.array([[0.3, 0.8, 2.5, 20.0], [1.0, 1.0, 5.0, 300.0]])
    for fn in ("_standard_gamma", "_sample_dirichlet"):
        seed(1)
        x, y = mt.tensor(a, requires_grad=True), torch.tensor(a, requires_grad=True)
        if fn == "_sample_dirichlet":
            r, q = mt._sample_dirichlet(x), torch.distributions.Dirichlet(y).rsample()
        else:
            r, q = mt._standard_gamma(x), torch._standard_gamma(y)
        (r * r).sum().backward()
        (q * q).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=2e-3, atol=1e-7)


# ------------------------------------------------------------------------------------------ dropout
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 0.99, 1.0])
def test_dropout(p, dtype, body):
    d, t = pair(dtype)
    x = np.random.default_rng(0).standard_normal((9, 11)).astype("float32")
    a, b = mt.tensor(x).to(d), torch.tensor(x).to(t)
    seed(7)
    same(F.dropout(a, p), torch.nn.functional.dropout(b, p))
    same(F.dropout(a.t(), p), torch.nn.functional.dropout(b.t(), p))
    same(F.dropout(a, p, training=False), torch.nn.functional.dropout(b, p, training=False))
    same(mt.dropout(a, p, True), torch.dropout(b, p, True))
    c, e = a.clone(), b.clone()
    assert F.dropout(c, p, inplace=True) is c
    torch.nn.functional.dropout(e, p, inplace=True)
    same(c, e)
    for r, q in zip(mt.native_dropout(a, p, True), torch.native_dropout(b, p, True)):
        same(r, q)
    same_place()


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"])
def test_dropout_family(name):
    ranks = {"dropout1d": (2, 3), "dropout2d": (3, 4), "dropout3d": (4, 5)}.get(name, (2, 4))
    for rank in ranks:
        x = np.random.default_rng(0).standard_normal((4, 5, 3, 2, 2)[:rank]).astype("float32")
        for p in (0.0, 0.4, 1.0):
            seed(1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                a, b = mt.tensor(x), torch.tensor(x)
                same(getattr(F, name)(a, p, True), getattr(torch.nn.functional, name)(b, p, True))
                same(
                    getattr(F, name)(a.clone(), p, True, True),
                    getattr(torch.nn.functional, name)(b.clone(), p, True, True),
                )
            same_place()


def test_dropout_gradient_and_errors():
    x = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    seed(1)
    a, b = mt.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    F.dropout(a, 0.3).sum().backward()
    torch.nn.functional.dropout(b, 0.3).sum().backward()
    same(a.grad, b.grad)
    for bad in (-0.1, 1.5):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            F.dropout(a, bad)
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input"):
        F.dropout1d(mt.ones(4))
    with pytest.warns(UserWarning, match="dropout2d: Received a 3D input"):
        F.dropout2d(mt.ones(2, 3, 4))


def test_rrelu():
    x = np.random.default_rng(0).standard_normal((40,)).astype("float32")
    seed(1)
    a, b = mt.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    r, q = F.rrelu(a, 0.1, 0.3, True), torch.nn.functional.rrelu(b, 0.1, 0.3, True)
    same(r, q)
    r.sum().backward()
    q.sum().backward()
    same(a.grad, b.grad)
    same(mt.rrelu(mt.tensor(x), 0.1, 0.3, True), torch.rrelu(torch.tensor(x), 0.1, 0.3, True))
    same(F.rrelu(mt.tensor(x)), torch.nn.functional.rrelu(torch.tensor(x)), ulp=1)
    same_place()


# ------------------------------------------------------------------------------------------ autograd and errors
def test_in_place_fill_cuts_history():
    a = mt.ones(3, requires_grad=True)
    b = a * 2
    b.normal_()
    assert b.requires_grad and b.grad_fn.name() == "NormalBackward0"
    b.sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.zeros(3))
    with pytest.raises(RuntimeError, match="leaf Variable"):
        a.normal_()


def test_sampling_has_zero_gradient():
    a = mt.ones(3, requires_grad=True)
    for y in (mt.bernoulli(a * 0.5), mt.normal(a, 1.0), mt.poisson(a)):
        a.grad = None
        y.sum().backward()
        np.testing.assert_array_equal(a.grad.numpy(), np.zeros(3))


ERRORS = [
    ("m.empty(2).normal_(0, -1)", RuntimeError, "normal expects std >= 0.0"),
    ("m.empty(2).uniform_(1, 0)", RuntimeError, "from=1 > to=0"),
    ("m.empty(2).exponential_(-1)", RuntimeError, "exponential_ expects lambda > 0.0"),
    ("m.empty(2).geometric_(1.0)", RuntimeError, "geometric_ expects p to be in"),
    ("m.empty(2).bernoulli_(2.0)", RuntimeError, "got p=2"),
    ("m.empty(2, dtype=m.int32).normal_()", NotImplementedError, "not implemented for 'Int'"),
    ("m.randint(5, 5, (2,))", RuntimeError, "from=5 >= to=5"),
    ("m.randint(0, 300, (2,), dtype=m.uint8)", RuntimeError, "out of bounds for unsigned char"),
    ("m.randperm(-1)", RuntimeError, "negative dimension"),
    ("m.rand(2, dtype=m.int64)", NotImplementedError, "not implemented for 'Long'"),
    ("m.multinomial(m.ones(3), 4)", RuntimeError, "cannot sample n_sample > prob_dist.size"),
    ("m.multinomial(m.ones(3), 0)", RuntimeError, "n_sample <= 0"),
    ("m.multinomial(m.zeros(3), 1)", RuntimeError, "sum of probabilities <= 0"),
    ("m.poisson(-m.ones(3))", RuntimeError, "invalid Poisson rate"),
    ("m.bernoulli(m.ones(3) * 2)", RuntimeError, "p_in >= 0 && p_in <= 1"),
    ("m.normal(m.zeros(2), -m.ones(2))", RuntimeError, "normal expects all elements of std >= 0.0"),
]


@pytest.mark.parametrize("code, kind, text", ERRORS)
def test_errors_are_pytorchs(code, kind, text):
    for m in (torch, mt):
        with pytest.raises(kind) as info:
            eval(code, {"m": m})  # noqa: S307
        assert text in str(info.value)
