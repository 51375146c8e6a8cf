"""Exceptions of a worker, carried to the process that reads from the loader."""

from __future__ import annotations

import pickle
import traceback
from typing import Any


class _Text(str):
    """Shows itself with its line breaks where an exception prints the repr of its argument (KeyError)."""

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """The exception being handled, as type and traceback text. ``reraise`` raises it again with that text as
    message."""

    def __init__(self, exception: BaseException, where: str) -> None:
        self.kind = _sendable(type(exception))
        self.text = traceback.format_exc()
        self.where = where

    def reraise(self) -> None:
        """Raise the exception's type; RuntimeError when it cannot be made from a message alone."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if issubclass(self.kind, KeyError):
            message = _Text(message)
        try:
            exception: Any = self.kind(message)
            if str(exception) != message:
                exception = RuntimeError(message)
        except Exception:
            exception = RuntimeError(message)
        raise exception


def _sendable(kind: type) -> type:
    try:
        pickle.dumps(kind)
    except Exception:
        return RuntimeError
    return kind
