"""Removable hooks: one small handle class, and lists of hooks attached to nodes and leaves."""

from __future__ import annotations

import itertools
from typing import Any

_ids = itertools.count()
watching = False
"""Whether a hook was ever registered: from then on backward passes write each leaf as soon as they can."""


class RemovableHandle:
    """Removes its hook by ``remove()`` or at the end of a ``with`` block."""

    __module__ = "mindtorch.torch.utils.hooks"

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(_ids)
        self._dicts = [hooks_dict]
        if extra_dict is not None:
            self._dicts += list(extra_dict) if isinstance(extra_dict, list) else [extra_dict]

    def remove(self) -> None:
        """Take the hook away; calling it again does nothing."""
        for d in self._dicts:
            d.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        first, *extra = self._dicts
        return (first, self.id, tuple(extra)) if extra else (first, self.id)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        # As in PyTorch, a handle from a file is the one of the hooks that the file brings, and its number stays theirs.
        global _ids
        self.id = state[1]
        self._dicts = [{} if state[0] is None else state[0], *(state[2:] and state[2] or ())]
        _ids = itertools.count(max(next(_ids), self.id + 1))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()


def add(owner: Any, slot: str, hook: Any) -> RemovableHandle:
    """Append ``hook`` to the ordered dict ``slot`` in the owner's instance dict."""
    global watching
    watching = True
    d = owner.__dict__.setdefault(slot, {})
    handle = RemovableHandle(d)
    d[handle.id] = hook
    return handle


def add_tensor_hook(edge: Any, index: int, hook: Any) -> RemovableHandle:
    """Hook on the gradient of output ``index`` of a node (or of a leaf)."""
    global watching
    watching = True
    owner = edge.__dict__
    table = owner.setdefault("h", {}).setdefault(index, {})
    handle = RemovableHandle(table)
    table[handle.id] = hook
    for key in [k for k in table if k.__class__ is tuple]:  # retain_grad sees what the other hooks leave
        table[key] = table.pop(key)
    return handle
