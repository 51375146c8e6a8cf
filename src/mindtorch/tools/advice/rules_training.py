"""Rules about the loop itself: gradients nobody uses, checkpoints, the loader."""

from __future__ import annotations

import math
import os
import statistics
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter, thread_time
from types import FrameType
from typing import Any

import numpy as np

from mindtorch import torch
from mindtorch.core.tensor import Tensor
from mindtorch.tools.advice.record import Loop, ModuleCall
from mindtorch.tools.advice.rules_ops import make
from mindtorch.tools.advice.sources import Site, is_users, tree
from mindtorch.tools.advice.trial import Hint, agree, leaf, pair, tensors
from mindtorch.tools.timing.preprocess import traced

_EVERY = 100
"""Steps between two checkpoints that a script with one in every step is compared with."""
_MOST = 16
"""Workers beyond which the guide says to look at the preprocessing instead."""


def _modules(loop: Loop) -> dict[Site, list[ModuleCall]]:
    groups: dict[Site, list[ModuleCall]] = defaultdict(list)
    for s in loop.observed:
        for m in s.modules:
            groups[m.site].append(m)
    return groups


def no_grad(loop: Loop) -> Iterator[Hint]:
    """A graph recorded for a backward pass that never comes."""
    if loop.training or any(s.backward for s in loop.steps):
        return
    for site, group in _modules(loop).items():
        if not any(m.grad and any(t.requires_grad for t in tensors(m.out)) for m in group):
            continue
        m = group[0]
        training = m.module.training

        def old(m: ModuleCall = m) -> Any:
            with torch.enable_grad():
                return m.module(*m.args, **m.kwargs)

        def new(m: ModuleCall = m) -> Any:
            with torch.no_grad():
                return m.module(*m.args, **m.kwargs)

        m.module.eval()  # a trial must not move running statistics
        try:
            before, after = (t * len(group) / len(loop.observed) for t in pair(old, new, 0.4))
        finally:
            m.module.train(training)
        text = "evaluation records a graph that no backward pass uses: put the loop under torch.no_grad()"
        yield from make("evaluation without no_grad", loop, site, text, before, after)


def zero_grad(loop: Loop) -> Iterator[Hint]:
    """Gradients set to zero, and added to, instead of set anew."""
    found = {(id(o), site): (o, site) for s in loop.plain for name, o, site in s.optimizers if name == "zero_grad"}
    for o, site in found.values():
        if site is None or "set_to_none" not in site.text or "False" not in site.text:
            continue
        pairs = [(p.grad.clone(), p.grad.clone()) for g in o.param_groups for p in g["params"] if p.grad is not None]

        def old(pairs: list[Any] = pairs) -> None:
            with torch.no_grad():
                for a, b in pairs:
                    a.zero_()
                    a.add_(b)

        before, after = pair(old, lambda: None)
        yield from make("zero_grad", loop, site, "drop set_to_none=False: gradients are then written, not zeroed and added to", before, after)


def checkpoint(loop: Loop) -> Iterator[Hint]:
    """torch.save in every step."""
    if not loop.plain:
        return
    lines: dict[Site, list[float]] = defaultdict(list)
    for s in loop.plain:
        for x in s.spans:
            if x.kind == "save" and x.site is not None:
                lines[x.site].append(x.seconds)
    for site, times in lines.items():
        if len(times) >= max(len(loop.plain) // 2, 2):
            seconds = sorted(times)[len(times) // 4] * len(times) / len(loop.plain)
            text = f"a checkpoint in every step: save once an epoch, or every {_EVERY} steps (measured: the save's share of the step)"
            yield from make("checkpoint in every step", loop, site, text, seconds, seconds / _EVERY)


# -------------------------------------------------------------------------------------------- loader
def _samples(loader: Any, batches: int = 1) -> list[list[Any]]:
    """Samples of the first batches, as the loader's workers would fetch them."""
    n = loader.batch_size or 1
    size = len(loader.dataset)
    return [[loader.dataset[i % size] for i in range(b * n, b * n + n)] for b in range(batches)]


def _code(f: Any) -> Any:
    f = getattr(f, "__func__", f)
    return getattr(f, "__code__", None) or getattr(getattr(type(f), "__call__", None), "__code__", None)  # noqa: B004 - its code is wanted


def slowest_line(run: Callable[[], Any]) -> tuple[Site | None, float]:
    """The line of the user's that takes longest in ``run``, and its share of the time in such lines."""
    runs = [_line_times(run) for _ in range(5)]
    least = {line: min(r.get(line, 0.0) for r in runs) for line in runs[0]}
    if not least:
        return None, 0.0
    (file, line), most = max(least.items(), key=lambda item: item[1])
    return Site(file, line), most / max(sum(least.values()), 1e-9)


def _line_times(run: Callable[[], Any]) -> dict[tuple[str, int], float]:
    spent: dict[tuple[str, int], float] = defaultdict(float)
    state: list[Any] = [None, 0.0]

    def switch(to: Any) -> None:
        if state[0] is not None:
            spent[state[0]] += perf_counter() - state[1]
        state[:] = [to, perf_counter()]

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if not is_users(frame.f_code.co_filename) or frame.f_code.co_name.startswith("<"):
            return None  # a comprehension's time belongs to its line
        if event != "return":
            switch((frame.f_code.co_filename, frame.f_lineno))
        else:
            back = frame.f_back
            known = back is not None and is_users(back.f_code.co_filename)
            switch((back.f_code.co_filename, back.f_lineno) if back is not None and known else None)
        return trace

    with traced(trace):
        run()
    switch(None)
    return spent


def _map_style(loop: Loop) -> bool:
    loader = loop.loader
    return loader is not None and loader.batch_sampler is not None and hasattr(loader.dataset, "__getitem__") and hasattr(loader.dataset, "__len__")


def _stacked(batch: list[Any], like: Any) -> Any:
    """The batch by NumPy, field by field, with the dtypes of ``like``."""
    if isinstance(like, Tensor):
        arrays = [b.numpy() if isinstance(b, Tensor) else np.asarray(b) for b in batch]
        return torch.from_numpy(np.stack(arrays)).to(like.dtype).reshape(like.shape)
    return type(like)(_stacked([b[i] for b in batch], x) for i, x in enumerate(like))


def _padded(batch: list[Any], like: Any) -> Any:
    if isinstance(like, Tensor):
        rows = [b if isinstance(b, Tensor) else torch.from_numpy(np.asarray(b)) for b in batch]
        if rows[0].ndim == 0:
            return torch.stack(rows).to(like.dtype)
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(like.dtype)
    return type(like)(_padded([b[i] for b in batch], x) for i, x in enumerate(like))


_COLLATES: tuple[tuple[Callable[[list[Any], Any], Any], str], ...] = (
    (_stacked, "stack each field once with numpy (what the default collate_fn does)"),
    (_padded, "pad with torch.nn.utils.rnn.pad_sequence"),
)


def collate(loop: Loop) -> Iterator[Hint]:
    """A collate function that builds batches element by element."""
    loader = loop.loader
    if not _map_style(loop):
        return
    code = _code(loader.collate_fn)
    if code is None or not is_users(code.co_filename):
        return
    batch = _samples(loader)[0]
    out = loader.collate_fn(batch)
    for other, text in _COLLATES:
        try:
            same = agree(out, other(batch, out))
        except (TypeError, ValueError, IndexError, RuntimeError, AttributeError):
            continue
        if same:
            before, after = pair(lambda: loader.collate_fn(batch), lambda other=other: other(batch, out))  # type: ignore[misc]
            site, share = slowest_line(lambda: loader.collate_fn(batch))
            site = site or Site(code.co_filename, code.co_firstlineno)
            hidden = loop.per_step("data")
            if loader.num_workers:  # workers hide a part: no more can be saved than the step waits
                before, after = min(before, hidden), min(after, hidden)
            yield from make("slow collate_fn", loop, site, f"{share:.0%} of collate_fn is this line: {text}", before, after)
            return


def workers(loop: Loop) -> Iterator[Hint]:
    """A step that waits for its batch: the guide's number of workers, tried."""
    if not _map_style(loop) or not loop.plain:
        return
    wait, loader = loop.per_step("data"), loop.loader
    rest = max(loop.seconds - wait, 1e-6)
    if wait < rest / 10:
        return
    start = perf_counter()
    loader.collate_fn(_samples(loader)[0])
    work = perf_counter() - start
    count = min(max(math.ceil(work / rest), loader.num_workers + 1), _MOST)
    if work < 1e-3:
        return  # sending the batch between processes takes as long
    times = [(_step_with(loader, loader.num_workers, rest), _step_with(loader, count, rest)) for _ in range(2)]
    before, after = (min(t[i] for t in times) for i in (0, 1))
    share_now = loop.seconds / before  # the trial's loop has nothing but batches and computing: its gain is a share
    site, share = slowest_line(lambda: loader.collate_fn(_samples(loader)[0]))
    made = Site(*_made_at(loop))
    text = f"the step waits {wait * 1e3:.2f} of {loop.seconds * 1e3:.2f} ms for its batch: num_workers={count} instead of {loader.num_workers}"
    if count > (os.cpu_count() or 1):
        text += f" ({os.cpu_count()} cores here: it helps as far as the dataset waits rather than computes)"
    if site is not None:
        text += f"; the slowest line of the preprocessing is {site} ({share:.0%})"
    yield from make("workers", loop, made, text, loop.seconds, after * share_now)


def _made_at(loop: Loop) -> tuple[str, int]:
    """Where the loader is used; its ``DataLoader(...)`` call when the file has exactly one."""
    site = next((x.site for s in loop.steps for x in s.spans if x.kind == "data" and x.site is not None), None)
    if site is None:
        return "<loader>", 0
    made = [i for i, t in enumerate(tree(site.file).lines, 1) if "DataLoader(" in t]
    return site.file, made[0] if len(made) == 1 else site.line


def _step_with(loader: Any, count: int, rest: float, batches: int = 12) -> float:
    """Seconds a step with ``count`` workers, the network's time spent by computing so that workers do not get its core."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more workers than cores: the hint says so itself
        return _timed_batches(loader, count, rest, batches)


def _timed_batches(loader: Any, count: int, rest: float, batches: int) -> float:
    again = torch.utils.data.DataLoader(
        loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn, num_workers=count,
        worker_init_fn=loader.worker_init_fn, timeout=60 if count else 0,
    )  # fmt: skip
    times, start = [], perf_counter()
    state = torch.get_rng_state()
    try:
        for _ in islice(again, batches + count):
            end = thread_time() + rest
            while thread_time() < end:
                pass
            times.append(perf_counter() - start)
            start = perf_counter()
    finally:
        torch.set_rng_state(state)
    steady = times[min(count, len(times) - 1) :]
    return statistics.mean(steady) if steady else math.inf


# -------------------------------------------------------------------------------------------- what changes numbers or takes long
def _ways(loop: Loop, change: Callable[[Any], Callable[..., Any]], double: bool = False) -> Iterator[tuple[Site, float, float]]:
    """Forward and backward of the outermost module, as it is and changed."""
    for site, group in _modules(loop).items():
        m = group[0]
        args = leaf(m.args)
        more = [torch.cat([a, a]) if isinstance(a, Tensor) and a.ndim else a for a in args] if double else args
        params = [p for p in m.module.parameters() if p.requires_grad]
        other = change(m.module)

        def run(f: Any, args: Any, params: list[Any] = params, loop: Loop = loop) -> None:
            out = tensors(f(*args))
            if loop.training and out and out[0].requires_grad:
                torch.autograd.grad(out[0].float().sum(), params, allow_unused=True)

        before, after = pair(lambda: run(m.module, args), lambda: run(other, more), 0.5)  # noqa: B023
        n = len(group) / len(loop.observed)
        yield site, before * n, after * n


def amp(loop: Loop) -> Iterator[Hint]:
    """bfloat16 autocast around the model."""

    def cast(module: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return module(*args)

        return run

    for site, before, after in _ways(loop, cast):
        yield from make("mixed precision", loop, site, "call the model under torch.autocast('cpu', dtype=torch.bfloat16)", before, after)


def batch_size(loop: Loop) -> Iterator[Hint]:
    """Twice the batch in less than twice the time. The learning rate has to follow."""
    for site, before, after in _ways(loop, lambda module: module, double=True):
        yield from make("batch size", loop, site, "twice the batch size: time a sample falls (adapt the learning rate)", before, after / 2)


def graph(loop: Loop) -> Iterator[Hint]:
    """The model compiled."""
    for site, before, after in _ways(loop, lambda module: torch.compile(module)):
        yield from make("graph mode", loop, site, "the network is static: model = torch.compile(model)", before, after)
