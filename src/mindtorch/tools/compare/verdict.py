"""The first divergence of two runs: which call, what of it, and whether the fault is there or came in from before."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from mindtorch.tools.compare.measure import HALF, Measured, Tolerance, statistics_apart
from mindtorch.tools.compare.read import RankDump, Update
from mindtorch.tools.compare.rows import Seen, StepRows, apart, grad_floor, how
from mindtorch.tools.compare.tables import Row

_DRIFTED = 5e-2
"""How far gradients may be apart (relatively) once weights have drifted in the rounding noise of their gradients."""


@dataclass
class Divergence:
    """Where two runs part. ``call`` is the call at fault as far as can be told; ``here`` says how sure that is."""

    phase: str
    step: int
    call: tuple[str, str]
    module: str
    what: str
    why: str
    here: bool
    explanation: str
    stacks: tuple[list[str], list[str]] = ([], [])
    rank: int = 0
    others: list[str] = field(default_factory=list)

    @property
    def lines(self) -> tuple[str, str]:
        """The innermost line of the program on each side, "" where there is none."""
        return (self.stacks[0] or [""])[0], (self.stacks[1] or [""])[0]

    def text(self) -> str:
        """A paragraph for people."""
        names = self.call[0] if self.call[0] == self.call[1] else " / ".join(n or "(no such call)" for n in self.call)
        where = f", module {self.module}" if self.module else ""
        out = [f"First divergence: {names}{where}: {self.what} ({self.phase}, step {self.step}, rank {self.rank})"]
        out += [f"    {self.why}", f"    {'The fault is here' if self.here else 'The fault is elsewhere'}: {self.explanation}"]
        for word, stack in zip(("origin", "target"), self.stacks):
            if stack:
                out.append(f"    called in {word} from:")
                out += ["        " + line.replace("\n", " ") for line in stack[:6]]
        out += [f"    see also: {o}" for o in self.others]
        return "\n".join(out)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.__dict__, "stacks": list(self.stacks), "call": list(self.call), "lines": list(self.lines)}


class Judge:
    """Looks for the first divergence of two dumps of one rank."""

    def __init__(self, a: RankDump, b: RankDump, tolerance: Tolerance, rank: int = 0) -> None:
        self.a, self.b, self.tolerance, self.rank = a, b, tolerance, rank
        self._noise: set[str] = set()
        self._drift: set[str] = set()
        self._tiny: set[str] = set()
        self._shifted: set[str] = set()
        self._spread = False
        self.note = ""
        self._grad_scale = 0.0

    # ------------------------------------------------------------------ steps
    def step(self, number: int, rows: StepRows) -> Divergence | None:
        """First divergence of a step: forward, then backward, then the optimiser."""
        self._grad_scale = max(self._grad_scale, rows.grad_scale)
        if self._spread:
            return None
        found = self._forward(number, rows) or self._backward(number, rows)
        if self._spread:
            self.note = (
                f"rank {self.rank}: weights whose gradient is rounding noise have drifted apart, and from step {number} on the gradients "
                "differ for that reason: later steps are in the tables, and not judged"
            )
        return found or self._updates(number, rows)

    def _made(self, s: Seen, number: int, phase: str, what: str, why: str, here: bool, text: str) -> Divergence:
        a, b = s.pair
        names = (a.shown if a else "", b.shown if b else "")
        stacks = (self.a.stack(a) if a else [], self.b.stack(b) if b else [])
        return Divergence(phase, number, names, s.entry.module, what, why, here, text, stacks, self.rank)

    # ------------------------------------------------------------------ forward
    def _forward(self, number: int, rows: StepRows) -> Divergence | None:
        alone: list[Seen] = []
        for s in rows.calls:
            self._widen(s)
            if not s.both:
                alone.append(s)
                continue
            if self._noisy(s):
                self._shifted.add(s.entry.key)
            bad_in, bad_out = self._inputs(s), self._outputs(s)
            if not bad_in and not bad_out:
                continue
            if self._drifted(s, bad_in is not None) or (bad_out is not None and not bad_in and self._shifted_buffer(s, bad_out[0])):
                self._drift.add(s.entry.key)
                continue
            if bad_in:
                return self._upstream(number, rows, s, bad_in, alone)
            return self._here(number, s, bad_out)
        return None

    def _widen(self, s: Seen) -> None:
        """From the first value of few bits on, its rounding is in everything that follows, in float32 as well."""
        for r in s.inputs + s.outputs:
            for d in (r.a, r.b):
                least = HALF.get(d.dtype) if d is not None else None
                if least is not None and least[0] > self.tolerance.rtol:
                    rtol, atol = max(least[0], self.tolerance.rtol), max(least[1], self.tolerance.atol)
                    self.tolerance = replace(self.tolerance, rtol=rtol, atol=atol)

    def _drifted(self, s: Seen, inputs: bool) -> bool:
        """Whether a call differs a little, because weights whose gradient is rounding noise have drifted apart.

        Adaptive optimisers move such weights (a bias before a normalisation) by full steps in random directions.
        """
        a, b = s.pair
        if a is None or b is None:
            return False
        if any(self._input_apart(r) and self._noise_of_gradients(s, r) for r in s.inputs):
            self._tiny.add(s.entry.key)
            return True
        large = any(r.measured and r.measured.relative > 1e-2 for r in s.inputs + s.outputs)
        if inputs:
            places = [r.a.item.index for r in s.inputs if r.a and self._input_apart(r)]
            small = self._small(s, "input")
            sources = [a.sources.get(place) for place in [*places, *([_dots(small[0])] if small else [])]]
            made = [k for k in sources if k is not None]
            if made and self._tiny.issuperset(made):
                self._tiny.add(s.entry.key)
                return True
            return bool(made) and self._drift.issuperset(made) and not large
        if large:
            return False
        noisy = {n for n in a.params if n in b.params and self._is_noise(s, n)}
        differing = [n for n in a.params if n in b.params and self._stats_apart(a.params[n], b.params[n])]
        if differing:
            return noisy.issuperset(differing)
        # The statistics of a weight hide a drift that its output shows.
        little = all(r.measured is None or r.measured.relative < 10 * self.tolerance.rtol for r in s.outputs)
        return little and any(a.params[n] != b.params[n] for n in noisy)

    def _is_noise(self, s: Seen, name: str) -> bool:
        return f"{s.entry.module}.{name}".strip(".") in self._noise

    def _noisy(self, s: Seen) -> bool:
        """Whether a weight of the call differs whose gradient is rounding noise."""
        a, b = s.pair
        return a is not None and b is not None and any(self._is_noise(s, n) and a.params[n] != b.params.get(n) for n in a.params)

    def _shifted_buffer(self, s: Seen, what: str) -> bool:
        """Whether a running mean differs a little because the call before has such a weight: what it adds hides in the statistics
        of the values between them, and stands out in the mean."""
        a, b = s.pair
        if a is None or b is None or not what.startswith("buffer ") or not self._shifted.intersection(a.sources.values()):
            return False
        x, y = (side.buffers[what.split()[1]] for side in (a, b))
        return abs(x[3] - y[3]) < 1e-2 * max(x[3], y[3])

    def _inputs(self, s: Seen) -> tuple[str, str] | None:
        for r in s.inputs:
            why = self._input_apart(r)
            if why and r.a is not None and not self._noise_of_gradients(s, r):
                return f"input{_index(r.a.item.index)}", why
        return self._small(s, "input")

    def _input_apart(self, r: Row) -> str:
        return apart(r.measured, 1e-6 * (r.measured.scale if r.measured else 0.0), self.tolerance, r.a, r.b)

    def _noise_of_gradients(self, s: Seen, r: Row) -> bool:
        """Whether an input that no call made (``x.grad``) is nothing beside the gradients that were computed: their rounding."""
        a, m = s.pair[0], r.measured
        if a is None or r.a is None or m is None or r.a.item.index in a.sources or not math.isfinite(m.relative):
            return False
        return m.scale < 1e-4 * self._grad_scale and m.relative * m.scale < 1e-6 * self._grad_scale

    def _outputs(self, s: Seen) -> tuple[str, str] | None:
        floor = 2e-6 * max((r.measured.scale for r in s.inputs + s.outputs if r.measured), default=0.0)
        for r in s.outputs:
            why = apart(r.measured, floor, self.tolerance, r.a, r.b)
            if why and r.a is not None:
                return f"output{_index(r.a.item.index)}", why
            if r.a is not None and r.measured is not None and self._made_here(s, r.measured, floor):
                return f"output{_index(r.a.item.index)}", how(r.measured)
        small = self._small(s, "output")
        if small:
            return small
        a, b = s.pair
        if a is not None and b is not None:
            for name in a.buffers:
                if name in b.buffers and self._stats_apart(a.buffers[name], b.buffers[name], floor=self.tolerance.rtol * _scale(s)):
                    return f"buffer {name} after the call", _pair_text(a.buffers[name], b.buffers[name])
            if len(a.outputs) != len(b.outputs) and a.outputs and b.outputs:
                return "outputs", f"{len(a.outputs)} and {len(b.outputs)} outputs"
        return None

    def _made_here(self, s: Seen, m: Measured, floor: float) -> bool:
        """A small difference that the call itself makes: its inputs and weights are equal to the last bits, its output is not."""
        a, b = s.pair
        if a is None or b is None or not m.exact or m.a["dtype"] not in ("float32", "float64") or float(m.max_diff) <= floor:
            return False
        before = max((r.measured.relative for r in s.inputs if r.measured), default=0.0)
        if not s.inputs or m.relative < max(0.2 * self.tolerance.rtol, 20 * before):
            return False
        return not any(self._stats_apart(a.params[n], b.params[n], 2e-6) for n in a.params if n in b.params)

    def _small(self, s: Seen, role: str) -> tuple[str, str] | None:
        """Values that have no file: numbers, and sums of integer tensors (with their size behind them)."""
        a, b = s.pair
        if a is None or b is None:
            return None
        for place, x in a.small.items():
            y = b.small.get(place)
            if not place.startswith(role) or y is None:
                continue
            if len(x) != len(y) or len(x) == 2:
                if x != y:
                    return f"{role}{_index(place[len(role) :])}", f"integers with sum {x[0]:g} and {y[0]:g}"
            elif self._numbers_apart(x[0], y[0], _scale(s)):
                return f"{role}{_index(place[len(role) :])}", f"{x[0]:.7g} and {y[0]:.7g}"
        return None

    def _numbers_apart(self, x: float, y: float, scale: float) -> bool:
        if x == y or (math.isnan(x) and math.isnan(y)):
            return False
        if not (math.isfinite(x) and math.isfinite(y)):
            return True
        return abs(x - y) > max(self.tolerance.rtol * max(abs(x), abs(y)), 2e-6 * scale, 1e-12)

    def _stats_apart(self, x: list[float], y: list[float], rtol: float = 0.0, floor: float = 1e-9) -> bool:
        if not x or not y or x[4:] != y[4:]:
            return bool(x and y)
        _, relative, top = statistics_apart(x, y, 0.0, 0.0)
        return relative > (rtol or self.tolerance.rtol) and (top > floor or abs(x[3] - y[3]) > 10 * floor)

    def _here(self, number: int, s: Seen, bad: tuple[str, str]) -> Divergence:
        a, b = s.pair
        if a is not None and b is not None:
            names = [n for n in a.params if n in b.params and self._stats_apart(a.params[n], b.params[n])]
            only = sorted(set(a.params) ^ set(b.params))
            if names or only:
                text = f"its inputs agree, its parameters do not: {', '.join(names + only)}"
                if names:
                    text += f" ({_pair_text(a.params[names[0]], b.params[names[0]])})"
                return self._made(s, number, "forward", bad[0], bad[1], True, text)
        more = " and the statistics of its parameters" if a is not None and a.params else ""
        return self._made(s, number, "forward", bad[0], bad[1], True, f"its inputs{more} agree, its {bad[0]} does not")

    def _upstream(self, number: int, rows: StepRows, s: Seen, bad: tuple[str, str], alone: list[Seen]) -> Divergence:
        """The inputs of the first differing call differ already: name what stands between, if anything does."""
        culprit = self._between(rows, s, bad[0], alone)
        if culprit is not None:
            side = "origin" if culprit.pair[0] is not None else "target"
            text = f"only the {side} makes this call; behind it, at {s.entry.shown}, {bad[0]} differs"
            d = self._made(culprit, number, "forward", "call on one side", bad[1], True, text)
            d.others = [x.entry.shown for x in alone if x is not culprit][:5]
            return d
        sources = [e.sources.get(_dots(bad[0])) for e in s.pair if e is not None]
        makers = [rows.partner.get(sources[0] or ""), rows.partner_b.get(sources[-1] or "")]
        if makers[0] is not None and makers[1] is not None and makers[0] is not makers[1]:
            text = f"it takes {bad[0]} from {makers[0].entry.shown} in one run and from {makers[1].entry.shown} in the other"
            return self._made(s, number, "forward", bad[0], bad[1], True, text)
        if any(sources):
            text = f"{bad[0]} was made by {sources[0] or sources[-1]}, which agreed: it was changed since, outside recorded calls"
        else:
            text = f"{bad[0]} was not made by a recorded call: data, or a parameter, that differs from the start"
        return self._made(s, number, "forward", bad[0], bad[1], False, text)

    def _between(self, rows: StepRows, s: Seen, place: str, alone: list[Seen]) -> Seen | None:
        a, b = s.pair
        if a is None or b is None:
            return None
        keys = (a.sources.get(_dots(place)), b.sources.get(_dots(place)))
        left, right = rows.partner.get(keys[0] or ""), rows.partner_b.get(keys[1] or "")
        for x in (left, right):
            if x is not None and not x.both:
                return x
        if left is not None and left is right:
            at = rows.calls.index(left)
            since = [x for x in alone if rows.calls.index(x) > at]
            writes = [x for x in since if x.entry.name.endswith("_")]
            return (writes or since)[-1] if since else None
        if left is None and right is None and alone and not any(keys):
            near = [x for x in alone if x.entry.module == s.entry.module]
            return (near or alone)[-1]
        return None

    # ------------------------------------------------------------------ backward
    def _backward(self, number: int, rows: StepRows) -> Divergence | None:
        order = [s for s in rows.calls if s.both and (s.grads or _small_grads(s))]
        order.sort(key=lambda s: s.entry.order or 1 << 60)
        if any(not s.entry.order for s in order):
            order = [s for s in reversed(rows.calls) if s in order]
        bad: dict[str, str] = {}
        for s in order:
            apart_here = [(r, w) for r in s.grads if (w := apart(r.measured, grad_floor(r, rows.grad_scale), self.tolerance, r.a, r.b))]
            why = next((w for r, w in apart_here if not self._chaos(r)), "")
            self._spread = self._spread or bool(apart_here and not why)
            why = why or self._grad_numbers(s)
            if why:
                bad[s.entry.key] = why
        if not bad:
            return None
        first = next(s for s in order if s.entry.key in bad)
        return self._grad(number, rows, first, bad)

    def _chaos(self, r: Row) -> bool:
        """Whether a gradient differs as it may once weights have drifted apart: a relu's input then crosses zero on one side.

        A fault of the program is there before that, in the first steps.
        """
        return bool(self._drift) and r.measured is not None and r.measured.relative < _DRIFTED

    def _grad_numbers(self, s: Seen) -> str:
        a, b = s.pair
        if a is None or b is None:
            return ""
        for place, x in a.small_grads.items():
            y = b.small_grads.get(place)
            if y is not None and self._numbers_apart(x[0], y[0], 0.0):
                return f"{x[0]:.7g} and {y[0]:.7g}"
        return ""

    def _grad(self, number: int, rows: StepRows, s: Seen, bad: dict[str, str]) -> Divergence:
        """The gradient of an output of ``s`` differs: the backward of a call that took it is at fault."""
        why = bad[s.entry.key]
        cut = [x for x in rows.calls if x.both and _one_sided(x)]
        if cut:
            side = "origin" if cut[-1].pair[0] is not None and cut[-1].pair[0].grads else "target"
            text = f"only in the {side} a gradient reaches its output; the gradient of {s.entry.shown} differs"
            return self._made(cut[-1], number, "backward", "gradient of its output", why, True, text)
        users: list[Seen] = []
        for i in (0, 1):
            e = s.pair[i]
            users += [u for u in rows.consumers(e.key, i) if u not in users] if e is not None else []
        for u in users:
            if not u.both:
                text = f"only one side makes this call; the gradient it hands to {s.entry.shown} differs"
                return self._made(u, number, "backward", "call on one side", why, True, text)
        good = [u for u in users if u.entry.key not in bad]
        last = self._chain(rows, good)
        if last is not None:
            d = self._made(last, number, "backward", "call on one side", why, True, "only one side makes this call")
            return d
        if good:
            text = f"the gradient it receives agrees, the gradient it hands to {s.entry.shown} does not"
            d = self._made(good[0], number, "backward", "gradient of an input", why, True, text)
            d.others = [u.entry.shown for u in good[1:4]]
            return d
        after = rows.calls[rows.calls.index(s) + 1 :]
        alone = next((x for x in after if not x.both), None)
        if alone is not None:
            text = f"only one side makes this call; the gradient of {s.entry.shown} before it differs"
            return self._made(alone, number, "backward", "call on one side", why, True, text)
        text = "no recorded call took its output: the gradient comes from the loss, or from a hook"
        return self._made(s, number, "backward", "gradient of its output", why, not users, text)

    def _chain(self, rows: StepRows, good: list[Seen]) -> Seen | None:
        """Behind calls whose own gradient was not recorded: the next call that one side alone makes."""
        todo, seen = [u for u in good if not u.grads and not _small_grads(u)], set()
        while todo:
            u = todo.pop(0)
            if u.entry.key in seen:
                continue
            seen.add(u.entry.key)
            for side in (0, 1):
                e = u.pair[side]
                for v in rows.consumers(e.key, side) if e is not None else []:
                    if not v.both:
                        return v
                    if not v.grads and not _small_grads(v):
                        todo.append(v)
        return None

    # ------------------------------------------------------------------ optimiser
    def _updates(self, number: int, rows: StepRows) -> Divergence | None:
        for a, b in zip(rows.a.updates, rows.b.updates):
            found = self._update(number, rows, a, b)
            if found is not None:
                return found
        if len(rows.a.updates) != len(rows.b.updates):
            n, m = len(rows.a.updates), len(rows.b.updates)
            name = (rows.a.updates + rows.b.updates)[-1].name
            why = f"{n} and {m} steps of an optimiser"
            return self._plain(number, f"{name}.step", "", "number of updates", why, "one side updates more often")
        return None

    def _update(self, number: int, rows: StepRows, a: Update, b: Update) -> Divergence | None:
        shared = [n for n in a.grads if n in b.grads and a.grads[n] and b.grads[n]]
        size = max((a.grads[n][3] for n in shared if math.isfinite(a.grads[n][3])), default=0.0)
        noise = {n for n in shared if max(a.grads[n][3], b.grads[n][3]) < (1e-4 if n in self._noise else 1e-6) * size}
        self._noise |= noise | a.noisy | b.noisy
        # Gradients of weights sum up the rounding of everything before them.
        rtol = max(self.tolerance.rtol * (1 if self.tolerance.rtol < 5e-4 else 4), _DRIFTED if self._drift else 0.0)
        wrong = [n for n in shared if n not in noise and self._stats_apart(a.grads[n], b.grads[n], rtol)]
        if wrong:
            return self._weight_gradient(number, rows, a, b, wrong, shared, noise)
        missing = sorted(set(a.grads) ^ set(b.grads))
        if missing:
            why = f"no gradient on one side: {', '.join(missing[:5])}"
            return self._plain(number, f"{a.name}.step", missing[0], "gradients", why, "a parameter is used, or trained, on one side only")
        for n in a.moved:
            if n in b.moved and n not in noise and self._stats_apart(a.moved[n], b.moved[n], max(10 * self.tolerance.rtol, rtol)):
                why = f"{n} moved by {_pair_text(a.moved[n], b.moved[n])}"
                text = "gradients agree, the step does not: settings, state or kind of the optimiser differ"
                name = f"{a.name}.step" if a.name == b.name else f"{a.name}.step / {b.name}.step"
                return self._plain(number, name, n, "update of the weights", why, text)
        return None

    def _weight_gradient(
        self, number: int, rows: StepRows, a: Update, b: Update, wrong: list[str], shared: list[str], noise: set[str]
    ) -> Divergence:
        name = wrong[-1]
        why = f"gradient of {name}: {_pair_text(a.grads[name], b.grads[name])}"
        if len(wrong) == sum(n not in noise for n in shared) > 1:
            ratios = [b.grads[n][3] / a.grads[n][3] for n in wrong if a.grads[n][3]]
            if ratios and max(ratios) - min(ratios) < 1e-3 * max(ratios):
                text = f"all gradients are {ratios[0]:.4g} times as large: clipping, scaling or accumulation before the step"
                return self._plain(number, f"{a.name}.step", "", "gradients of all parameters", why, text)
        path = name.rpartition(".")[0]
        owner = next((s for s in rows.calls if s.both and s.entry.kind == "NN" and s.entry.module == path), None)
        others = [f"gradient of {n}" for n in wrong[:-1]][:5]
        if owner is None:
            d = self._plain(number, name, path, "gradient of a parameter", why, "gradients of outputs agree, this one does not")
        else:
            text = f"the gradient of its output agrees, that of its parameter {name.rpartition('.')[2]} does not"
            d = self._made(owner, number, "backward", "gradient of a parameter", why, True, text)
        d.others = others
        return d

    def _plain(self, number: int, name: str, module: str, what: str, why: str, text: str) -> Divergence:
        return Divergence("optimizer", number, (name, name), module, what, why, True, text, ([], []), self.rank)


def _one_sided(s: Seen) -> bool:
    """Whether a gradient other than zero passed on one side only."""
    a, b = s.pair
    if a is None or b is None or bool(a.grads) == bool(b.grads) or a.small_grads or b.small_grads:
        return False
    return any(d.norm != 0 and (d.max, d.min) != (0.0, 0.0) for d in a.grads + b.grads)


def _scale(s: Seen) -> float:
    """Size of what a call was given."""
    return max((r.measured.scale for r in s.inputs if r.measured), default=0.0)


def _small_grads(s: Seen) -> bool:
    return any(e is not None and bool(e.small_grads) for e in s.pair)


def _index(dots: str) -> str:
    return "".join(f"[{p}]" for p in dots.split(".")[1:])


def _dots(place: str) -> str:
    """``input[0][1]`` -> ``.0.1``."""
    return place.removeprefix("input").replace("][", ".").replace("[", ".").replace("]", "")


def _pair_text(x: list[float], y: list[float]) -> str:
    words = [f"{k} {p:.6g} and {q:.6g}" for k, p, q in zip(("max", "min", "mean", "norm"), x, y) if p != q]
    return "; ".join(words) or "equal statistics"
