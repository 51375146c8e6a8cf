"""Differences that are rounding noise are not reported, and faults beside them still are."""

from __future__ import annotations

import pytest
from fault_program import record

import mindtorch.torch as mt
import torch
from mindtorch.tools.compare.comparison import Options, compare

QUIET = Options(with_tables=False)
DRIFT = """
nn = torch.nn
def run(start, stop, steps):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 5),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=1e-4)
    x, y = torch.randn(32, 3, 16, 16), torch.randint(0, 5, (32,))
    start(net)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    stop()
"""
"""The biases before the normalisations have gradients of rounding noise, which Adam turns into full steps."""
GRADIENTS = """
nn = torch.nn
def run(start, stop, steps):
    torch.manual_seed(0)
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    x = torch.randn(4, 10, 32, requires_grad=True)
    start(net)
    y = net(x)
    (y * y).mean().backward()
    (x.grad.abs().sum() * 2).item()
    (net(x) - 1).pow(2).mean().backward()
    stop()
"""
"""The mean square of what a layer norm returns is a constant: all gradients but the last are rounding noise."""


@pytest.mark.parametrize(("source", "fault"), [
    (DRIFT, ("nn.BatchNorm2d(16)", "nn.BatchNorm2d(16, eps=1e-3)")), (DRIFT, ("lr=1e-2", "lr=1.1e-2")),
    (GRADIENTS, ("- 1).pow", "* 1.01 - 1).pow")), (GRADIENTS, ("requires_grad=True)", "requires_grad=True).mul(1.001).detach().requires_grad_()")),
], ids=["epsilon", "rate", "factor", "data"])  # fmt: skip
def test_noise_is_not_reported_and_a_fault_is(source, fault, tmp_path):
    assert fault[0] in source
    record(torch, source, str(tmp_path / "a.py"), str(tmp_path / "a"), 5)
    record(mt, source, str(tmp_path / "b.py"), str(tmp_path / "b"), 5)
    same = compare(str(tmp_path / "a"), str(tmp_path / "b"), QUIET)
    assert same.ok, same.summary()
    assert sum(len(s.rows.calls) for s in same.steps) > 30
    record(mt, source.replace(*fault), str(tmp_path / "c.py"), str(tmp_path / "c"), 5)
    assert not compare(str(tmp_path / "a"), str(tmp_path / "c"), QUIET).ok


def test_steps_behind_a_crossed_zero_are_not_judged(tmp_path):
    """After many steps the drift makes gradients differ by more than rounding; the summary says from where on."""
    record(torch, DRIFT, str(tmp_path / "a.py"), str(tmp_path / "a"), 25, dump_type="statistics")
    record(mt, DRIFT, str(tmp_path / "b.py"), str(tmp_path / "b"), 25, dump_type="statistics")
    result = compare(str(tmp_path / "a"), str(tmp_path / "b"), QUIET)
    assert result.ok, result.summary()
    assert len(result.steps) == 25
