"""The program that ``profile``, ``panel``, ``tune`` and ``verify`` run: how it stands on their command lines."""

from __future__ import annotations

import argparse
from typing import Any


class _Behind(argparse.Action):
    """Everything behind the script; a leading ``--`` only separates the two."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, values[1:] if values[:1] == ["--"] else values)


def add(p: argparse.ArgumentParser) -> None:
    """The last two arguments: ``script``, and ``args``, a list of what is the script's own."""
    p.add_argument("script")
    p.add_argument("args", nargs=argparse.REMAINDER, action=_Behind, help="arguments of the script")
