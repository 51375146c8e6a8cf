"""Module: registration rules, naming, hooks, state dicts, conversion, text: the same code in PyTorch gives the same."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
from _same import attempt, same

import mindtorch.torch as mt
import torch


class Box:
    """What a scenario collects."""

    def __init__(self):
        self.out = []

    def __call__(self, *fns):
        for fn in fns:
            self.out.append(attempt(fn))


def small(t):
    """A model with nested modules, buffers and a shared parameter."""

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = t.nn.Linear(3, 4)
            self.b = t.nn.Sequential(t.nn.BatchNorm1d(4), t.nn.ReLU(), t.nn.Linear(4, 4))
            self.tied = self.b[2].weight
            self.register_buffer("keep", t.ones(2))
            self.register_buffer("drop", t.zeros(2), persistent=False)
            self.register_parameter("none", None)
            self.note = "x"

        def forward(self, x):
            return self.b(self.a(x)) @ self.tied

    return Net()


def test_naming():
    def run(t):
        m = small(t)
        return [
            [n for n, _ in m.named_parameters()],
            [n for n, _ in m.named_parameters(remove_duplicate=False)],
            [n for n, _ in m.named_parameters(prefix="p", recurse=False)],
            [n for n, _ in m.named_buffers()],
            [n for n, _ in m.named_modules(prefix="q")],
            [n for n, _ in m.named_children()],
            len(list(m.modules())),
            len(list(m.parameters())),
            list(m.state_dict()),
            {k: dict(v) for k, v in m.state_dict()._metadata.items()},
            list(m.state_dict(prefix="z.")),
            repr(m),
            "tied" in dir(m),
            m.get_submodule("b.2"),
            m.get_parameter("b.2.bias"),
            m.get_buffer("b.0.running_var"),
        ]

    same(run)


def test_errors_of_registration():
    def run(t):
        nn = t.nn
        box = Box()
        m = nn.Linear(2, 3)
        s = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        s.x = 5
        box(
            lambda: m.get_submodule("a.b"),
            lambda: s.get_submodule("x"),
            lambda: s.get_submodule("0.weight"),
            lambda: s.get_parameter("0.bi"),
            lambda: s.get_parameter("1.running_mean"),
            lambda: s.get_buffer("0.weight"),
            lambda: s.get_buffer("1.zz"),
            lambda: s.set_submodule("", m),
            lambda: s.set_submodule("0.q", m, strict=True),
            lambda: s.set_submodule("q.r", m),
            lambda: s.set_submodule("0", 3),
            lambda: s.set_submodule("q", m),
            lambda: s.set_submodule("x", m),
            lambda: m.register_parameter(3, None),
            lambda: m.register_parameter("a.b", None),
            lambda: m.register_parameter("", None),
            lambda: m.register_parameter("in_features", None),
            lambda: m.register_parameter("q", t.ones(1)),
            lambda: m.register_buffer(3, None),
            lambda: m.register_buffer("a.b", None),
            lambda: m.register_buffer("", None),
            lambda: m.register_buffer("in_features", None),
            lambda: m.register_buffer("b", 3),
            lambda: m.add_module(3, None),
            lambda: m.add_module("a.b", None),
            lambda: m.add_module("", None),
            lambda: m.add_module("in_features", None),
            lambda: m.add_module("b", 3),
            lambda: setattr(m, "weight", 3),
            lambda: setattr(m, "weight", t.ones(2)),
            lambda: setattr(s, "0", 3),
            lambda: setattr(s[1], "running_mean", 3),
            lambda: m.foo,
            lambda: delattr(m, "foo"),
            lambda: m.to(t.int32),
            lambda: m.train(3),
            lambda: nn.Module()(3),
            lambda: nn.Module(3),
            lambda: nn.Module(a=3),
            lambda: m(),
        )
        return box.out

    same(run)


def test_use_before_init():
    def run(t):
        nn = t.nn
        box = Box()
        for make in (
            lambda: nn.Parameter(t.ones(1)),
            lambda: nn.Linear(1, 1),
            lambda: nn.Buffer(t.ones(1)),
        ):

            class M(nn.Module):
                def __init__(self, make=make):
                    self.w = make()

            box(M)
        return box.out

    same(run)


def test_attribute_moves_between_tables():
    def run(t):
        nn = t.nn
        m = nn.Module()
        m.x = 3
        m.x = nn.Parameter(t.ones(2))
        a = list(m._parameters), "x" in m.__dict__
        m.x = None
        b = list(m._parameters), m.x
        del m.x
        m.x = nn.Linear(1, 1)
        c = list(m._modules), list(m._parameters)
        m.x = None
        d = m.x
        del m.x
        m.x = nn.Buffer(t.zeros(1), persistent=False)
        e = list(m._buffers), m._non_persistent_buffers_set
        m.x = t.ones(3)
        f = list(m._buffers), m.x, list(m.state_dict())
        m.y = t.ones(1)
        g = "y" in m.__dict__, isinstance(nn.Buffer(t.ones(1)), nn.Buffer), isinstance(t.ones(1), nn.Buffer)
        return [a, b, c, d, e, f, g]

    same(run)


def test_load_state_dict_messages():
    def run(t):
        nn = t.nn
        m = nn.Linear(2, 3)
        bn = nn.BatchNorm1d(2)
        box = Box()
        box(
            lambda: m.load_state_dict(3),
            lambda: m.load_state_dict({"a": t.ones(1), "weight": t.ones(2, 2)}),
            lambda: m.load_state_dict({"weight": 3}),
            lambda: m.load_state_dict({"weight": t.zeros(3, 2), "bias": t.ones(3)}),
            lambda: str(m.load_state_dict({"weight": t.zeros(3, 2), "q.r": t.ones(3)}, strict=False)),
            lambda: str(nn.Sequential(m).load_state_dict({"0.weight": t.zeros(3, 2), "1.x": 1}, strict=False)),
            lambda: str(bn.load_state_dict({k: v for k, v in bn.state_dict().items() if k != "num_batches_tracked"})),
        )
        sd = bn.state_dict()
        del sd["num_batches_tracked"]
        box(lambda: bn.load_state_dict(sd))
        return box.out

    same(run)


def test_load_state_dict_values_and_assign():
    def run(t):
        m, n = small(t), small(t)
        p = m.a.weight
        m.load_state_dict(n.state_dict())
        kept = m.a.weight is p
        copied = bool((m.a.weight == n.a.weight).all())
        m.load_state_dict({k: v.double() for k, v in n.state_dict().items()}, assign=True)
        return [kept, copied, m.a.weight is p, m.a.weight.dtype, type(m.a.weight).__name__, m.a.weight.requires_grad]

    same(run)


def test_extra_state():
    def run(t):
        class M(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.n = 0

            def get_extra_state(self):
                return {"n": self.n}

            def set_extra_state(self, state):
                self.n = state["n"]

        a = t.nn.Sequential(M())
        a[0].n = 7
        b = t.nn.Sequential(M())
        sd = a.state_dict()
        res = str(b.load_state_dict(sd))
        return [dict(sd), res, b[0].n, attempt(lambda: b.load_state_dict({})), attempt(lambda: t.nn.Module().load_state_dict({"_extra_state": 1}))]

    same(run)


def test_state_hooks():
    def run(t):
        log = []
        m = t.nn.Sequential(t.nn.Linear(1, 2))
        m.register_state_dict_pre_hook(lambda mod, prefix, keep: log.append(("pre", prefix, keep)))
        m.register_state_dict_post_hook(lambda mod, sd, prefix, meta: log.append(("post", list(sd), prefix)))
        m.register_load_state_dict_pre_hook(lambda mod, sd, *rest: log.append(("load", type(mod).__name__, list(sd))))
        m.register_load_state_dict_post_hook(lambda mod, keys: log.append(("loaded", list(keys.missing_keys))))
        m._register_state_dict_hook(lambda mod, sd, prefix, meta: {**sd, "more": 1})
        sd = m.state_dict()
        m.load_state_dict({"0.weight": t.ones(2, 1)}, strict=False)
        n = t.nn.Linear(1, 1)
        n.register_state_dict_post_hook(lambda mod, sd, p, meta: sd)
        o = t.nn.Linear(1, 1)
        o.register_load_state_dict_post_hook(lambda mod, keys: 3)
        return [log, list(sd), attempt(n.state_dict), attempt(lambda: o.load_state_dict(o.state_dict()))]

    same(run)


def test_forward_hooks():
    def run(t):
        log = []
        m = t.nn.Linear(2, 2)
        x = t.ones(1, 2)
        h1 = m.register_forward_pre_hook(lambda mod, args: (args[0] * 2,))
        h2 = m.register_forward_pre_hook(lambda mod, args, kw: (args, kw), with_kwargs=True)
        m.register_forward_pre_hook(lambda mod, args: log.append("first"), prepend=True)
        m.register_forward_hook(lambda mod, args, out: out + 1)
        m.register_forward_hook(lambda mod, args, kw, out: log.append(("kw", kw)), with_kwargs=True)
        a = m(x)
        h1.remove()
        h2.remove()
        b = m(input=x)
        return [a, b, log, list(m._forward_pre_hooks_with_kwargs)]

    same(run)


def test_forward_hook_errors_and_always_call():
    def run(t):
        log = []
        m = t.nn.Linear(2, 2)
        m.register_forward_pre_hook(lambda mod, a, k: 3, with_kwargs=True)
        first = attempt(lambda: m(t.ones(1, 2)))
        m = t.nn.Linear(2, 2)

        def bad(mod, a, o):
            raise ValueError("x")

        m.register_forward_hook(lambda mod, a, o: log.append(("always", o is None)), always_call=True)
        m.register_forward_hook(lambda mod, a, o: log.append("not"))
        m.register_forward_hook(bad, always_call=True)
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            attempt(lambda: m(t.ones(3, 3)))
            second = attempt(lambda: m(t.ones(3, 2)))
        return [first, second, log, [str(x.message) for x in w]]

    same(run)


def test_global_hooks():
    def run(t):
        from importlib import import_module

        mod = import_module(t.nn.Module.__module__)
        log = []
        handles = [
            mod.register_module_forward_pre_hook(lambda m, a: log.append(("pre", type(m).__name__))),
            mod.register_module_forward_hook(lambda m, a, o: log.append(("post", type(m).__name__))),
            mod.register_module_full_backward_hook(lambda m, gi, go: log.append(("back", type(m).__name__, len(gi)))),
            mod.register_module_parameter_registration_hook(lambda m, n, p: log.append(("param", n))),
            mod.register_module_buffer_registration_hook(lambda m, n, p: log.append(("buffer", n))),
            mod.register_module_module_registration_hook(lambda m, n, p: log.append(("module", n))),
        ]
        try:
            s = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
            s(t.ones(2, 2, requires_grad=True)).sum().backward()
        finally:
            for h in handles:
                h.remove()
        return log

    same(run)


def test_full_backward_hooks():
    def run(t):
        log = []

        class M(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.l = t.nn.Linear(2, 2)

            def forward(self, a, b=None):
                return self.l(a) * 2, self.l(b) + a if b is not None else 5

        m = M()
        m.register_full_backward_hook(lambda mod, gi, go: log.append(("full", gi, go)))
        m.register_full_backward_pre_hook(lambda mod, go: log.append(("pre", go)))
        a, b, c = t.ones(1, 2, requires_grad=True), t.ones(1, 2, requires_grad=True), t.ones(1, 2)
        m(a, b)[0].sum().backward()
        for args in ((a, c), (c, c), (a, b)):
            o = m(*args)
            (o[0] + o[1]).sum().backward()
        m(a)[0].sum().backward()
        return [log, a.grad, b.grad]

    same(run)


def test_full_backward_hooks_change_gradients():
    def run(t):
        out = []
        m = t.nn.Linear(2, 2)
        a = t.ones(1, 2, requires_grad=True)
        h = m.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2,))
        k = m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 3,))
        m(a).sum().backward()
        out += [a.grad.clone(), m.weight.grad.clone(), type(m(a).grad_fn).__name__]
        h.remove()
        k.remove()
        h = m.register_full_backward_hook(lambda mod, gi, go: (gi[0], gi[0]))
        out.append(attempt(lambda: m(a).sum().backward()))
        h.remove()
        h = m.register_full_backward_pre_hook(lambda mod, go: (go[0], go[0]))
        out.append(attempt(lambda: m(a).sum().backward()))
        h.remove()
        out.append(attempt(lambda: m.register_backward_hook(lambda *x: None)))
        n = t.nn.ReLU()
        n.register_backward_hook(lambda mod, gi, go: out.append((gi, go)))
        n(a * 2).sum().backward()
        out.append(attempt(lambda: n.register_full_backward_hook(lambda *x: None)))
        return out

    same(run)


def test_convert_keeps_identity():
    def run(t):
        m = small(t)
        p = m.a.weight
        m(t.ones(2, 3)).sum().backward()
        out = []
        for change in (
            m.double,
            m.half,
            m.bfloat16,
            m.float,
            lambda: m.to(t.float64),
            lambda: m.to("cpu", t.float32, True),
            lambda: m.to(t.ones(1).double()),
            lambda: m.to(device="cpu", dtype=t.float32),
            lambda: m.type(t.float64),
            lambda: m.to(memory_format=t.channels_last),
            m.cpu,
            m.share_memory,
        ):
            r = change()
            out.append([r is m, m.a.weight is p, p.dtype, p.grad.dtype, m.b[0].num_batches_tracked.dtype, m.keep.dtype])
        return out

    same(run)


def test_modes():
    def run(t):
        m = small(t)
        m.eval()
        out = [m.training, m.b[0].training]
        m.train()
        out += [m.b[0].training]
        m.requires_grad_(False)
        out += [[p.requires_grad for p in m.parameters()]]
        m.requires_grad_(True)
        m(t.ones(2, 3)).sum().backward()
        m.zero_grad(set_to_none=False)
        out += [[p.grad for p in m.parameters()]]
        m.zero_grad()
        out += [[p.grad for p in m.parameters()]]
        seen = []
        m.apply(lambda x: seen.append(type(x).__name__))
        return [*out, seen]

    same(run)


def test_copy_and_pickle():
    def run(t):
        m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
        calls = []
        c = copy.deepcopy(m)
        out = [c, c[0].weight, c[0].weight is m[0].weight, type(c[0].weight).__name__]
        p = pickle.loads(pickle.dumps(m))
        out += [p, p[0].weight, p[1].running_mean, p.training]
        m.register_forward_hook(lambda *a: calls.append(1))
        copy.deepcopy(m)(t.ones(2, 2))
        return [*out, len(calls)]

    same(run)


def test_meta_and_to_empty():
    def run(t):
        m = t.nn.Linear(2, 3, device="meta")
        box = Box()
        box(
            lambda: m.weight.is_meta,
            lambda: m.to("cpu"),
            lambda: str(t.nn.Linear(2, 3, device="meta").to_empty(device="cpu").weight.device),
            lambda: t.nn.utils.skip_init(t.nn.Linear, 2, 3).weight.shape,
        )
        return box.out

    same(run)


def test_containers():
    def run(t):
        nn = t.nn
        lin = nn.Linear
        s = nn.Sequential(lin(1, 2), lin(2, 3))
        ml = nn.ModuleList([lin(1, 1), lin(2, 2)])
        pl = nn.ParameterList([nn.Parameter(t.ones(2)), t.ones(3)])
        pd = nn.ParameterDict({"b": t.ones(1), "a": t.ones(2)})
        md = nn.ModuleDict({"a": lin(1, 1), "b": lin(2, 2)})
        box = Box()
        box(
            lambda: s[5],
            lambda: s["a"],
            lambda: s[0:1],
            lambda: s + 3,
            lambda: s * 0,
            lambda: s * "a",
            lambda: 2 * s,
            lambda: s + s,
            lambda: s.__imul__(2),
            lambda: s.pop(0),
            lambda: s.insert(9, lin(1, 1)),
            lambda: s.insert(0, lin(7, 7)),
            lambda: s.insert(0, 3),
            lambda: s.extend([lin(1, 1)]),
            lambda: s.append(3),
            lambda: s.__delitem__(slice(0, 2)),
            lambda: (s, list(s.state_dict())),
            lambda: nn.Sequential([lin(1, 1)]),
            lambda: ml[2],
            lambda: ml[-1],
            lambda: ml[0:1],
            lambda: ml + [lin(3, 3)],
            lambda: ml.pop(0),
            lambda: ml.insert(0, lin(5, 5)),
            lambda: ml.extend(3),
            lambda: ml.append(3),
            lambda: ml + 3,
            lambda: nn.ModuleList(3),
            lambda: ml(3),
            lambda: ml,
            lambda: nn.ModuleList([lin(2, 2), lin(2, 2), lin(3, 3)]),
            lambda: md["z"],
            lambda: md.pop("a"),
            lambda: md.update(3),
            lambda: md.update([("a", lin(1, 1), 3)]),
            lambda: md.update([3]),
            lambda: md.update([("c", lin(1, 1))]),
            lambda: list(md.keys()),
            lambda: "a" in md,
            lambda: pl[5],
            lambda: pl[0:1],
            lambda: pl.extend(3),
            lambda: pl.append(4),
            lambda: list(pl.state_dict()),
            lambda: pl(3),
            lambda: pl.__iadd__([1]),
            lambda: [type(x).__name__ for x in pl],
            lambda: pd["z"],
            lambda: list(pd),
            lambda: pd.pop("b"),
            lambda: pd.popitem(),
            lambda: pd.update(3),
            lambda: pd.setdefault("q", t.ones(1)),
            lambda: pd.get("zz", 3),
            lambda: pd.fromkeys("ab", t.ones(1)),
            lambda: pd | {"z": 3},
            lambda: {"z": 3} | pd,
            lambda: pd.copy(),
            lambda: list(reversed(pd)),
            lambda: pd({}),
            lambda: pd.update([(1, 2, 3)]),
            lambda: pd.update([3]),
            lambda: nn.ParameterDict(3),
        )
        return box.out

    same(run)


def test_fast_call_sees_hooks_of_restored_modules():
    m = mt.nn.Identity()
    assert m(3) == 3
    m.register_forward_hook(double)
    assert pickle.loads(pickle.dumps(m))(3) == 6
    assert copy.deepcopy(m)(3) == 6


def double(module, args, out):
    """A hook that can be pickled."""
    return out * 2


@pytest.mark.parametrize("name", ["self", "x", "module", "input"])
def test_keyword_arguments_of_any_name(name):
    class M(mt.nn.Module):
        def forward(this, **kwargs):
            return kwargs

    assert M()(**{name: 1}) == {name: 1}


def test_classes_of_the_tree_match():
    missing = [n for n in torch.nn.__all__ if not hasattr(mt.nn, n)] if hasattr(torch.nn, "__all__") else []
    missing += [n for n in torch.nn.modules.__all__ if not hasattr(mt.nn, n)]
    assert missing == []
    wanted = [n for n in dir(torch.nn.functional) if not n.startswith("_") and callable(getattr(torch.nn.functional, n))]
    public = [n for n in wanted if getattr(getattr(torch.nn.functional, n), "__module__", "") in ("torch.nn.functional", None, "torch._C._nn")]
    # products of low-precision GPU formats, and a helper of PyTorch's own text
    absent = {"ScalingType", "SwizzleType", "assert_int_or_pair", "grouped_mm", "scaled_grouped_mm", "scaled_mm"}
    assert [n for n in public if not hasattr(mt.nn.functional, n) and n not in absent] == []
    with pytest.raises(AttributeError, match="matmul"):
        _ = mt.nn.functional.scaled_mm
