"""``ts.tracking``: the lines of a network's functions as they run, with the values they make; stops where NaN appears."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Sequence
from contextlib import ContextDecorator
from types import FrameType
from typing import Any

import numpy as np

from mindtorch.tools import values
from mindtorch.tools.dump.stacks import is_framework

EVENTS = ("call", "line", "return", "exception")
_NETWORK = ("forward", "construct")


class KeywordFound(SystemExit):
    """``check_keyword`` appeared and ``check_mode`` says to stop: the program ends with this text and status 1."""


def _text(x: Any, limit: int | None) -> str:
    """A value in one line; tensors by shape, dtype and statistics."""
    if values.is_tensor(x):
        try:
            return _tensor(values.to_array(x), values.dtype_name(x))
        except Exception as e:  # without values, or still being made
            return f"Tensor(no values: {e})"
    if isinstance(x, np.ndarray) and x.dtype.kind in "fiubc":
        return "array" + _tensor(x, str(x.dtype)).removeprefix("Tensor")
    if values.is_nest(x):
        inside = ", ".join(f"{label}: {_text(t, None)}" for label, t in values.leaves(x))
        if inside:
            return _short(f"{type(x).__name__}({inside})", limit)
    try:
        return _short(repr(x), limit)
    except Exception as e:
        return f"<{type(x).__name__}, whose repr raises {type(e).__name__}>"


def _short(text: str, limit: int | None) -> str:
    text = text.replace("\n", " ")
    if limit is None or len(text) <= limit:
        return text
    half = max(1, (limit - 3) // 2)
    return f"{text[:half]}...{text[-half:]}"


def _tensor(a: np.ndarray, dtype: str) -> str:
    words = [f"shape={tuple(a.shape)}", f"dtype={dtype}"]
    if a.size == 1:
        words.append(f"value={a.reshape(-1)[0]}")
    elif a.size and a.dtype.kind in "fiu":
        s = values.statistics(a)
        words += [f"max={s.max:.6g}", f"min={s.min:.6g}", f"mean={s.mean:.6g}"]
    if a.dtype.kind in "fc" and a.size:
        bad = int(np.isnan(a).sum()), int(np.isinf(a).sum())
        words += [f"{word}={n}" for word, n in zip(("nan", "inf"), bad) if n]
    return f"Tensor({', '.join(words)})"


class tracking(ContextDecorator):  # noqa: N801  (the name users know)
    """Print the lines of functions as they run, with every value that is new or has changed.

    ``@ts.tracking()`` before a network's ``forward``, or ``with ts.tracking():`` around calls.

    Args:
        level: 1 ``forward`` and ``construct`` of the user's files; 2 every function of the user's files; 3 ``forward`` of the
            framework's layers too; 4 everything.
        depth: how deep below the first followed function.
        max_variable_length: values are shortened to so many characters; None leaves them.
        check_keyword: a text such as "nan" or "inf", searched in the values (upper or lower case); tensors show ``nan=<count>``
            when they have any.
        check_mode: where the keyword appears, 1 the program ends (`KeywordFound`, a SystemExit), 2 it goes on. In mode 2
            only those lines are printed.
        func_wl: names of the only functions to follow; path_wl, path_bl: parts of the paths of files to follow, or not.
        event_list: which of "call", "line", "return", "exception" to print; all by default.

    Lines go to stderr. Threads other than the caller's are not followed. A debugger's or coverage's own tracing is set
    back afterwards. ValueError for values that mean nothing.
    """

    def __init__(
        self, level: int = 1, *, depth: int = 15, max_variable_length: int | None = 150, check_keyword: str | None = None,
        check_mode: int = 1, func_wl: Sequence[str] | None = None, path_wl: Sequence[str] | None = None,
        path_bl: Sequence[str] | None = None, event_list: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        if level not in (1, 2, 3, 4):
            raise ValueError(f"tracking: level must be 1, 2, 3 or 4, got {level!r}")
        if check_mode not in (1, 2):
            raise ValueError(f"tracking: check_mode must be 1 (stop) or 2 (go on), got {check_mode!r}")
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"tracking: depth must be a whole number of at least 1, got {depth!r}")
        for e in event_list or ():
            if e not in EVENTS:
                raise ValueError(f"tracking: event_list takes {', '.join(EVENTS)}, got {e!r}")
        if check_keyword is not None and not check_keyword:
            raise ValueError("tracking: check_keyword must not be empty")
        self.level, self.depth, self.limit = level, depth, max_variable_length
        self.keyword = check_keyword.lower() if check_keyword else None
        self.stops = check_mode == 1
        self.functions, self.paths, self.not_paths = func_wl, path_wl, path_bl
        self.events = tuple(event_list) if event_list else EVENTS
        self._seen: dict[int, dict[str, str]] = {}
        self._kept: dict[int, FrameType] = {}
        self._at: dict[int, int] = {}
        self._inside = 0
        self._before: Any = None

    # ------------------------------------------------------------------ on and off
    def __enter__(self) -> tracking:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self._before)
        self._seen.clear()
        self._kept.clear()
        self._at.clear()
        self._inside = 0

    def _recreate_cm(self) -> tracking:
        return tracking(
            self.level, depth=self.depth, max_variable_length=self.limit, check_keyword=self.keyword,
            check_mode=1 if self.stops else 2, func_wl=self.functions, path_wl=self.paths, path_bl=self.not_paths,
            event_list=self.events,
        )  # fmt: skip

    # ------------------------------------------------------------------ what is followed
    def _followed(self, frame: FrameType) -> bool:
        code = frame.f_code
        path, name = code.co_filename, code.co_name
        if path == __file__ or path.startswith("<frozen ") or os.path.basename(path) == "contextlib.py":
            return False
        if self.functions is not None and name not in self.functions:
            return False
        if self.paths is not None and not any(p in path for p in self.paths):
            return False
        if self.not_paths is not None and any(p in path for p in self.not_paths):
            return False
        if self.level == 4 or self.functions is not None or self.paths is not None:
            return True
        foreign = is_framework(path) or path.startswith(sys.prefix + os.sep) or path.startswith(sys.base_prefix + os.sep + "lib")
        if self.level == 3:
            return name in _NETWORK or not foreign
        return not foreign and (self.level == 2 or name in _NETWORK)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self._inside >= self.depth or not self._followed(frame):
            return None
        self._inside += 1
        self._kept[id(frame)] = frame  # an id is a name as long as the frame lives
        self._seen[id(frame)] = {}
        self._at[id(frame)] = frame.f_lineno
        self._report("call", frame, f"call {frame.f_code.co_name}", self._changes(frame))
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        made = self._changes(frame)  # by the line before
        if event == "line":
            self._report("line", frame, None, made)
        elif event == "exception":
            self._report("exception", frame, f"raised {arg[0].__name__}: {_short(str(arg[1]), self.limit)}", made)
        elif event == "return":
            text = _text(arg, self.limit)
            self._inside -= 1
            for table in (self._seen, self._kept):
                table.pop(id(frame), None)
            self._report("return", frame, "return", [*made, ("returned", text)])
            self._at.pop(id(frame), None)
        self._at[id(frame)] = frame.f_lineno
        return self._line

    def _changes(self, frame: FrameType) -> list[tuple[str, str]]:
        old = self._seen.get(id(frame), {})
        new = {k: _text(v, self.limit) for k, v in frame.f_locals.items() if k != "self"}
        self._seen[id(frame)] = new
        return [(k, v) for k, v in new.items() if old.get(k) != v]

    # ------------------------------------------------------------------ what is printed
    def _report(self, event: str, frame: FrameType, what: str | None, made: list[tuple[str, str]]) -> None:
        hits = [(k, v) for k, v in made if self.keyword is not None and self.keyword in v.lower()]
        path, at = frame.f_code.co_filename, self._at.get(id(frame), frame.f_lineno)
        source = linecache.getline(path, at, frame.f_globals).strip()
        indent = "    " * max(0, self._inside - (event != "return"))
        if self.keyword is None or self.stops:
            if event in self.events:
                for k, v in made:
                    print(f"{indent}    {k} = {v}", file=sys.stderr)
                line = linecache.getline(path, frame.f_lineno, frame.f_globals).strip()
                print(f"{indent}{os.path.basename(path)}:{frame.f_lineno} {what or line}", file=sys.stderr)
        if not hits:
            return
        text = f"{hits[0][0]} = {hits[0][1]}"
        place = f"File {path}, line {at}, in {frame.f_code.co_name},\n    {source}"
        print(f"tracking: {self.keyword!r} appears in {text}\n  {place}", file=sys.stderr)
        if self.stops:
            sys.settrace(self._before)
            raise KeywordFound(f"tracking: stopped at {self.keyword!r} in {text}\n  {place}")
