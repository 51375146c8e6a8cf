"""Rules for renaming weights, as a user writes them in a JSON file, and their application to a checkpoint."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mindtorch.tools.naming import Plan, kind_named, to_mindspore, to_torch

CONV1D = "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value"
"""What TroubleShooter's maps call the extra dimension of Conv1d's weight."""

WITHOUT_CONV1D = "without Conv1d's dimension"
"""Stands for the way back."""

STYLES = ("keep", "mindspore", "torch")
_KEYS = ("names", "patterns", "kinds", "values")


@dataclass
class Rules:
    """``names`` old -> new name (None leaves out), ``patterns`` (regular expression, replacement) on the result of the
    built-in names, ``kinds`` layer name or pattern -> kind of layer, ``values`` old name -> dotted path of a function.
    """

    names: dict[str, str | None] = field(default_factory=dict)
    patterns: list[tuple[re.Pattern[str], str]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)

    def reversed(self) -> Rules:
        """Rules for the other direction. ValueError where that is not defined."""
        if self.patterns:
            raise ValueError("rules with patterns have no reverse; write rules for the other direction")
        if any(v != CONV1D for v in self.values.values()):
            raise ValueError("rules with functions for values have no reverse")
        names: dict[str, str | None] = {}
        for old, new in self.names.items():
            if new is None or new in names:
                raise ValueError(f"the rules cannot be reversed: {old!r} -> {new!r} is no one-to-one name")
            names[new] = old
        return Rules(names, [], dict(self.kinds), {str(self.names.get(k, k)): WITHOUT_CONV1D for k in self.values})


def _texts(obj: Any, what: str, null: bool = False) -> dict[str, Any]:
    if not isinstance(obj, dict) or not all(isinstance(v, str) or (null and v is None) for v in obj.values()):
        raise ValueError(f"{what} must be an object of texts{' (or null)' if null else ''}, got {str(obj)[:100]}")
    return dict(obj)


def _patterns(obj: Any) -> list[tuple[re.Pattern[str], str]]:
    if not isinstance(obj, list):
        raise ValueError('"patterns" must be a list of [regular expression, replacement] pairs')
    result = []
    for pair in obj:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(p, str) for p in pair):
            raise ValueError(f'"patterns" must be a list of [regular expression, replacement] pairs, got {pair!r}')
        try:
            result.append((re.compile(pair[0]), pair[1]))
        except re.error as e:
            raise ValueError(f"the pattern {pair[0]!r} is no regular expression: {e}") from None
    return result


def parse(obj: Any) -> Rules:
    """Rules from parsed JSON: an object with `_KEYS`, a plain object of names, or TroubleShooter's ``[names, values]``."""
    if isinstance(obj, list) and len(obj) == 2:
        return Rules(names=_texts(obj[0], "the name map", null=True), values=_texts(obj[1] or {}, "the value map"))
    if not isinstance(obj, dict):
        raise ValueError("rules must be a JSON object, or a weight map [names, values] as get_weight_map makes it")
    if not any(isinstance(v, (dict, list)) for v in obj.values()):
        return Rules(names=_texts(obj, "rules", null=True))
    unknown = sorted(set(obj) - set(_KEYS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} in the rules; known are {', '.join(_KEYS)}")
    kinds = {k: kind_named(v) for k, v in _texts(obj.get("kinds", {}), '"kinds"').items()}
    names = _texts(obj.get("names", {}), '"names"', null=True)
    return Rules(names, _patterns(obj.get("patterns", [])), kinds, _texts(obj.get("values", {}), '"values"'))


def load(path: Any) -> Rules:
    """Rules from a JSON file. ValueError with the file's name when it is none."""
    with open(path, encoding="utf-8") as file:
        try:
            return parse(json.load(file))
        except ValueError as e:
            raise ValueError(f"{os.fspath(path)}: {e}") from None


# ------------------------------------------------------------------------------------------ application


def plan(values: Mapping[str, Any], style: str, rules: Rules, kinds: Mapping[str, str] | None = None) -> Plan:
    """New names for everything in ``values``: built-in names of ``style``, then the rules.

    ValueError when a rule names a weight that is not there, or two weights would get one name.
    """
    if style not in STYLES:
        raise ValueError(f"names must be one of {', '.join(STYLES)}, got {style!r}")
    shapes = {k: tuple(np.shape(v)) if isinstance(v, np.ndarray) else () for k, v in values.items()}
    absent = [k for k in (*rules.names, *rules.values) if k not in shapes]
    if absent:
        raise ValueError(f"the rules name {absent[0]!r}, which the checkpoint does not have ({len(absent)} such names)")
    kinds = {**(kinds or {}), **rules.kinds}
    if style == "keep":
        made = Plan({k: k for k in shapes})
    else:
        made = (to_mindspore if style == "mindspore" else to_torch)(shapes, kinds)
    for old in shapes:
        if old in rules.names:
            made.names[old] = rules.names[old]
            made.unsure.pop(old, None)
            continue
        new = made.names[old] or ""
        for pattern, text in rules.patterns:
            new = pattern.sub(text, new)
        made.names[old] = new
    _twins(made)
    return made


def _twins(made: Plan) -> None:
    seen: dict[str, str] = {}
    for old, new in made.names.items():
        if new is None:
            continue
        if not new or new in seen:
            raise ValueError(
                f"the rules call {old!r} {new!r}, {'as they do ' + repr(seen[new]) if new else 'which is no name'}"
            )
        seen[new] = old


def _function(path: str) -> Callable[[Any], Any]:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, ValueError, AttributeError) as e:
        raise ValueError(f"the rules name the function {path!r}, which cannot be imported: {e}") from None


def _changed(value: Any, path: str) -> np.ndarray:
    """A weight through the function of a value map, which gets and gives arrays or MindSpore tensors."""
    if path == CONV1D:
        return np.expand_dims(value, 2)
    if path == WITHOUT_CONV1D:
        return np.squeeze(value, 2) if value.shape[2:3] == (1,) else value
    got = _function(path)(value)
    return np.asarray(got.asnumpy() if hasattr(got, "asnumpy") else got)


def apply(values: Mapping[str, Any], made: Plan, rules: Rules) -> dict[str, Any]:
    """The weights under their new names, in the old order. Views stay views."""
    result: dict[str, Any] = {}
    for old, value in values.items():
        new = made.names[old]
        if new is None:
            continue
        if isinstance(value, np.ndarray):
            if old in rules.values:
                value = _changed(value, rules.values[old])
            elif old in made.insert or old in made.remove:
                value = value.reshape(made.shape(old, value.shape))
        result[new] = value
    return result
