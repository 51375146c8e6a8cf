"""Checkpoints from one format to another, without PyTorch and without MindSpore."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mindtorch.formats import weights
from mindtorch.formats.weights import Row, Weights
from mindtorch.tools import rules as _rules
from mindtorch.tools.naming import kind_of_layer, kinds_of

__all__ = ["Conversion", "convert", "kinds_of_network", "network", "shared_names"]

Progress = Callable[[str, int], Any]
"""``(phase, bytes)``: called as bytes are read ("reading") and written ("writing")."""


@dataclass
class Conversion:
    """What was done."""

    source: str
    target: str
    source_kind: str
    target_kind: str
    rows: list[Row]
    """The tensors as written."""
    renamed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Old names of what the rules, or the format, left out."""
    unsure: dict[str, str] = field(default_factory=dict)
    """Old names of weights whose layer could not be told, and what it may be; their names were kept."""
    copies: list[list[str]] = field(default_factory=list)
    """Names that shared memory and were written once each."""

    @property
    def parameters(self) -> int:
        """Number of elements."""
        return sum(int(np.prod(r.shape, dtype=object)) for r in self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(r.nbytes for r in self.rows)


def shared_names(values: Mapping[str, Any]) -> list[list[str]]:
    """Groups of names whose arrays start at the same memory (tied weights)."""
    groups: dict[int, list[str]] = {}
    for name, a in values.items():
        if isinstance(a, np.ndarray) and a.size:
            groups.setdefault(a.ctypes.data, []).append(name)
    return [g for g in groups.values() if len(g) > 1]


def network(spec: str) -> Any:
    """The network that ``module:callable`` or ``file.py:callable`` makes (called without arguments), or a class or object.

    ValueError when it cannot be imported or is no network.
    """
    place, colon, name = spec.rpartition(":")
    if not colon:
        raise ValueError(f"a network is given as module:callable or file.py:callable, got {spec!r}")
    try:
        if place.endswith(".py"):
            found = importlib.util.spec_from_file_location(os.path.basename(place)[:-3], place)
            if found is None or found.loader is None:
                raise ImportError(f"{place} is no Python file")
            module = importlib.util.module_from_spec(found)
            found.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
        made = getattr(module, name)
    except (ImportError, OSError, AttributeError, SyntaxError) as e:
        raise ValueError(f"cannot get the network {spec!r}: {e}") from e
    is_net = any(hasattr(made, n) for n in ("named_modules", "cells_and_names")) and not isinstance(made, type)
    return made if is_net else made()


def kinds_of_network(net: Any) -> dict[str, str]:
    """Kinds of the layers of a network, by the names its weights can have in files (wrappers may add a prefix)."""
    kinds = kinds_of(net)
    # A wrapper's name (DataParallel's "module.") is in the file or not, whichever way the weights were saved.
    for prefix in ("module.", "_orig_mod."):
        if any(k.startswith(prefix) for k in kinds):
            kinds.update({k.removeprefix(prefix): v for k, v in list(kinds.items())})
        else:
            kinds.update({f"{prefix}{k}": v for k, v in list(kinds.items()) if k})
    kinds.setdefault("", kind_of_layer(net))
    return kinds


def convert(
    source: Any,
    target: Any,
    *,
    to: str | None = None,
    names: str = "keep",
    rules: Any = None,
    reverse: bool = False,
    net: Any = None,
    kinds: Mapping[str, str] | None = None,
    flatten: bool = False,
    part: str | None = None,
    complex: str = "refuse",
    crc: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Write the weights of the file ``source`` to the file ``target``.

    The source's format is told by its contents; the target's is ``to`` ("pth", "safetensors", "npz", "ckpt") or follows
    from its suffix. ``names`` is "keep", "mindspore" (names of ``mindspore.nn`` layers) or "torch". ``rules`` is a path,
    an object as `mindtorch.tools.rules.parse` takes, or a `Rules`; ``reverse`` uses it backwards. ``net`` (a network of
    PyTorch, mindtorch or MindSpore) says which kind each layer is, and so does ``kinds`` (layer name or pattern -> kind).
    ``flatten`` and ``part`` are for nested checkpoints.
    ``complex="pairs"`` stores complex numbers where the format has none, ``crc`` adds MindSpore's checksum.

    ValueError for nested checkpoints without ``flatten`` or ``part`` and for rules that do not fit, TypeError for dtypes
    the target lacks, RuntimeError (or UnpicklingError) for broken files. The target is replaced only on success.
    """
    kind = to or weights.kind_for(target)
    report = progress or (lambda phase, n: None)
    found = weights.read(source, flatten=flatten, part=part, progress=lambda n: report("reading", n))
    chosen = _chosen(rules).reversed() if reverse else _chosen(rules)
    known = {**(kinds_of_network(net) if net is not None else {}), **(kinds or {})}
    made = _rules.plan(found.values, names, chosen, known)
    values = _rules.apply(found.values, made, chosen)
    out = Weights(kind, values, found.metadata)
    dropped = weights.write(target, out, kind, complex=complex, crc=crc, progress=lambda n: report("writing", n))
    old = {new: o for o, new in made.names.items() if new is not None}
    left = [o for o, new in made.names.items() if new is None] + [old[n] for n in dropped] + found.left_out
    return Conversion(
        source=str(source),
        target=str(target),
        source_kind=found.kind,
        target_kind=kind,
        rows=[Row(k, v.dtype.name, v.shape, v.nbytes) for k, v in values.items() if isinstance(v, np.ndarray)],
        renamed={o: new for o, new in made.names.items() if new is not None and new != o},
        left_out=left,
        unsure=made.unsure,
        copies=shared_names(values) if kind != "pth" else [],
    )


def _chosen(rules: Any) -> _rules.Rules:
    if rules is None:
        return _rules.Rules()
    if isinstance(rules, _rules.Rules):
        return rules
    if isinstance(rules, (str, os.PathLike)):
        return _rules.load(rules)
    return _rules.parse(list(rules) if isinstance(rules, tuple) else rules)
