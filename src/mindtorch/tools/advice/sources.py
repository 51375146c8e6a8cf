"""The user's files: which frame of a stack is theirs, and what their text says around a line."""

from __future__ import annotations

import ast
import functools
import os
import site
import sys
import sysconfig
from dataclasses import dataclass
from types import FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_FOREIGN = tuple(
    os.path.abspath(p) + os.sep
    for p in {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    if p
)


@dataclass(frozen=True)
class Site:
    """A line of the user's. ``direct``: the call is written there, not inside a module or function of the library."""

    file: str
    line: int
    direct: bool = True

    def __str__(self) -> str:
        return f"{shown(self.file)}:{self.line}"

    @property
    def text(self) -> str:
        """The line itself."""
        return tree(self.file).text(self.line)


def shown(file: str) -> str:
    """``file`` relative to the current folder where it lies below it."""
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


@functools.lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether a code object of ``file`` was written by the user: not by us, the standard library or an installed package."""
    if file.startswith("<") or file.startswith(_PACKAGE):
        return False
    full = os.path.abspath(file)
    return not full.startswith((_PACKAGE, *_FOREIGN))


@functools.lru_cache(maxsize=4096)
def _library(file: str) -> bool:
    return file.startswith(os.path.join(_PACKAGE, "torch", "")) or file.startswith(os.path.join(_PACKAGE, "torchvision", ""))


def caller(depth: int = 1) -> Site | None:
    """The innermost frame of the user's above the calling one; None when there is none (a thread of the library)."""
    frame: FrameType | None = sys._getframe(depth)
    direct = True
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file):
            return Site(file, frame.f_lineno, direct)
        direct = direct and not _library(file)
        frame = frame.f_back
    return None


class Tree:
    """The syntax of one file: its lines and the loops and functions around each."""

    def __init__(self, file: str) -> None:
        try:
            with open(file, encoding="utf-8") as f:
                source = f.read()
            self.root: ast.AST = ast.parse(source)
        except (OSError, SyntaxError, ValueError):
            source, self.root = "", ast.Module([], [])
        self.lines = source.splitlines()
        self.loops = [n for n in ast.walk(self.root) if isinstance(n, (ast.For, ast.While, ast.ListComp, ast.GeneratorExp))]

    def text(self, line: int) -> str:
        """Line ``line`` without its indentation, empty when there is no such line."""
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""

    def loop(self, line: int) -> ast.For | ast.ListComp | ast.GeneratorExp | None:
        """The innermost ``for`` or comprehension whose body holds ``line``."""
        found = None
        for n in self.loops:
            if isinstance(n, ast.While) or not n.lineno <= line <= (n.end_lineno or n.lineno):
                continue
            if isinstance(n, ast.For) and line < n.body[0].lineno:
                continue
            if found is None or n.lineno >= found.lineno:
                found = n
        return found


@functools.lru_cache(maxsize=256)
def tree(file: str) -> Tree:
    """The parsed text of ``file``, read once."""
    return Tree(file)


def names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Names read (``ast.Load``) or written (``ast.Store``) inside ``node``."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def carried(loop: ast.AST) -> bool:
    """Whether an iteration needs what the one before computed, other than by adding up or collecting: no vectorising then."""
    if not isinstance(loop, ast.For):
        return False
    written: set[str] = set(names(loop.target, ast.Store))
    all_written = set().union(*(names(s, ast.Store) for s in loop.body))
    for s in loop.body:
        if isinstance(s, ast.AugAssign):
            read = names(s.value, ast.Load)
        elif isinstance(s, ast.Assign) and _adds_to_itself(s):
            read = names(s.value, ast.Load) - names(s.targets[0], ast.Store)
        else:
            read = names(s, ast.Load)
        stored = names(s, ast.Store)
        if (read & all_written) - written - (stored if isinstance(s, (ast.For, ast.If, ast.With)) else set()):
            return True
        written |= stored
    return False


def _adds_to_itself(s: ast.Assign) -> bool:
    """``total = total + something``."""
    v = s.value
    return (
        isinstance(s.targets[0], ast.Name)
        and isinstance(v, ast.BinOp)
        and isinstance(v.op, ast.Add)
        and isinstance(v.left, ast.Name)
        and v.left.id == s.targets[0].id
    )


def calls_method(node: ast.AST, *methods: str) -> bool:
    """Whether ``node`` contains a call ``something.method(...)`` of one of these."""
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in methods for n in ast.walk(node))
