"""The logger of mindtorch, governed by ``MSA_LOG`` (0 debug, 1 info, 2 warning, 3 error, 4 critical; default 2).

Each message is emitted once per call site of the user's program, with the user's file and line.
"""

from __future__ import annotations

import logging
import os
import sys

_LEVELS = {"0": logging.DEBUG, "1": logging.INFO, "2": logging.WARNING, "3": logging.ERROR, "4": logging.CRITICAL}
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_seen: set[tuple[str, int, str]] = set()
_logger: logging.Logger | None = None


def level() -> int:
    """The level that ``MSA_LOG`` asks for. ValueError when it is not one of 0..4: ``import mindtorch.torch`` asks at once."""
    value = os.environ.get("MSA_LOG", "2").strip()
    if value not in _LEVELS:
        raise ValueError(f"MSA_LOG must be 0 (debug), 1 (info), 2 (warning), 3 (error) or 4 (critical), got {value!r}")
    return _LEVELS[value]


def logger() -> logging.Logger:
    """The logger "MindTorch", made on first use. ValueError when ``MSA_LOG`` is not one of 0..4."""
    global _logger
    if _logger is None:
        log = logging.getLogger("MindTorch")
        log.setLevel(level())
        if not log.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(asctime)s [%(name)s %(levelname)s] %(message)s"))
            log.addHandler(handler)
            log.propagate = False
        _logger = log
    return _logger


def user_site() -> tuple[str, int]:
    """File and line of the nearest stack frame outside mindtorch."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_HERE, "<mindtorch")):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def once(level: int, message: str) -> None:
    """Log ``message`` at ``level``, once for each line of the user's program that causes it."""
    log = logger()
    if not log.isEnabledFor(level):
        return
    file, line = user_site()
    if (file, line, message) not in _seen:
        _seen.add((file, line, message))
        log.log(level, "%s:%d: %s", file, line, message)


def ignored(op: str, argument: str, reason: str) -> None:
    """Say at WARNING that ``argument`` of ``op`` was accepted and has no effect, and why."""
    once(logging.WARNING, f"{op}: argument {argument!r} has no effect here: {reason}")


def without_effect(op: str, why: str, /, *, quietly: bool = False, **arguments: tuple[object, object]) -> None:
    """Report each of ``arguments``, name=(given, default), that is not its default: see :func:`ignored`.

    ``quietly`` (DEBUG) is for arguments that change nothing in PyTorch on the CPU either.
    """
    level = logging.DEBUG if quietly else logging.WARNING
    for name, (given, default) in arguments.items():
        if given is not default and (given.__class__ is not default.__class__ or given != default):
            once(level, f"{op}: argument {name!r} has no effect here: {why}")
