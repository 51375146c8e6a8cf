"""MindSpore's kernels: every row of the op table has one or a reason, and a sample of them equals the host's kernels."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("mindspore")

_EVERY_ROW = """
import mindtorch.torch
from mindtorch.ops.table import ROWS
from mindtorch.engine.mindspore import kernels
from mindtorch.engine.mindspore.kernels.absent import ABSENT, DRAWN

rows = {r.name for r in ROWS if r.kind == "op"}
table = kernels.table()
missing = sorted(rows - set(table) - set(ABSENT) - DRAWN)
assert not missing, f"rows with neither a kernel nor a reason: {missing}"
assert not set(table) - rows, f"kernels of no row: {sorted(set(table) - rows)}"
assert not set(ABSENT) & set(table), f"rows with a kernel and a reason against it: {sorted(set(ABSENT) & set(table))}"
assert not (set(ABSENT) | DRAWN) - rows, f"reasons for no row: {sorted((set(ABSENT) | DRAWN) - rows)}"
assert all(len(why) > 20 for why in ABSENT.values())
assert len(table) > 0.9 * len(rows)
"""

_SAMPLE = """
import numpy as np
import mindtorch.torch as torch
import mindtorch.torch.nn.functional as F
from mindtorch.core import accelerate

torch.manual_seed(0)
X = torch.randn(2, 4, 7, 6)
W = torch.randn(6, 2, 3, 3)
V = torch.randn(4)
M = torch.randn(5, 5)
N = torch.tensor([[3.0, float("nan"), 1.0, 1.0, float("inf")], [2.0, 2.0, 0.0, -1.0, 2.0]])
I = torch.tensor([2, 0, 2])
T = torch.tensor([1, 0, 4])
CASES = {
    "conv2d": lambda d: F.conv2d(X.to(d), W.to(d), None, 2, 1, 1, 2),
    "conv3d": lambda d: F.conv3d(X.to(d)[:, :2, None], torch.ones(3, 2, 1, 2, 2).to(d)),
    "conv_transpose2d": lambda d: F.conv_transpose2d(X.to(d), W.to(d)[:4], stride=2),
    "max_pool2d": lambda d: F.max_pool2d(X.to(d), 3, 2, 1, return_indices=True),
    "avg_pool2d": lambda d: F.avg_pool2d(X.to(d), 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "adaptive_avg_pool2d": lambda d: F.adaptive_avg_pool2d(X.to(d), (3, 4)),
    "adaptive_max_pool2d": lambda d: F.adaptive_max_pool2d(X.to(d), (3, 4)),
    "interpolate": lambda d: F.interpolate(X.to(d), scale_factor=1.7, mode="bicubic"),
    "grid_sample": lambda d: F.grid_sample(X.to(d), torch.full((2, 3, 3, 2), 0.3).to(d), align_corners=False),
    "reflect": lambda d: F.pad(X.to(d), (2, 1, 3, 0), "reflect"),
    "crop": lambda d: F.pad(X.to(d), (-2, 1), value=2.0),
    "batch_norm": lambda d: F.batch_norm(X.to(d), None, None, V.to(d), V.to(d).abs(), True),
    "group_norm": lambda d: F.group_norm(X.to(d), 2, V.to(d), V.to(d)),
    "cross_entropy": lambda d: F.cross_entropy(M.to(d)[:3], T.to(d), ignore_index=0),
    "sort with nan": lambda d: N.to(d).sort(1, descending=True),
    "topk": lambda d: N.to(d)[1:].topk(3),
    "max with nan": lambda d: N.to(d).max(1),
    "median": lambda d: N.to(d).median(1),
    "nanmedian": lambda d: N.to(d).nanmedian(1),
    "cummax": lambda d: N.to(d)[1:].cummax(1),
    "relu keeps nan": lambda d: N.to(d).relu(),
    "maximum keeps nan": lambda d: torch.maximum(N.to(d), torch.zeros(5).to(d)),
    "unique": lambda d: T.to(d).unique(return_inverse=True, return_counts=True),
    "scatter_reduce": lambda d: V.to(d).scatter_reduce(0, I.to(d), V.to(d)[:3], "mean"),
    "index_put": lambda d: M.to(d).index_put((I.to(d),), V.to(d)[0]),
    "index last wins": lambda d: V.to(d).index_copy(0, I.to(d), V.to(d)[:3]),
    "whole division": lambda d: (T.to(d) - 3) // 2,
    "whole remainder": lambda d: torch.fmod(T.to(d) - 3, 2),
    "whole product": lambda d: T.to(d)[None].expand(3, 3) @ T.to(d)[:, None],
    "rfft2": lambda d: torch.fft.rfft2(M.to(d)).abs(),
    "irfft": lambda d: torch.fft.irfft(torch.fft.rfft(M.to(d)), 5),
    "solve": lambda d: torch.linalg.solve(M.to(d), V.new_ones(5).to(d)),
    "erfinv": lambda d: torch.erfinv(torch.linspace(-1, 1, 9).to(d)),
    "ndtri": lambda d: torch.special.ndtri(torch.tensor([0.0, 1e-30, 0.3, 0.9999, 1.0]).to(d)),
    "legendre": lambda d: torch.special.legendre_polynomial_p(V.to(d), 4),
    "logcumsumexp": lambda d: M.to(d).logcumsumexp(1),
    "nextafter": lambda d: torch.nextafter(torch.tensor([0.0, 1.0, -1.0, 1e-40, float("inf"), 2.0]).to(d), torch.tensor([-1.0, 2.0, 0.0, 0.0, 0.0, 2.0]).to(d)),
    "hash_tensor": lambda d: torch.hash_tensor(M.to(d), 1).long(),
    "bessel_y0": lambda d: torch.special.bessel_y0(torch.tensor([-1.0, 0.0, 1e-3, 0.7, 5.0, 8.0, 9.0, 200.0]).to(d)),
    "bessel_y1": lambda d: torch.special.bessel_y1(torch.tensor([-1.0, 0.0, 0.1, 0.7, 5.0, 8.0, 9.0, 200.0]).to(d)),
    "airy_ai": lambda d: torch.special.airy_ai(torch.tensor([-50.0, -7.0, -2.0, 0.0, 1.9, 3.0, 20.0]).to(d)),
    "ctc_loss": lambda d: F.ctc_loss(X.to(d)[:, 0].permute(1, 0, 2).log_softmax(2), torch.tensor([[1, 1, 3], [2, 5, 0]]).to(d), [7, 6], [3, 2]),
    "lstsq": lambda d: torch.linalg.lstsq(M.to(d)[:, :3], M.to(d)[:, 3:])[0],
    "lu of a tall matrix": lambda d: torch.linalg.lu_factor(M.to(d)[:, :3]),
    "lu of a wide matrix": lambda d: torch.linalg.lu_factor(M.to(d)[:3]),
    "long division": lambda d: torch.tensor([-(2**63), 2**63 - 1, 2**62 + 3]).to(d) // torch.tensor([3, 2**54 + 1, -7]).to(d),
    "layer_norm of one": lambda d: F.layer_norm(V.to(d)[:, None], (1,)),
    "density of nothing": lambda d: torch.histogram(V.to(d)[:0], 3, density=True)[0],
    "lstm": lambda d: torch.nn.LSTM(4, 3).to(d)(X.to(d)[0].permute(1, 2, 0))[0],
}
for name, run in CASES.items():
    accelerate.SEEN = {}
    torch.manual_seed(1)
    want = run("cpu")
    torch.manual_seed(1)
    got = run("npu")
    ran = {row for row, what in accelerate.SEEN.items() if "fallback" in what}
    assert not ran, f"{name}: the host computed {sorted(ran)}"
    for a, b in zip(*(t if isinstance(t, (tuple, list)) else (t,) for t in (got, want))):
        assert a.device.type == "npu" and a.dtype == b.dtype and a.shape == b.shape, f"{name}: {a.dtype} {a.shape}"
        np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), 2e-5, 2e-5, err_msg=name)

y = X.to("npu", memory_format=torch.channels_last)
assert y.stride() == X.to(memory_format=torch.channels_last).stride() and torch.equal(y.cpu(), X)
x = X.to("npu").requires_grad_()
w = W.to("npu").requires_grad_()
F.max_pool2d(F.conv2d(x, w, groups=2).tanh(), 2).square().sum().backward()
y, v = X.clone().requires_grad_(), W.clone().requires_grad_()
F.max_pool2d(F.conv2d(y, v, groups=2).tanh(), 2).square().sum().backward()
for a, b in ((x, y), (w, v)):
    np.testing.assert_allclose(a.grad.cpu().numpy(), b.grad.numpy(), 1e-4, 1e-4)
"""

_REFUSED = """
import mindtorch.torch as torch

x = torch.eye(3).to("npu")
assert torch.randn(3, device="npu").shape == (3,)  # drawn on the host by design: no fallback
try:
    torch.linalg.eig(x)
except RuntimeError as e:
    assert "another order" in str(e) and "MINDTORCH_HOST_FALLBACK" in str(e), e
else:
    raise AssertionError("eig has no MindSpore kernel, and fallbacks are refused")
"""


@pytest.mark.parametrize("program", [_EVERY_ROW, _SAMPLE, _REFUSED], ids=["every row", "sample", "refused with the reason"])
def test_kernels(program: str) -> None:
    env = {**os.environ, "MINDTORCH_NPU_SIM": "1", "GLOG_v": "4"}
    if program is _REFUSED:
        env["MINDTORCH_HOST_FALLBACK"] = "error"
    r = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr[-3000:]
