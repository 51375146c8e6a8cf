"""``python -m mindtorch`` behaves as plain ``python`` does, and ``import torch`` means mindtorch in it and its children."""
# ruff: noqa: E501 - tables of cases are easier to read unwrapped

import importlib.metadata
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")


def run(args, cwd, **env):
    full = {**os.environ, "PYTHONPATH": SRC, "OMP_NUM_THREADS": "1", **env}
    return subprocess.run([sys.executable, *args], cwd=cwd, env=full, capture_output=True, text=True, timeout=120)


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return name


PLAIN = {
    "identity": """
        import sys, os
        print(__name__, __file__, sys.argv, sys.path[0], __spec__, __package__, __builtins__.__name__)
        print(sys.modules["__main__"].__dict__ is globals(), sorted(k for k in globals() if k.startswith("__")))
        import helper; print(helper.VALUE)
    """,
    "exit_code": "import sys\nsys.exit(3)\n",
    "exit_text": "raise SystemExit('bye')\n",
    "traceback": """
        def f():
            raise ValueError("boo")
        try:
            f()
        except ValueError:
            {}["missing"]
    """,
    "cause": """
        import helper
        try:
            helper.fail()
        except RuntimeError as e:
            raise KeyError(1) from e
    """,
    "syntax": "x = (\n",
    "own_hook": """
        import sys, traceback
        def hook(kind, value, tb):
            print("hook", kind.__name__, [f.name for f in traceback.extract_tb(tb)])
        sys.excepthook = hook
        def f(): 1 / 0
        f()
    """,
    "atexit": "import atexit\natexit.register(print, 'at exit')\nprint('x')\n",
    "class_pickle": """
        import pickle
        class A: pass
        print(type(pickle.loads(pickle.dumps(A()))) is A)
    """,
    "interrupt": "raise KeyboardInterrupt\n",
    "future": "from __future__ import annotations\ndef f(x: nonsense): pass\nprint(f.__annotations__)\n",
}


@pytest.mark.parametrize("name", PLAIN)
def test_scripts_run_as_under_python(tmp_path, name):
    write(tmp_path, "helper.py", "VALUE = 5\ndef fail():\n    raise RuntimeError('helper')\n")
    script = write(tmp_path, f"{name}.py", PLAIN[name])
    want = run([script, "a", "--b", "-m", "c"], tmp_path)
    got = run(["-m", "mindtorch", script, "a", "--b", "-m", "c"], tmp_path)
    assert (got.stdout, got.stderr, got.returncode) == (want.stdout, want.stderr, want.returncode)


def test_modules_run_as_under_python(tmp_path):
    write(tmp_path, "pkg/__init__.py", "print('init')\n")
    write(tmp_path, "pkg/part.py", "X = 7\n")
    write(
        tmp_path,
        "pkg/go.py",
        """
        import sys
        from . import part
        from .part import X
        print(__name__, __package__, __spec__.name, X, sys.argv[1:], sys.argv[0] == __file__)
        raise ValueError("end")
        """,
    )
    write(tmp_path, "pkg/__main__.py", "print('main of pkg', __package__)\n")
    for args in (["pkg.go", "a", "-x"], ["pkg"]):
        want = run(["-m", *args], tmp_path)
        got = run(["-m", "mindtorch", "-m", *args], tmp_path)
        assert got.stdout == want.stdout and got.returncode == want.returncode
        # plain -m shows runpy's two frames; ours shows the program only
        assert "mindtorch" not in got.stderr and got.stderr.splitlines()[-3:] == want.stderr.splitlines()[-3:]
    want, got = run(["pkg"], tmp_path), run(["-m", "mindtorch", "pkg"], tmp_path)
    assert got.stdout == want.stdout


def test_missing_program(tmp_path):
    got = run(["-m", "mindtorch", "nope.py"], tmp_path)
    assert got.returncode == 2 and "can't open file" in got.stderr and "Traceback" not in got.stderr
    got = run(["-m", "mindtorch", "-m", "nope_module"], tmp_path)
    assert got.returncode == 1 and "nope_module" in got.stderr and "Traceback" not in got.stderr


def test_command_and_help(tmp_path):
    got = run(["-m", "mindtorch", "-c", "import sys; print(sys.argv); sys.exit(7)", "x"], tmp_path)
    assert got.stdout == "['-c', 'x']\n" and got.returncode == 7
    got = run(["-m", "mindtorch"], tmp_path)
    assert got.returncode == 2 and "usage" in got.stderr
    got = run(["-m", "mindtorch", "env"], tmp_path)
    assert got.returncode == 0 and "mindspore" in got.stdout and "numpy" in got.stdout
    assert run(["-m", "mindtorch", "--nonsense"], tmp_path).returncode == 2


IDENTITY = """
    import sys, importlib.util, importlib.metadata
    assert importlib.util.find_spec("torch") is not None
    import torch, torch.storage as storage
    from torch.serialization import load
    import mindtorch.torch
    import mindtorch.torch.storage
    assert sys.modules["torch"] is mindtorch.torch and storage is mindtorch.torch.storage
    assert sys.modules["torch.storage"] is storage and torch.storage is storage
    assert load is mindtorch.torch.serialization.load
    assert torch.__spec__ is not None and importlib.util.find_spec("torch") is not None
    assert mindtorch.torch.storage.__spec__.name == "mindtorch.torch.storage"
    assert importlib.metadata.version("torch") == "2.13.0"
    assert importlib.util.find_spec("torch.nothing_here") is None
    try:
        import torch.nothing_here
    except ModuleNotFoundError as e:
        assert "mindtorch" in str(e) and e.name == "torch.nothing_here", e
    else:
        raise AssertionError
    print("same")
"""


def test_torch_is_mindtorch(tmp_path):
    got = run(["-m", "mindtorch", write(tmp_path, "a.py", IDENTITY)], tmp_path)
    assert got.stdout == "same\n", got.stderr


def test_without_pytorch_installed(tmp_path):
    hide = """
        import sys
        class Hide:
            def find_spec(self, name, path=None, target=None):
                if name == "torch":
                    raise ModuleNotFoundError("hidden")
        sys.meta_path.insert(1, Hide())
    """
    script = write(tmp_path, "a.py", textwrap.dedent(hide) + textwrap.dedent(IDENTITY))
    got = run(["-m", "mindtorch", script], tmp_path)
    assert got.stdout == "same\n", got.stderr


def test_tool_switches_and_switches_back(tmp_path):
    script = write(
        tmp_path,
        "a.py",
        """
        from mindtorch.tools import mstorch_enable
        import torch.storage
        import mindtorch.torch.storage as ours
        assert torch.storage is ours
        from mindtorch.tools import pytorch_enable
        import torch.storage
        assert torch.storage is not ours and torch.__name__ == "torch"
        import mindtorch
        mindtorch.torch_disable()
        import torch.storage
        assert torch.storage is ours
        mindtorch.torch_disable(); mindtorch.torch_enable()
        import torch
        assert torch.__name__ == "torch"
        mindtorch.torch_pop(); mindtorch.torch_pop()
        import torch.storage
        assert torch.storage is ours
        mindtorch.torch_pop()
        import torch
        assert torch.__name__ == "torch"
        print("ok")
        """,
    )
    got = run([script], tmp_path)
    assert got.stdout == "ok\n", got.stderr


def test_too_late_is_an_error(tmp_path):
    script = write(tmp_path, "a.py", "import torch\nfrom mindtorch.tools import mstorch_enable\n")
    got = run([script], tmp_path)
    assert got.returncode == 1 and "the real PyTorch is loaded already" in got.stderr


CHILDREN = """
    import multiprocessing, subprocess, sys

    def name(q):
        import torch.storage
        q.put(torch.storage.__name__)

    if __name__ == "__main__":
        for method in ("fork", "spawn", "forkserver"):
            ctx = multiprocessing.get_context(method)
            q = ctx.Queue()
            p = ctx.Process(target=name, args=(q,))
            p.start()
            print(method, q.get())
            p.join()
        child = subprocess.run([sys.executable, "-c", "import torch.storage as s; print(s.__name__)"],
                               capture_output=True, text=True)
        print("subprocess", child.stdout.strip() or child.stderr)
"""


@pytest.mark.parametrize("how", ["runner", "tool"])
def test_children_are_switched(tmp_path, how):
    text = textwrap.dedent(CHILDREN)
    script = write(tmp_path, "a.py", text if how == "runner" else "from mindtorch.tools import mstorch_enable\n" + text)
    got = run(["-m", "mindtorch", script] if how == "runner" else [script], tmp_path)
    want = "".join(f"{m} mindtorch.torch.storage\n" for m in ("fork", "spawn", "forkserver", "subprocess"))
    assert got.stdout == want, got.stderr


def test_environment_variable_and_hidden_sitecustomize(tmp_path):
    write(tmp_path, "sitecustomize.py", "print('own sitecustomize')\n")
    startup = os.path.join(SRC, "mindtorch", "cli", "startup")
    path = os.pathsep.join([startup, str(tmp_path), SRC])
    code = "import torch.storage; print(torch.storage.__name__)"
    got = run(["-c", code], "/", PYTHONPATH=path, MINDTORCH_SWITCH="1")
    assert got.stdout == "own sitecustomize\nmindtorch.torch.storage\n", got.stderr
    got = run(["-c", code], "/", PYTHONPATH=path)
    assert got.stdout == "own sitecustomize\ntorch.storage\n", got.stderr


def test_environment_variable_through_the_installed_file(tmp_path):
    """``MINDTORCH_SWITCH=1`` alone switches a program that somebody else starts: the file in site-packages is read."""
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(os.path.join(SRC, "mindtorch", "cli", "startup", "mindtorch_switch.pth"), site)
    code = f"import site, sys; site.addsitedir({str(site)!r}); import torch; print(torch.__file__)"
    code += "; print('mindtorch.cli.switch' in sys.modules)"
    ours = os.path.join(SRC, "mindtorch", "torch", "__init__.py")
    assert run(["-c", code], tmp_path, MINDTORCH_SWITCH="1").stdout == f"{ours}\nTrue\n"
    for off in ("", "0"):
        theirs, loaded = run(["-c", code], tmp_path, MINDTORCH_SWITCH=off).stdout.splitlines()
        assert theirs != ours and loaded == "False"


def test_the_file_is_installed():
    # an egg-info that a build left beside the sources lists files too, but those of the source tree
    installed = [d for d in importlib.metadata.distributions(name="mindtorch") if d.read_text("RECORD")]
    if not installed:
        pytest.skip("mindtorch is on the path but not installed")
    assert "mindtorch_switch.pth" in [str(f) for f in installed[0].files or []]


def test_importing_the_package_is_light(tmp_path):
    code = "import mindtorch, mindtorch.cli.switch, sys; print([m for m in ('numpy', 'mindspore', 'torch') if m in sys.modules])"
    assert run(["-c", code], tmp_path).stdout == "[]\n"
