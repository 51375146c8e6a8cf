"""``torch.utils.flop_counter.FlopCounterMode``: floating-point operations of matrix products and convolutions."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from mindtorch import log
from mindtorch.core import observe
from mindtorch.core.tensor import Leaf, Out, Tensor
from mindtorch.torch.profiler import flops

_UNITS = ("", "K", "M", "B", "T")

__all__ = ["FlopCounterMode"]


def _readable(n: int, unit: int) -> str:
    return f"{n / 1000**unit:.3f}{_UNITS[unit]}" if unit else str(n)


class FlopCounterMode:
    """Count the operations of a ``with`` block: forward and backward, in total, per module and per op.

    Counted as PyTorch counts: products of matrices (not of vectors) and convolutions, two per multiplication and addition.
    Scaled dot product attention counts as its two products forward and four backward, as in PyTorch with
    ``sdpa_kernel(SDPBackend.MATH)``. ``display`` prints `get_table` at the end; ``depth`` is how deep modules are shown.
    """

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        log.without_effect(
            "FlopCounterMode", "modules are found as they are called", quietly=True, mods=(mods, None)
        )  # fmt: skip
        log.without_effect(
            "FlopCounterMode", "its keys are PyTorch's internal operators, which do not run here", custom_mapping=(custom_mapping, None)
        )  # fmt: skip
        self.depth, self.display = 2 if depth is None else depth, display
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.nodes = self.parent_only = True
        self._open: list[str] = []
        self._of_node: dict[int, tuple[str, ...]] = {}
        self._walked: list[tuple[str, ...]] = []
        self._paths: dict[int, str] = {}
        self._alive: list[Any] = []
        self._hooks: list[Any] = []

    # ------------------------------------------------------------------ the block
    def __enter__(self) -> FlopCounterMode:
        from mindtorch.torch.nn.modules import module

        self.flop_counts.clear()
        self._open.clear()
        self._hooks = [
            module.register_module_forward_pre_hook(self._enter_module),
            module.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        observe.RANGES.append(self)
        observe.attach(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        observe.detach(self)
        observe.RANGES.remove(self)
        for handle in self._hooks:
            handle.remove()
        if self.display:
            print(self.get_table(self.depth))

    # ------------------------------------------------------------------ what is seen
    def before(self, row: Any, args: Any) -> None:
        """An op begins."""

    def after(self, row: Any, args: Any, out: Any, token: None) -> None:
        """An op has returned: count it for the modules it ran in, or whose derivative it is part of."""
        walking = observe.state.walks > 0 and self._walked
        modules = self._walked[-1] if walking else tuple(dict.fromkeys(self._open))
        counted = flops.of(row, args, out, observe.state.walks > 0)
        if counted is not None:
            for m in ("Global", *modules):
                self.flop_counts[m][counted[0]] += counted[1]
        if modules:
            for t in out if out.__class__ in (tuple, list) else (out,):
                n = t.n if isinstance(t, Tensor) else None
                if n is not None and n.__class__ is not Leaf:
                    self._of_node.setdefault((n.node if n.__class__ is Out else n).q, modules)

    def enter(self, kind: str, name: str, what: Any) -> str:
        """A phase begins; of a node, whose derivative it is."""
        if kind == "node":
            self._walked.append(self._of_node.get(getattr(what, "q", -1), ()) if what.__class__ is not Leaf else ())
        return kind

    def leave(self, token: str) -> None:
        """A phase ends."""
        if token == "node":
            self._walked.pop()

    def _enter_module(self, module: Any, args: Any) -> None:
        if id(module) not in self._paths:
            self._alive.append(module)
            home = type(module).__name__
            for name, m in module.named_modules():
                self._paths.setdefault(id(m), f"{home}.{name}" if name else home)
        self._open.append(self._paths[id(module)])

    def _leave_module(self, module: Any, args: Any, out: Any) -> None:
        self._open.pop()

    # ------------------------------------------------------------------ results
    def get_total_flops(self) -> int:
        """Operations of the whole block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Module path (``Global`` for all) -> name of the op (``aten.mm`` ...) -> operations."""
        return {k: dict(v) for k, v in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Modules down to ``depth`` with their operations and shares, the ops of each below it."""
        depth = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        unit = max(0, min(len(_UNITS) - 1, (len(str(total)) - 1) // 3))

        def line(name: str, n: int, indent: int) -> list[str]:
            return [" " * indent + name, _readable(n, unit), f"{n / total * 100:.2f}%"]

        rows: list[list[str]] = []
        for module in sorted(self.flop_counts, key=lambda m: (m != "Global", m)):
            level = 0 if module == "Global" else module.count(".") + 1
            if level > depth:
                continue
            counts = self.flop_counts[module]
            rows.append(line(module, sum(counts.values()), level))
            rows += [line(f" - {op}", n, level) for op, n in counts.items()]
        if not rows:
            rows = [["Global", "0", "0%"]]
        return _grid(["Module", "FLOP", "% Total"], rows)


def _grid(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def put(r: list[str]) -> str:
        return "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip()

    return "\n".join([put(head), "  ".join("-" * w for w in widths), *map(put, rows)])
