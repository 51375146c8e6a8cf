"""Gradients of a module's parameters averaged over processes, in buckets, while the backward pass goes on.

A gradient is copied into its bucket as soon as the tape has written it. A full bucket goes to the thread of asynchronous
collectives, always in the order of the buckets, so that all processes reduce the same. When the outermost backward pass is over
the results are waited for and written back.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mindtorch.core import hooks, observe
from mindtorch.core.tape import after_backward
from mindtorch.core.tensor import Leaf, Tensor, cell_of, wrap

__all__ = ["GradBucket", "Reducer", "flat_broadcast", "tensors_of"]

_MB = 1 << 20
FIRST = 1 * _MB
"""Bytes of the first bucket, small so that reduction starts early."""


def tensors_of(value: Any) -> Iterator[Tensor]:
    """The tensors in an output: nested lists, tuples, dictionaries and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_of(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_of(v)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for f in dataclasses.fields(value):
            yield from tensors_of(getattr(value, f.name))


def leaves_of(outputs: Any) -> set[int]:
    """Identities of the leaves the outputs depend on."""
    todo = [t.n if t.n.__class__ is Leaf else t.grad_fn for t in tensors_of(outputs) if t.n is not None]
    seen: set[int] = set()
    found: set[int] = set()
    held = []
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        held.append(node)
        if node.__class__ is Leaf:
            t = node.ref()
            if t is not None:
                found.add(id(t))
        else:
            todo.extend(n for n, _ in node.next_functions)
    return found


def flat_broadcast(pg: Any, tensors: list[Tensor], source: int) -> None:
    """The tensors of the member ``source`` into all, those of one dtype in one message."""
    kinds: dict[Any, list[Tensor]] = {}
    for t in tensors:
        kinds.setdefault(t.k.np, []).append(t)
    for kind in kinds.values():
        flat = np.concatenate([np.asarray(t.detach().cpu().a).reshape(-1) for t in kind])
        got = pg.channel.run(lambda flat=flat: pg.broadcast(flat, source))
        if pg.here == source:
            continue
        at = 0
        for t in kind:
            n = t.numel()
            put(t, got[at : at + n])
            at += n


def put(t: Tensor, a: np.ndarray) -> None:
    """Write values into a tensor's memory, its version counted."""
    if t.k.device.type != "cpu":
        t.detach().copy_(wrap(a.reshape(tuple(t.shape)).copy()))
        return
    cell_of(t).bump()
    t.a[...] = a.reshape(t.a.shape)


class Bucket:
    """Parameters of one dtype whose gradients travel together, and the memory they travel in."""

    def __init__(self, params: list[Tensor]) -> None:
        self.params = params
        self.starts = [0]
        for p in params:
            self.starts.append(self.starts[-1] + p.numel())
        self.buffer = np.zeros(self.starts[-1], params[0].k.np)

    def slot(self, i: int) -> np.ndarray:
        """Where the gradient of the parameter ``i`` is, in its shape."""
        return self.buffer[self.starts[i] : self.starts[i + 1]].reshape(tuple(self.params[i].shape))

    def fill(self, i: int, factor: float) -> None:
        """Copy the gradient of the parameter ``i`` in, times ``factor``; zero without one. It may live here already."""
        slot = self.slot(i)
        g = self.params[i].grad
        if g is None:
            slot[...] = 0
            return
        a = (g.to_dense() if g.is_sparse else g).detach().cpu().a
        if factor != 1.0:
            np.multiply(a, slot.dtype.type(factor), out=slot)
        elif a.ctypes.data != slot.ctypes.data:
            slot[...] = a


class GradBucket:
    """What a communication hook gets: one bucket's flat gradient, not yet divided by the number of processes."""

    def __init__(self, bucket: Bucket, index: int, last: bool) -> None:
        self._bucket = bucket
        self._index = index
        self._last = last
        self._tensor = wrap(bucket.buffer)

    def index(self) -> int:
        """Its number; buckets are reduced in this order."""
        return self._index

    def buffer(self) -> Tensor:
        """The flat gradient."""
        return self._tensor

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the flat gradient."""
        self._tensor = buffer

    def gradients(self) -> list[Tensor]:
        """The gradient of each parameter, as views of the buffer."""
        s = self._bucket.starts
        return [self._tensor[a:b].view(p.shape) for a, b, p in zip(s, s[1:], self._bucket.params)]

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return list(self._bucket.params)

    def is_last(self) -> bool:
        """Whether no bucket comes after it."""
        return self._last


_TWICE = (
    "Expected to mark a variable ready only once. The gradient of one parameter came twice in one backward pass, the first was "
    "already on its way: a parameter used in several checkpointed blocks (use_reentrant=True), or several backward passes after one "
    "forward pass. Pass `static_graph=True` to `torch.nn.parallel.DistributedDataParallel`, which counts how often it comes.\n"
    "Parameter at index {i} has been marked as ready twice."
)


class Reducer:
    """Watches the parameters of one module and averages their gradients, bucket by bucket.

    With ``static`` the first backward pass counts how often each gradient is written, and reduces when it is over; later passes
    send a bucket when that count is reached.
    """

    def __init__(self, pg: Any, params: list[Tensor], cap: int, as_view: bool, static: bool = False) -> None:
        from mindtorch.torch.distributed import ReduceOp

        self.pg = pg
        self.sum, self.max = ReduceOp.SUM, ReduceOp.MAX
        self.params = params
        self.as_view = as_view
        self.static = static
        self.cap = cap
        self.hook: tuple[Any, Callable[..., Any]] | None = None
        self.expect = False
        self.find = False
        self.began = False
        self.fired: dict[int, int] = {}
        self.missing: set[int] = set()
        self.times: list[int] | None = None
        self.known: np.ndarray | None = None
        self.divisor = pg.size()
        self.arrivals: list[int] | None = []
        self.may_sort = True
        self.arrange(list(range(len(params)))[::-1])
        me = weakref.ref(self)
        self.handles = []
        for i, p in enumerate(params):

            def fire(_: Any, __: Any, i: int = i) -> None:
                reducer = me()
                if reducer is not None and reducer.expect:
                    reducer.ready(i)

            # behind the hooks of the tensor itself, as PyTorch's
            self.handles.append(hooks.add(p.n, "post_node", fire))

    def arrange(self, order: list[int]) -> None:
        """Make the buckets, for gradients that come in this order of parameter numbers."""
        number = {id(p): i for i, p in enumerate(self.params)}
        self.buckets = _buckets([self.params[i] for i in order], self.cap)
        self.numbers = [[number[id(p)] for p in b.params] for b in self.buckets]
        self.place = {i: (k, j) for k, ns in enumerate(self.numbers) for j, i in enumerate(ns)}

    def prepare(self, outputs: Any, find: bool) -> None:
        """Expect a backward pass through ``outputs``. With ``find``, parameters they do not depend on are not waited for."""
        self._sort(find)
        self.expect = True
        self.began = False
        self.fired = {}
        self.find = find or self.static
        self.missing = set()
        self.jobs: list[Any] = []
        self.left = [len(b.params) for b in self.buckets]
        if self.static and self.times is not None:
            self.missing = {i for i, n in enumerate(self.times) if not n}
        elif find and not self.static:
            reached = leaves_of(outputs)
            self.missing = {i for i, p in enumerate(self.params) if id(p) not in reached}

    def _sort(self, find: bool) -> None:
        """After the first pass: buckets in the order rank 0's gradients came in, once."""
        seen = self.arrivals
        if find or not self.may_sort or seen is None or len(seen) != len(self.params):
            return
        self.arrivals = None
        order = self.pg.channel.run(lambda: self.pg.broadcast(np.array(seen, np.int64), 0)).tolist()
        if order != [i for ns in self.numbers for i in ns]:
            self.arrange(order)

    def asks(self, find: bool) -> bool:
        """Whether the next reduction also asks which parameters have a gradient anywhere."""
        return self.known is None if self.static else find

    def check(self) -> None:
        """RuntimeError when the last backward pass left parameters without a gradient, so that not all was reduced."""
        if not self.expect or not self.fired:
            return
        left = [i for i in range(len(self.params)) if i not in self.fired and i not in self.missing]
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. Some parameters took no part in "
            "producing the loss, so their gradients never came and not all gradients were averaged. Pass "
            "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and let every output of `forward` take "
            f"part in the loss.\nParameter indices which did not receive grad for rank {self.pg.here}: {' '.join(map(str, left))}"
        )

    def ready(self, i: int) -> None:
        """Parameter ``i`` has its gradient."""
        n = self.fired[i] = self.fired.get(i, 0) + 1
        counting = self.static and self.times is None
        if not self.began:
            self.began = True
            if counting:
                self._at_the_end(self.count)
            for j in sorted(self.missing):
                self.mark(j)
        if counting or self.static and self.times is not None and n < self.times[i]:
            return
        if n > (self.times[i] if self.static and self.times is not None else 1) or i in self.missing:
            raise RuntimeError(_TWICE.format(i=i))
        self.mark(i)
        if self.arrivals is not None:
            self.arrivals.append(i)

    @staticmethod
    def _at_the_end(fn: Callable[[], None]) -> None:
        """Call ``fn`` when the backward pass is over; a captured graph writes gradients outside of any."""
        if observe.state.walks:
            after_backward(fn)
        else:
            fn()

    def count(self) -> None:
        """The end of the first pass of a static graph: remember it, and reduce."""
        self.times = [self.fired.get(i, 0) for i in range(len(self.params))]
        for i in range(len(self.params)):
            self.mark(i)

    def mark(self, i: int) -> None:
        """Put a gradient into its bucket; send the buckets that are full."""
        k, j = self.place[i]
        self.buckets[k].fill(j, 1.0 if self.hook is not None else 1.0 / self.divisor)
        self.left[k] -= 1
        n = len(self.buckets)
        while len(self.jobs) < n and not self.left[len(self.jobs)]:
            self._launch(len(self.jobs))
            if len(self.jobs) == n:
                self._at_the_end(self.finish)
                return

    def _launch(self, k: int) -> None:
        b = self.buckets[k]
        if self.hook is not None:
            self.jobs.append(self.hook[1](self.hook[0], GradBucket(b, k, k == len(self.buckets) - 1)))
        elif k < len(self.buckets) - 1:
            self.jobs.append(self._submit(b.buffer))
        else:
            # nothing is left to overlap with: without others under way it needs no other thread
            self.jobs.append(None)

    def finish(self) -> None:
        """Wait for all buckets and write the averages back."""
        self.expect = False
        if self.jobs[-1] is None:
            self.jobs[-1] = self._reduce(self.buckets[-1].buffer)
        anywhere = self.known
        if self.find and anywhere is None:
            anywhere = self._used_anywhere()
            self.known = anywhere if self.static else None
        for b, numbers, job in zip(self.buckets, self.numbers, self.jobs):
            self._result(b, job)
            for j, p in enumerate(b.params):
                if anywhere is None or anywhere[numbers[j]]:
                    self._give(p, b.slot(j))
        self.jobs = []

    def _submit(self, buffer: np.ndarray) -> Any:
        return self.pg.channel.submit(lambda: self.pg.all_reduce(buffer, self.sum))

    def _reduce(self, buffer: np.ndarray) -> np.ndarray:
        return self.pg.channel.run(lambda: self.pg.all_reduce(buffer, self.sum))

    def _result(self, b: Bucket, job: Any) -> None:
        if self.hook is not None:
            value = job.wait()
            value = value[0] if isinstance(value, (list, tuple)) else value
            out = value.detach().cpu().a.reshape(-1)
        else:
            out = job if job.__class__ is np.ndarray else job.result()
        if out.ctypes.data != b.buffer.ctypes.data:
            b.buffer[...] = out

    def _used_anywhere(self) -> np.ndarray:
        """Which parameters got a gradient in any process: the others keep what they have."""
        flags = np.zeros(len(self.params), np.int32)
        flags[[i for i in self.fired if self.params[i].grad is not None]] = 1
        return self.pg.channel.run(lambda: self.pg.all_reduce(flags, self.max))

    def _give(self, p: Tensor, slot: np.ndarray) -> None:
        g = p.grad
        if self.as_view and p.k.device.type == "cpu":
            if g is None or g.a.ctypes.data != slot.ctypes.data:
                p.grad = wrap(slot)
        elif g is None or g.is_sparse:
            p.grad = wrap(slot.copy()).to(p.device)
        else:
            put(g, slot)

    def shadow(self, asks: bool) -> None:
        """Take part in one reduction with nothing to give: this process has no batches left."""
        for b in self.buckets:
            b.buffer[...] = 0
            self._reduce(b.buffer)
        if asks:
            self.fired = {}
            self._used_anywhere()

    def remove(self) -> None:
        """Stop watching."""
        for h in self.handles:
            h.remove()


def _buckets(params: list[Tensor], cap: int) -> list[Bucket]:
    """``params``, in the order their gradients are expected, split by dtype and size."""
    out: list[Bucket] = []
    open_: dict[Any, list[Tensor]] = {}
    sizes: dict[Any, int] = {}
    for p in params:
        kind = p.k.np
        held = open_.setdefault(kind, [])
        held.append(p)
        sizes[kind] = sizes.get(kind, 0) + p.numel() * p.element_size()
        if sizes[kind] >= (min(FIRST, cap) if not out else cap):
            out.append(Bucket(held))
            del open_[kind], sizes[kind]
    out.extend(Bucket(held) for held in open_.values())
    return out
