"""``NetDifferenceFinder``: one network written twice, with the same weights and inputs; do the outputs agree?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.formats import weights
from mindtorch.tools import frameworks, values
from mindtorch.tools.convert_tensor import _array_of_mindspore, convert_to_ms_tensor
from mindtorch.tools.distance import distance
from mindtorch.tools.migrator.npy_compare import NUMBERS, show
from mindtorch.tools.migrator.saving import array_of
from mindtorch.tools.migrator.tables import conversion_table, distance_cells
from mindtorch.tools.migrator.weight_compare import _compare
from mindtorch.tools.migrator.weight_map import _array, _tensor, converted, get_weight_map, read_map
from mindtorch.tools.randomness import fix_random

MINDSPORE = "mindspore"
_INPUTS = "a tuple of tensors, arrays or paths of .npy files, or a list of such tuples"


def _frame(net: Any, name: str) -> str:
    frame = frameworks.frame_of(net)
    if frame is None and any(c.__module__.startswith("mindspore.") and c.__name__ == "Cell" for c in type(net).__mro__):
        frame = MINDSPORE
    if frame is None:
        raise TypeError(f"NetDifferenceFinder: {name} must be a network of PyTorch, mindtorch or MindSpore, got {type(net).__name__}")
    return frame


class NetDifferenceFinder:
    """Compares a network of PyTorch (or mindtorch) with one of MindSpore or mindtorch.

    Args:
        pt_net: ``nn.Module`` of PyTorch or mindtorch.
        ms_net: ``nn.Module`` of mindtorch, or ``mindspore.nn.Cell``.
        print_level: 0 results only, 1 the tables of the weights too, 2 of these the differences.
        pt_params_path, ms_params_path: files with the weights; given both, nothing is converted.
        auto_conv_ckpt: 1 or 2: the weights of ``pt_net`` are put into ``ms_net`` (renamed for a Cell); 0: they are not.
        compare_params: compare the weights of the two before they run.
        fix_seed: seed of `fix_random`, for the inputs and the nets.

    TypeError for networks of other kinds, ValueError for settings that mean nothing.
    """

    def __init__(
        self, pt_net: Any, ms_net: Any, print_level: int = 1, *, pt_params_path: Any = None, ms_params_path: Any = None,
        auto_conv_ckpt: int = 1, compare_params: bool = True, fix_seed: int = 16,
    ) -> None:  # fmt: skip
        if print_level not in (0, 1, 2) or isinstance(print_level, bool):
            raise ValueError(f"NetDifferenceFinder: print_level must be 0, 1 or 2, got {print_level!r}")
        if auto_conv_ckpt not in (0, 1, 2) or isinstance(auto_conv_ckpt, bool):
            raise ValueError(f"NetDifferenceFinder: auto_conv_ckpt must be 0 (off), 1 (MindSpore) or 2 (mindtorch), got {auto_conv_ckpt!r}")
        if not isinstance(compare_params, bool):
            raise TypeError(f"NetDifferenceFinder: compare_params must be True or False, got {compare_params!r}")
        self.frames = _frame(pt_net, "pt_net"), _frame(ms_net, "ms_net")
        if self.frames[0] == MINDSPORE:
            raise TypeError("NetDifferenceFinder: pt_net must be an nn.Module, got a mindspore.nn.Cell")
        self.pt_net, self.ms_net, self.print_level = pt_net, ms_net, print_level
        self.paths = pt_params_path, ms_params_path
        for name, path in zip(("pt_params_path", "ms_params_path"), self.paths):
            if path is not None and not os.path.isfile(path):
                raise ValueError(f"NetDifferenceFinder: {name} is no file: {path}")
        self.auto_conv_ckpt, self.compare_params, self.fix_seed = auto_conv_ckpt, compare_params, fix_seed

    def fix_random(self, seed: int = 16) -> None:
        """`troubleshooter.fix_random`."""
        fix_random(seed)

    # ------------------------------------------------------------------ weights
    def _prepare(self) -> None:
        pt_path, ms_path = self.paths
        if pt_path is not None:
            _load(self.pt_net, self.frames[0], weights.read(pt_path).values)
        if ms_path is not None:
            _load(self.ms_net, self.frames[1], weights.read(ms_path).values)
        names, rows, moved = self._moved()
        if self.auto_conv_ckpt and not (pt_path is not None and ms_path is not None):
            if ms_path is not None:
                raise ValueError("NetDifferenceFinder: with ms_params_path alone set auto_conv_ckpt=0: the weights go from pt_net to ms_net only")
            if self.print_level and rows:
                print(conversion_table(rows))
            _load(self.ms_net, self.frames[1], moved)
        if self.compare_params:
            _compare(
                moved, _state(self.ms_net, self.frames[1]), {new: old for old, new in names.items()}, True, self.print_level,
                1e-4, 1e-4, False, ("torch", "MindSpore"),
            )  # fmt: skip

    def _moved(self) -> tuple[dict[str, str], list[Any], dict[str, np.ndarray]]:
        """Names, rows of the conversion table and weights of ``pt_net`` as ``ms_net`` calls and shapes them."""
        state = _state(self.pt_net, self.frames[0])
        if self.frames[1] != MINDSPORE:
            return {k: k for k in state}, [], state
        pair = get_weight_map(self.pt_net)
        made, rows = converted(read_map(weight_map=pair), state)
        there = set(_state(self.ms_net, MINDSPORE))  # counters of batches have no place in a Cell
        return pair[0], rows, {k: v for k, v in made.items() if k in there or not k.endswith("num_batches_tracked")}

    # ------------------------------------------------------------------ running
    def compare(
        self, inputs: Any = None, auto_inputs: Any = None, rtol: float = 1e-4, atol: float = 1e-4, equal_nan: bool = False
    ) -> list[tuple[Any, ...]]:
        """Run both networks in eval mode on the same inputs, print a table of their outputs and return its rows.

        Args:
            inputs: a tuple of tensors (of any of the frameworks), arrays or paths of ``.npy`` files; a list of such tuples
                for several cases.
            auto_inputs: instead, ``((shape, dtype), ...)``; or ``{"input": ((shape, dtype), ...), "num": n}`` for n cases.
            rtol, atol, equal_nan: an element is close when ``|a - b| <= atol + rtol * |b|``.

        ValueError when neither or both are given, TypeError for inputs of another form.
        """
        fix_random(self.fix_seed)
        cases = list(_cases(inputs, auto_inputs))
        was = self.pt_net.training, getattr(self.ms_net, "training", False)
        _set_train(self.pt_net, False)
        _set_train(self.ms_net, False)
        try:
            self._prepare()
            rows = [r for n, case in enumerate(cases) for r in self._case(n, case, rtol, atol, equal_nan)]
        finally:
            _set_train(self.pt_net, was[0])
            _set_train(self.ms_net, was[1])
        show(("PyTorch out", "MindSpore out", *NUMBERS), rows)
        return rows

    def _case(self, number: int, case: Sequence[np.ndarray], rtol: float, atol: float, equal_nan: bool) -> list[tuple[Any, ...]]:
        outs = []
        for net, frame, shown in zip((self.pt_net, self.ms_net), self.frames, ("PyTorch", "MindSpore")):
            fix_random(self.fix_seed)
            start = perf_counter()
            outs.append(_run(net, frame, case))
            print(f"case {number}: {shown} net took {perf_counter() - start:.3f} s")
        a, b = outs
        rows: list[tuple[Any, ...]] = []
        for i in range(max(len(a), len(b))):
            x, y = (o[i] if i < len(o) else (None, None) for o in (a, b))
            names = tuple(f"step_{number}_result_{i}{k[0]}" if k[0] is not None else None for k in (x, y))
            if x[1] is None or y[1] is None:
                rows.append((*names, "False", "0.00%", "nan", "nan, nan"))
            else:
                rows.append((*names, *distance_cells(distance(x[1], y[1], rtol, atol, equal_nan))))
        return rows


def _set_train(net: Any, on: bool) -> None:
    (net.set_train if hasattr(net, "set_train") else net.train)(on)


def _state(net: Any, frame: str) -> dict[str, np.ndarray]:
    if frame == MINDSPORE:
        return {k: _array_of_mindspore(p) for k, p in net.parameters_dict().items()}
    return {k: np.array(_array(k, v)) for k, v in net.state_dict().items() if values.is_tensor(v)}


def _load(net: Any, frame: str, state: Mapping[str, Any]) -> None:
    if frame == MINDSPORE:
        ms = door.program()

        ms.load_param_into_net(net, {k: ms.Parameter(_tensor(ms, np.asarray(v)), name=k) for k, v in state.items()})
    else:
        net.load_state_dict({k: _as_tensor(np.asarray(v), frame) for k, v in state.items()})


def _as_tensor(a: np.ndarray, frame: str) -> Any:
    a = np.array(a)  # a network may write into its inputs and weights
    if frame == frameworks.MINDTORCH:
        return convert_to_ms_tensor(a)
    if a.dtype.name == "bfloat16":
        return frameworks.load(frame).from_numpy(a.astype(np.float32)).bfloat16()
    return frameworks.load(frame).from_numpy(a)


def _run(net: Any, frame: str, case: Sequence[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """Labelled outputs of one run."""
    if frame == MINDSPORE:
        ms = door.program()

        return list(_outputs(net(*[_tensor(ms, a) for a in case])))
    with frameworks.load(frame).no_grad():
        return list(_outputs(net(*[_as_tensor(a, frame) for a in case])))


def _outputs(out: Any) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(out, Mapping):
        for k, v in out.items():
            yield from ((f".{k}{label}", a) for label, a in _outputs(v))
    elif isinstance(out, (list, tuple)):
        for i, v in enumerate(out):
            yield from ((f".{i}{label}", a) for label, a in _outputs(v))
    elif values.is_nest(out):
        yield from ((label, values.to_array(t)) for label, t in values.leaves(out))
    elif out is not None:
        yield "", array_of(out)


# ------------------------------------------------------------------------------------------ inputs
def _cases(inputs: Any, auto_inputs: Any) -> Iterator[tuple[np.ndarray, ...]]:
    if (inputs is None) == (auto_inputs is None):
        raise ValueError("NetDifferenceFinder.compare: give either inputs or auto_inputs")
    if inputs is not None:
        for case in inputs if isinstance(inputs, list) else [inputs]:
            if not isinstance(case, tuple):
                raise TypeError(f"NetDifferenceFinder.compare: inputs must be {_INPUTS}, got {type(case).__name__}")
            yield tuple(np.load(x) if isinstance(x, (str, os.PathLike)) else array_of(x) for x in case)
        return
    number = 1
    if isinstance(auto_inputs, Mapping):
        if not {"input", "num"} >= set(auto_inputs) or "input" not in auto_inputs:
            raise ValueError(f"NetDifferenceFinder.compare: auto_inputs has the keys 'input' and 'num', got {list(auto_inputs)}")
        number, auto_inputs = auto_inputs.get("num", 1), auto_inputs["input"]
    for _ in range(number):
        yield tuple(_random(spec) for spec in auto_inputs)


def _random(spec: Any) -> np.ndarray:
    try:
        shape, dtype = spec
        kind = np.dtype(dtype)
    except (TypeError, ValueError) as e:
        raise TypeError(f"NetDifferenceFinder.compare: auto_inputs are pairs (shape, NumPy dtype), got {spec!r}") from e
    if kind.kind == "b":
        return np.random.randint(0, 2, shape).astype(kind)
    if kind.kind in "iu":  # few and small, so that they are places in most tables
        return np.random.randint(0, 10, shape).astype(kind)
    if kind.kind == "c":
        return (np.random.randn(*shape) + 1j * np.random.randn(*shape)).astype(kind)
    return np.random.randn(*shape).astype(kind)
