"""Every command of docs/tuning.md runs on the page's own example."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_commands_of_the_page(tmp_path):
    with open(os.path.join(ROOT, "docs", "tuning.md")) as f:
        page = f.read()
    example, op = re.findall(r"```python\n(.*?)```", page, re.S)
    (tmp_path / "train.py").write_text(example)
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "src"), "OMP_NUM_THREADS": "1", "PATH": path}
    commands = re.findall(r"```sh\n(.*?)\n```", page, re.S)
    assert len(commands) >= 5
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, command + done.stdout + done.stderr
    for name in ("split.json", "advice.json", "runtime/runtime.csv", "runtime/runtime.json"):
        assert (tmp_path / name).stat().st_size > 0
    space = {}
    exec(op, space)
    import mindtorch.torch as torch

    x = torch.tensor([3.0], requires_grad=True)
    space["square"](x).backward()
    assert x.grad.item() == 6
