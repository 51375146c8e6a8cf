"""A group of processes and its collectives over raw arrays.

Large data goes through MindSpore's AllReduce, Broadcast and AllGather; what its CPU library lacks (other dtypes and operations,
reduce-scatter, all-to-all, gather, scatter) is composed here from its Send and Recv. Data that fits into a frame
(``channel.ROOM`` bytes) travels in the frames all members exchange anyway.
"""

from __future__ import annotations

import collections
import hashlib
import struct
import time
from typing import Any

import numpy as np

from .channel import DATA, ROOM, TOKEN, Channel, DistBackendError
from .reduction import RedOpType, average, fold, native_name

__all__ = ["ProcessGroup"]

_EMPTY = np.zeros(0, np.uint8)
_MARK = 48


def raw(a: np.ndarray) -> np.ndarray:
    """The bytes of ``a``, which is contiguous, as a one-dimensional uint8 array sharing its memory."""
    return a.reshape(-1).view(np.uint8)


class ProcessGroup:
    """``ranks`` of the job, in order. Every collective is called by all members, in the same order.

    All array arguments are contiguous. Methods run in the calling thread; the caller orders them (``Channel.run``, ``submit``).
    """

    def __init__(self, channel: Channel, ranks: list[int], name: str, backend: str, description: str = "") -> None:
        self.channel = channel
        self.ranks = ranks
        self.group_name = name
        self.group_desc = description or "undefined"
        self.backend = backend
        self.here = ranks.index(channel.rank)
        self.peers = [r for r in ranks if r != channel.rank]
        self.id = int.from_bytes(hashlib.blake2b(f"{name}:{ranks}".encode(), digest_size=8).digest(), "little")
        self.calls = 0
        self.receives: dict[tuple[int, int], list[Any]] = {}
        self.taken: dict[int, collections.Counter[int]] = {}
        self.bound_device_id = None
        wire = channel.wire
        self.native = wire.world if wire is not None and len(ranks) == channel.size else ""

    def __repr__(self) -> str:
        return f"ProcessGroup(name={self.group_name}, backend={self.backend}, ranks={self.ranks})"

    def rank(self) -> int:
        """This process's number in the group."""
        return self.here

    def size(self) -> int:
        """How many members there are."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend's name."""
        return self.backend

    # steps ----------------------------------------------------------------------------------------------------------

    def step(self) -> int:
        """The number of the next collective."""
        self.calls += 1
        return self.calls

    def meet(self, what: str, data: np.ndarray = _EMPTY, timeout: float | None = None) -> list[np.ndarray]:
        """Exchange one frame with all members; the data of all, by group rank. RuntimeError if they call something else.

        ``what`` names the collective with its sizes; every member must give the same.
        """
        call = self.step()
        mark = np.frombuffer(what.encode()[:_MARK].ljust(_MARK), np.uint8)
        message = np.concatenate((mark, data)) if data.nbytes + _MARK <= ROOM else mark
        n = len(self.ranks)
        order = [self.ranks[(self.here + i) % n] for i in range(1, n)]
        for r in order:
            self.channel.send(r, TOKEN, self.id, call, message)
        found: dict[int, np.ndarray] = {self.channel.rank: data}
        for r in reversed(order):
            got = self.channel.receive(r, TOKEN, self.id, call, timeout)
            theirs = bytes(got[:_MARK]).rstrip()
            if theirs != what.encode()[:_MARK].rstrip():
                raise DistBackendError(
                    f"collective {call} of {self.group_name}: rank {self.channel.rank} calls {what}, rank {r} calls {theirs.decode()}; "
                    "all ranks must call the same with equal dtypes and sizes"
                )
            found[r] = got[_MARK:]
        return [found[r] for r in self.ranks]

    def inline(self, a: np.ndarray) -> bool:
        """Whether ``a`` fits into a frame, as it does where there is nobody to send to."""
        return a.nbytes + _MARK <= ROOM or not self.peers

    def engine(self) -> str:
        """MindSpore's name of this group, made on first use: its members come here together."""
        if not self.native:
            self.native = f"mindtorch-{self.group_name}"
            assert self.channel.wire is not None
            self.channel.wire.group(self.native, self.ranks)
        return self.native

    def _native(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments, self.engine())
        except RuntimeError as error:
            raise DistBackendError(f"{self.group_name}: MindSpore's collective failed: {error}") from error

    def to(self, index: int, data: np.ndarray, call: int) -> None:
        """Send to the member ``index``."""
        self.channel.send(self.ranks[index], DATA, self.id, -call, data)

    def of(self, index: int, call: int) -> np.ndarray:
        """The bytes the member ``index`` sent for this call."""
        return self.channel.receive(self.ranks[index], DATA, self.id, -call)

    # messages -------------------------------------------------------------------------------------------------------

    def post(self, to: int, tag: int, data: np.ndarray) -> None:
        """Send to the rank ``to`` of the job. Among more than two a note in the store says so, for those who take from anybody."""
        if self.size() > 2:
            self.channel.store.append(self._mail(to, tag), struct.pack("<i", self.channel.rank))
        self.channel.send(to, DATA, self.id, tag, data)

    def collect(self, source: int | None, tag: int) -> tuple[int, np.ndarray]:
        """The next message of rank ``source``, or of whoever sent first, and its sender."""
        taken = self.taken.setdefault(tag, collections.Counter())
        if source is None:
            source = self._first(tag, taken)
        taken[source] += 1
        return source, self.channel.receive(source, DATA, self.id, tag)

    def _first(self, tag: int, taken: collections.Counter[int]) -> int:
        """The sender of the earliest message of this tag that nobody has taken. DistBackendError after the timeout."""
        store, key = self.channel.store, self._mail(self.channel.rank, tag)
        limit = time.monotonic() + self.channel.timeout
        while time.monotonic() < limit:
            if store.check([key]):
                seen: collections.Counter[int] = collections.Counter()
                for (rank,) in struct.iter_unpack("<i", store.get(key)):
                    seen[rank] += 1
                    if seen[rank] > taken[rank]:
                        return rank
            time.sleep(0.002)
        raise DistBackendError(f"recv: nobody in {self.group_name} sent to rank {self.channel.rank} within the timeout")

    def _mail(self, to: int, tag: int) -> str:
        return f"mail/{self.id}/{to}/{tag}"

    # collectives ----------------------------------------------------------------------------------------------------

    def barrier(self, timeout: float | None = None) -> None:
        """Return when all members have come."""
        self.meet("barrier", timeout=timeout)

    def all_reduce(self, a: np.ndarray, op: RedOpType) -> np.ndarray:
        """The reduction of all ``a``; ``a`` may be overwritten."""
        from mindtorch.engine.mindspore.collectives import REDUCES

        what = f"all_reduce {a.dtype} {a.size} {op.name}"
        wide = native_name(op) and a.dtype not in REDUCES and a.dtype.name == "bfloat16"
        if self.inline(a):
            out = fold([p.view(a.dtype) for p in self.meet(what, raw(a))], op)
        elif native_name(op) and (a.dtype in REDUCES or wide):
            out = a.reshape(-1).astype(np.float32) if wide else a.reshape(-1)
            self.meet(what)
            self._native(self.channel.wire.all_reduce, out, native_name(op))  # type: ignore[union-attr]
            out = out.astype(a.dtype, copy=False)
        else:
            out = self._halves(a, op, what)
        if op is RedOpType.AVG:
            out = average(out, self.size())
        return out.reshape(a.shape)

    def _halves(self, a: np.ndarray, op: RedOpType, what: str) -> np.ndarray:
        """All-reduce as reduce-scatter and all-gather, for what MindSpore cannot reduce."""
        self.meet(what)
        n = self.size()
        flat = a.reshape(-1)
        part = -(-flat.size // n)
        padded = np.zeros(part * n, flat.dtype)
        padded[: flat.size] = flat
        mine = self.reduce_scatter(list(padded.reshape(n, part)), op if op is not RedOpType.AVG else RedOpType.SUM)
        return np.concatenate(self.all_gather(mine))[: flat.size]

    def broadcast(self, a: np.ndarray, source: int) -> np.ndarray:
        """The ``a`` of the member ``source``; the others' ``a`` is overwritten."""
        what = f"broadcast {a.dtype} {a.size} {source}"
        if self.inline(a):
            got = self.meet(what, raw(a) if self.here == source else _EMPTY)
            return np.array(got[source]).view(a.dtype).reshape(a.shape)
        self.meet(what)
        wire = self.channel.wire
        self._native(wire.broadcast, raw(a), source, self.here)  # type: ignore[union-attr]
        return a

    def all_gather(self, a: np.ndarray) -> list[np.ndarray]:
        """The ``a`` of all members."""
        what = f"all_gather {a.dtype} {a.size}"
        if self.inline(a):
            got = self.meet(what, raw(a))
        else:
            self.meet(what)
            got = [np.empty(a.nbytes, np.uint8) for _ in self.ranks]
            self._native(self.channel.wire.all_gather, raw(a), got)  # type: ignore[union-attr]
        return [np.ascontiguousarray(g).view(a.dtype).reshape(a.shape) for g in got]

    def gather(self, a: np.ndarray, target: int) -> list[np.ndarray] | None:
        """The ``a`` of all members in the member ``target``; None in the others. Sizes may differ."""
        call = self.step()
        if self.here != target:
            self.to(target, raw(a), call)
            return None
        parts = [raw(a) if i == target else self.of(i, call) for i in range(self.size())]
        return [np.ascontiguousarray(p).view(a.dtype) for p in parts]

    def scatter(self, parts: list[np.ndarray] | None, source: int, like: np.ndarray) -> np.ndarray:
        """``parts[i]`` of the member ``source`` in the member i, of the size and dtype of ``like``."""
        call = self.step()
        if self.here == source:
            assert parts is not None
            for i, p in enumerate(parts):
                if i != source:
                    self.to(i, raw(p), call)
            return parts[source]
        return self.fit(self.of(source, call), like, source)

    def reduce(self, a: np.ndarray, target: int, op: RedOpType) -> np.ndarray | None:
        """The reduction of all ``a`` in the member ``target``; None in the others."""
        if not self.inline(a) and native_name(op):
            out = self.all_reduce(a.copy(), op)
            return out if self.here == target else None
        parts = self.gather(a, target)
        if parts is None:
            return None
        out = fold(parts, op)
        return (average(out, self.size()) if op is RedOpType.AVG else out).reshape(a.shape)

    def reduce_scatter(self, parts: list[np.ndarray], op: RedOpType) -> np.ndarray:
        """The reduction of all members' ``parts[i]`` in the member i."""
        mine = self.all_to_all(parts, [parts[self.here]] * self.size())
        out = fold(mine, op)
        return average(out, self.size()) if op is RedOpType.AVG else out

    def all_to_all(self, parts: list[np.ndarray], like: list[np.ndarray]) -> list[np.ndarray]:
        """``parts[here]`` of every member; ``like[i]`` has the size and dtype expected from the member i."""
        call = self.step()
        n = self.size()
        order = [(self.here + i) % n for i in range(1, n)]
        for i in order:
            self.to(i, raw(parts[i]), call)
        out = [parts[self.here]] * n
        for i in reversed(order):
            out[i] = self.fit(self.of(i, call), like[i], i)
        return out

    def fit(self, got: np.ndarray, like: np.ndarray, index: int) -> np.ndarray:
        """The bytes the member ``index`` sent, in dtype and shape of ``like``. DistBackendError when they are not as many."""
        if got.nbytes != like.nbytes:
            raise DistBackendError(
                f"{self.group_name}: rank {self.channel.rank} expects {like.nbytes} bytes from rank {self.ranks[index]} and gets "
                f"{got.nbytes}; give tensors of equal sizes and dtypes on both sides"
            )
        return np.ascontiguousarray(got).view(like.dtype).reshape(like.shape)
