"""Dumps in the layout of msprobe 26 (mindstudio-probe) for PyTorch, for its ``compare`` and ``graph_visualize``.

::

    <output_path>/step0/rank0/dump.json           every call: inputs, outputs, parameters, gradients with their statistics
    <output_path>/step0/rank0/construct.json      call -> the module it was made in
    <output_path>/step0/rank0/stack.json          number -> [calls, lines of the user's program]
    <output_path>/step0/rank0/dump_tensor_data/Module.fc.Linear.forward.0.output.0.pt

Both frameworks name themselves "pytorch" in it: calls have PyTorch's names, and values are files of ``torch.save``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mindtorch.tools import frameworks, values
from mindtorch.tools.appending import replace
from mindtorch.tools.dump.recorder import Call, Recorder, Settings

TASKS = {"all": "tensor", "npy": "tensor", "statistics": "statistics", "stack": "structure"}


class Leaf(NamedTuple):
    """One captured argument or result: its label, what dump.json says of it, its values if they are kept."""

    suffix: str
    info: Any
    array: np.ndarray | None

    small = None  # `Recorder` asks it of what TroubleShooter's files leave out; here nothing is


class StepFiles:
    """The three JSON files and the folder of values of each step. They are written again when they have grown by half."""

    def __init__(self, output_path: str) -> None:
        self.root = os.path.abspath(output_path)
        self.weights = os.path.join(self.root, "weights.pth")
        self.count = 0
        self.step = -1
        self.task = "tensor"
        self.folder = self.root
        self.data: dict[str, Any] = {}
        self.parents: dict[str, str | None] = {}
        self.stacks: dict[tuple[str, ...], list[str]] = {}
        self._written = 0

    @property
    def arrays(self) -> str:
        """Folder of the values of this step."""
        return os.path.join(self.folder, "dump_tensor_data")

    def begin_step(self, step: int, task: str) -> None:
        """Finish the step before and start the files of ``step``; an older dump there is removed."""
        self.flush()
        self.step, self.task = step, task
        self.folder = os.path.join(self.root, f"step{step}", f"rank{frameworks.rank()}")
        if os.path.isdir(self.folder):
            shutil.rmtree(self.folder)
        os.makedirs(self.arrays if task == "tensor" else self.folder, mode=0o750)
        self.data, self.parents, self.stacks, self._written = {}, {}, {}, 0

    def save_weights(self, save: Any, state: Any) -> bool:
        """``save(state, file)`` into ``weights.pth``; whether an older one was replaced."""
        os.makedirs(self.root, exist_ok=True)
        there = os.path.exists(self.weights)
        replace(self.weights, lambda f: save(state, f), 0o640)
        return there

    def grown(self) -> None:
        """Something was added: write when much was, so that all writing together stays linear."""
        self.count += 1
        if len(self.data) >= max(100, self._written * 3 // 2):
            self.flush()

    def flush(self) -> None:
        """Everything recorded so far is readable."""
        if self.step < 0:
            return
        self._written = len(self.data)
        head = {"task": self.task, "level": "mix", "framework": "pytorch"}
        folder = self.arrays if self.task == "tensor" else None
        stacks = {str(i): [names, list(lines)] for i, (lines, names) in enumerate(self.stacks.items())}
        for name, what in (
            ("dump.json", {**head, "dump_data_dir": folder, "data": self.data}), ("construct.json", self.parents), ("stack.json", stacks),
        ):  # fmt: skip
            text = json.dumps(what, indent=1).encode()
            replace(os.path.join(self.folder, name), lambda f, text=text: f.write(text), 0o640)  # type: ignore[misc]

    close = flush


class MsprobeRecorder(Recorder):
    """Records what `Recorder` does, and the user's own modules too. Everything is kept, small values and numbers included."""

    every_module = True

    def __init__(self, net: Any, frame: str, output_path: str, retain_backward: bool) -> None:
        super().__init__(net, frame, output_path, retain_backward)
        self.files: Any = StepFiles(output_path)
        self._torch = frameworks.load(frame)
        self._inside: list[Call] = []
        self._names: dict[int, str] = {}
        self._module_counts: dict[str, int] = {}

    def start(self, settings: Settings) -> None:
        """Record from here on."""
        settings.filter_data = False
        self.settings = settings
        if not self._fresh:
            self._saw_step = True
        self._in_range = self._range_done = False
        self.running = True

    def stop(self) -> None:
        """Record no longer; files are complete."""
        self._inside.clear()
        super().stop()

    # ------------------------------------------------------------------ calls
    def begin(self, kind: str, name: str, inputs: Iterable[tuple[str, Any]], owner: Any = None) -> Call | None:
        """A call starts; numbers of calls begin anew in every step, as msprobe's do."""
        if self._saw_step or self.files.step < 0:
            self._counts.clear()
            self._module_counts.clear()
            self._inside.clear()
            self.files.begin_step(self.step + bool(self._saw_step), TASKS[self.settings.dump_type])
        call = super().begin(kind, name, inputs, owner)
        if call is None:
            return None
        if owner is not None:
            stem = ".".join(w for w in ("Module", call.module, name) if w)
            count = self._module_counts[stem] = self._module_counts.get(stem, -1) + 1
            self._names[id(call)] = f"{stem}.forward.{count}"
        else:
            self._names[id(call)] = f"{kind}.{name}.{call.count}.forward"
        full = self._names[id(call)]
        self.files.parents[full] = self._names[id(self._inside[-1])] if self._inside else None
        self.files.stacks.setdefault(tuple(call.frames), []).append(full)
        if owner is not None:
            self._inside.append(call)
        return call

    def _stack_of(self, call: Call) -> None:
        """Stacks are kept under the full name, which is known behind this."""

    def end(self, call: Call, outputs: list[tuple[str, Any]], gradients: bool = True) -> None:
        """The call returned: write it, and watch for the gradients of its outputs."""
        full = self._close(call)
        outs = self.capture(outputs)
        entry: dict[str, Any] = {**self._inputs(call, full), "output": _nested(outs) or [None]}
        self._keep(full, "output", outs)
        if call.owner is not None and call.weights.get("params"):
            entry["parameters"] = {v.suffix: v.info for v in call.weights["params"].values()}
            self._keep(full, "parameters", call.weights["params"].values())
        with self._lock:
            self.files.data[full] = entry
            self.files.grown()
        if self.retain_backward and gradients:
            for label, t in outputs:
                if values.is_tensor(t) and values.requires_grad(t):
                    t.register_hook(self._gradient(full, label))

    def fail(self, call: Call, why: str) -> None:
        """The call raised: its inputs are kept."""
        full = self._close(call)
        with self._lock:
            self.files.data[full] = {**self._inputs(call, full), "output": [None]}
            self.files.grown()

    def _close(self, call: Call) -> str:
        if call in self._inside:
            del self._inside[self._inside.index(call) :]
        return self._names.pop(id(call))

    def _inputs(self, call: Call, full: str) -> dict[str, Any]:
        while call.inputs and call.inputs[-1].info is None:  # on mindtorch, arguments that were not given
            call.inputs.pop()
        self._keep(full, "input", call.inputs)
        placed = [v for v in call.inputs if _keys(v.suffix)[0].isdigit()]
        named = {".".join(_keys(v.suffix)): v.info for v in call.inputs if v not in placed}
        return {"input_args": _nested(placed), "input_kwargs": named}

    def _gradient(self, full: str, label: str) -> Any:
        back, parent = _backward(full), self.files.parents.get(full)
        step = self.files.step

        def hook(grad: Any) -> None:
            if not self.alive() or self.files.step != step:
                return
            found = self.capture([(label or "[0]", grad)])
            with self._lock:
                entry = self.files.data.setdefault(back, {"input": [], "output": []})
                entry["input"] = [*entry["input"], *(v.info for v in found)]
                self._keep(back, "input", found)
                self.files.parents[back] = _backward(parent) if parent is not None else None
                self.files.grown()

        return hook

    # ------------------------------------------------------------------ what msprobe has no place for, or elsewhere
    def adopt(self, net: Any) -> None:
        """The first net that is called is the one whose modules msprobe would name by their paths alone."""
        if self.paths:
            super().adopt(net)
        else:
            self._name(net, "")

    def layer(self, name: str) -> None:
        """Modules are calls here, they need no marker."""

    def loss(self, t: Any) -> None:
        """``t.backward()`` is about to run; the loss is among the outputs."""
        self._walked = True

    def before_update(self, name: str, groups: Any) -> None:
        """An optimiser is about to step: write the gradients of the parameters under their modules."""
        self._updates += 1
        by_module: dict[str, list[tuple[str, Any]]] = {}
        for group in groups:
            for p in group["params"]:
                path = self.parameters.get(id(p))
                if path is not None and p.grad is not None:
                    module, _, leaf = path.rpartition(".")
                    by_module.setdefault(module, []).append((f"[{leaf}]", p.grad))
        with self._lock:
            for module, grads in by_module.items():
                stem = next((k.rpartition(".forward.")[0] for k in self.files.data if k.startswith(f"Module.{module}.")), None)
                if stem is None or "." in stem.removeprefix(f"Module.{module}."):
                    continue  # its module was not called: msprobe knows no such place
                full = f"{stem}.parameters_grad.0"
                found = self.capture(grads)
                self.files.data[full] = {_keys(v.suffix)[0]: [v.info] for v in found}
                self._keep(full, "", found)
                self.files.grown()

    def after_update(self, name: str) -> None:
        """Weights are written with the next call of their module."""

    # ------------------------------------------------------------------ values
    def capture(self, found: Iterable[tuple[str, Any]], copy: bool = False) -> list[Any]:
        """Leaves with what dump.json says of them, as they are now."""
        was, self.busy = self.busy, True
        try:
            return [self._leaf(label or "[0]", x, copy) for label, x in found]
        finally:
            self.busy = was

    def _members(self, table: dict[str, Any]) -> dict[str, Any]:
        return {k: self.capture([(k, t)], copy=True)[0] for k, t in table.items() if t is not None}

    def _leaf(self, label: str, x: Any, copy: bool) -> Leaf:
        if not values.is_tensor(x):
            return Leaf(label, _plain(x), None)
        dtype, shape = values.dtype_name(x), [int(n) for n in x.shape]
        info: dict[str, Any] = {"type": "torch.Tensor", "dtype": dtype, "shape": shape}
        needs = bool(x.requires_grad)
        if self.settings.dump_type == "stack":
            return Leaf(label, {**info, "requires_grad": needs}, None)
        try:
            a = values.to_array(x)
        except TypeError:  # without values
            return Leaf(label, {**info, "Max": None, "Min": None, "Mean": None, "Norm": None, "requires_grad": needs}, None)
        info |= {**_statistics(a, self._statistics(x, a) if a.dtype.kind in "fc" and a.size else None), "requires_grad": needs}
        keep = self.settings.dump_type in ("all", "npy")
        return Leaf(label, info, (a.copy() if copy else a) if keep else None)

    def _keep(self, full: str, role: str, found: Iterable[Leaf]) -> None:
        """Write values, and say in the entries which file they are in."""
        was, self.busy = self.busy, True
        try:
            for v in found:
                if v.array is None:
                    continue
                file = ".".join([full, *([role] if role else []), *_keys(v.suffix)]).replace("/", "_") + ".pt"
                t = self._torch.from_numpy(np.array(v.array, order="C"))
                replace(os.path.join(self.files.arrays, file), lambda f, t=t: self._torch.save(t, f), 0o640)  # type: ignore[misc]
                v.info["data_name"] = file
        finally:
            self.busy = was


def _backward(full: str) -> str:
    """Name of a call's backward: the word changes at its place, before the number for modules and at the end for others."""
    head, _, tail = full.rpartition("forward")
    return f"{head}backward{tail}"


def _keys(label: str) -> list[str]:
    """``[0][mask]`` -> ``0``, ``mask``; a plain name stays one."""
    return label[1:-1].split("][") if label.startswith("[") else [label]


def _nested(found: Iterable[Leaf]) -> list[Any]:
    """Leaves in the lists and dicts their labels tell of; places without a leaf are null."""
    out: list[Any] = []
    for v in found:
        keys = _keys(v.suffix)
        if not keys[0].isdigit():
            keys = [str(len(out)), *keys]
        place: Any = out
        for i, k in enumerate(keys):
            last = i == len(keys) - 1
            fresh: Any = v.info if last else [] if keys[i + 1].isdigit() else {}
            if isinstance(place, list):
                n = int(k) if k.isdigit() else len(place)
                place.extend([None] * (n + 1 - len(place)))
                if last or place[n] is None:
                    place[n] = fresh
                place = place[n]
            else:
                place = place.setdefault(k, fresh)
    return out


def _statistics(a: np.ndarray, s: values.Stats | None) -> dict[str, Any]:
    """Max, Min, Mean and Norm; integers and booleans have only the first two, empty tensors none."""
    if s is not None:
        return {"Max": _finite(s.max), "Min": _finite(s.min), "Mean": _finite(s.mean), "Norm": _finite(s.norm)}
    if not a.size or a.dtype.kind not in "iub":
        return {"Max": None, "Min": None, "Mean": None, "Norm": None}
    return {"Max": a.max().item(), "Min": a.min().item(), "Mean": None, "Norm": None}


def _finite(x: float) -> Any:
    """A number as JSON's strict readers take it; NaN and infinities as the texts msprobe knows."""
    return float(x) if np.isfinite(x) else str(float(x))


def _plain(x: Any) -> Any:
    """What dump.json says of an argument that is no tensor."""
    if x is None:
        return None
    if isinstance(x, (bool, int, float, str)):
        return {"type": type(x).__name__, "value": x if not isinstance(x, float) else _finite(x)}
    if isinstance(x, slice):
        return {"type": "slice", "value": [v if isinstance(v, (int, type(None))) else str(v) for v in (x.start, x.stop, x.step)]}
    kind = type(x).__name__
    return {"type": f"torch.{kind}" if kind in ("dtype", "device", "Size") else kind, "value": str(x)}
