"""What is loaded and set, and when: MindSpore, numba, the allocator; each scenario in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CONV = "y = torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3)); assert y.sum().item() == 2 * 4 * 36 * 27"


def told(code: str, **env: str) -> str:
    """Output of ``code`` after ``import mindtorch.torch as torch, sys``."""
    full = {k: v for k, v in os.environ.items() if not k.startswith("MINDTORCH_")} | env
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\nimport mindtorch.torch as torch\n{code}"], env=full, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_import_loads_numpy_only_and_leaves_the_allocator_alone() -> None:
    code = (
        "from mindtorch.engine.host import alloc\n"
        "print([m for m in ('mindspore', 'numba', 'scipy', 'torch') if m in sys.modules], alloc._state)\n"
        "torch.ones(3) + 1\nprint(alloc._state is None)"
    )
    assert told(code) == "[] None\nFalse"


@pytest.mark.parametrize(("kernels", "loaded"), [("host", "False"), ("auto", "False"), ("mindspore", "True")])
def test_kernels_setting_decides_who_convolves(kernels: str, loaded: str) -> None:
    pytest.importorskip("mindspore")
    assert told(f"{CONV}\nprint('mindspore' in sys.modules)", MINDTORCH_KERNELS=kernels) == loaded


WORKER = """
import warnings; warnings.simplefilter("ignore")
from mindtorch.torch.utils.data import DataLoader, Dataset
from mindtorch.engine.mindspore import door
from mindtorch.engine.host import jit
if {before}: door.load()
class Data(Dataset):
    def __len__(self): return 2
    def __getitem__(self, i):
        y = torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
        try:
            door.load(); refused = False
        except RuntimeError:
            refused = True
        return int(y.sum().item()), int(refused), int(jit._off), int(door._worker)
print([[t.item() for t in row] for row in DataLoader(Data(), num_workers=1)])
"""


@pytest.mark.parametrize("before", [False, True])
def test_workers_never_compute_with_mindspore(before: bool) -> None:
    """Not even where it is asked for, nor when the parent had loaded it before the fork."""
    pytest.importorskip("mindspore")
    assert told(WORKER.format(before=before), MINDTORCH_KERNELS="mindspore") == str([[4 * 36 * 27, 1, 1, 1]] * 2)
