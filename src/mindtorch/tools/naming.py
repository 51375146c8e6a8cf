"""Names of weights in PyTorch's layers and in MindSpore's own (``mindspore.nn``), translated both ways.

What kind of layer a weight belongs to is read off the weights beside it (running statistics, a bias of the same shape)
or off a network, if one is given. Where neither decides, the name is kept and said to be unsure: nothing is guessed
from the words in a name. ``mindspore.mint.nn`` and recurrent layers use PyTorch's names already.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]

_NORM = {"weight": "gamma", "bias": "beta"}
_BATCH = {**_NORM, "running_mean": "moving_mean", "running_var": "moving_variance"}
LAYERS: dict[str, dict[str, str]] = {
    "BatchNorm": _BATCH,
    "BatchNorm3d": {k: f"bn2d.{v}" for k, v in _BATCH.items()},
    "InstanceNorm": _BATCH,
    "LayerNorm": _NORM,
    "GroupNorm": _NORM,
    "Embedding": {"weight": "embedding_table"},
    "PReLU": {"weight": "w"},
    "Conv1d": {},
    "keep": {},
}
"""Kind of layer -> PyTorch's names that MindSpore has another for. Conv1d's weight gets a dimension of 1 at axis 2."""

_CLASSES = {
    "BatchNorm1d": "BatchNorm", "BatchNorm2d": "BatchNorm", "SyncBatchNorm": "BatchNorm", "BatchNorm3d": "BatchNorm3d",
    "InstanceNorm1d": "InstanceNorm", "InstanceNorm2d": "InstanceNorm", "InstanceNorm3d": "InstanceNorm",
    "LayerNorm": "LayerNorm", "GroupNorm": "GroupNorm", "Embedding": "Embedding", "EmbeddingLookup": "Embedding",
    "PReLU": "PReLU", "Conv1d": "Conv1d", "ConvTranspose1d": "Conv1d", "Conv1dTranspose": "Conv1d",
}  # fmt: skip
_ROOMS = ("torch.nn.", "mindtorch.torch.nn.", "mindspore.nn.")
_ALIASES = {
    **_CLASSES,
    **{k: k for k in LAYERS},
    "Linear": "keep",
    "Dense": "keep",
    "Bilinear": "keep",
    "Conv2d": "keep",
}


def kind_named(name: str) -> str:
    """The kind a rule means by a class name ("Embedding", "Linear", "keep"). ValueError for unknown ones."""
    if name not in _ALIASES:
        raise ValueError(f"unknown kind of layer {name!r}; it must be one of {', '.join(sorted(_ALIASES))}")
    return _ALIASES[name]


def kind_of_layer(layer: Any) -> str:
    """The kind of a layer object of PyTorch, mindtorch or MindSpore; "keep" when its names are the same in both."""
    for cls in type(layer).__mro__:
        if cls.__module__.startswith(_ROOMS) and cls.__name__ in _CLASSES:
            return _CLASSES[cls.__name__]
    return "keep"


def kinds_of(net: Any) -> dict[str, str]:
    """The kind of every layer of a network, by dotted name. TypeError when it is no network."""
    walk = getattr(net, "named_modules", None) or getattr(net, "cells_and_names", None)
    if walk is None:
        raise TypeError(f"expected a torch.nn.Module or a mindspore.nn.Cell, got {type(net).__name__}")
    return {name: kind_of_layer(layer) for name, layer in walk()}


@dataclass
class Plan:
    """What to do with each weight."""

    names: dict[str, str | None] = field(default_factory=dict)
    """Old name -> new name; None leaves the weight out."""
    insert: set[str] = field(default_factory=set)
    """Old names of weights that get a dimension of 1 at axis 2."""
    remove: set[str] = field(default_factory=set)
    """Old names of weights that lose axis 2, of size 1."""
    unsure: dict[str, str] = field(default_factory=dict)
    """Old name -> why its layer could not be told; the name is kept."""

    def shape(self, name: str, shape: Shape) -> Shape:
        """The shape a weight will have."""
        if name in self.insert:
            return (*shape[:2], 1, *shape[2:])
        return (*shape[:2], *shape[3:]) if name in self.remove else shape


def _join(prefix: str, leaf: str) -> str:
    return f"{prefix}.{leaf}" if prefix else leaf


def _given(prefix: str, kinds: Mapping[str, str]) -> str | None:
    """The kind said for a layer, by its name or by a pattern."""
    if prefix in kinds:
        return kinds[prefix]
    for pattern, kind in kinds.items():
        if any(c in pattern for c in "*?[") and fnmatch.fnmatchcase(prefix, pattern):
            return kind
    return None


def _groups(shapes: Mapping[str, Shape]) -> dict[str, dict[str, Shape]]:
    groups: dict[str, dict[str, Shape]] = {}
    for name, shape in shapes.items():
        prefix, _, leaf = name.rpartition(".")
        groups.setdefault(prefix, {})[leaf] = shape
    return groups


# ------------------------------------------------------------------------------------------ to MindSpore


def _torch_kind(group: Mapping[str, Shape], volumes: bool) -> tuple[str, str]:
    """``(kind, doubt)`` of a layer with PyTorch's names; the doubt is empty when the kind is certain."""
    weight, bias = group.get("weight"), group.get("bias")
    if "running_mean" in group and "running_var" in group:
        return "BatchNorm", "BatchNorm2d or BatchNorm3d (the file has 5-d weights)" if volumes else ""
    if weight is None:
        return "keep", ""
    if bias is not None and weight == bias and len(weight) > 0:
        return "LayerNorm", ""
    if len(weight) == 3:
        return "Conv1d", ""
    if len(weight) == 2 and len(group) == 1:
        return "keep", "Embedding or Linear without bias"
    if len(weight) == 1 and len(group) == 1:
        return "keep", "PReLU, or a normalization without bias"
    return "keep", ""


def to_mindspore(shapes: Mapping[str, Shape], kinds: Mapping[str, str] | None = None) -> Plan:
    """Names of ``mindspore.nn`` for a PyTorch state dict. ``kinds`` (layer name or pattern -> kind) comes first."""
    plan = Plan()
    volumes = any(len(s) == 5 for s in shapes.values())
    for prefix, group in _groups(shapes).items():
        kind, doubt = _given(prefix, kinds or {}), ""
        if kind is None:
            kind, doubt = _torch_kind(group, volumes)
        for leaf, shape in group.items():
            old = _join(prefix, leaf)
            plan.names[old] = _join(prefix, LAYERS[kind].get(leaf, leaf))
            if kind == "Conv1d" and leaf == "weight" and len(shape) == 3:
                plan.insert.add(old)
            if doubt and leaf in ("weight", "running_mean"):
                plan.unsure[old] = doubt
    return _unique(plan, shapes)


# ------------------------------------------------------------------------------------------ to PyTorch


def _back(kind: str) -> dict[str, str]:
    return {v: k for k, v in LAYERS[kind].items()}


def _mindspore_kind(prefix: str, group: Mapping[str, Shape], alone: bool, volumes: bool) -> tuple[str, str]:
    """``(kind, doubt)`` of a layer with MindSpore's names. ``alone``: nothing else is below what encloses it."""
    weight = group.get("weight")
    if "moving_mean" in group and "moving_variance" in group:
        if "." in prefix and prefix.endswith(".bn2d") and alone:
            return ("BatchNorm3d", "") if volumes else ("BatchNorm", "BatchNorm3d, or a BatchNorm2d called bn2d")
        return "BatchNorm", ""
    if "gamma" in group and group["gamma"] == group.get("beta"):
        return "LayerNorm", ""
    if "embedding_table" in group:
        return "Embedding", ""
    if weight is not None and len(weight) == 4 and weight[2] == 1 and weight[3] > 1:
        return "keep", "Conv1d, or Conv2d with a kernel of height 1"
    if group.keys() in ({"w"}, {"a"}) and len(next(iter(group.values()))) == 1:
        return "keep", "PReLU, or a parameter of that name"
    return "keep", ""


def to_torch(shapes: Mapping[str, Shape], kinds: Mapping[str, str] | None = None) -> Plan:
    """PyTorch's names for a checkpoint of ``mindspore.nn`` layers. ``kinds`` as in `to_mindspore`."""
    plan, kinds = Plan(), kinds or {}
    volumes = any(len(s) == 5 for s in shapes.values())
    groups = _groups(shapes)
    for prefix, group in groups.items():
        outer, _, last = prefix.rpartition(".")
        kind, doubt = _given(prefix, kinds), ""
        if last == "bn2d" and (_given(outer, kinds) == "BatchNorm3d" or kind == "BatchNorm3d"):
            kind = "BatchNorm3d"
        elif kind is None:
            alone = sum(p == outer or p.startswith(f"{outer}.") for p in groups) == 1
            kind, doubt = _mindspore_kind(prefix, group, alone, volumes)
        names, place = _back(kind), prefix
        if kind == "BatchNorm3d":
            names = _back("BatchNorm")
            place = outer if last == "bn2d" else prefix
        if kind == "PReLU":
            names["a"] = "weight"  # the name before MindSpore 2.0
        for leaf, shape in group.items():
            old = _join(prefix, leaf)
            plan.names[old] = _join(place, names.get(leaf, leaf))
            if kind == "Conv1d" and leaf == "weight" and len(shape) == 4 and shape[2] == 1:
                plan.remove.add(old)
            if doubt and leaf in ("weight", "moving_mean", "w", "a"):
                plan.unsure[old] = doubt
    return _unique(plan, shapes)


def _unique(plan: Plan, shapes: Mapping[str, Shape]) -> Plan:
    """The plan in the order of the weights. ValueError when two weights would get one name."""
    seen: dict[str, str] = {}
    for old in shapes:
        new = plan.names[old]
        if new is None:
            continue
        if new in seen:
            raise ValueError(f"{seen[new]!r} and {old!r} would both be called {new!r}; name one of them in the rules")
        seen[new] = old
    plan.names = {old: plan.names[old] for old in shapes}
    return plan
