"""``debug_layer_info``: what goes in and out of every layer of a net, printed alike by PyTorch and mindtorch.

Works in an environment with PyTorch alone (``frame="pytorch"``) and with mindtorch alone. The two texts differ in the two
header lines that name the framework, and nowhere else as long as the nets agree; files have no such line at all.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable
from typing import Any

from mindtorch.tools import frameworks, values
from mindtorch.tools.appending import Json, Lines

WIDTH = 96
FORMATS = {".json": "json", ".csv": "csv"}
_CSV = ("step", "phase", "module", "call", "value", "type", "dtype", "shape", "max", "min", "mean", "nan", "inf")


def debug_layer_info(
    model: Any,
    frame: str = "mindtorch",
    type_info: bool = False,
    tensor_info: bool = True,
    params_info: bool = True,
    *,
    file: str | None = None,
    steps: int | None = None,
    modules: str | Iterable[Any] | Callable[[str, Any], bool] | None = None,
    backward: bool = True,
) -> Handle:
    """Print inputs, outputs and output gradients of every layer from the next forward on, and all weights now.

    Args:
        model: an ``nn.Module`` of the framework that ``frame`` names.
        frame: "mindtorch" or "pytorch".
        type_info: also print the Python type of every value.
        tensor_info: print shape, dtype, max, min and mean of tensors.
        params_info: print parameters and buffers now.
        file: write here and not to stdout; ``.json`` and ``.csv`` choose those formats. With several processes the rank
            comes before the suffix.
        steps: stop after so many calls of ``model``.
        modules: which layers: a pattern or patterns of dotted names (``"encoder.*"``), module classes, or a function of
            name and module. All by default.
        backward: print gradients of outputs too.

    Returns a `Handle` whose ``remove()`` ends it; it is a context manager as well.

    Raises ValueError for an unknown ``frame`` or a ``model`` that is no Module of it, ImportError without PyTorch.
    """
    if frame not in frameworks.FRAMEWORKS:
        raise ValueError(f"debug_layer_info: frame must be 'mindtorch' or 'pytorch', got {frame!r}")
    if not frameworks.is_module(model, frame):
        real = frameworks.frame_of(model)
        hint = f"; it is a Module of {real}: pass frame={real!r}" if real else ""
        raise ValueError(
            f"debug_layer_info: model must be an nn.Module of {frame}, got {type(model).__module__}.{type(model).__qualname__}{hint}"
        )
    if steps is not None and (not isinstance(steps, int) or steps < 1):
        raise ValueError(f"debug_layer_info: steps must be a positive integer or None, got {steps!r}")
    if frame == frameworks.MINDTORCH:
        _quiet_log()
    sink = _sink(file, type_info, tensor_info)
    handle = Handle(model, frame, sink, _chooser(modules), steps, backward)
    if params_info:
        sink.header(f"parameters and buffers of the {frame} net")
        for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
            for name, t in named:
                sink.value({"step": 0, "phase": kind, "module": name.rpartition(".")[0], "call": 0}, name, t)
    sink.flush()
    return handle


def _quiet_log() -> None:
    """Warnings and above only, as the guide wants it while layers are printed."""
    import logging

    from mindtorch import log

    os.environ["MSA_LOG"] = "2"
    log.logger().setLevel(logging.WARNING)


def _chooser(modules: Any) -> Callable[[str, Any], bool]:
    if modules is None:
        return lambda name, module: True
    if callable(modules) and not isinstance(modules, type):
        return modules
    wanted = [modules] if isinstance(modules, (str, type)) else list(modules)
    names = [w for w in wanted if isinstance(w, str)]
    classes = tuple(w for w in wanted if isinstance(w, type))
    if len(names) + len(classes) != len(wanted):
        raise TypeError("debug_layer_info: modules takes names with wildcards, module classes or a function of name and module")
    return lambda name, module: isinstance(module, classes) or any(fnmatch.fnmatchcase(name, n) for n in names)


class Handle:
    """Ends the printing: ``remove()``, or the end of a ``with`` block. ``steps`` counts calls of the net so far."""

    def __init__(self, model: Any, frame: str, sink: Any, chosen: Any, limit: int | None, backward: bool) -> None:
        self.frame = frame
        self.steps = 0
        self.path = sink.path
        self._sink, self._limit, self._backward = sink, limit, backward
        self._calls: dict[str, int] = {}
        self._root, self._depth, self._begun = model, 0, False
        self._grads: list[Any] = []
        self._hooks = [model.register_forward_pre_hook(self._enter)]
        for name, module in model.named_modules():
            if chosen(name, module):
                self._hooks.append(module.register_forward_hook(self._printer(name), with_kwargs=True))
        # Registered last: it runs when everything of the outermost call is printed.
        self._hooks.append(model.register_forward_hook(self._leave, always_call=True))

    def _enter(self, module: Any, args: Any) -> None:
        if self._depth == 0:
            if self._limit is not None and self.steps >= self._limit:
                self.remove()
            else:
                self._calls.clear()
            if not self._begun:
                self._begun = True
                self._sink.header(f"layers of the {self.frame} net")
        self._depth += 1

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            self.steps += 1
            self._sink.flush()

    def _printer(self, name: str) -> Any:
        def hook(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            if self._limit is not None and self.steps >= self._limit:
                return
            call = self._calls[name] = self._calls.get(name, 0) + 1
            at = {"step": self.steps + 1, "phase": "forward", "module": name, "call": call}
            self._sink.module(at)
            for label, x in values.leaves(args, "input", everything=True):
                self._sink.value(at, label, x)
            for label, x in values.leaves(dict(kwargs), "input", everything=True):
                self._sink.value(at, label, x)
            outs = (output,) if values.is_tensor(output) or not values.is_nest(output) else output
            found = list(values.leaves(outs, "output", everything=True))
            for label, x in found:
                self._sink.value(at, label, x)
            if self._backward:
                self._watch(at, [(label, x) for label, x in found if values.is_tensor(x)])

        return hook

    def _watch(self, at: dict[str, Any], outputs: list[tuple[str, Any]]) -> None:
        at = {**at, "phase": "backward"}
        state = {"first": True}

        def watcher(label: str) -> Any:
            def hook(grad: Any) -> None:
                if state["first"]:
                    self._sink.module(at)
                    state["first"] = False
                self._sink.value(at, label, grad)
                self._sink.flush()

            return hook

        for label, x in outputs:
            if values.requires_grad(x):
                self._grads.append(x.register_hook(watcher(label)))
        if len(self._grads) > 10000:
            del self._grads[:5000]

    def remove(self) -> None:
        """Take all hooks away and close the file. Calling it again does nothing."""
        for h in self._hooks + self._grads:
            h.remove()
        self._hooks, self._grads = [], []
        self._sink.close()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()


# ------------------------------------------------------------------------------------------ where it goes
def describe(x: Any) -> dict[str, Any]:
    """Type, dtype, shape and statistics of a value; for what is no tensor its type and (when it is plain) itself."""
    kind = "Tensor" if values.is_tensor(x) else type(x).__name__
    if not values.is_tensor(x):
        return {"type": kind, "value": x if isinstance(x, (bool, int, float, str, type(None))) else kind}
    d: dict[str, Any] = {"type": kind, "dtype": values.dtype_name(x), "shape": [int(n) for n in x.shape]}
    try:
        a = values.to_array(x)
    except TypeError:
        return {**d, "value": "no values (meta)"}
    if a.ndim == 0:
        d["value"] = a.item() if a.dtype.kind != "c" else str(a.item())
    s = values.statistics(a, norm=False)
    if a.dtype.kind != "c" and a.size:
        d.update(max=s.max, min=s.min)
        if a.dtype.kind != "b":
            d["mean"] = s.mean
    d.update(nan=s.nan, inf=s.inf)
    return d


def number(v: Any) -> str:
    """Four decimals, without a minus sign before zero."""
    if isinstance(v, float):
        text = f"{v:.4f}"
        return text[1:] if text.startswith("-") and not text.strip("-0.") else text
    return str(v)


def ruler(text: str) -> str:
    """A line across the page with ``text`` in it."""
    return f"{'-' * 8} {text} ".ljust(WIDTH, "-")


class Text:
    """Lines for people, on stdout or in a file."""

    def __init__(self, path: str | None, type_info: bool, tensor_info: bool) -> None:
        self.path = path
        self._file = Lines(path) if path is not None else None
        self._type, self._tensor = type_info, tensor_info

    def line(self, text: str) -> None:
        """One line."""
        if self._file is None:
            print(text)
        else:
            self._file.add(text)

    def header(self, text: str) -> None:
        """Names the framework: on stdout only, so that files of two frameworks can be equal."""
        if self._file is None:
            self.line("")
            self.line(f">>> {text}")

    def module(self, at: dict[str, Any]) -> None:
        """The ruler above a module's values."""
        again = f" (call {at['call']})" if at["call"] > 1 else ""
        self.line(ruler(f"[{at['phase']}]: {at['module']}{again}"))

    def value(self, at: dict[str, Any], label: str, x: Any) -> None:
        """One to three lines: type, shape and dtype, statistics."""
        d = describe(x)
        if self._type:
            self.line(f"{label} type: {d['type']}")
        if "dtype" not in d:
            self.line(f"{label}: {number(d['value'])}")
            return
        if not self._tensor:
            return
        flags = "".join(f"  {word}: {d[k]}" for k, word in (("nan", "NaN"), ("inf", "Inf")) if d.get(k))
        self.line(f"{label} shape: {tuple(d['shape'])}  dtype: {d['dtype']}{flags}")
        if "value" in d:
            self.line(f"    value: {number(d['value'])}")
        elif "max" in d:
            self.line("    " + "  ".join(f"{k}: {number(d[k])}" for k in ("max", "min", "mean") if k in d))

    def flush(self) -> None:
        """Nothing waits any longer."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """No more lines."""
        if self._file is not None:
            self._file.close()


class JsonSink:
    """An array of records, one per value, for ``python -m mindtorch layers``."""

    def __init__(self, path: str) -> None:
        self.path: str | None = path
        self._file = Json(path, "[", indent=0)

    def header(self, text: str) -> None:
        """Records name no framework."""

    def module(self, at: dict[str, Any]) -> None:
        """Every record names its module."""

    def value(self, at: dict[str, Any], label: str, x: Any) -> None:
        """One record."""
        self._file.add({**at, "name": label, **describe(x)})

    def flush(self) -> None:
        """Nothing waits any longer."""
        self._file.flush()

    def close(self) -> None:
        """No more records."""
        self._file.close()


class CsvSink(JsonSink):
    """One row per value."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lines = Lines(path)
        self._row(_CSV)

    def _row(self, cells: Iterable[Any]) -> None:
        quoted = ('"' + str(c).replace('"', '""') + '"' for c in cells)
        self._lines.add(",".join(quoted))

    def value(self, at: dict[str, Any], label: str, x: Any) -> None:
        """One row."""
        d = describe(x)
        shape = tuple(d["shape"]) if "shape" in d else d.get("value", "")
        rest = (d.get(k, "") for k in ("max", "min", "mean", "nan", "inf"))
        self._row((at["step"], at["phase"], at["module"], at["call"], label, d["type"], d.get("dtype", ""), shape, *rest))

    def flush(self) -> None:
        """Nothing waits any longer."""
        self._lines.flush()

    def close(self) -> None:
        """No more rows."""
        self._lines.close()


def _sink(file: str | None, type_info: bool, tensor_info: bool) -> Any:
    if file is None:
        return Text(None, type_info, tensor_info)
    path = frameworks.ranked(os.fspath(file))
    kind = FORMATS.get(os.path.splitext(path)[1].lower(), "text")
    return JsonSink(path) if kind == "json" else CsvSink(path) if kind == "csv" else Text(path, type_info, tensor_info)
