"""Calling a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["functional_call"]


_ABSENT = object()


def _places(module: Any) -> dict[str, tuple[dict[str, Any], str, Any]]:
    """Every parameter and buffer by dotted name: its table, its name there, and its module."""
    out: dict[str, tuple[dict[str, Any], str, Any]] = {}
    for path, m in module.named_modules(remove_duplicate=False):
        for table in (m._parameters, m._buffers):
            for name in table:
                out[f"{path}.{name}" if path else name] = (table, name, m)
    return out


def _tied(module: Any, places: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """``given`` with the other names of shared tensors added. ValueError when two names get different tensors."""
    names: dict[int, list[str]] = {}
    for key, (table, name, _) in places.items():
        if table[name] is not None:
            names.setdefault(id(table[name]), []).append(key)
    out = dict(given)
    for group in names.values():
        have = [k for k in group if k in given]
        if len(group) < 2 or not have:
            continue
        values = {id(given[k]) for k in have}
        if len(values) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(have)}, which are tied. Consider using tie_weights=False"
            )
        for k in group:
            out.setdefault(k, given[have[0]])
    return out


@contextlib.contextmanager
def _reparametrize_module(
    module: Any, parameters_and_buffers: dict[str, Any], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    places = _places(module)
    given = _tied(module, places, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    unknown = [k for k in given if k not in places]
    if strict:
        missing = [k for k in places if k not in given and places[k][0][places[k][1]] is not None]
        if missing or unknown:
            text = []
            if unknown:
                text.append("Unexpected key(s): " + ", ".join(map(repr, sorted(unknown))) + ".")
            if missing:
                text.append("Missing key(s): " + ", ".join(map(repr, sorted(missing))) + ".")
            raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(), "\n\t".join(text)))
    for k in unknown:
        # as in PyTorch, a name that is no member becomes an attribute for the time of the call
        path, _, name = k.rpartition(".")
        places[k] = (module.get_submodule(path).__dict__, name, None)
    old = {k: places[k][0].get(places[k][1], _ABSENT) for k in given}
    for k, value in given.items():
        table, name, _ = places[k]
        table[name] = value
    try:
        yield
    finally:
        for k, value in old.items():
            table, name, m = places[k]
            if m is None:
                table.pop(name, None)
                if value is not _ABSENT:
                    table[name] = value
                continue
            # a buffer assigned during forward is handed to the caller
            now = table.get(name) if name in table else m.__dict__.get(name)
            if k in parameters_and_buffers and now is not parameters_and_buffers[k]:
                parameters_and_buffers[k] = now
            table[name] = value


def _functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Old place of ``torch.func.functional_call``."""
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use "
        "torch.func.functional_call instead which is a drop-in replacement for this API.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
