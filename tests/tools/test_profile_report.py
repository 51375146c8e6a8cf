"""The report of a profiled program: its figures, its page in a browser, its command."""

import json
import os
import subprocess
import sys

import pytest

import mindtorch.torch as mt
from mindtorch.tools.report import data, page
from mindtorch.tools.timing.clock import PHASES, StepClock
from mindtorch.tools.timing.verdict import Split

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")
PROGRAM = """
import torch
from torch import nn
torch.manual_seed(0)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(24, 1, 8, 8), torch.randn(24, 4)), batch_size=4)
net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for x, y in loader:
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ADVICE = {
    "hints": [{"rule": "power", "file": "train.py", "line": 9, "text": "pow(<x>, 2)", "message": "write square(x)", "before": 2.0, "after": 1.0,
               "step": 4.0, "gain": 0.25, "step_kind": "training"}],
    "loops": [], "tried": ["power"], "failure": None, "untried": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def report():
    clock = StepClock()
    profile = mt.profiler.profile(record_shapes=True, profile_memory=True, with_flops=True)
    profile.start()
    clock.start()
    try:
        exec(compile(PROGRAM.replace("import torch\nfrom torch", "import mindtorch.torch as torch\nfrom mindtorch.torch"), "train.py", "exec"), {})
    finally:
        clock.stop()
        profile.stop()
    split = Split(clock.steps)
    return data.build(profile, clock, split.as_json(), "train.py", ["mindtorch 1.0", "<script>alert(1)</script>"], [], ADVICE)


def test_figures_hang_together(report):
    steps = report["steps"]
    assert [s["first"] for s in steps] == [True] + [False] * 5 and sum(s["close"] for s in steps) == 4
    for s in steps:
        assert set(s["phases"]) == set(PHASES) and sum(s["phases"].values()) == pytest.approx(s["total"], abs=1)
        assert sum(d for _, _, d in s["segments"]) == pytest.approx(s["total"], abs=2)
        begins = [a for _, a, _ in s["segments"]]
        assert begins == sorted(begins) and begins[0] == s["start"]
    spans = report["timeline"]
    assert {s["step"] for s in spans} == {s["step"] for s in steps if s["close"]}
    by = {}
    for s in spans:
        by.setdefault(s["name"], []).append(s)
    assert len(by["aten::conv2d"]) == 4 and len(by["nn.Module: Conv2d"]) == 4 and len(by["Optimizer.step#SGD.step"]) == 4
    assert {s["phase"] for s in spans} >= {"forward", "backward", "optimizer", "data"}
    conv, module = by["aten::conv2d"][0], by["nn.Module: Conv2d"][0]
    assert conv["depth"] > module["depth"] and module["start"] <= conv["start"] and "[4, 1, 8, 8]" in conv["shapes"]
    rows = {r["op"]: r for r in report["panel"]}
    assert rows["aten::conv2d"]["calls"] == 5 and rows["aten::conv2d"]["kernel"] and rows["aten::linear"]["flops"] > 0
    memory = report["memory"]
    assert max(v for _, v in memory["curve"]) == memory["peak"] == sum(memory["at_peak"].values())
    assert memory["at_peak"]["PARAMETER"] == 4 * (18 + 2 + 288 + 4)


def test_page_in_a_browser(report, tmp_path, browser_page):
    p = browser_page
    said = []
    p.on("console", lambda m: said.append(m.text))
    page.save(report, str(tmp_path / "report.html"))
    p.goto((tmp_path / "report.html").as_uri())
    assert "bottleneck" in p.inner_text("#verdict b") and "Data Time" in p.inner_text("#summary")
    # steps: the last ones have their ops, the first says why it is left out
    assert p.locator("#steps g").count() == 6
    assert p.inner_text("#picked").startswith("step 2:") and "forward" in p.inner_text("#picked")
    p.locator("#steps g").nth(0).locator("rect.frame").click()
    assert "(the first one)" in p.inner_text("#picked") and "not kept" in p.inner_text("#detail")
    p.locator("#steps g").nth(5).locator("rect.frame").click()
    assert p.inner_text("#picked").startswith("step 5:") and p.locator("#steps g.on").count() == 1
    # timeline: zoom, and the details of the op under the pointer
    whole = p.inner_text("#window")
    p.click("#in")
    assert p.inner_text("#window") != whole
    p.click("#whole")
    assert p.inner_text("#window") == whole
    x, y = p.evaluate("(() => { const b = boxes.find(b => b[3].name === 'aten::conv2d'); const r = canvas.getBoundingClientRect();"
                      " return [r.left + b[0] + b[2] / 2, r.top + b[1] + 5]; })()")  # fmt: skip
    p.mouse.click(x, y)
    detail = p.inner_text("#detail")
    assert detail.startswith("aten::conv2d, took") and "Sequential.0" in detail and "[4, 1, 8, 8]" in detail
    p.mouse.wheel(0, -300)
    p.wait_for_function("old => document.getElementById('window').textContent !== old", arg=whole)
    # operators: sort both ways, filter by name and by phase
    p.click("th[data-key=calls]")
    calls = [int(t) for t in p.locator("#ops tbody tr td:nth-child(3)").all_inner_texts()]
    assert calls == sorted(calls, reverse=True) and p.locator("th.down").inner_text() == "calls"
    p.click("th[data-key=op]")
    names = p.locator("#ops tbody tr td:nth-child(1)").all_inner_texts()
    assert names == sorted(names) and len(names) == len(report["panel"])
    p.fill("#search", "conv")
    assert set(p.locator("#ops tbody tr td:nth-child(1)").all_inner_texts()) == {"ConvolutionBackward0", "aten::conv2d"}
    p.select_option("#phase", "backward")
    assert p.locator("#ops tbody tr").count() == 1 and p.inner_text("#shown").startswith("1 of")
    p.click("#reset")
    assert p.locator("#ops tbody tr").count() == len(report["panel"])
    # the rest
    assert "train.py:9" in p.inner_text("#advice .hint") and "25 %" in p.inner_text("#advice") and "pow(<x>, 2)" in p.inner_text("#advice pre")
    assert p.locator("#memory path#curve").count() == 1 and "parameter" in p.inner_text("#peak")
    assert "<script>alert(1)</script>" in p.inner_text("#environment")
    assert said == []


def test_page_of_a_program_without_steps(tmp_path, browser_page):
    profile, clock = mt.profiler.profile(), StepClock()
    with profile:
        clock.start()
        mt.ones(3).exp()
        clock.stop()
    made = data.build(profile, clock, Split(clock.steps).as_json(), "x.py", [])
    page.save(made, str(tmp_path / "report.html"))
    browser_page.goto((tmp_path / "report.html").as_uri())
    assert "No step was timed" in browser_page.inner_text("#verdict") and browser_page.inner_text("#steps") == "No step was seen."
    assert "aten::exp" in browser_page.inner_text("#ops") and made["memory"] is None and browser_page.locator("#memory").count() == 0


def test_many_changes_keep_the_peak():
    points = [[float(i), i % 977] for i in range(20000)]
    thin = data._thinned(points)
    assert len(thin) <= data.POINTS and max(v for _, v in thin) == 976 and thin == sorted(thin)


def command(folder, *args):
    (folder / "train.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "mindtorch", *args], cwd=folder, env=env, capture_output=True, text=True, timeout=400)
    return done


def test_command_writes_page_and_json(tmp_path):
    done = command(tmp_path, "report", "--against", "torch", "--json", "report.json", "train.py")
    assert done.returncode == 0, done.stderr
    assert "report.html written" in done.stdout
    text = (tmp_path / "report.html").read_text()
    assert "src=" not in text and "http" not in text.replace("http://www.w3.org", "") and "{{" not in text
    got = json.loads((tmp_path / "report.json").read_text())
    assert got["steps"][0]["first"] and got["split"]["steps"] == 5 and got["against"] == "torch"
    rows = {r["op"]: r for r in got["panel"]}
    assert rows["aten::linear"]["calls"] == rows["aten::linear"]["torch_calls"] == 5 and rows["aten::linear"]["ratio"] > 0
    assert got["advice"]["untried"] == [] and "power" in got["advice"]["tried"]
    assert any(line.startswith("mindspore") for line in got["environment"]) and any(line.startswith("threads") for line in got["environment"])


def test_parts_of_the_page_need_one(tmp_path):
    done = command(tmp_path, "profile", "--advice", "train.py")
    assert done.returncode == 2 and "give --html FILE" in done.stderr
