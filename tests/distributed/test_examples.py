"""Programs as PyTorch's tutorials write them, under both: the same losses and weights."""

from __future__ import annotations

import json
import sys

import pytest
from jobs import HERE, launch, run
from test_jobs import close

import mindtorch.torch.distributed as dist

pytest.importorskip("mindspore")


def folders(tmp_path):
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        yield str(tmp_path / name)


def seen(folder):
    with open(f"{folder}/seen.json") as f:
        return json.load(f)


def test_spawned_from_the_program_itself(tmp_path):
    ours, theirs = folders(tmp_path)
    script = str(HERE / "example_spawn.py")
    for done in (run([sys.executable, "-m", "mindtorch", script, ours]), run([sys.executable, script, theirs])):
        assert done.returncode == 0, done.stderr[-2000:]
    assert seen(ours)[1] is True and close(seen(ours), seen(theirs))


def test_restarted_job_resumes_from_its_snapshot(tmp_path):
    """PyTorch's processes are restarted by the same launcher: under torchrun, gloo now and then cannot meet again."""
    ours, theirs = folders(tmp_path)
    flags, script = ["--standalone", "--nproc-per-node=2", "--max-restarts=1"], str(HERE / "example_torchrun.py")
    for done in (launch(*flags, script, ours, "3"), launch(*flags, "--no-python", sys.executable, script, theirs, "3")):
        assert done.returncode == 0 and "a failure on purpose" in done.stderr, done.stderr[-2000:]
    assert seen(ours)[2] == seen(theirs)[2] == "1" and len(seen(ours)[0]) == 9
    assert close(seen(ours), seen(theirs))


@pytest.mark.parametrize("name", ["fsdp", "tensor", "device_mesh", "init_device_mesh", "DeviceMesh", "pipelining", "rpc", "checkpoint"])
def test_what_is_absent_says_what_to_use(name):
    with pytest.raises(AttributeError, match=f"torch.distributed.{name} is not available in mindtorch: "):
        getattr(dist, name)


def test_imports_of_absent_modules_are_told_apart(tmp_path):
    script = tmp_path / "absent.py"
    script.write_text(
        "for line in ('from torch.distributed.fsdp import FullyShardedDataParallel', 'import torch.distributed.rpc as rpc',\n"
        "             'from torch.distributed.device_mesh import init_device_mesh'):\n"
        "    try:\n        exec(line)\n    except ImportError as e:\n        print(e)\n"
    )
    done = run([sys.executable, "-m", "mindtorch", str(script)])
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all("DistributedDataParallel" in x or "new_group" in x or "send_object_list" in x for x in lines), (
        done.stdout + done.stderr
    )
