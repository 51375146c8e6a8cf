"""The tools where only one of the frameworks is installed: virtual environments that really lack the other one.

Such an environment has its own interpreter and a site-packages of links to everything that this one has, but for the
packages left out; nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import mindtorch

GOLDEN = Path(__file__).parent / "golden_ts1018"
PACKAGES = Path(sysconfig.get_path("purelib"))
TRAIN = """
import sys
import torch
import torch.nn.functional as F
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Linear(32, 3)
        self.drop = torch.nn.Dropout(0.2)
    def forward(self, x):
        return self.fc(self.drop(torch.flatten(F.relu(self.bn(self.conv(x))), 1)))
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(9):
    x = torch.randn(4, 1, 6, 6)
    loss = F.cross_entropy(net(x) * (1.1 if "--wrong" in sys.argv else 1.0), torch.tensor([0, 1, 2, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
USE = """
import sys
from mindtorch.tools import as_troubleshooter, debug_layer_info
FRAME, ABSENT = sys.argv[1:3]
if FRAME == "mindtorch":
    import mindtorch.torch as torch
else:
    import torch
ts = as_troubleshooter()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
ts.migrator.api_dump_init(net, f"{FRAME}_dump", retain_backward=True, compare_statedict=True)
ts.migrator.api_dump_start()
with debug_layer_info(net, frame=FRAME, file=f"{FRAME}.json"):
    net(torch.randn(3, 4)).sum().backward()
ts.migrator.api_dump_stop()
ts.fix_random(3)
ts.save("saved/x", torch.ones(2))
try:
    __import__(ABSENT)
except ModuleNotFoundError:
    pass
else:
    raise SystemExit(f"{ABSENT} is there")
assert FRAME == "mindtorch" or "mindtorch.torch" not in sys.modules
"""


def environment(folder: Path, *without: str) -> Path:
    """The interpreter of a new virtual environment that has what this one has, but for some packages."""
    venv.create(folder, symlinks=True, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages")) if os.name != "nt" else folder / "Lib" / "site-packages"
    for entry in PACKAGES.iterdir():
        # Paths in .pth files, an editable mindtorch among them, could lead back to what is left out.
        if entry.name.lower().startswith(without) or entry.suffix == ".pth" or entry.name in ("mindtorch", "__pycache__"):
            continue
        (site / entry.name).symlink_to(entry)
    (site / "mindtorch").symlink_to(Path(mindtorch.__file__).parent)
    return folder / "bin" / "python"


def run(python: Path, cwd: Path, *args: object) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MINDTORCH_SWITCH")}
    return subprocess.run([str(python), *map(str, args)], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def no_torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("no_torch"), "torch", "functorch")


@pytest.fixture(scope="module")
def no_mindspore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("no_mindspore"), "mindspore", "msadapter")


@pytest.fixture(scope="module")
def recorded(no_mindspore: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and a dump of it that PyTorch made where MindSpore is not installed."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "train.py").write_text(TRAIN)
    (folder / "use.py").write_text(USE)
    done = run(no_mindspore, folder, "-m", "mindtorch.tools.record", "--frame", "pytorch", "--out", "pt", "--steps", 2, "--seed", 0, "train.py")
    assert done.returncode == 0, done.stderr
    return folder


def test_verify_against_a_recorded_dump_without_pytorch(no_torch, recorded):
    asked = run(no_torch, recorded, "-m", "mindtorch", "verify", "--steps", 2, "train.py")
    assert asked.returncode == 2 and "--against" in asked.stderr
    good = run(no_torch, recorded, "-m", "mindtorch", "verify", "--steps", 2, "--against", "pt", "train.py")
    assert good.returncode == 0 and "No divergence." in good.stdout, good.stdout + good.stderr
    assert "16 calls in 2 steps" in good.stdout
    bad = run(no_torch, recorded, "-m", "mindtorch", "verify", "--steps", 2, "--against", "pt", "train.py", "--wrong")
    assert bad.returncode == 1 and "First divergence: torch.Tensor.__mul__(0)" in bad.stdout, bad.stdout + bad.stderr


def test_dumps_layers_and_saving_on_each_side_alone(no_torch, no_mindspore, recorded):
    for python, frame, absent in ((no_mindspore, "pytorch", "mindspore"), (no_torch, "mindtorch", "torch")):
        done = run(python, recorded, "use.py", frame, absent)
        assert done.returncode == 0, done.stderr
    for python in (no_torch, no_mindspore):  # and either of them compares
        same = run(python, recorded, "-m", "mindtorch", "compare", "pytorch_dump", "mindtorch_dump", "--html", "r.html")
        assert same.returncode == 0 and "No divergence." in same.stdout, same.stdout + same.stderr
        layers = run(python, recorded, "-m", "mindtorch", "layers", "pytorch.json", "mindtorch.json")
        assert layers.returncode == 0, layers.stdout + layers.stderr
        old = run(python, recorded, "-m", "mindtorch", "compare", GOLDEN / "pt_a", GOLDEN / "pt_b", "--json", "v.json")
        assert old.returncode == 1 and json.loads((recorded / "v.json").read_text())["first"]["call"][0] == "torch.Tensor.__mul__(0)"


def test_the_environments_lack_what_they_are_to_lack(no_torch, no_mindspore, tmp_path):
    for python, name in ((no_torch, "torch"), (no_mindspore, "mindspore")):
        done = run(python, tmp_path, "-c", f"import numpy, {name}")
        assert done.returncode == 1 and f"No module named '{name}'" in done.stderr
    assert run(no_torch, tmp_path, "-c", "import mindspore").returncode == 0
    assert sys.prefix not in run(no_torch, tmp_path, "-c", "import sys; print(sys.path)").stdout
