"""Runs a program as plain ``python`` would: same ``__main__``, arguments, search path, exit status and tracebacks."""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import runpy
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_RUNNER = (os.path.join(_HERE, "__main__.py"), os.path.join(_HERE, "cli") + os.sep)
_kept: list[Any] = []


def _without_runner(tb: TracebackType | None) -> TracebackType | None:
    """``tb`` from the first frame on that belongs to the program."""
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        own = file.startswith(_RUNNER) or file in ("<frozen runpy>", runpy.__file__)
        if not own and not file.startswith("<frozen importlib"):
            return tb
        tb = tb.tb_next
    return None


def _trimming(hook: Any) -> Any:
    def excepthook(kind: type[BaseException], value: BaseException, tb: TracebackType | None) -> None:
        tb = _without_runner(tb)
        hook(kind, value.with_traceback(tb), tb)

    return excepthook


def _fail(message: str) -> None:
    print(f"{sys.executable}: {message}", file=sys.stderr)
    raise SystemExit(2)


def _exec(code: Any, namespace: dict[str, Any]) -> None:
    """Run ``code``; an exception leaves the process through the program's own hook, without the runner's frames."""
    try:
        exec(code, namespace)
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook = _trimming(sys.excepthook)
        raise


def _main_module(**attributes: Any) -> ModuleType:
    """A fresh ``__main__``. The former one is kept alive: its namespace would be cleared otherwise."""
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __annotations__={}, **attributes)
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = module
    return module


def script(path: str, args: list[str], execute: Callable[[Any, dict[str, Any]], None] = _exec) -> None:
    """Run a file (or a folder or zip archive with a ``__main__``). ``execute=exec`` leaves a file's exceptions to the caller."""
    sys.argv = [path, *args]
    if os.path.isdir(path) or (not path.endswith((".py", ".pyw")) and _is_zip(path)):
        sys.path[0] = path
        _run_module("__main__", path)
        return
    full = os.path.abspath(path)
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as e:
        _fail(f"can't open file {full!r}: [Errno {e.errno}] {e.strerror}")
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    loader = importlib.machinery.SourceFileLoader("__main__", full)
    module = _main_module(__file__=full, __cached__=None, __loader__=loader, __package__=None, __spec__=None)
    sys.excepthook, before = _trimming(sys.excepthook), sys.excepthook
    code = compile(source, full, "exec", dont_inherit=True)
    sys.excepthook = before
    execute(code, module.__dict__)


def _is_zip(path: str) -> bool:
    import zipfile

    return os.path.isfile(path) and zipfile.is_zipfile(path)


def module(name: str, args: list[str]) -> None:
    """Run a module as ``python -m`` does."""
    sys.argv = ["-m", *args]
    sys.path[0] = os.getcwd()
    _run_module(name, None)


def _run_module(name: str, where: str | None) -> None:
    try:
        _, spec, code = runpy._get_main_module_details() if where else runpy._get_module_details(name)  # type: ignore[attr-defined]
    except (ImportError, runpy._Error) as e:  # type: ignore[attr-defined]
        print(f"{sys.executable}: {e}", file=sys.stderr)
        raise SystemExit(1) from None
    sys.argv[0] = spec.origin if where is None else where
    made = _main_module(
        __file__=spec.origin,
        __cached__=spec.cached,
        __loader__=spec.loader,
        __package__=spec.parent,
        __spec__=spec,
    )
    _exec(code, made.__dict__)


def command(source: str, args: list[str]) -> None:
    """Run program text as ``python -c`` does."""
    sys.argv = ["-c", *args]
    sys.path[0] = ""
    made = _main_module(__package__=None, __spec__=None, __loader__=None)
    _exec(compile(source, "<string>", "exec", dont_inherit=True), made.__dict__)
