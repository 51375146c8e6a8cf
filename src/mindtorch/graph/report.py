"""What became of a function as a graph, in words."""

from __future__ import annotations

from typing import Any

from mindtorch.graph import choice
from mindtorch.graph.compiled import Compiled
from mindtorch.graph.readings import OUTCOMES


class Explanation:
    """Result of ``mindtorch.graph.explain``. ``graphs``: one dict per program; ``breaks``: (reason, "file:line") pairs."""

    def __init__(self, name: str, graphs: list[dict[str, Any]], breaks: list[tuple[str, str]], inner: list[Explanation]) -> None:
        self.name, self.graphs, self.breaks, self.inner = name, graphs, breaks, inner

    @property
    def graph_count(self) -> int:
        """Programs captured, those of modules inside included."""
        return len(self.graphs) + sum(e.graph_count for e in self.inner)

    @property
    def graph_break_count(self) -> int:
        """Places where a function is split into graphs by a value, or reasons why it runs eagerly."""
        return len(self.breaks) + sum(e.graph_break_count for e in self.inner)

    @property
    def break_reasons(self) -> list[tuple[str, str]]:
        """All breaks, those of modules inside included."""
        return self.breaks + [b for e in self.inner for b in e.break_reasons]

    def lines(self) -> list[str]:
        """The report, line by line."""
        out = [f"{self.name}: {len(self.graphs)} graph(s), {len(self.breaks)} break(s)"]
        for g in self.graphs:
            times = ", ".join(f"{k} {1e3 * v:.3g} ms" for k, v in g["times"].items())
            out.append(f"  {g['steps']} steps, {g['kept']} values kept for the backward pass; backend {g['backend']}" + (f" ({times})" if times else ""))
            out += [f"    backward pass on the tape: {where}: {why}" for why, where in g["backward_breaks"]]
            out += [f"    {note}" for note in g["notes"]]
        split = [b for b in self.breaks if b[0].endswith(OUTCOMES)]
        rest = [b for b in self.breaks if b not in split]
        for title, breaks in (("split where Python goes on by a value", split), ("runs eagerly because of", rest)):
            out += [f"  {title}"] * bool(breaks) + [f"    {where}: {why}" for why, where in breaks]
        for e in self.inner:
            out += [f"  {line}" for line in e.lines()]
        return out

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__


def explain(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    """Call ``fn`` as a graph until its backend is chosen, and report."""
    from mindtorch.graph.modules import compiled

    graph = _own(fn)
    if graph is None:
        wrapped = compiled(fn)
        graph = getattr(wrapped, "_graph", wrapped)
    full, graph.fullgraph = graph.fullgraph, False
    try:
        for _ in range(3 * choice.TRIES + 2):
            graph(*args, **kwargs)
    finally:
        graph.fullgraph = full
    return report(graph)


def _own(fn: Any) -> Compiled | None:
    """The graph that calls of a module itself run as: by ``Module.compile``, or in MindSpore's graph mode."""
    from mindtorch.torch.nn.modules import _hooks

    state = getattr(fn, "__dict__", {})
    graph = state.get("_compiled_call_impl")
    if isinstance(graph, Compiled):
        return graph
    if _hooks.GRAPH_CALL is None or not hasattr(fn, "_call_impl"):
        return None
    from mindtorch.graph import switch

    return switch.of(fn)


def report(graph: Compiled) -> Explanation:
    """What a compiled function knows of itself."""
    graphs = []
    for entries in graph.entries.values():
        for e in entries:
            graphs.append(
                {
                    "steps": len(e.program.steps),
                    "rows": [s.row.name for s in e.program.steps],
                    "kept": len(e.program.kept),
                    "backend": e.chosen or e.backend,
                    "times": {k: min(v) for k, v in e.times.items() if v},
                    "backward_breaks": list(e.program.notes),
                    "notes": [*e.notes, *e.program.said],
                }
            )
    inner = _switched(graph) + [report(m.__dict__["_compiled_call_impl"]) for m in graph.parts if "_compiled_call_impl" in m.__dict__]
    return Explanation(graph.name, graphs, list(graph.breaks), inner)


def _switched(graph: Compiled) -> list[Explanation]:
    """Graphs of the modules inside one that cannot be captured, in MindSpore's graph mode."""
    if graph.owner is None or not graph.eager_only or "_graph_mode" not in graph.owner.__dict__:
        return []
    found = [m.__dict__.get("_graph_mode") for m in graph.owner.modules() if m is not graph.owner]
    return [report(g) for g in found if g is not None]
