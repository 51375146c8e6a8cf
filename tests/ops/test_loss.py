"""Loss functions against PyTorch: values, reductions, first and second derivatives, legacy arguments, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from twin import array, fails, same

import mindtorch.torch as mt

RED = ["none", "mean", "sum"]
warnings.filterwarnings("ignore", message=".*(target size|divides the total).*")


def f64(*shape: int, seed: int = 0) -> np.ndarray:
    return array(*shape, seed=seed, dtype="float64")


def prob(*shape: int, seed: int = 0) -> np.ndarray:
    return 1 / (1 + np.exp(-f64(*shape, seed=seed)))


INDEX = {(5, 4): np.array([0, 3, 1, 1, 2]), (4,): np.array(2), (2, 4, 3): np.array([[0, 3, 1], [2, 2, 0]])}
INDEX[(2, 3, 2, 2)] = np.array([[[0, 1], [2, 1]], [[2, 2], [0, 1]]])


@pytest.mark.parametrize("shape", INDEX)
@pytest.mark.parametrize("reduction", RED)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ignore_index": 2},
        {"weight": True},
        {"label_smoothing": 0.2},
        {"label_smoothing": 0.1, "weight": True, "ignore_index": 1},
    ],
)
def test_cross_entropy_of_indices(shape: tuple[int, ...], reduction: str, options: dict[str, object]) -> None:
    classes = shape[1] if len(shape) > 1 else shape[0]
    weight = (prob(classes, seed=3),) if options.get("weight") else ()
    rest = {k: v for k, v in options.items() if k != "weight"}
    t = INDEX[shape]

    def run(lib, x, *w):  # type: ignore[no-untyped-def]
        kw = {"weight": w[0].detach()} if w else {}
        return lib.nn.functional.cross_entropy(x, lib.tensor(t), reduction=reduction, **kw, **rest)

    for dtype in ("float64", "float32"):
        args = [a.astype(dtype) for a in (f64(*shape), *weight)]

        def call(lib, x, args=args):  # type: ignore[no-untyped-def]
            return run(lib, x, *[lib.tensor(w) for w in args[1:]])

        same(call, args[0], double=dtype == "float64")


@pytest.mark.parametrize("reduction", RED)
def test_cross_entropy_of_probabilities(reduction: str) -> None:
    for shape in ((5, 4), (4,), (2, 4, 3)):
        for extra in ({}, {"label_smoothing": 0.3}):
            same(
                lambda lib, x, t, extra=extra: lib.nn.functional.cross_entropy(x, t, reduction=reduction, **extra),
                f64(*shape),
                prob(*shape, seed=1),
                double=True,
            )
    w = prob(4, seed=2)
    same(
        lambda lib, x, t: lib.nn.functional.cross_entropy(x, t, lib.tensor(w), reduction=reduction),
        f64(5, 4),
        prob(5, 4, seed=1),
    )


def test_cross_entropy_larger_extreme_and_half() -> None:
    t = np.random.RandomState(0).randint(0, 100, 300)
    same(lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor(t)), array(300, 100))
    same(lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor(t)), array(300, 100) * 100)
    same(lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor(t)), array(300, 100).astype("float16"))
    same(lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor([-100] * 3)), array(3, 4))
    same(lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor([-100, 1, -100])), array(3, 4))


@pytest.mark.parametrize("reduction", RED)
@pytest.mark.parametrize("shape", INDEX)
def test_nll(reduction: str, shape: tuple[int, ...]) -> None:
    t = INDEX[shape]
    classes = shape[1] if len(shape) > 1 else shape[0]
    w = prob(classes, seed=3)
    same(lambda lib, x: lib.nn.functional.nll_loss(x, lib.tensor(t), reduction=reduction), f64(*shape), double=True)
    same(
        lambda lib, x: lib.nn.functional.nll_loss(x, lib.tensor(t), lib.tensor(w), ignore_index=1, reduction=reduction),
        f64(*shape),
        double=True,
    )


ELEMENTWISE = {
    "mse_loss": {},
    "l1_loss": {},
    "smooth_l1_loss": {"beta": 0.7},
    "huber_loss": {"delta": 0.7},
    "binary_cross_entropy_with_logits": {},
    "kl_div": {"log_target": True},
    "poisson_nll_loss": {},
    "soft_margin_loss": {},
    "multilabel_soft_margin_loss": {},
}


@pytest.mark.parametrize("reduction", RED)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_two_tensors(name: str, reduction: str) -> None:
    def run(lib, x, y):  # type: ignore[no-untyped-def]
        return getattr(lib.nn.functional, name)(x, y, reduction=reduction, **ELEMENTWISE[name])

    if name == "soft_margin_loss":  # PyTorch has no derivative by its target
        target = f64(5, 4, seed=1)
        same(lambda lib, x: run(lib, x, lib.tensor(target)), f64(5, 4), double=True)
        return
    same(run, f64(5, 4), f64(5, 4, seed=1), double=name != "l1_loss")
    same(run, array(5, 4), array(5, 4, seed=1))


@pytest.mark.parametrize("reduction", RED)
def test_binary_and_likelihoods(reduction: str) -> None:
    F = lambda lib: lib.nn.functional
    same(
        lambda lib, x, t: F(lib).binary_cross_entropy(x, t, reduction=reduction),
        prob(5, 4),
        prob(5, 4, seed=1),
        double=True,
    )
    w, p = prob(4, seed=2), prob(4, seed=3)
    same(
        lambda lib, x, t: F(lib).binary_cross_entropy(x, t, lib.tensor(w), reduction=reduction),
        prob(5, 4),
        prob(5, 4, seed=1),
    )
    same(
        lambda lib, x, t: F(lib).binary_cross_entropy_with_logits(
            x, t, lib.tensor(w), pos_weight=lib.tensor(p), reduction=reduction
        ),
        f64(5, 4),
        prob(5, 4, seed=1),
    )
    same(lambda lib, x, t: F(lib).kl_div(x, t, reduction=reduction), f64(5, 4), prob(5, 4, seed=1), double=True)
    same(
        lambda lib, x: F(lib).poisson_nll_loss(
            x, lib.tensor(prob(5, 4) * 6), log_input=False, full=True, reduction=reduction
        ),
        prob(5, 4),
    )
    for var in ((5, 4), (5, 1), (5,)):
        same(
            lambda lib, x, t, v: F(lib).gaussian_nll_loss(x, t, v, full=True, reduction=reduction),
            f64(5, 4),
            f64(5, 4, seed=1),
            prob(*var, seed=2),
            double=True,
        )


def test_saturated_probabilities_and_extreme_logits() -> None:
    x, t = np.array([0.0, 1.0, 0.0, 1.0, 0.5], np.float32), np.array([0.0, 0.0, 1.0, 1.0, 1.0], np.float32)
    same(lambda lib, a: lib.nn.functional.binary_cross_entropy(a, lib.tensor(t), reduction="none"), x)
    big = np.array([1e4, -1e4, 100, -100, 0], np.float32)
    same(lambda lib, a: lib.nn.functional.binary_cross_entropy_with_logits(a, lib.tensor(t), reduction="none"), big)


@pytest.mark.parametrize("reduction", RED)
def test_margins(reduction: str) -> None:
    F = lambda lib: lib.nn.functional
    sign = np.array([1.0, -1, 1, -1, -1])
    y = np.array([0, 3, 1, 1, 2])
    same(lambda lib, x: F(lib).hinge_embedding_loss(x, lib.tensor(sign), 0.8, reduction=reduction), f64(5))
    same(
        lambda lib, a, b: F(lib).margin_ranking_loss(a, b, lib.tensor(sign), 0.3, reduction=reduction),
        f64(5),
        f64(5, seed=1),
    )
    for p in (1, 2):
        same(lambda lib, x, p=p: F(lib).multi_margin_loss(x, lib.tensor(y), p, 0.9, reduction=reduction), f64(5, 4))
    same(
        lambda lib, x: F(lib).multi_margin_loss(x, lib.tensor(y), weight=lib.tensor(prob(4)), reduction=reduction),
        f64(5, 4),
    )
    labels = np.array([[0, 2, -1, 1], [3, -1, 0, 0], [-1, 0, 1, 2], [0, 1, 2, 3], [1, 3, 0, -1]])
    same(lambda lib, x: F(lib).multilabel_margin_loss(x, lib.tensor(labels), reduction=reduction), f64(5, 4))
    same(
        lambda lib, a, b: F(lib).cosine_embedding_loss(a, b, lib.tensor(sign), 0.1, reduction=reduction),
        f64(5, 4),
        f64(5, 4, seed=1),
        double=True,
    )
    for swap in (False, True):
        same(
            lambda lib, a, b, c, swap=swap: F(lib).triplet_margin_loss(a, b, c, swap=swap, reduction=reduction),
            f64(5, 4),
            f64(5, 4, seed=1),
            f64(5, 4, seed=2),
            double=True,
        )
    same(
        lambda lib, a, b, c: F(lib).triplet_margin_with_distance_loss(
            a, b, c, distance_function=lambda u, v: (u - v).abs().sum(-1), swap=True, reduction=reduction
        ),
        f64(5, 4),
        f64(5, 4, seed=1),
        f64(5, 4, seed=2),
    )


def test_distances_and_torch_forms() -> None:
    same(lambda lib, a, b: lib.nn.functional.cosine_similarity(a, b), f64(5, 4), f64(5, 4, seed=1), double=True)
    same(lambda lib, a, b: lib.cosine_similarity(a, b, dim=-1), f64(5, 1, 4), f64(3, 4, seed=1))
    same(
        lambda lib, a, b: lib.nn.functional.pairwise_distance(a, b, 3.0, keepdim=True),
        f64(5, 4),
        f64(5, 4, seed=1),
        double=True,
    )
    same(lambda lib, a, b: lib.pairwise_distance(a, b), f64(5, 4), f64(4, seed=1))
    same(lambda lib, x, t: lib.binary_cross_entropy_with_logits(x, t, None, None, 2), f64(5, 4), prob(5, 4))
    same(lambda lib, x, t: lib.kl_div(x, t, 0), f64(5, 4), prob(5, 4))
    same(lambda lib, x, t: lib.nn.functional.kl_div(x, t, reduction="batchmean"), f64(5, 4), prob(5, 4))


@pytest.mark.parametrize("reduction", RED)
@pytest.mark.parametrize("zero", [False, True])
def test_ctc(reduction: str, zero: bool) -> None:
    targets = np.array([[1, 2, 2, 3], [3, 1, 0, 0], [2, 0, 0, 0]])
    flat = np.array([1, 2, 2, 3, 3, 1, 2])

    def run(lib, x, t=targets):  # type: ignore[no-untyped-def]
        lp = lib.nn.functional.log_softmax(x, dim=2)
        return lib.nn.functional.ctc_loss(
            lp, lib.tensor(t), (9, 7, 8), (4, 2, 1), reduction=reduction, zero_infinity=zero
        )

    same(run, f64(9, 3, 5))
    same(run, array(9, 3, 5))
    same(lambda lib, x: run(lib, x, flat), f64(9, 3, 5))


def test_ctc_impossible_alignment_and_single_sample() -> None:
    for zero in (True, False):
        same(
            lambda lib, x, zero=zero: lib.nn.functional.ctc_loss(
                lib.nn.functional.log_softmax(x, dim=2),
                lib.tensor([[1, 1, 1, 1], [1, 2, 3, 1]]),
                lib.tensor([5, 5]),
                lib.tensor([4, 3]),
                zero_infinity=zero,
            ),
            f64(5, 2, 4),
            grad=zero,
        )
    same(
        lambda lib, x: lib.nn.functional.ctc_loss(
            lib.nn.functional.log_softmax(x, dim=1), lib.tensor([1, 2]), lib.tensor(6), lib.tensor(2)
        ),
        f64(6, 4),
    )
    same(
        lambda lib, x: lib.ctc_loss(lib.nn.functional.log_softmax(x, dim=2), lib.tensor([[1, 2]]), [6], [2], 0, 2),
        f64(6, 1, 4),
    )


def test_legacy_arguments() -> None:
    x, t = mt.tensor(array(5, 4)), mt.tensor(array(5, 4, seed=1))
    with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated"):
        assert mt.nn.functional.mse_loss(x, t, size_average=False).shape == ()
    with pytest.warns(UserWarning):
        assert mt.nn.functional.l1_loss(x, t, reduce=False).shape == (5, 4)


def test_errors() -> None:
    call = lambda name, *rest, **kw: lambda lib, *a: getattr(lib.nn.functional, name)(*a, *[r(lib) for r in rest], **kw)
    x = array(4, 5)
    ints = lambda *v: lambda lib: lib.tensor(list(v))
    fails(call("cross_entropy", ints(1, 2, 3, 7)), x, start=0)
    fails(call("cross_entropy", ints(1, 2, 3)), x, start=0)
    fails(call("cross_entropy", ints(1, 2, 3, 4), lambda lib: lib.tensor(array(3))), x)
    fails(call("cross_entropy", ints(1, 2, 3, 4), reduction="x"), x)
    fails(call("cross_entropy", ints(1.0, 2.0, 3.0, 4.0)), x, start=30)
    fails(call("cross_entropy", ints(1, 2, 3, 4), label_smoothing=2.0), x)
    fails(call("nll_loss", ints(1, 2, 3)), x)
    fails(call("binary_cross_entropy"), x, x)
    fails(call("binary_cross_entropy"), np.abs(x) / 9, array(4))
    fails(call("binary_cross_entropy_with_logits"), x, array(4))
    fails(call("mse_loss", reduction="q"), x, x)
    fails(call("huber_loss", delta=-1.0), x, x)
    fails(call("smooth_l1_loss", beta=-1.0), x, x)
    fails(call("gaussian_nll_loss"), x, x, -np.abs(x))
    fails(call("margin_ranking_loss"), x, x, array(4))
    fails(call("multi_margin_loss", ints(1, 2, 3)), x)
    fails(call("multi_margin_loss", ints(1, 2, 3, 4), p=3), x)
    fails(call("multilabel_margin_loss", ints(1, 2, 3)), x)
    fails(call("cosine_embedding_loss"), x, x, x)
    fails(call("triplet_margin_loss"), x, x, array(5))


@pytest.mark.parametrize(
    "name",
    ["softmax", "layer_norm", "mse_loss", "cross_entropy", "kl_div", "gaussian_nll_loss", "soft_margin_loss", "linear"],
)
def test_autocast_dtypes(name: str) -> None:
    extra = {"softmax": (1,), "layer_norm": ((4,),), "cross_entropy": ("t",), "gaussian_nll_loss": ("x", "p")}

    def run(lib, x):  # type: ignore[no-untyped-def]
        values = {"x": x.to(lib.bfloat16), "p": x.to(lib.bfloat16).sigmoid(), "t": lib.tensor([0, 1, 2, 3, 0])}
        args = [values.get(v, v) if isinstance(v, str) else v for v in extra.get(name, ("x",))]
        with lib.autocast("cpu", dtype=lib.bfloat16):
            return getattr(lib.nn.functional, name)(x if name == "linear" else values["x"], *args)

    same(run, array(5, 4), grad=False)
