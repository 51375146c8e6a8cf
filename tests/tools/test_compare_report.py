"""The HTML report, and the command that runs a script on both frameworks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mindtorch.tools.compare.comparison import Options, compare
from mindtorch.tools.compare.report import histogram, render, save

GOLDEN = Path(__file__).parent / "golden_ts1018"
SCRIPT = """
import sys
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(100):
    optimizer.zero_grad()
    x = torch.randn(16, 4)
    y = net(x) * (1.5 if "--wrong" in sys.argv and torch.Tensor.__module__.startswith("mind") else 1.0)
    loss = torch.nn.functional.mse_loss(y, x.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
print("finished", file=open("finished", "w"))
"""


def page_data(text):
    """The JSON that the page draws."""
    return json.loads(re.search(r"^const DATA = (.*);$", text, re.M).group(1))


@pytest.fixture(scope="module")
def result():
    return compare(str(GOLDEN / "pt_a"), str(GOLDEN / "pt_b"), Options(with_tables=False))


def test_page_has_the_verdict_the_rows_and_nothing_from_elsewhere(result, tmp_path):
    save(result, str(tmp_path / "r" / "report.html"))
    text = (tmp_path / "r" / "report.html").read_text()
    assert not re.search(r"(src|href)\s*=\s*[\"']?http", text)
    assert 'id="first-call">torch.Tensor.__mul__(0)<' in text
    data = page_data(text)
    assert data["first"]["call"][0] == "torch.Tensor.__mul__(0)"
    by_status = {s: sum(r["status"] == s for r in data["rows"]) for s in ("agrees", "differs", "missing")}
    assert by_status["differs"] == 4 and by_status["missing"] == 0
    row = next(r for r in data["rows"] if r["a"] == "torch.nn.Conv2d(0)" and r["value"] == "output")
    assert "line 12" in data["stacks"][row["stacks"][0]][0]
    assert sum(row["hist"]) == 32
    assert re.search(r'class="differs[^"]*" data-path="conv"', text)


def test_histogram_counts_by_decade(result):
    rows = result.steps[0].rows.forward_rows()
    row = next(r for r in rows if r.a is not None and r.a.name == "Tensor___mul___0_forward_output")
    counts = histogram(row)
    assert sum(counts) == 36 and counts[0] == 0
    equal = histogram(next(r for r in rows if r.a is not None and r.a.name == "Tensor___mul___0_forward_input.0"))
    assert equal[0] == 36


def test_markup_in_names_is_escaped(result):
    result.notes.append("<script>alert(1)</script>")
    try:
        assert "<script>alert(1)" not in render(result)
    finally:
        result.notes.clear()


def command(cwd, *args, **env):
    return subprocess.run(
        [sys.executable, "-m", "mindtorch", *map(str, args)], cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, **env}, timeout=300,
    )  # fmt: skip


def test_verify_a_script(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    good = command(tmp_path, "verify", "--steps", 2, "--out", "kept", "train.py")
    assert good.returncode == 0, good.stderr
    assert "No divergence." in good.stdout and good.stdout.count("\n|") >= 3
    assert not (tmp_path / "finished").exists()
    bad = command(
        tmp_path, "verify", "--steps", 2, "--against", "kept/pytorch", "--html", "r.html", "--dump-type", "statistics", "train.py", "--wrong"
    )
    assert bad.returncode == 1, bad.stderr
    assert "First divergence: torch.Tensor.__mul__(0)" in bad.stdout and "net(x) * (1.5" in bad.stdout
    assert len(page_data((tmp_path / "r.html").read_text())["losses"][0]) == 2
    assert command(tmp_path, "verify", "nowhere.py").returncode == 2


def test_report_reacts_in_a_browser(result, tmp_path, browser_page):
    """Sort, filter and click in headless Chromium."""
    page = browser_page
    save(result, str(tmp_path / "report.html"))
    page.goto((tmp_path / "report.html").as_uri())
    assert page.inner_text("#first-call") == "torch.Tensor.__mul__(0)"
    marked = page.locator("#values tbody tr.first")
    assert marked.count() == 1 and "differs" in marked.inner_text() and "__mul__" in marked.inner_text()
    page.click("th[data-key=max]")
    assert page.locator("th.up").inner_text() == "max diff."
    page.click("th[data-key=max]")
    assert page.locator("th.down").count() == 1
    tops = [float(x) for x in page.locator("#values tbody tr td:nth-child(11)").all_inner_texts()]
    assert tops == sorted(tops, reverse=True)
    page.select_option("#status", "differs")
    assert page.locator("#values tbody tr").count() == 4
    page.fill("#search", "conv2d")
    assert page.locator("#values tbody tr").count() == 2
    page.click("#values tbody tr")
    assert page.locator("#values tbody tr.chosen").count() == 1
    assert page.inner_text("#detail .pair pre:nth-child(2)").startswith("target")
    assert "line 12" in page.inner_text("#detail") and page.locator("#detail svg rect").count() > 0
    page.click("#reset")
    page.click(".tree a[data-path=conv]")
    shown = page.locator("#values tbody tr td:nth-child(3)").all_inner_texts()
    assert shown and set(shown) == {"conv"}
    assert page.locator(".tree a.differs .count").first.inner_text() == "4"


def test_loss_curves_and_a_fault_of_the_optimiser_in_a_browser(tmp_path, browser_page):
    """Both curves with their steps, and a first divergence that is no call of the table."""
    from fault_program import FAULTS, record, source_of

    import mindtorch.torch as mt
    import torch

    record(torch, source_of(None), str(tmp_path / "a.py"), str(tmp_path / "a"))
    record(mt, source_of(FAULTS["wrong learning rate"]), str(tmp_path / "b.py"), str(tmp_path / "b"))
    save(compare(str(tmp_path / "a"), str(tmp_path / "b"), Options(with_tables=False)), str(tmp_path / "report.html"))
    page = browser_page
    page.goto((tmp_path / "report.html").as_uri())
    assert page.inner_text("#first-call") == "SGD.step"
    assert page.locator("#curves polyline").count() == 2 and page.locator("#curves circle").count() == 4
    assert page.locator("#curves polyline[stroke-dasharray]").count() == 1 and "step 0" in page.locator("#curves circle title").first.text_content()
    assert page.locator("#values tbody tr.first").count() == 0


ODD = """
import torch
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 6), torch.nn.Linear(6, 1)
    def forward(self, x):
        x = checkpoint(self.a, x, use_reentrant=False)
        return self.b(Double.apply(x).tanh())
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(9):
    x = torch.randn(5, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=step == 2):
        loss = net(x).float().pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    with torch.inference_mode():
        net(x)
    torch.func.grad(lambda v: (v**2).sum())(x)
"""


def test_checkpoints_autocast_functions_and_inference_mode(tmp_path):
    """Nothing of these disturbs the recorder, and rounding to bfloat16 is not reported."""
    (tmp_path / "train.py").write_text(ODD)
    done = command(tmp_path, "verify", "--steps", 4, "train.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of them on one side only" in done.stdout
