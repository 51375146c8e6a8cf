"""Learning-rate schedules against PyTorch: rates, momenta, state dicts, resuming, warnings, errors."""

import copy
import math
import warnings

import pytest

import mindtorch.torch as mt
import torch

SCHEDULES = [
    ("LambdaLR", {"lr_lambda": lambda e: 0.95**e}),
    ("MultiplicativeLR", {"lr_lambda": lambda e: 1 / (1 + e)}),
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 9]}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.25, "end_factor": 0.75, "total_iters": 6}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"total_iters": 7, "power": 1.5}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.001}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 5}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": [0.1, 0.2], "step_size_up": 3, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2, "mode": "exp_range", "gamma": 0.9}),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2, "scale_fn": lambda x: 1 / x, "scale_mode": "cycle"},
    ),
    ("OneCycleLR", {"max_lr": [1.0, 0.5], "total_steps": 20}),
    (
        "OneCycleLR",
        {"max_lr": 1.0, "epochs": 5, "steps_per_epoch": 4, "three_phase": True, "anneal_strategy": "linear"},
    ),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 20, "cycle_momentum": False}),
]
IDS = [f"{n}-{i}" for i, (n, _) in enumerate(SCHEDULES)]


def make_optimizer(lib, kind="SGD"):
    params = [lib.nn.Parameter(lib.ones(1)), lib.nn.Parameter(lib.ones(2))]
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.4}]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(lib.optim, kind)(groups, lr=0.2, **options)


def options_of(optimizer):
    return [(g["lr"], g.get("momentum"), g.get("betas")) for g in optimizer.param_groups]


def run(lib, build, steps=19, kind="SGD"):
    o = make_optimizer(lib, kind)
    s = build(lib.optim.lr_scheduler, o)
    out = [options_of(o)]
    for _ in range(steps):
        o.step()
        s.step()
        out.append(options_of(o))
        assert s.get_last_lr() == [g["lr"] for g in o.param_groups]
    return out, s


def plain(state):
    """A state dict without what cannot be compared (functions)."""
    if isinstance(state, dict):
        return {k: plain(v) for k, v in state.items()}
    if isinstance(state, (list, tuple)):
        return [plain(v) for v in state]
    return state


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name,options", SCHEDULES, ids=IDS)
def test_rates(name, options, kind):
    ours, a = run(mt, lambda L, o: getattr(L, name)(o, **options), kind=kind)
    theirs, b = run(torch, lambda L, o: getattr(L, name)(o, **options), kind=kind)
    assert ours == theirs
    mine, other = plain(a.state_dict()), plain(b.state_dict())
    assert mine.keys() == other.keys()
    for key in other:
        assert mine[key] == other[key] or key == "_scale_fn_custom", key


@pytest.mark.parametrize("name,options", SCHEDULES, ids=IDS)
def test_resume_through_state_dict(name, options):
    whole, _ = run(mt, lambda L, o: getattr(L, name)(o, **options))
    o = make_optimizer(mt)
    s = getattr(mt.optim.lr_scheduler, name)(o, **options)
    for _ in range(8):
        o.step()
        s.step()
    o2 = make_optimizer(mt)
    s2 = getattr(mt.optim.lr_scheduler, name)(o2, **options)
    o2.load_state_dict(copy.deepcopy(o.state_dict()))
    s2.load_state_dict(copy.deepcopy(s.state_dict()))
    rest = []
    for _ in range(11):
        o2.step()
        s2.step()
        rest.append(options_of(o2))
    assert rest == whole[9:]


@pytest.mark.parametrize("name,options", SCHEDULES, ids=IDS)
def test_resume_through_last_epoch(name, options):
    """An optimiser whose state was loaded, and a new schedule told the last epoch."""

    def resumed(lib):
        o = make_optimizer(lib)
        s = getattr(lib.optim.lr_scheduler, name)(o, **options)
        for _ in range(4):
            o.step()
            s.step()
        s2 = getattr(lib.optim.lr_scheduler, name)(o, **options, last_epoch=4)
        out = [options_of(o)]
        for _ in range(5):
            o.step()
            s2.step()
            out.append(options_of(o))
        return out, s2.last_epoch

    assert resumed(mt) == resumed(torch)


@pytest.mark.parametrize("name,options", [s for s in SCHEDULES if s[0] not in ("CyclicLR", "OneCycleLR")])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_jump_to_epoch(name, options):
    def jumps(lib):
        o = make_optimizer(lib)
        s = getattr(lib.optim.lr_scheduler, name)(o, **options)
        out = []
        for e in (1, 4, 2, 11):
            o.step()
            s.step(e)
            out.append(options_of(o))
        return out, s.last_epoch

    assert jumps(mt) == jumps(torch)


def test_warm_restart_fractions():
    def go(lib):
        o = make_optimizer(lib)
        s = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2)
        out = []
        for i in range(20):
            o.step()
            s.step(i / 3)
            out.append(options_of(o))
        return out, s.T_cur, s.T_i, s.last_epoch

    assert go(mt) == go(torch)


COMPOSED = [
    lambda L, o: L.SequentialLR(o, [L.ConstantLR(o, 0.5, 2), L.ExponentialLR(o, 0.5)], [2]),
    lambda L, o: L.SequentialLR(
        o, [L.LinearLR(o, 0.1, total_iters=4), L.CosineAnnealingLR(o, 8), L.StepLR(o, 2)], [4, 10]
    ),
    lambda L, o: L.ChainedScheduler([L.ConstantLR(o, 0.5, 3), L.ExponentialLR(o, 0.9)]),
    lambda L, o: L.ChainedScheduler([L.LinearLR(o), L.StepLR(o, 4)], optimizer=o),
    lambda L, o: L.SequentialLR(
        o, [L.ChainedScheduler([L.ConstantLR(o, 0.5, 3), L.ExponentialLR(o, 0.9)]), L.ExponentialLR(o, 0.5)], [5]
    ),
]


@pytest.mark.parametrize("build", COMPOSED)
def test_composed(build):
    ours, a = run(mt, build)
    theirs, b = run(torch, build)
    assert ours == theirs
    assert plain(a.state_dict()) == plain(b.state_dict())
    o = make_optimizer(mt)
    again = build(mt.optim.lr_scheduler, o)
    again.load_state_dict(a.state_dict())
    assert plain(again.state_dict()) == plain(a.state_dict())


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"mode": "max", "patience": 0, "factor": 0.5},
        {"patience": 1, "threshold": 0.1, "threshold_mode": "abs", "cooldown": 2},
        {"patience": 0, "min_lr": [0.05, 0.1]},
        {"patience": 0, "eps": 0.05},
    ],
)
def test_plateau(options):
    metrics = [1.0, 0.9, 0.95, 0.99, 0.8999, 1.2, 1.2, 1.2, float("nan"), 0.1, 0.2, 0.3, 0.4, 0.5]

    def go(lib):
        o = make_optimizer(lib)
        s = lib.optim.lr_scheduler.ReduceLROnPlateau(o, **options)
        out = []
        for m in metrics:
            s.step(lib.tensor(m))
            out.append((options_of(o), s.num_bad_epochs, s.cooldown_counter, s.get_last_lr()))
        return out, s.state_dict()

    assert go(mt)[0] == go(torch)[0]
    mine, other = go(mt)[1], go(torch)[1]
    assert mine == other


def test_swalr():
    for options in (
        {"swa_lr": 0.05, "anneal_epochs": 5},
        {"swa_lr": [0.5, 0.1], "anneal_strategy": "linear"},
        {"swa_lr": 0.5, "anneal_epochs": 0},
    ):

        def build(lib, options=options):
            o = make_optimizer(lib)
            s = lib.optim.swa_utils.SWALR(o, **options)
            out = []
            for _ in range(12):
                o.step()
                s.step()
                out.append([g["lr"] for g in o.param_groups])
            return out

        for mine, other in zip(build(mt), build(torch)):
            assert mine == pytest.approx(other, rel=1e-12)


def test_user_subclass():
    from mindtorch.torch.optim.lr_scheduler import _LRScheduler

    class Warm(_LRScheduler):
        def __init__(self, opt, n):
            self.n = n
            super().__init__(opt)

        def get_lr(self):
            return [b * min(1.0, (self.last_epoch + 1) / self.n) for b in self.base_lrs]

    o = make_optimizer(mt)
    s = Warm(o, 4)
    seen = []
    for _ in range(4):
        seen.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
    assert seen == pytest.approx([0.05, 0.1, 0.15, 0.2])
    assert isinstance(s, mt.optim.lr_scheduler.LRScheduler) and "n" in s.state_dict()


def test_tensor_lr_is_changed_in_place():
    lr = mt.tensor(0.1)
    o = mt.optim.SGD([mt.nn.Parameter(mt.ones(1))], lr=lr)
    s = mt.optim.lr_scheduler.StepLR(o, 1)
    o.step()
    s.step()
    assert o.param_groups[0]["lr"] is lr and math.isclose(lr.item(), 0.01, rel_tol=1e-6)
    assert math.isclose(o.param_groups[0]["initial_lr"].item(), 0.1, rel_tol=1e-6)


def test_order_warnings():
    o = make_optimizer(mt)
    s = mt.optim.lr_scheduler.StepLR(o, 2)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        s.step()
    o = make_optimizer(mt)
    s = mt.optim.lr_scheduler.StepLR(o, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o.step()
        s.step()
        s.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        s.get_lr()
    with pytest.warns(UserWarning, match="epoch parameter"):
        s.step(3)
    o = make_optimizer(mt)
    s = mt.optim.lr_scheduler.StepLR(o, 2)
    o.step = lambda: None
    with pytest.warns(UserWarning, match="overridden"):
        s.step()


def test_deepcopy_with_scheduler():
    o = make_optimizer(mt)
    s = mt.optim.lr_scheduler.StepLR(o, 1)
    o2, s2 = copy.deepcopy((o, s))
    assert s2.optimizer is o2
    o2.step()
    s2.step()
    assert o.param_groups[0]["lr"] == 0.2 and o2.param_groups[0]["lr"] == pytest.approx(0.02)


def one(t):
    return t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=0.1, momentum=0.9)


def no_momentum(t):
    return t.optim.Adagrad([t.nn.Parameter(t.ones(1))])


def steps_too_many(t):
    o = one(t)
    s = t.optim.lr_scheduler.OneCycleLR(o, 1.0, 2)
    o.step()
    for _ in range(3):
        s.step()


BAD = [
    (lambda t, L: L.StepLR(1, 2), TypeError),
    (lambda t, L: L.StepLR(one(t), 2, last_epoch=3), KeyError),
    (lambda t, L: L.LambdaLR(one(t), [abs, abs]), ValueError),
    (lambda t, L: L.ConstantLR(one(t), factor=2), ValueError),
    (lambda t, L: L.LinearLR(one(t), start_factor=0), ValueError),
    (lambda t, L: L.LinearLR(one(t), end_factor=2), ValueError),
    (lambda t, L: L.CosineAnnealingWarmRestarts(one(t), 0), ValueError),
    (lambda t, L: L.CosineAnnealingWarmRestarts(one(t), 1, T_mult=0.5), ValueError),
    (lambda t, L: L.CosineAnnealingWarmRestarts(one(t), 1).step(-1), ValueError),
    (lambda t, L: L.CyclicLR(one(t), 1, 1, mode="x"), ValueError),
    (lambda t, L: L.CyclicLR(one(t), [1, 2], 1), ValueError),
    (lambda t, L: L.CyclicLR(no_momentum(t), 1, 1), ValueError),
    (lambda t, L: L.OneCycleLR(one(t), 1.0), ValueError),
    (lambda t, L: L.OneCycleLR(one(t), 1.0, total_steps=-1), ValueError),
    (lambda t, L: L.OneCycleLR(one(t), 1.0, epochs=-1, steps_per_epoch=1), ValueError),
    (lambda t, L: L.OneCycleLR(one(t), 1.0, 3, pct_start=2), ValueError),
    (lambda t, L: L.OneCycleLR(one(t), 1.0, 3, anneal_strategy="x"), ValueError),
    (lambda t, L: L.OneCycleLR(no_momentum(t), 1.0, 3), ValueError),
    (lambda t, L: steps_too_many(t), ValueError),
    (lambda t, L: L.ReduceLROnPlateau(one(t), factor=1.0), ValueError),
    (lambda t, L: L.ReduceLROnPlateau(one(t), mode="x"), ValueError),
    (lambda t, L: L.ReduceLROnPlateau(one(t), threshold_mode="x"), ValueError),
    (lambda t, L: L.ReduceLROnPlateau(one(t), min_lr=[1, 2]), ValueError),
    (lambda t, L: L.ReduceLROnPlateau(1), TypeError),
    (lambda t, L: L.SequentialLR(one(t), [], []), ValueError),
    (lambda t, L: L.ChainedScheduler([]), ValueError),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("i", range(len(BAD)))
def test_errors(i):
    make, kind = BAD[i]
    texts = []
    for lib in (torch, mt):
        with pytest.raises(kind) as caught:
            make(lib, lib.optim.lr_scheduler)
        texts.append(str(caught.value))
    assert kind is KeyError or texts[0] == texts[1]


def test_composition_errors():
    L = mt.optim.lr_scheduler
    o, o2 = one(mt), one(mt)
    for bad in (
        lambda: L.SequentialLR(o, [L.StepLR(o2, 1)], []),
        lambda: L.SequentialLR(o, [L.StepLR(o, 1)], [1]),
        lambda: L.SequentialLR(o, [L.StepLR(o, 1), L.ReduceLROnPlateau(o)], [1]),
        lambda: L.ChainedScheduler([L.StepLR(o2, 1), L.StepLR(o, 1)]),
        lambda: L.ChainedScheduler([L.ReduceLROnPlateau(o)]),
    ):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(TypeError):
        L.SequentialLR(o, [L.StepLR(o, 1), 1], [1])
