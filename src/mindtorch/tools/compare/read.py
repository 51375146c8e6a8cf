"""Reads dumps: ours, and those of TroubleShooter 1.0.16 to 1.0.18, also when the program was stopped while writing."""

from __future__ import annotations

import ast
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from mindtorch.tools.dump.files import STEM
from mindtorch.tools.dump.names import Item, canonical, parse, parse_layer, shown_call

ORDER = ("mindtorch", "mindspore", "pytorch")


@dataclass
class Datum:
    """One recorded value: its place in the call, dtype, shape and statistics, and the file that may hold it."""

    item: Item
    dtype: str
    shape: tuple[int, ...]
    max: float
    min: float
    mean: float
    norm: float
    md5: str
    path: str

    @property
    def name(self) -> str:
        """Name of the file without its suffix."""
        return f"{self.item.call}_{self.item.phase}_{self.item.role}{self.item.index}"

    def load(self) -> np.ndarray | None:
        """The values, None when the dump holds statistics only or the file is damaged."""
        try:
            return np.load(self.path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None


@dataclass
class Entry:
    """One call, or a module marker (kind LAYER), with what was recorded of it."""

    kind: str
    name: str
    count: int
    step: int = 0
    module: str = ""
    inputs: list[Datum] = field(default_factory=list)
    outputs: list[Datum] = field(default_factory=list)
    grads: list[Datum] = field(default_factory=list)
    params: dict[str, list[float]] = field(default_factory=dict)
    buffers: dict[str, list[float]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    not_finite: dict[str, list[int]] = field(default_factory=dict)
    small: dict[str, list[float]] = field(default_factory=dict)
    small_grads: dict[str, list[float]] = field(default_factory=dict)
    failed: str = ""
    begun: int = 0
    order: int = 0
    """Numbers of the first line of the call, and of its last gradient."""

    @property
    def key(self) -> str:
        """``NN_ReLU_0``; for markers ``LAYER_conv``."""
        return f"LAYER_{self.name}" if self.kind == "LAYER" else f"{self.kind}_{self.name}_{self.count}"

    @property
    def shown(self) -> str:
        """``torch.nn.ReLU(0)``."""
        return f"LAYER: {self.name}" if self.kind == "LAYER" else shown_call(self.kind, self.name, self.count)

    @cached_property
    def op(self) -> str:
        """The computation, whatever it was written as."""
        return f"LAYER {self.name}" if self.kind == "LAYER" else canonical(self.kind, self.name)

    @property
    def shapes(self) -> tuple[Any, ...]:
        """Shapes of inputs and outputs."""
        return tuple(d.shape for d in self.inputs), tuple(d.shape for d in self.outputs)


@dataclass
class Update:
    """One step of an optimiser: statistics of gradients, and of how far weights moved, by parameter name."""

    name: str
    step: int
    grads: dict[str, list[float]] = field(default_factory=dict)
    moved: dict[str, list[float]] = field(default_factory=dict)
    noisy: set[str] = field(default_factory=set)
    """Parameters that have elements whose gradient is rounding noise beside the rest."""


@dataclass
class Step:
    """Calls of one training step in the order of their forward, and the optimiser's steps that end it."""

    forward: list[Entry] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def calls(self) -> list[Entry]:
        """Entries without module markers."""
        return [e for e in self.forward if e.kind != "LAYER"]


class RankDump:
    """The dump of one process."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.framework, self.info_path = _find_info(folder)
        stem = os.path.join(folder, f"{STEM[self.framework]}_api_dump")
        self.arrays = stem
        self._stack_path, self._calls_path = f"{stem}_stack.json", f"{stem}_calls.jsonl"
        self.has_calls = os.path.exists(self._calls_path)
        try:
            names = os.listdir(stem)
        except OSError:
            names = []
        self.has_arrays = any(n.endswith(".npy") for n in names)

    @property
    def weights(self) -> str | None:
        """The file of weights saved with the dump."""
        for name in ("pt_net.pth", "ad_net.pth"):
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                return path
        return None

    @cached_property
    def stacks(self) -> dict[str, list[str]]:
        """Call (``torch.nn.ReLU(0) forward``, ``NN_ReLU_0`` ...) -> lines of the program, innermost first."""
        try:
            with open(self._stack_path, encoding="utf-8") as f:
                return json.load(f)
        except (OSError, json.JSONDecodeError):
            return {}

    def stack(self, e: Entry) -> list[str]:
        """Lines of the program for a call; empty when they were not recorded."""
        for key in (f"{e.shown} forward", e.key, f"{e.key}_forward_stack_info", f"LAYER: {e.name} forward"):
            if key in self.stacks:
                return self.stacks[key]
        return []

    def steps(self, by_phase: bool) -> list[Step]:
        """The steps; ``by_phase`` finds them by forward following backward, as TroubleShooter does."""
        records = [] if by_phase else list(self._records())
        entries = self._entries(records)
        if by_phase:
            _number_by_phase(entries)
        found: dict[int, Step] = {}
        for e in entries:
            found.setdefault(e.step, Step()).forward.append(e)
        for r in records:
            if "loss" in r:
                found.setdefault(r["step"], Step()).losses.append(r["loss"])
            if "optimizer" in r:
                step = found.setdefault(r["step"], Step())
                if "grads" in r or not step.updates:
                    step.updates.append(Update(r["optimizer"], r["step"], r.get("grads", {}), noisy=set(r.get("noisy", ()))))
                step.updates[-1].moved.update(r.get("moved", {}))
        return [found[k] for k in sorted(found)]

    def _records(self) -> Iterator[dict[str, Any]]:
        for line in _lines(self._calls_path):
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue

    def _entries(self, records: list[dict[str, Any]]) -> list[Entry]:
        known = {r["call"]: r for r in records if r.get("phase") == "forward"}
        layers = [r for r in records if "layer" in r]
        entries: dict[str, Entry] = {}
        out: list[Entry] = []
        layer = ""
        markers = 0
        times: dict[str, int] = {}
        for number, row in enumerate(self._rows()):
            name = row[0]
            flat = parse_layer(name)
            if flat is not None:
                record = layers[markers] if markers < len(layers) else {"layer": flat, "step": 0}
                markers += 1
                layer = record["layer"]
                out.append(Entry("LAYER", layer, 0, record["step"], layer, begun=number))
                continue
            item = parse(name)
            if item is None:
                continue
            e = entries.get(item.call)
            if e is None:
                e = entries[item.call] = _entry(item, known.get(item.call), layer, number)
                out.append(e)
            d = _datum(item, row, self.arrays)
            if item.phase == "backward":
                times[name] = times.get(name, 0) + 1
                if times[name] > 1:
                    _again(d, e.grads, times[name])
            (e.grads if item.phase == "backward" else e.inputs if item.role == "input" else e.outputs).append(d)
            if item.phase == "backward":
                e.order = number
        for key, r in known.items():
            if key not in entries and (item := parse(f"{key}_forward_output")) is not None:
                entries[key] = _entry(item, r, r.get("module", ""), len(out))
                out.append(entries[key])
        for r in records:
            if r.get("phase") == "backward" and "small" in r and r["call"] in entries:
                entries[r["call"]].small_grads[r["value"]] = r["small"]
        if records:
            out = _in_order(out, records)
        return out

    def _rows(self) -> Iterator[list[Any]]:
        for line in _lines(self.info_path):
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                try:
                    row = ast.literal_eval(line.replace("NaN", "None"))
                except (ValueError, SyntaxError):
                    continue  # the last line of a program that was stopped
            if isinstance(row, list) and len(row) >= 6 and isinstance(row[0], str):
                yield row


def _in_order(entries: list[Entry], records: list[dict[str, Any]]) -> list[Entry]:
    """Entries as the calls file has them, which also knows calls of which no value was kept."""
    place: dict[str, int] = {}
    markers = iter([i for i, r in enumerate(records) if "layer" in r])
    for i, r in enumerate(records):
        if r.get("phase") == "forward":
            place.setdefault(r["call"], i)
    keyed = [(next(markers, len(records)) if e.kind == "LAYER" else place.get(e.key, len(records)), e) for e in entries]
    return [e for _, e in sorted(keyed, key=lambda k: k[0])]


def _lines(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.strip():
                    yield line
    except FileNotFoundError:
        return


def _entry(item: Item, record: dict[str, Any] | None, layer: str, number: int) -> Entry:
    e = Entry(item.kind, item.name, item.count, module=layer, begun=number)
    if record is not None:
        e.step, e.module = record["step"], record.get("module", "")
        e.params = {k: v for k, v in record.get("params", {}).items() if v}
        e.buffers = {k: v for k, v in record.get("buffers", {}).items() if v}
        e.sources, e.failed = record.get("from", {}), record.get("failed", "")
        e.not_finite, e.small = record.get("not_finite", {}), record.get("small", {})
    return e


def _again(d: Datum, before: list[Datum], number: int) -> None:
    """A gradient that passed again (a second backward): the file holds the last one, the earlier have statistics only."""
    for old in before:
        if old.path == d.path:
            old.path = ""
    d.item = replace(d.item, index=f"{d.item.index}#{number}")


def _number(x: Any) -> float:
    return float(x) if isinstance(x, (int, float)) and not isinstance(x, bool) else math.nan


def _datum(item: Item, row: list[Any], folder: str) -> Datum:
    three = list(row[5] or []) + [math.nan] * 3
    md5 = row[6] if len(row) > 6 and isinstance(row[6], str) else ""
    norm = _number(row[7]) if len(row) > 7 else math.nan
    shape = tuple(int(n) for n in row[4])
    return Datum(
        item, str(row[3]), shape, _number(three[0]), _number(three[1]), _number(three[2]), norm, md5,
        os.path.join(folder, f"{row[0]}.npy"),
    )  # fmt: skip


def _number_by_phase(entries: list[Entry]) -> None:
    """Steps by alternation: a call that begins behind the last gradient seen so far begins the next step."""
    step, last = 0, -1
    for e in entries:
        if 0 <= last < e.begun:
            step, last = step + 1, -1
        e.step = step
        if e.grads:
            last = max(last, e.order)


def _find_info(folder: str) -> tuple[str, str]:
    for framework in ORDER:
        for suffix in ("csv", "pkl"):
            path = os.path.join(folder, f"{STEM[framework]}_api_dump_info.{suffix}")
            if os.path.exists(path):
                return framework, path
    raise ValueError(
        f"{folder} holds no API dump: there is no torch_api_dump_info.csv, mindtorch_api_dump_info.csv or "
        "mindspore_api_dump_info.csv in it; give the folder that was output_path of api_dump_init"
    )


def ranks(path: str) -> dict[int, str]:
    """Rank -> folder of a dump. ``path`` is the output_path of `api_dump_init` or one of its rank folders.

    ValueError when there is no dump.
    """
    path = os.path.abspath(os.path.expanduser(os.fspath(path)))
    if not os.path.isdir(path):
        raise ValueError(f"{path} is no folder; give the output_path of api_dump_init")
    found = {
        int(n[4:]): os.path.join(path, n)
        for n in os.listdir(path)
        if n.startswith("rank") and n[4:].isdigit() and os.path.isdir(os.path.join(path, n))
    }
    if found:
        return dict(sorted(found.items()))
    _find_info(path)
    name = os.path.basename(path)
    return {int(name[4:]) if name.startswith("rank") and name[4:].isdigit() else 0: path}
