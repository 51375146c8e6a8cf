"""``python -m torch.utils.bottleneck script.py [args]``: environment, cProfile and autograd profiler of one script."""

from __future__ import annotations

import argparse
import cProfile
import pstats
import runpy
import sys
from typing import Any

_LINE = "-" * 80


def _environment() -> str:
    import platform

    import mindtorch.torch as torch
    from mindtorch import __version__

    return (
        f"mindtorch {__version__} (behaves as PyTorch {torch.__version__}), no accelerator is profiled\n"
        f"Running with Python {platform.python_version()} on {platform.platform()}"
    )


def _run(script: str, args: list[str]) -> None:
    before = sys.argv
    sys.argv = [script, *args]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as e:
        if e.code not in (None, 0):
            raise
    finally:
        sys.argv = before


def _cprofile(script: str, args: list[str]) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        _run(script, args)
    finally:
        profiler.disable()
    print(f"{_LINE}\n  cProfile output\n{_LINE}")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(15)


def _autograd(script: str, args: list[str]) -> Any:
    from mindtorch.torch.autograd.profiler import profile

    with profile() as prof:
        _run(script, args)
    print(f"{_LINE}\n  autograd profiler output (CPU mode)\n{_LINE}\n        top 15 events sorted by cpu_time_total\n")
    print(prof.table(sort_by="cpu_time_total", row_limit=15))
    return prof


def main(argv: list[str] | None = None) -> int:
    """Run the script twice, once under each profiler, and print both summaries."""
    p = argparse.ArgumentParser(
        prog="python -m torch.utils.bottleneck",
        description="Summarise where a script spends its time. It is run twice, so it must end by itself, and soon.",
    )
    p.add_argument("scriptfile", help="the script")
    p.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    o = p.parse_args(argv)
    args = o.args[1:] if o.args[:1] == ["--"] else o.args
    print(f"{_LINE}\n  Environment Summary\n{_LINE}\n{_environment()}")
    _cprofile(o.scriptfile, args)
    _autograd(o.scriptfile, args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
