"""Files that grow while a program runs and can be read at every moment, also when the program is stopped in between."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import numpy as np


class Lines:
    """A text file written line by line, whole lines at a time."""

    def __init__(self, path: str, append: bool = False) -> None:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
        self._fd: int | None = os.open(path, flags, 0o600)
        self._waiting: list[bytes] = []

    def add(self, line: str) -> None:
        """Keep a line for the next `flush`; a hundred are flushed together."""
        self._waiting.append(line.encode("utf-8", "surrogatepass") + b"\n")
        if len(self._waiting) >= 100:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if self._waiting and self._fd is not None:
            data, self._waiting = b"".join(self._waiting), []
            while data:
                data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        """Flush and close; closing again does nothing."""
        if self._fd is not None:
            self.flush()
            os.close(self._fd)
            self._fd = None


class Json:
    """A JSON array or object whose closing bracket is written again behind every addition, so the file stays valid."""

    def __init__(self, path: str, kind: str = "{", indent: int = 4) -> None:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.path = path
        self._end = {"{": "}", "[": "]"}[kind]
        self._indent = indent
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(fd, "w+b")
        self._file.write(f"{kind}\n{self._end}".encode())
        self._file.flush()
        self._first = True
        self._waiting: list[str] = []

    def add(self, value: Any, key: str | None = None) -> None:
        """Add an element (with its key, in an object)."""
        text = json.dumps(value, indent=self._indent or None, default=str, ensure_ascii=False)
        if self._indent:
            text = text.replace("\n", "\n" + " " * self._indent)
        self._waiting.append(text if key is None else f"{json.dumps(key, ensure_ascii=False)}: {text}")
        if len(self._waiting) >= 50:
            self.flush()

    def flush(self) -> None:
        """Write what waits, over the closing bracket."""
        if not self._waiting or self._file.closed:
            return
        pad = " " * self._indent
        body = "".join(f"{'' if self._first and i == 0 else ','}\n{pad}{t}" for i, t in enumerate(self._waiting))
        self._waiting.clear()
        self._file.seek(-(len(self._end) + 1), os.SEEK_END)
        self._file.write(f"{body}\n{self._end}".encode("utf-8", "surrogatepass"))
        self._file.flush()
        self._first = False

    def close(self) -> None:
        """Flush and close; closing again does nothing."""
        if not self._file.closed:
            self.flush()
            self._file.close()


def replace(path: str, write: Any, mode: int = 0o600) -> None:
    """Make or replace ``path`` in one step: ``write(file)`` fills a temporary file beside it, which then takes the name."""
    folder = os.path.dirname(os.path.abspath(path))
    fd, temporary = tempfile.mkstemp(prefix=".writing-", dir=folder)
    try:
        with os.fdopen(fd, "wb") as f:
            write(f)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def save_array(path: str, a: np.ndarray, mode: int = 0o400) -> None:
    """One ``.npy`` file, written atomically."""
    replace(path, lambda f: np.lib.format.write_array(f, np.asanyarray(a), allow_pickle=False), mode)
