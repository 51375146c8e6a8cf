"""nn.utils, parallel and functional_call against PyTorch."""

from __future__ import annotations

import copy
import pickle
from importlib import import_module

import pytest
from _same import attempt, same

import mindtorch.torch as mt


def with_grads(t, scale=1.0):
    """A small model with gradients."""
    m = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Linear(4, 2))
    (m(t.ones(2, 3)) * scale).sum().backward()
    return m


@pytest.mark.parametrize("norm", [2.0, 1.0, float("inf"), 0.5])
@pytest.mark.parametrize("limit", [0.1, 1e6])
def test_clip_grad_norm(norm, limit):
    def run(t):
        m = with_grads(t)
        total = t.nn.utils.clip_grad_norm_(m.parameters(), limit, norm_type=norm)
        again = t.nn.utils.get_total_norm([p.grad for p in m.parameters()], norm)
        return [total, again, [p.grad for p in m.parameters()]]

    same(run)


def test_clip_grad_edges():
    def run(t):
        u = t.nn.utils
        m = with_grads(t, float("inf"))
        n = with_grads(t, 100.0)
        u.clip_grad_value_(n.parameters(), 0.5)
        p = with_grads(t)
        u.clip_grads_with_norm_(p.parameters(), 0.5, t.tensor(4.0))
        return [
            attempt(lambda: u.clip_grad_norm_(m.parameters(), 1.0, error_if_nonfinite=True)),
            u.clip_grad_norm_(t.nn.Linear(1, 1).parameters(), 1.0),
            u.clip_grad_norm_(n[0].weight, 1.0, foreach=True),
            [x.grad for x in n.parameters()],
            [x.grad for x in p.parameters()],
        ]

    same(run)


def test_parameters_to_vector():
    def run(t):
        m = with_grads(t)
        v = t.nn.utils.parameters_to_vector(m.parameters())
        t.nn.utils.vector_to_parameters(v.detach() * 2, m.parameters())
        return [v, list(m.parameters()), attempt(lambda: t.nn.utils.vector_to_parameters([1], m.parameters()))]

    same(run)


def test_pack_and_pad():
    def run(t):
        r = t.nn.utils.rnn
        seqs = [t.arange(float(n * 2)).reshape(n, 2) for n in (2, 4, 3)]
        out = []
        for side in ("left", "right"):
            out.append(r.pad_sequence(seqs, batch_first=True, padding_value=9.0, padding_side=side))
        padded = r.pad_sequence(seqs)
        packed = r.pack_padded_sequence(padded, [2, 4, 3], enforce_sorted=False)
        out += [list(packed), r.pad_packed_sequence(packed), r.pad_packed_sequence(packed, True, 7.0, 6)]
        out += [r.unpack_sequence(packed), r.unpad_sequence(padded, t.tensor([2, 4, 3])), packed.double().data.dtype]
        out += [r.pack_sequence(sorted(seqs, key=len, reverse=True)).batch_sizes, r.invert_permutation(t.tensor([2, 0, 1]))]
        for fn in (
            lambda: r.pack_padded_sequence(padded, [2, 4, 3]),
            lambda: r.pack_padded_sequence(padded, [2, 4, 0], enforce_sorted=False),
            lambda: r.pack_padded_sequence(padded, [2, 4]),
            lambda: r.pad_packed_sequence(packed, total_length=2),
            lambda: r.pad_sequence(3),
        ):
            out.append(attempt(fn)[0])
        p = pickle.loads(pickle.dumps(packed))
        return [*out, list(p), type(p).__name__, packed.to("cpu") is packed]

    same(run)


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("new", [False, True])
def test_weight_norm(dim, new):
    def run(t):
        fn = t.nn.utils.parametrizations.weight_norm if new else t.nn.utils.weight_norm
        m = fn(t.nn.Linear(3, 4), dim=dim)
        x = t.ones(2, 3)
        y = m(x)
        (y * y).sum().backward()
        out = [m, y, dict(m.state_dict()), {k: p.grad for k, p in m.named_parameters()}]
        if new:
            t.nn.utils.parametrize.remove_parametrizations(m, "weight")
        else:
            out.append(attempt(lambda: fn(m)))
            t.nn.utils.remove_weight_norm(m)
            out.append(attempt(lambda: t.nn.utils.remove_weight_norm(m)))
        return [*out, list(m.state_dict()), m(x)]

    same(run)


def test_weight_norm_loads_old_files():
    def run(t):
        old = t.nn.utils.weight_norm(t.nn.Linear(3, 4))
        new = t.nn.utils.parametrizations.weight_norm(t.nn.Linear(3, 4))
        new.load_state_dict(old.state_dict())
        return [new.weight, dict(new.state_dict())]

    same(run)


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("layer", ["linear", "conv"])
def test_spectral_norm(new, layer):
    def run(t):
        fn = t.nn.utils.parametrizations.spectral_norm if new else t.nn.utils.spectral_norm
        m = fn(t.nn.Linear(3, 4) if layer == "linear" else t.nn.ConvTranspose2d(2, 3, 2))
        x = t.ones(2, 3) if layer == "linear" else t.ones(1, 2, 3, 3)
        outs = []
        for _ in range(2):
            y = m(x)
            (y * y).sum().backward()
            outs.append(y)
        m.eval()
        outs += [m(x), dict(m.state_dict()), [p.grad for p in m.parameters()], repr(m)]
        if not new:
            t.nn.utils.remove_spectral_norm(m)
            outs.append(list(m.state_dict()))
        return outs

    same(run)


@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3), (3, 2)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(how, shape, trivial):
    def run(t):
        m = t.nn.utils.parametrizations.orthogonal(t.nn.Linear(*shape), orthogonal_map=how, use_trivialization=trivial)
        w = m.weight
        (w * t.arange(float(w.numel())).reshape(w.shape)).sum().backward()
        out = [w, [p.grad for p in m.parameters()], list(m.state_dict()), m]
        out.append(attempt(lambda: setattr(m, "weight", -t.eye(*w.shape))))
        return [*out, m.weight]

    same(run)


def test_parametrize():
    def run(t):
        nn = t.nn
        P = nn.utils.parametrize

        class Sym(nn.Module):
            def forward(self, x):
                return x.triu() + x.triu(1).mT

            def right_inverse(self, a):
                return a.triu()

        class Two(nn.Module):
            def forward(self, a, b):
                return a + b

            def right_inverse(self, a):
                return a / 2, a / 2

        class Bad(nn.Module):
            def __init__(self, fn, back=None):
                super().__init__()
                self.fn = fn
                if back is not None:
                    self.right_inverse = back

            def forward(self, x):
                return self.fn(x)

        m = nn.Linear(3, 3)
        opt_holds = m.weight
        P.register_parametrization(m, "weight", Sym())
        P.register_parametrization(m, "bias", Two())
        out = [m, list(m.state_dict()), m.weight, m.bias, type(m).__name__, P.type_before_parametrizations(m)]
        out += [P.is_parametrized(m), P.is_parametrized(m, "zz"), m.parametrizations.weight.original is opt_holds]
        m.weight = t.ones(3, 3)
        out += [m.parametrizations.weight.original, m.weight]
        for bad in (
            Bad(lambda x: x[:1]),
            Bad(lambda x: x.double()),
            Bad(lambda x: 3),
            Bad(lambda x: x, lambda x: x.double()),
            Bad(lambda x: x, lambda x: 3),
            Bad(lambda x: x, lambda x: [3]),
        ):
            out.append(attempt(lambda bad=bad: P.register_parametrization(nn.Linear(3, 3), "weight", bad)))
        out.append(attempt(lambda: P.register_parametrization(nn.Linear(3, 3), "foo", Sym())))
        out.append(attempt(lambda: P.register_parametrization(m, "weight", Bad(lambda x: x[:1]))))
        out.append(attempt(lambda: pickle.dumps(m)))
        c = copy.deepcopy(m)
        out += [c.weight, c.parametrizations.weight.original is m.parametrizations.weight.original]
        with P.cached():
            out.append(m.weight is m.weight)
        out.append(m.weight is m.weight)
        m(t.ones(1, 3)).sum().backward()
        out.append({k: p.grad for k, p in m.named_parameters()})
        out.append(attempt(lambda: P.remove_parametrizations(m, "bias", leave_parametrized=False)))
        P.remove_parametrizations(m, "bias")
        P.remove_parametrizations(m, "weight", leave_parametrized=False)
        out += [type(m).__name__, m.weight is opt_holds, m.weight, list(m.state_dict())]
        return [*out, attempt(lambda: P.remove_parametrizations(m, "weight"))]

    same(run)


def test_prune():
    def run(t):
        prune = import_module(t.nn.utils.__name__ + ".prune")
        m, n = t.nn.Linear(4, 4), t.nn.Linear(4, 4)
        out = []
        prune.l1_unstructured(m, "weight", 0.3)
        out += [list(m.state_dict()), m.weight, prune.is_pruned(m)]
        prune.random_unstructured(m, "weight", 2)
        prune.ln_structured(m, "weight", 1, 2, 0)
        out += [m.weight_mask]
        prune.random_structured(m, "weight", 1, 1)
        out += [m.weight_mask]
        (m(t.ones(1, 4)) ** 2).sum().backward()
        out += [m.weight_orig.grad]
        prune.remove(m, "weight")
        out += [m.weight, list(m.state_dict())]
        for fn in (
            lambda: prune.remove(m, "weight"),
            lambda: prune.l1_unstructured(m, "weight", 5.5),
            lambda: prune.l1_unstructured(m, "weight", 500),
            lambda: prune.l1_unstructured(m, "weight", "a"),
            lambda: prune.ln_structured(m, "bias", 1, 2, 0),
            lambda: prune.ln_structured(m, "weight", 1, 2, 7),
        ):
            out.append(attempt(fn))
        prune.global_unstructured([(m, "weight"), (n, "weight")], prune.L1Unstructured, amount=0.5)
        prune.custom_from_mask(n, "bias", t.tensor([1, 0, 1, 0.0]))
        return [*out, m.weight, n.weight, n.bias]

    same(run)


def test_fusion():
    def run(t):
        u = t.nn.utils
        conv, bn = t.nn.Conv2d(2, 3, 3, bias=False), t.nn.BatchNorm2d(3)
        bn(t.randn(4, 3, 5, 5))
        conv.eval()
        bn.eval()
        x = t.randn(1, 2, 6, 6)
        fused = u.fuse_conv_bn_eval(conv, bn)
        lin, b1 = t.nn.Linear(3, 4).eval(), t.nn.BatchNorm1d(4).eval()
        return [fused(x), bn(conv(x)), fused, u.fuse_linear_bn_eval(lin, b1)(t.ones(2, 3))]

    same(run)


def test_functional_call():
    def run(t):
        call = t.func.functional_call
        m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
        before = dict(m.state_dict())
        w = t.ones(2, 2, requires_grad=True)
        bufs = {"1.running_mean": t.zeros(2)}
        y = call(m, {"0.weight": w, **bufs}, (t.tensor([[1.0, 2.0], [3.0, 5.0]]),))
        y.square().sum().backward()
        z = call(m, [{"0.weight": w.detach()}, {"0.bias": t.zeros(2)}], t.ones(2, 2))
        tied = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 2))
        tied[1].weight = tied[0].weight
        q = call(tied, {"0.weight": t.zeros(2, 2)}, t.ones(1, 2))
        return [
            y,
            w.grad,
            z,
            q,
            bufs["1.running_mean"],
            {k: v for k, v in before.items() if "weight" in k},
            m[0].weight is not w,
            attempt(lambda: call(m, {"0.weight": w}, t.ones(2, 2), strict=True))[0],
            attempt(lambda: call(m, {"nope": w}, t.ones(2, 2))) is not None and hasattr(m, "nope"),
            attempt(lambda: call(m, {"nope.weight": w}, t.ones(2, 2)))[0],
        ]

    same(run)


def test_nn_grad():
    def run(t):
        g = import_module(t.nn.__name__ + ".grad")
        x, w, go = t.randn(1, 2, 5, 5), t.randn(3, 2, 3, 3), t.randn(1, 3, 3, 3)
        return [g.conv2d_input(x.shape, w, go), g.conv2d_weight(x, w.shape, go)]

    same(run)


def test_parallel_on_one_device():
    m = mt.nn.Linear(2, 2)
    d = mt.nn.DataParallel(m)
    assert list(d.state_dict()) == ["module.weight", "module.bias"]
    x = mt.ones(1, 2)
    assert bool((d(x) == m(x)).all())
    ddp = mt.nn.parallel.DistributedDataParallel(m)
    with ddp.no_sync():
        ddp(x).sum().backward()
    assert m.weight.grad is not None
    with pytest.raises(RuntimeError, match="doesn't have any parameter"):
        mt.nn.parallel.DistributedDataParallel(mt.nn.ReLU())


def test_sdpa_kernel_accepted():
    from mindtorch.torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.MATH]):
        pass
    with pytest.raises(TypeError, match="SDPBackend"), sdpa_kernel(3):
        pass
