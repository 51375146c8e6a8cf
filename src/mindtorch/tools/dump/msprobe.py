"""Dumps in the layout of msprobe 26 (mindstudio-probe) for PyTorch, for its ``compare`` and ``graph_visualize``.

::

    <output_path>/step0/rank0/dump.json           every call: inputs, outputs, parameters, gradients with their statistics
    <output_path>/step0/rank0/construct.json      call -> the module it was made in
    <output_path>/step0/rank0/stack.json          number -> [calls, lines of the user's program]
    <output_path>/step0/rank0/dump_tensor_data/Module.fc.Linear.forward.0.output.0.pt

Both frameworks name themselves "pytorch" in it: calls have PyTorch's names, and values are files of ``torch.save``.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import zlib
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


class Backward:
    """Gradients of one call that come one by one: of its outputs (msprobe's "input") and of its inputs ("output")."""

    def __init__(self, name: str, parent: str | None, step: int) -> None:
        self.name, self.parent, self.step = name, parent, step
        self.outputs: list[Any] = []
        self.inputs: list[Any] = []
        self.waiting = 0


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
    in_layers = True

    def __init__(self, net: Any, frame: str, output_path: str, retain_backward: bool) -> None:
        super().__init__(net, frame, output_path, retain_backward)
        self.files: Any = StepFiles(output_path)
        self._torch = frameworks.load(frame)
        self._inside: list[Call] = []
        self._names: dict[int, str] = {}
        self._module_counts: dict[str, int] = {}
        self._backwards: dict[int, Backward] = {}
        self._open_backward: set[str] = set()
        self._watched: dict[tuple[str, str], Any] = {}

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
        self._begin_anew()
        super().stop()

    def _begin_anew(self) -> None:
        """Nothing of the step before goes on."""
        self._inside.clear()
        self._backwards.clear()
        self._open_backward.clear()
        for handle in self._watched.values():
            handle.remove()
        self._watched.clear()

    # ------------------------------------------------------------------ calls
    def begin(self, kind: str, name: str, inputs: Iterable[tuple[str, Any]], owner: Any = None) -> Call | None:
        """A call starts; numbers of calls begin anew in every step, as msprobe's do."""
        kind = "Torch" if kind == "Linalg" else kind
        if self._saw_step or self.files.step < 0:
            self._counts.clear()
            self._module_counts.clear()
            self._begin_anew()
            self.files.begin_step(self.step + bool(self._saw_step), TASKS[self.settings.dump_type])
        if kind in ("FFT", "Special") or f"{kind}.{name}" in _UNKNOWN:
            for part in ("reciprocal", "__mul__") if name in ("__rtruediv__", "__rdiv__") else ():
                self._counts["Tensor", part] = self._counts.get(("Tensor", part), 0) + 1  # msprobe sees these in it
            return None
        if owner is None and self.frame == frameworks.MINDTORCH and name in _RECURRENT:
            return None  # many calls there, of which none gives the result
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
        if call.owner is not None:
            params = call.weights.get("params", {})
            entry["parameters"] = {v.suffix: v.info for v in params.values()}
            self._keep(full, "parameters", params.values())
        with self._lock:
            self.files.data[full] = entry
            self.files.grown()
        back = self._backwards.pop(id(call), None)
        if not self.retain_backward:
            return
        if call.owner is None:
            self._watch_node(full, call, outputs)
        else:
            self._watch_module(back or Backward(_backward(full), self._parent(full), self.files.step), outputs)
            self._watch_parameters(full.rpartition(".forward.")[0], call.owner)

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

    # ------------------------------------------------------------------ gradients
    def entered(self, call: Call, args: Any) -> Any:
        """Give the module views of its inputs, whose gradients are then its own and not those of all who use the input."""
        if not self.retain_backward or not isinstance(args, tuple) or not self._torch.is_grad_enabled():
            return None
        full = self._names[id(call)]
        back = Backward(_backward(full), self._parent(full), self.files.step)
        was, self.busy = self.busy, True
        try:
            own = [self._view(x, back, i) for i, x in enumerate(args)]
        finally:
            self.busy = was
        if not back.waiting:
            return None
        back.inputs = [None] * len(args)
        self._backwards[id(call)] = back
        self._open_backward.add(back.name)
        return tuple(own)

    def _view(self, x: Any, back: Backward, place: int) -> Any:
        if not values.is_tensor(x) or not x.requires_grad:
            return x
        v = x.view_as(x)
        if v.grad_fn is None:
            return x
        back.waiting += 1

        def hook(into: Any, of: Any) -> None:
            if self._current(back):
                back.inputs[place] = into[0]
                back.waiting -= 1
                self._finish(back)

        v.grad_fn.register_hook(hook)
        return v

    def _watch_module(self, back: Backward, outputs: list[tuple[str, Any]]) -> None:
        for place, (_, t) in enumerate(outputs):
            back.outputs.append(None)
            if values.is_tensor(t) and values.requires_grad(t):

                def hook(grad: Any, place: int = place) -> None:
                    if self._current(back):
                        back.outputs[place] = grad
                        if not back.waiting:
                            self._finish(back)

                t.register_hook(hook)

    def _watch_node(self, full: str, call: Call, outputs: list[tuple[str, Any]]) -> None:
        """What msprobe calls the backward of a function: what goes into and out of the node that made its first output."""
        t = next((t for _, t in outputs if values.is_tensor(t)), None)
        if t is None or not values.requires_grad(t) or not self._torch.is_grad_enabled():
            return
        back = Backward(_backward(full), self._parent(full), self.files.step)
        node, name = t.grad_fn, call.name

        def hook(into: Any, of: Any) -> None:
            if self._current(back):
                back.outputs = list(of)
                back.inputs = list(into)
                if self.frame == frameworks.MINDTORCH:
                    back.outputs, back.inputs = as_pytorch(name, node.name(), back.outputs, back.inputs)
                self._finish(back)

        node.register_hook(hook)

    def _watch_parameters(self, stem: str, module: Any) -> None:
        for name, p in module._parameters.items():
            if p is None or not p.requires_grad or (stem, name) in self._watched or not p.is_leaf:
                continue
            counts = itertools.count()

            def hook(t: Any, name: str = name, counts: Any = counts) -> None:
                if not self.alive() or t.grad is None:
                    return
                full = f"{stem}.parameters_grad.{next(counts)}"
                found = self.capture([(name, t.grad)], copy=True)
                self._keep(full, "", found)
                with self._lock:
                    self.files.data.setdefault(full, {})[name] = [found[0].info]
                    self.files.grown()

            self._watched[stem, name] = p.register_post_accumulate_grad_hook(hook)

    def _current(self, back: Backward) -> bool:
        return self.alive() and self.files.step == back.step

    def _parent(self, full: str) -> str | None:
        """The backward of the nearest module around a call whose inputs have gradients: others are over before they begin."""
        parent = self.files.parents.get(full)
        while parent is not None and _backward(parent) not in self._open_backward:
            parent = self.files.parents.get(parent)
        return None if parent is None else _backward(parent)

    def _finish(self, back: Backward) -> None:
        """Write a backward whose gradients have all come; a second pass through it writes it again."""
        if back.waiting:
            return
        sides = []
        for role, grads in (("input", back.outputs), ("output", back.inputs)):
            found = self.capture([(f"[{i}]", g) for i, g in enumerate(grads)])
            self._keep(back.name, role, found)
            sides.append([v.info for v in found])
        with self._lock:
            self.files.data[back.name] = {"input": sides[0], "output": sides[1]}
            self.files.parents[back.name] = back.parent
            self.files.grown()

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
        """An optimiser is about to step: the gradients were written when they came."""
        self._updates += 1

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
        if "md5" in self.settings.categories:
            info["md5"] = f"{zlib.crc32(np.ascontiguousarray(a).tobytes()):08x}"  # what msprobe calls md5
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


def as_pytorch(name: str, node: str, outputs: list[Any], inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Gradients around a node of mindtorch as the node of PyTorch's has them.

    PyTorch's nodes have no place for integer outputs and for Python numbers, and take weights of `linear` transposed.
    Where PyTorch makes a function of other nodes than mindtorch does, there is nothing to compare: null.
    """
    while outputs and outputs[-1] is None:
        outputs = outputs[:-1]
    if name in _OTHER_NODES:
        return outputs, [None]
    if node in _NO_PLACE_FOR_NUMBERS:
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
    if name == "linear" and len(inputs) > 1:
        x, weight, bias = (*inputs, None)[:3]
        turned = None if weight is None else weight.t()
        inputs = [bias, x, turned] if node == "AddmmBackward0" else [x, turned]
    if node in ("ViewBackward0", "UnsafeViewBackward0") and name in ("linear", "matmul", "__matmul__") and len(outputs[0].shape) > 2:
        g = outputs[0]
        inputs = [g.reshape(-1, g.shape[-1]) if any(x is not None and len(x.shape) < 3 for x in inputs) else g]
    return outputs, inputs


_OTHER_NODES = frozenset(
    """cross_entropy scaled_dot_product_attention multi_head_attention_forward einsum glu binary_cross_entropy_with_logits
    smooth_l1_loss huber_loss __rsub__ rsub gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell""".split()
)
_RECURRENT = frozenset(["lstm", "gru", "rnn_tanh", "rnn_relu"])
_UNKNOWN = frozenset(
    [f"Torch.{n}" for n in """adjoint as_strided as_strided_ as_strided_scatter batch_norm bitwise_left_shift bitwise_right_shift
     complex conj conj_physical conj_physical_ corrcoef fill gradient index_reduce isreal lu meshgrid orgqr ormqr pca_lowrank
     positive put rms_norm scatter_reduce select_scatter slice_scatter svd_lowrank trace trapezoid unique view_as_complex
     view_as_real zero_""".split()]
    + [f"Tensor.{n}" for n in """__abs__ __getitem__ __invert__ __itruediv__ __neg__ __pos__ __rand__ __rfloordiv__ __rlshift__
       __rmatmul__ __rrshift__ __rtruediv__ __rdiv__ as_strided as_strided_ as_strided_scatter cdouble chalf clone conj conj_physical_
       contiguous copy_ cpu cross cuda index_reduce index_reduce_ istft positive put scatter_reduce scatter_reduce_
       select_scatter subtract_ swapaxes_ trace view zero_""".split()]
    + ["Functional.rms_norm"]
)  # fmt: skip
"""Calls that msprobe 26.2 does not record."""
_NO_PLACE_FOR_NUMBERS = frozenset("RsubBackward1 MaskedFillBackward0 PowBackward0 ClampBackward0 ClampBackward1 MmBackward0".split())


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
    if a.ndim == 0 and a.dtype.kind in "iu":
        return dict.fromkeys(("Max", "Min", "Mean", "Norm"), a.item())
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
