"""Removable hook registrations of optimisers."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from itertools import count

_ids = count()


class Handle:
    """What registering a hook returns. ``remove()`` takes the hook away; leaving a ``with`` block does too."""

    def __init__(self, table: OrderedDict, key: int) -> None:
        self.id = key
        self._table = weakref.ref(table)

    @classmethod
    def register(cls, table: OrderedDict, hook: Callable, prepend: bool = False) -> Handle:
        key = next(_ids)
        table[key] = hook
        if prepend:
            table.move_to_end(key, last=False)
        return cls(table, key)

    def remove(self) -> None:
        table = self._table()
        if table is not None:
            table.pop(self.id, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
