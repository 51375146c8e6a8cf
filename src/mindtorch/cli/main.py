"""The command line of ``python -m mindtorch``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from mindtorch.cli import run, switch

COMMANDS = {
    "compare": ("mindtorch.cli.compare", "main", "compare two API dumps and name the first divergence"),
    "convert": ("mindtorch.cli.convert", "main", "convert, list or compare checkpoints of any format"),
    "env": ("mindtorch.cli.main", "env", "print the versions of everything involved"),
    "launch": ("mindtorch.cli.launch", "main", "run a program in several processes (torchrun's flags)"),
    "layers": ("mindtorch.cli.layers", "main", "compare two files of debug_layer_info side by side"),
    "panel": ("mindtorch.cli.panel", "main", "time, calls and share of every op, beside PyTorch's"),
    "tune": ("mindtorch.cli.tune", "main", "say what would make a script faster, each piece of advice measured"),
    "profile": ("mindtorch.cli.profile", "main", "split a program's steps into data, forward, backward, optimiser"),
    "report": ("mindtorch.cli.profile", "report", "profile a program and write all there is to see as one HTML page"),
    "verify": ("mindtorch.cli.verify", "main", "run a script on PyTorch and on mindtorch and compare them"),
}
"""Small commands: name -> (module, function taking the rest of the arguments, one line of help)."""

_USAGE = """python -m mindtorch SCRIPT.py [ARGS ...]
       python -m mindtorch -m MODULE [ARGS ...]
       python -m mindtorch -c PROGRAM [ARGS ...]
       python -m mindtorch COMMAND [ARGS ...]"""


def parser() -> argparse.ArgumentParser:
    """The parser of the options before the program."""
    commands = "\n".join(f"  {name:10} {text}" for name, (_, _, text) in COMMANDS.items())
    p = argparse.ArgumentParser(
        prog="python -m mindtorch",
        usage=_USAGE,
        description="Run a PyTorch program on MindSpore: in it, and in the processes it starts, torch and torchvision "
        "mean mindtorch.",
        epilog=f"commands:\n{commands}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--version", action="version", version=f"mindtorch {importlib.import_module('mindtorch').__version__}"
    )
    p.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    p.add_argument("-c", dest="command", metavar="PROGRAM", help="run program text, as python -c does")
    p.add_argument("script", nargs="?", help="the program; everything behind it is its own")
    return p


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the program's: the program starts behind the first positional, -m X or -c X."""
    for i, word in enumerate(argv):
        if word in ("-m", "-c"):
            return argv[: i + 2], argv[i + 2 :]
        if not word.startswith("-"):
            return argv[: i + 1], argv[i + 1 :]
    return argv, []


def main(argv: list[str] | None = None) -> None:
    """Parse ``argv`` (``sys.argv`` by default) and run what it names."""
    own, rest = _split(sys.argv[1:] if argv is None else list(argv))
    p = parser()
    options = _quietly(lambda: p.parse_args(own))
    if options.script in COMMANDS and not os.path.exists(options.script):
        module, function, _ = COMMANDS[options.script]
        raise SystemExit(_quietly(lambda: getattr(importlib.import_module(module), function)(rest)))
    if options.module is None and options.command is None and options.script is None:
        p.print_help(sys.stderr)
        raise SystemExit(2)
    switch.install()
    switch.inherit()
    if options.module is not None:
        run.module(options.module, rest)
    elif options.command is not None:
        run.command(options.command, rest)
    else:
        run.script(options.script, rest)


def _quietly(work: Callable[[], Any]) -> Any:
    """Do something that prints. What reads its output may stop reading (``| head``): then we end as a Unix program does."""
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python writes what is left once more when it ends, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + 13) from None  # what shells report for SIGPIPE


def env(args: list[str]) -> int:
    """Print versions: mindtorch, the PyTorch it follows, MindSpore, NumPy and the rest."""
    if args:
        print(f"python -m mindtorch env takes no arguments, got {' '.join(args)}", file=sys.stderr)
        return 2
    from mindtorch.cli import settings

    print("\n".join([*settings.versions(), *settings.lines()]))
    return 0
