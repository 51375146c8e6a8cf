"""Gradients of a module's parameters averaged over processes, in buckets.

The tape writes the gradients of all leaves when a backward pass is over, so reduction starts with the last of them. Buckets are
filled and handed to the thread of asynchronous collectives one after another: one is reduced while the next is being filled.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

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

    def fill(self) -> None:
        """Copy the gradients in; zero for a parameter without one. A gradient that lives here already stays."""
        for i, p in enumerate(self.params):
            slot = self.slot(i)
            g = p.grad
            if g is None:
                slot[...] = 0
            else:
                a = (g.to_dense() if g.is_sparse else g).detach().cpu().a
                if a.ctypes.data != slot.ctypes.data:
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


class Reducer:
    """Watches the parameters of one module and averages their gradients when a backward pass has produced them all."""

    def __init__(self, pg: Any, params: list[Tensor], cap: int, as_view: bool) -> None:
        self.pg = pg
        self.params = params
        self.as_view = as_view
        self.buckets = _buckets(params, cap)
        self.hook: tuple[Any, Callable[..., Any]] | None = None
        self.expect = False
        self.find = False
        self.used: set[int] = set()
        self.fired: set[int] = set()
        self.missing: set[int] = set()
        self.divisor = pg.size()
        me = weakref.ref(self)
        self.handles = []
        for i, p in enumerate(params):

            def fire(_: Tensor, i: int = i) -> None:
                reducer = me()
                if reducer is not None and reducer.expect:
                    reducer.ready(i)

            self.handles.append(p.register_post_accumulate_grad_hook(fire))

    def prepare(self, outputs: Any, find: bool) -> None:
        """Expect a backward pass through ``outputs``. With ``find``, parameters they do not depend on are not waited for."""
        self.expect = True
        self.fired = set()
        self.find = find
        self.missing = set()
        if find:
            reached = leaves_of(outputs)
            self.missing = {i for i, p in enumerate(self.params) if id(p) not in reached}

    def check(self) -> None:
        """RuntimeError when the last backward pass left parameters without a gradient, so that nothing was reduced."""
        if not self.expect or not self.fired:
            return
        left = [i for i in range(len(self.params)) if i not in self.fired and i not in self.missing]
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. Some parameters took no part in "
            "producing the loss, so their gradients never came and no gradient was averaged. Pass `find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`, and let every output of `forward` take part in the loss.\n"
            f"Parameter indices which did not receive grad for rank {self.pg.here}: {' '.join(map(str, left))}"
        )

    def ready(self, i: int) -> None:
        """Parameter ``i`` has its gradient."""
        self.fired.add(i)
        if len(self.fired | self.missing) == len(self.params):
            self.expect = False
            self.reduce()

    def reduce(self) -> None:
        """Average all buckets over the processes and write the gradients back."""
        n = len(self.buckets)
        jobs = []
        for k, b in enumerate(self.buckets):
            b.fill()
            if self.hook is not None:
                jobs.append(self.hook[1](self.hook[0], GradBucket(b, k, k == n - 1)))
            else:
                b.buffer /= b.buffer.dtype.type(self.divisor)
                jobs.append(self._submit(b.buffer))
        anywhere = self._used_anywhere() if self.find else None
        for b, job in zip(self.buckets, jobs):
            self._result(b, job)
            for j, p in enumerate(b.params):
                if anywhere is None or anywhere[self._index(p)]:
                    self._give(p, b.slot(j))

    def _submit(self, buffer: np.ndarray) -> Any:
        from mindtorch.torch.distributed import ReduceOp

        return self.pg.channel.submit(lambda: self.pg.all_reduce(buffer, ReduceOp.SUM))

    def _result(self, b: Bucket, job: Any) -> None:
        if self.hook is not None:
            value = job.wait()
            value = value[0] if isinstance(value, (list, tuple)) else value
            out = value.detach().cpu().a.reshape(-1)
        else:
            out = job.result()
        if out.ctypes.data != b.buffer.ctypes.data:
            b.buffer[...] = out

    def _index(self, p: Tensor) -> int:
        if not hasattr(self, "_numbers"):
            self._numbers = {id(q): i for i, q in enumerate(self.params)}
        return self._numbers[id(p)]

    def _used_anywhere(self) -> np.ndarray:
        """Which parameters got a gradient in any process: the others keep what they have."""
        from mindtorch.torch.distributed import ReduceOp

        flags = np.zeros(len(self.params), np.int32)
        flags[list(self.fired)] = 1
        return self.pg.channel.run(lambda: self.pg.all_reduce(flags, ReduceOp.MAX))

    def _give(self, p: Tensor, slot: np.ndarray) -> None:
        g = p.grad
        if self.as_view and p.k.device.type == "cpu":
            if g is None or g.a.ctypes.data != slot.ctypes.data:
                p.grad = wrap(slot)
        elif g is None or g.is_sparse:
            p.grad = wrap(slot.copy()).to(p.device)
        else:
            put(g, slot)

    def shadow(self, find: bool) -> None:
        """Take part in one reduction with nothing to give: this process has no batches left."""
        for b in self.buckets:
            b.buffer[...] = 0
            job = self._submit(b.buffer)
            job.result()
        if find:
            self.fired = set()
            self._used_anywhere()

    def remove(self) -> None:
        """Stop watching."""
        for h in self.handles:
            h.remove()


def _buckets(params: list[Tensor], cap: int) -> list[Bucket]:
    """Parameters from the last to the first, since gradients come in that order, split by dtype and size."""
    out: list[Bucket] = []
    open_: dict[Any, list[Tensor]] = {}
    sizes: dict[Any, int] = {}
    for p in reversed(params):
        kind = p.k.np
        held = open_.setdefault(kind, [])
        held.append(p)
        sizes[kind] = sizes.get(kind, 0) + p.numel() * p.element_size()
        if sizes[kind] >= (min(FIRST, cap) if not out else cap):
            out.append(Bucket(held))
            del open_[kind], sizes[kind]
    out.extend(Bucket(held) for held in open_.values())
    return out
