"""autocast and GradScaler against PyTorch."""
# ruff: noqa: E501 - tables of cases are easier to read unwrapped

import warnings

import numpy as np
import pytest

import mindtorch.torch as mt
import torch

BOTH = [torch, mt]

OPS = {
    "linear": lambda t, x: t.nn.functional.linear(x, x),
    "matmul": lambda t, x: x @ x,
    "bmm": lambda t, x: t.bmm(x[None], x[None]),
    "addmm": lambda t, x: t.addmm(x, x, x),
    "conv2d": lambda t, x: t.nn.functional.conv2d(x[None, None], x[None, None]),
    "conv1d": lambda t, x: t.nn.functional.conv1d(x[None], x[None]),
    "sdpa": lambda t, x: t.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "softmax": lambda t, x: x.softmax(0),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (4,)),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x, x),
    "cross_entropy": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 2, 3])),
    "nll_loss": lambda t, x: t.nn.functional.nll_loss(x.log_softmax(1), t.tensor([0, 1, 2, 3])),
    "add": lambda t, x: x + x,
    "sum": lambda t, x: x.sum(),
    "exp": lambda t, x: x.exp(),
    "pow": lambda t, x: x.pow(2),
    "cat": lambda t, x: t.cat([x, x]),
    "cat mixed": lambda t, x: t.cat([x.bfloat16(), x.float()]),
    "stack": lambda t, x: t.stack([x, x.bfloat16()]) if x.dtype != t.bfloat16 else t.stack([x, x]),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "mean": lambda t, x: x.mean(),
    "smooth_l1": lambda t, x: t.nn.functional.smooth_l1_loss(x, x),
    "bce_logits": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, x),
    "avg_pool3d": lambda t, x: t.nn.functional.avg_pool3d(x[None, None, None], (1, 2, 2)),
    "interpolate": lambda t, x: t.nn.functional.interpolate(x[None], scale_factor=2.0, mode="linear"),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x, 2),
    "cumsum": lambda t, x: x.cumsum(0),
    "prod": lambda t, x: x.prod(),
    "embedding": lambda t, x: t.nn.functional.embedding(t.tensor([0, 1]), x),
    "cdist": lambda t, x: t.cdist(x, x),
    "inverse": lambda t, x: t.linalg.inv(x + 5 * t.eye(4, dtype=x.dtype)) if x.dtype == t.float32 else x,
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, x),
    "norm": lambda t, x: t.linalg.norm(x),
}
WIDE = {
    "mv": lambda t, x: x.mv(x[0]),
    "dot": lambda t, x: x[0].dot(x[0]),
    "lstmcell": lambda t, x: t.nn.LSTMCell(4, 4).to(x.dtype)(x)[0],
    "mha": lambda t, x: t.nn.MultiheadAttention(4, 2).to(x.dtype)(x, x, x)[0],
    "multi_dot": lambda t, x: t.linalg.multi_dot([x, x, x]),
    "matrix_power": lambda t, x: t.linalg.matrix_power(x, 2),
    "inner": lambda t, x: t.inner(x, x),
    "outer": lambda t, x: t.outer(x[0], x[0]),
    "tensordot": lambda t, x: t.tensordot(x, x, 1),
    "chain": lambda t, x: t.chain_matmul(x, x),
    "bilinear": lambda t, x: t.nn.functional.bilinear(x, x, t.ones(2, 4, 4, dtype=x.dtype)),
    "vecdot": lambda t, x: t.linalg.vecdot(x, x),
    "prelu": lambda t, x: t.nn.functional.prelu(x, x[0, :1]),
    "addmv": lambda t, x: x[0].addmv(x, x[0]),
    "addr": lambda t, x: x.addr(x[0], x[0]),
    "kron": lambda t, x: t.kron(x, x),
    "vdot": lambda t, x: t.vdot(x[0], x[0]),
    "matrix_exp": lambda t, x: t.matrix_exp(x),
    "grid": lambda t, x: t.nn.functional.grid_sample(x[None, None], t.zeros(1, 2, 2, 2, dtype=x.dtype)),
    "pad_refl": lambda t, x: t.nn.functional.pad(x[None], (1, 1), mode="reflect"),
    "pad_refl3": lambda t, x: t.nn.functional.pad(x[None, None, None], (1, 1, 1, 1, 0, 0), mode="reflect"),
    "pad_repl": lambda t, x: t.nn.functional.pad(x[None], (1, 1), mode="replicate"),
    "pad_circ": lambda t, x: t.nn.functional.pad(x[None], (1, 1), mode="circular"),
    "hfft": lambda t, x: t.fft.hfft(x),
    "fft": lambda t, x: t.fft.fft(x),
    "gauss": lambda t, x: t.nn.functional.gaussian_nll_loss(x, x, x),
    "l1": lambda t, x: t.nn.functional.l1_loss(x, x),
    "cos": lambda t, x: t.nn.functional.cosine_similarity(x, x),
    "cumprod": lambda t, x: x.cumprod(0),
    "std": lambda t, x: x.std(),
    "var": lambda t, x: x.var(),
    "lse": lambda t, x: x.logsumexp(0),
    "batchnorm": lambda t, x: t.nn.BatchNorm1d(4).to(x.dtype)(x),
    "maxpool3": lambda t, x: t.nn.functional.max_pool3d(x[None, None, None], (1, 2, 2)),
    "avg3": lambda t, x: t.nn.functional.adaptive_avg_pool3d(x[None, None, None], (1, 2, 2)),
    "avgpool2": lambda t, x: t.nn.functional.avg_pool2d(x[None], 2),
    "trace": lambda t, x: x.trace(),
    "quantile": lambda t, x: x.quantile(0.5),
    "median": lambda t, x: x.median(),
    "polar": lambda t, x: t.polar(x, x),
    "icopy": lambda t, x: x.index_copy(0, t.tensor([0]), x[:1].float()),
    "addcmul": lambda t, x: t.addcmul(x, x, x.float()),
    "hstack": lambda t, x: t.hstack([x, x.float()]),
    "vstack": lambda t, x: t.vstack([x, x.float()]),
    "where": lambda t, x: t.where(x > 0, x, x.float()),
    "matnorm": lambda t, x: t.linalg.matrix_norm(x),
    "pinverse": lambda t, x: x.pinverse(),
    "layernorm": lambda t, x: t.nn.LayerNorm(4).to(x.dtype)(x),
    "rms": lambda t, x: t.nn.functional.rms_norm(x, (4,)),
    "transformer": lambda t, x: t.nn.TransformerEncoderLayer(4, 2).to(x.dtype)(x[None]),
    "cov": lambda t, x: x.cov(),
    "corr": lambda t, x: x.corrcoef(),
    "cdist": lambda t, x: t.cdist(x, x),
    "pairwise": lambda t, x: t.nn.functional.pairwise_distance(x, x),
    "embbag": lambda t, x: t.nn.functional.embedding_bag(t.tensor([[0, 1]]), x),
    "triplet": lambda t, x: t.nn.functional.triplet_margin_loss(x, x, x),
    "tripd": lambda t, x: t.nn.functional.triplet_margin_with_distance_loss(x, x, x),
    "softmargin": lambda t, x: t.nn.functional.soft_margin_loss(x, x),
    "kl": lambda t, x: t.nn.functional.kl_div(x, x),
    "sum": lambda t, x: x.sum(),
    "softplus": lambda t, x: t.nn.functional.softplus(x),
    "einsum3": lambda t, x: t.einsum("ij,jk,kl->il", x, x, x),
    "einsumdot": lambda t, x: t.einsum("i,i->", x[0], x[0]),
    "unfold": lambda t, x: t.nn.functional.unfold(x[None, None], 2),
    "renorm": lambda t, x: x.renorm(2, 0, 1),
    "rmatmul": lambda t, x: x.__rmatmul__(x),
    "baddbmm": lambda t, x: x[None].baddbmm(x[None], x[None]),
    "addbmm": lambda t, x: x.addbmm(x[None], x[None]),
}
OPS.update(WIDE)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_result_dtypes(name, dtype):
    kinds = []
    for t in BOTH:
        x = (t.arange(16.0).reshape(4, 4) / 16 + t.eye(4)).to(getattr(t, dtype))
        try:
            with t.autocast("cpu", dtype=t.bfloat16):
                kinds.append(str(OPS[name](t, x).dtype))
        except RuntimeError:
            kinds.append("error")
    if kinds[0] == "error":
        pytest.skip("PyTorch itself cannot")
    assert kinds[1] == kinds[0]


def test_state_and_nesting():
    def run(t):
        seen = []
        x = t.ones(2, 2)
        with t.autocast("cpu"):
            seen += [t.is_autocast_enabled("cpu"), str(t.get_autocast_dtype("cpu")), str((x @ x).dtype)]
            with t.autocast("cpu", enabled=False):
                seen += [t.is_autocast_enabled("cpu"), str((x @ x).dtype)]
            with t.autocast("cpu", dtype=t.float16):
                seen.append(str((x @ x).dtype))
            seen.append(str((x.double() @ x.double()).dtype))
        seen += [t.is_autocast_enabled("cpu"), str((x @ x).dtype)]

        @t.autocast("cpu")
        def f(a):
            return a @ a

        seen.append(str(f(x).dtype))
        return seen

    assert run(mt) == run(torch)


def test_absent_devices_switch_off():
    for t in BOTH:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with t.autocast("cuda"):
                assert (t.ones(2, 2) @ t.ones(2, 2)).dtype == t.float32
            assert any("not available" in str(w.message) for w in said)
            said.clear()
            scaler = t.amp.GradScaler("cuda")
            assert said and not scaler.is_enabled() and scaler.scale(3) == 3 and scaler.state_dict() == {}
        with pytest.raises(RuntimeError):
            t.autocast("foo")


def test_training_gradients():
    def run(t):
        t.manual_seed(0)
        net = t.nn.Linear(8, 8)
        x = t.randn(4, 8)
        with t.autocast("cpu", dtype=t.bfloat16):
            y = net(x)
            loss = y.float().pow(2).mean()
        loss.backward()
        return str(y.dtype), str(net.weight.grad.dtype), net.weight.grad.detach().numpy()

    a, b = run(torch), run(mt)
    assert a[:2] == b[:2]
    np.testing.assert_allclose(b[2], a[2], rtol=2e-2, atol=1e-3)


def test_scaler_follows_pytorch():
    def run(t):
        p = t.ones(2, requires_grad=True)
        opt = t.optim.SGD([p], lr=0.1)
        s = t.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        log = []
        for factor in (1.0, float("inf"), 1.0, 2.0, 1.0, float("nan"), 3.0):
            opt.zero_grad()
            s.scale((p * factor).sum()).backward()
            s.unscale_(opt)
            t.nn.utils.clip_grad_norm_([p], 1.0)
            s.step(opt)
            s.update()
            log.append(
                (round(s.get_scale(), 6), [round(v, 6) for v in p.detach().tolist()], s.state_dict()["_growth_tracker"])
            )
        return log, s.state_dict()

    assert run(mt) == run(torch)


def test_scaler_errors():
    for t in BOTH:
        p = t.ones(2, requires_grad=True)
        opt = t.optim.SGD([p], lr=0.1)
        s = t.amp.GradScaler("cpu", init_scale=8.0)
        with pytest.raises(ValueError, match="iterable"):
            s.scale(3)
        with pytest.raises(AssertionError):
            s.update()
        s.scale(p.sum()).backward()
        s.unscale_(opt)
        with pytest.raises(RuntimeError, match="already been called"):
            s.unscale_(opt)
        s.step(opt)
        with pytest.raises(RuntimeError, match="already been called"):
            s.step(opt)
        with pytest.raises(RuntimeError, match="after step"):
            s.unscale_(opt)
        s.update()
        s.update(4.0)
        assert s.get_scale() == 4.0
        with pytest.raises(RuntimeError, match="empty"):
            s.load_state_dict({})
        with pytest.raises(AssertionError, match="growth"):
            t.amp.GradScaler("cpu", growth_factor=0.5)


def test_custom_functions():
    def run(t):
        seen = []

        class F(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu", cast_inputs=t.float32)
            def forward(ctx, x):
                seen.append((str(x.dtype), t.is_autocast_enabled("cpu")))
                return x * 2

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                seen.append(t.is_autocast_enabled("cpu"))
                return g * 2

        x = t.ones(2, dtype=t.bfloat16, requires_grad=True)
        with t.autocast("cpu"):
            y = F.apply(x)
        y.sum().backward()
        return seen, x.grad.tolist()

    assert run(mt) == run(torch)
