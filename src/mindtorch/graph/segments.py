"""Sorts a program's steps into runs that one backend can take whole, keeping every order that matters.

A step comes after what made the values it reads; reads and writes of the same memory, random draws among themselves and
effects among themselves keep their order. Calls that stand for whole functions (an optimiser's step) keep their place
between everything before and after them.
"""

from __future__ import annotations

from collections.abc import Callable

from mindtorch.graph.program import Program, Step, draws


def _ordered(step: Step) -> str | None:
    """Which kind of steps it keeps its order among."""
    if step.row.kind in ("effect", "write"):  # a gradient is memory of outside that several values may stand for
        return "effect"
    return "draw" if step.row.kind == "draw" or hasattr(step.row, "kernel") and draws(step.row) else None


def _barrier(step: Step) -> bool:
    return step.row.kind == "decide" or step.row.kind == "effect" and not getattr(step.row, "tensors", 0)


def before(program: Program) -> list[set[int]]:
    """For each step the numbers of those that must come before it."""
    roots = [s.root for s in program.slots]
    made: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    writer: dict[int, int] = {}
    last: dict[str, int] = {}
    wall: int | None = None
    out: list[set[int]] = []
    for n, s in enumerate(program.steps):
        needs: set[int] = set() if wall is None else {wall}
        reads = s.reads()
        for i in reads:
            if i in made:
                needs.add(made[i])
            r = roots[i]
            if r in writer:
                needs.add(writer[r])
        if s.row.kind == "write":
            r = roots[reads[0]]
            needs.update(readers.get(r, ()))
            writer[r] = n
            readers[r] = []
        for i in reads:
            readers.setdefault(roots[i], []).append(n)
        kind = _ordered(s)
        if kind is not None:
            if kind in last:
                needs.add(last[kind])
            last[kind] = n
        if _barrier(s):
            needs.update(range(n))
            wall = n
        for o in s.outs:
            if o is not None:
                made[o] = n
        needs.discard(n)
        out.append(needs)
    return out


def sort(program: Program, compiled: Callable[[int], bool]) -> list[tuple[bool, list[int]]]:
    """Runs of step numbers, each (whether ``compiled`` holds for its steps, numbers in a valid order); as few as found."""
    needs = before(program)
    left = set(range(len(program.steps)))
    done: set[int] = set()
    runs: list[tuple[bool, list[int]]] = []
    kind = False
    while left:
        taken: list[int] = []
        for n in sorted(left):
            if compiled(n) is kind and needs[n] <= done:
                taken.append(n)
                done.add(n)
        if taken:
            left.difference_update(taken)
            runs.append((kind, taken))
        kind = not kind
    return runs
