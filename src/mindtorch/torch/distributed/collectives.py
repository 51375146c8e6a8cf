"""Collectives over tensors: arguments checked as PyTorch checks them, results written where the caller wants them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from mindtorch.core.tensor import Tensor, cell_of, wrap

from . import world
from .channel import DistBackendError
from .group import ProcessGroup, raw
from .reduction import ReduceOp, check
from .store import DistStoreError
from .work import Work

SUM = ReduceOp.SUM


def need_tensor(t: Any, name: str) -> None:
    """TypeError unless ``t`` is a tensor."""
    if not isinstance(t, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got {type(t)} instead."
        )


def need_list(ts: Any, name: str) -> None:
    """TypeError unless ``ts`` is a list of tensors."""
    if not isinstance(ts, (list, tuple)) or not all(isinstance(t, Tensor) for t in ts):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(ts)} "
            f"with elements of type {[type(t) for t in ts] if isinstance(ts, (list, tuple)) else type(ts)}."
        )


def same_dtype(*groups: Any) -> None:
    """ValueError unless all tensors have one dtype."""
    found = [t.dtype for g in groups for t in (g if isinstance(g, (list, tuple)) else [g])]
    if any(d is not found[0] for d in found):
        raise ValueError(f"Invalid usage of tensors with different dtypesFound {found[0]} and  {next(d for d in found if d is not found[0])}")


def read(t: Tensor) -> np.ndarray:
    """The tensor's values as a contiguous array: its own memory where that is contiguous."""
    host = t if t.k.device.type == "cpu" else t.detach().cpu()
    a = np.asarray(host.a)
    return a if a.flags.c_contiguous else np.ascontiguousarray(a)


def touch(*ts: Tensor) -> None:
    """Note that the tensors are about to be written: in the calling thread, so that autograd sees it at once."""
    for t in ts:
        if t.k.device.type == "cpu":
            cell_of(t).bump()


def write(t: Tensor, a: np.ndarray) -> None:
    """Put values into the tensor's memory, strided or not."""
    if t.k.device.type != "cpu":
        t.detach().copy_(wrap(a.reshape(tuple(t.shape))))
    elif not (a.flags.c_contiguous and t.a.flags.c_contiguous and a.ctypes.data == t.a.ctypes.data):
        t.a[...] = a.reshape(t.a.shape)


def member(group: Any, name: str) -> ProcessGroup | None:
    """The group; None, with a warning, where this process is not in it."""
    pg = world.resolve(group)
    if pg is None:
        warnings.warn(
            f"Running {name} on global rank {world.get_rank()} which does not belong to the given group.", stacklevel=3
        )
    return pg


def index(pg: ProcessGroup, rank: Any, group_rank: Any, name: str) -> int:
    """The group rank that a global rank or a group rank names. ValueError unless exactly one is given and exists."""
    if (rank is None) == (group_rank is None):
        raise ValueError(f"{name}: give exactly one of the rank in the job and the rank in the group")
    if group_rank is not None:
        if not 0 <= group_rank < pg.size():
            raise ValueError(f"{name}: Group rank {group_rank} is not part of group {pg}")
        return group_rank
    if rank not in pg.ranks:
        if pg is world.GroupMember.WORLD:
            raise RuntimeError(f"{name}: invalid root rank: {rank}; the job has ranks 0 to {pg.size() - 1}")
        raise ValueError(f"Global rank {rank} is not part of group {pg}")
    return pg.ranks.index(rank)


def run(pg: ProcessGroup, job: Callable[[], Any], async_op: bool) -> Work | None:
    """Do ``job`` now, or behind the other asynchronous operations and give its handle."""
    if async_op:
        return Work(pg.channel.submit(job))
    pg.channel.run(job)
    return None


def all_reduce(tensor: Tensor, op: Any = SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce ``tensor`` over all processes, in place. Any dtype and shape, equal everywhere."""
    need_tensor(tensor, "tensor")
    pg = member(group, "all_reduce")
    if pg is None:
        return None
    op = check(op, tensor.k.np, "all_reduce")
    touch(tensor)

    def job() -> Tensor:
        write(tensor, pg.all_reduce(read(tensor), op))
        return tensor

    return run(pg, job, async_op)


def all_reduce_coalesced(tensors: list[Tensor], op: Any = SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """:func:`all_reduce` of each tensor."""
    need_list(tensors, "tensors")
    pg = member(group, "all_reduce_coalesced")
    if pg is None:
        return None
    op = check(op, tensors[0].k.np, "all_reduce_coalesced")
    same_dtype(tensors)
    touch(*tensors)

    def job() -> list[Tensor]:
        for t in tensors:
            write(t, pg.all_reduce(read(t), op))
        return tensors

    return run(pg, job, async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = SUM, group: Any = None, async_op: bool = False, group_dst: int | None = None
) -> Work | None:
    """Reduce ``tensor`` over all processes into the one of rank ``dst``; the others keep theirs."""
    need_tensor(tensor, "tensor")
    pg = member(group, "reduce")
    if pg is None:
        return None
    op = check(op, tensor.k.np, "reduce")
    target = index(pg, dst, group_dst, "reduce")
    if target == pg.here:
        touch(tensor)

    def job() -> Tensor:
        out = pg.reduce(read(tensor), target, op)
        if out is not None:
            write(tensor, out)
        return tensor

    return run(pg, job, async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """The ``tensor`` of rank ``src`` into all."""
    need_tensor(tensor, "tensor")
    pg = member(group, "broadcast")
    if pg is None:
        return None
    source = index(pg, src, group_src, "broadcast")
    touch(tensor)

    def job() -> Tensor:
        out = pg.broadcast(read(tensor), source)
        if source != pg.here:
            write(tensor, out)
        return tensor

    return run(pg, job, async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """The ``tensor`` of every process into ``tensor_list``, by group rank. Equal shapes."""
    need_list(tensor_list, "tensor_list")
    need_tensor(tensor, "tensor")
    pg = member(group, "all_gather")
    if pg is None:
        return None
    _fits(tensor_list, tensor, pg, "all_gather")
    touch(*tensor_list)

    def job() -> list[Tensor]:
        for t, a in zip(tensor_list, pg.all_gather(read(tensor))):
            write(t, a)
        return tensor_list

    return run(pg, job, async_op)


def root(pg: ProcessGroup, rank: Any, group_rank: Any, name: str, values: Any) -> int:
    """The group rank of the one process that has the list (rank 0 by default). ValueError if another has it, or that one has none."""
    there = index(pg, 0 if rank is None and group_rank is None else rank, group_rank, name)
    kind = "source" if name.startswith("scatter") else "destination"
    if there == pg.here and not values:
        raise ValueError(f"Argument ``{name.partition('_')[0]}_list`` must be specified on {kind} rank.")
    if there != pg.here and values:
        raise ValueError(f"Argument ``{name.partition('_')[0]}_list`` must NOT be specified on non-{kind} ranks.")
    return there


def _fits(ts: Any, tensor: Tensor, pg: ProcessGroup, name: str) -> None:
    """RuntimeError unless there is one tensor per member, each as large as ``tensor`` and of its dtype."""
    need_list(ts, f"{name}_list" if name in ("gather", "scatter") else "tensor_list")
    same_dtype(ts, tensor)
    if len(ts) != pg.size():
        raise RuntimeError(f"{name}: invalid tensor list (expected length {pg.size()}, got {len(ts)}): one tensor for each process")
    for i, t in enumerate(ts):
        if t.numel() != tensor.numel():
            raise RuntimeError(
                f"{name}: invalid tensor size at index {i} (expected {tuple(tensor.shape)}, got {tuple(t.shape)})"
            )


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """The inputs of all processes behind one another in ``output_tensor``: (n * d0, ...) or (n, d0, ...)."""
    need_tensor(output_tensor, "output_tensor")
    need_tensor(input_tensor, "input_tensor")
    pg = member(group, "all_gather_into_tensor")
    if pg is None:
        return None
    same_dtype(output_tensor, input_tensor)
    if output_tensor.numel() != pg.size() * input_tensor.numel():
        raise RuntimeError(
            f"all_gather_into_tensor: output_tensor must have {pg.size()} times the elements of input_tensor, got "
            f"{tuple(output_tensor.shape)} and {tuple(input_tensor.shape)}"
        )
    touch(output_tensor)

    def job() -> Tensor:
        write(output_tensor, np.concatenate([a.reshape(-1) for a in pg.all_gather(read(input_tensor))]))
        return output_tensor

    return run(pg, job, async_op)


all_gather_single = all_gather_into_tensor


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """:func:`all_gather` of each input: ``output_tensor_lists[rank][i]``."""
    need_list(input_tensor_list, "tensor_list")
    pg = member(group, "all_gather_coalesced")
    if pg is None:
        return None
    for i, t in enumerate(input_tensor_list):
        _fits([outs[i] for outs in output_tensor_lists], t, pg, "all_gather_coalesced")
    touch(*(t for outs in output_tensor_lists for t in outs))

    def job() -> list[list[Tensor]]:
        for i, t in enumerate(input_tensor_list):
            for outs, a in zip(output_tensor_lists, pg.all_gather(read(t))):
                write(outs[i], a)
        return output_tensor_lists

    return run(pg, job, async_op)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """The ``tensor`` of every process into ``gather_list`` of rank ``dst`` (0 by default)."""
    need_tensor(tensor, "tensor")
    pg = member(group, "gather")
    if pg is None:
        return None
    target = root(pg, dst, group_dst, "gather", gather_list)
    if gather_list:
        _fits(gather_list, tensor, pg, "gather")
        touch(*gather_list)

    def job() -> list[Tensor]:
        parts = pg.gather(read(tensor), target)
        for t, a in zip(gather_list or [], parts or []):
            write(t, pg.fit(raw(a), read(t), target))
        return gather_list or []

    return run(pg, job, async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """``scatter_list[i]`` of rank ``src`` (0 by default) into the ``tensor`` of the member i."""
    need_tensor(tensor, "tensor")
    pg = member(group, "scatter")
    if pg is None:
        return None
    source = root(pg, src, group_src, "scatter", scatter_list)
    if scatter_list:
        _fits(scatter_list, tensor, pg, "scatter")
    touch(tensor)

    def job() -> Tensor:
        parts = [read(t) for t in scatter_list] if scatter_list else None
        write(tensor, pg.scatter(parts, source, read(tensor)))
        return tensor

    return run(pg, job, async_op)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The reduction of all processes' ``input_list[i]`` into the ``output`` of the member i."""
    need_tensor(output, "output")
    need_list(input_list, "input_list")
    same_dtype(output, input_list)
    pg = member(group, "reduce_scatter")
    if pg is None:
        return None
    op = check(op, output.k.np, "reduce_scatter")
    if len(input_list) != pg.size():
        raise RuntimeError(f"reduce_scatter: input_list has {len(input_list)} tensors, the group {pg.size()} processes")
    if input_list[pg.here].numel() != output.numel():
        raise RuntimeError(
            f"reduce_scatter: output {tuple(output.shape)} and input_list[{pg.here}] {tuple(input_list[pg.here].shape)} differ in size"
        )
    touch(output)

    def job() -> Tensor:
        write(output, pg.reduce_scatter([read(t) for t in input_list], op))
        return output

    return run(pg, job, async_op)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: Any = SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """The i-th of n equal parts of ``input``, reduced over all processes, into the ``output`` of the member i."""
    need_tensor(output, "output")
    need_tensor(input, "input")
    pg = member(group, "reduce_scatter_tensor")
    if pg is None:
        return None
    same_dtype(output, input)
    op = check(op, output.k.np, "reduce_scatter_tensor")
    if input.numel() != pg.size() * output.numel():
        raise RuntimeError(
            f"reduce_scatter_tensor: input must have {pg.size()} times the elements of output, got {tuple(input.shape)} and "
            f"{tuple(output.shape)}"
        )
    touch(output)

    def job() -> Tensor:
        write(output, pg.reduce_scatter(list(read(input).reshape(pg.size(), -1)), op))
        return output

    return run(pg, job, async_op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False) -> Work | None:
    """``input_tensor_list[i]`` to the member i, whose ``output_tensor_list[here]`` it becomes."""
    need_list(output_tensor_list, "output_tensor_list")
    need_list(input_tensor_list, "input_tensor_list")
    same_dtype(output_tensor_list, input_tensor_list)
    pg = member(group, "all_to_all")
    if pg is None:
        return None
    for ts, name in ((output_tensor_list, "output_tensor_list"), (input_tensor_list, "input_tensor_list")):
        if len(ts) != pg.size():
            raise RuntimeError(f"all_to_all: {name} has {len(ts)} tensors, the group {pg.size()} processes")
    touch(*output_tensor_list)

    def job() -> list[Tensor]:
        got = pg.all_to_all([read(t) for t in input_tensor_list], [read(t) for t in output_tensor_list])
        for t, a in zip(output_tensor_list, got):
            write(t, pg.fit(raw(a), read(t), pg.here))
        return output_tensor_list

    return run(pg, job, async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None, input_split_sizes: list[int] | None = None,
    group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Parts of ``input`` along the first dimension to the members, and theirs behind one another in ``output``."""
    need_tensor(output, "output")
    need_tensor(input, "input")
    pg = member(group, "all_to_all_single")
    if pg is None:
        return None
    same_dtype(output, input)
    ins = _splits(input, input_split_sizes, pg, "input")
    outs = _splits(output, output_split_sizes, pg, "output")
    row, wide = _row(input), _row(output)
    if ins[pg.here] * row != outs[pg.here] * wide:
        raise RuntimeError(
            f"all_to_all_single: this process gives itself {ins[pg.here] * row} elements and expects {outs[pg.here] * wide}"
        )
    touch(output)

    def job() -> Tensor:
        a, b = read(input).reshape(-1), read(output).reshape(-1)
        got = pg.all_to_all(_cut(a, ins, row), _cut(b, outs, wide))
        write(output, np.concatenate(got))
        return output

    return run(pg, job, async_op)


def _row(t: Tensor) -> int:
    """Elements of one slice of the first dimension."""
    return t.numel() // max(1, t.shape[0])


def _cut(a: np.ndarray, rows: list[int], row: int) -> list[np.ndarray]:
    return np.split(a, np.cumsum(rows)[:-1] * row)


def _splits(t: Tensor, sizes: list[int] | None, pg: ProcessGroup, name: str) -> list[int]:
    if sizes is None or len(sizes) == 0:
        if t.shape[0] % pg.size():
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return [t.shape[0] // pg.size()] * pg.size()
    if len(sizes) != pg.size():
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != t.shape[0]:
        raise RuntimeError(f"Split sizes doesn't match total dim 0 size: {name} has {t.shape[0]}, the sizes are {list(sizes)}")
    return [int(s) for s in sizes]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Return when every process of the group has come here. ``device_ids`` is for NCCL and changes nothing."""
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    pg = member(group, "barrier")
    return None if pg is None else run(pg, pg.barrier, async_op)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """A barrier that tells, in rank 0, who did not come within ``timeout``. RuntimeError then, in all."""
    pg = member(group, "monitored_barrier")
    if pg is None or pg.size() == 1:
        return
    seconds = timeout.total_seconds() if timeout else pg.channel.timeout
    store, call = pg.channel.store, pg.step()
    key = f"monitored/{pg.id}/{call}"
    milliseconds = int(seconds * 1000)
    if pg.here:
        store.set(f"{key}/{pg.here}", "1")
        try:
            store.wait([f"{key}/go"], timedelta(seconds=seconds))
        except DistStoreError:
            raise RuntimeError(f"Rank {pg.here} timed out in monitoredBarrier: rank 0 did not answer in {milliseconds} ms") from None
        return
    missing = []
    for r in range(1, pg.size()):
        try:
            store.wait([f"{key}/{r}"], timedelta(seconds=0.01 if missing else seconds))
        except DistStoreError:
            missing.append(r)
            if not wait_all_ranks:
                break
    if missing:
        raise RuntimeError(
            f"Rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} failed to pass monitoredBarrier in {milliseconds} ms"
        )
    store.set(f"{key}/go", "1")


def _peer(pg: ProcessGroup, rank: Any, group_rank: Any, name: str) -> int:
    i = index(pg, rank, group_rank, name)
    if i == pg.here:
        what = "destination" if name.endswith("send") else "source"
        raise ValueError(f"Invalid {what} rank: {what} rank should not be the same as the rank of the current process.")
    return i


def _source(pg: ProcessGroup, src: Any, group_src: Any, name: str) -> int | None:
    """The sender's number in the group; None for any of several."""
    if src is None and group_src is None:
        return 1 - pg.here if pg.size() == 2 else None
    return _peer(pg, src, group_src, name)


def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Work | None:
    """Send ``tensor`` to rank ``dst``; the handle is done when the values may be overwritten."""
    need_tensor(tensor, "tensor")
    pg = member(group, "isend")
    if pg is None:
        return None
    to = pg.ranks[_peer(pg, dst, group_dst, "isend")]
    pg.channel.run(lambda: pg.post(to, tag, raw(read(tensor))))
    return Work(source=pg.ranks[pg.here])


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send ``tensor`` to rank ``dst``."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Work | None:
    """Receive into ``tensor`` from rank ``src``, by default from whoever sends first: read when its handle is waited for."""
    need_tensor(tensor, "tensor")
    pg = member(group, "irecv")
    if pg is None:
        return None
    there = _source(pg, src, group_src, "irecv")
    sender = None if there is None else pg.ranks[there]
    line = pg.receives.setdefault((-1 if sender is None else sender, tag), [])

    def job() -> Any:
        # messages go to receives in the order these were posted, whichever is waited for first
        while line[0] is not work:
            line[0].wait()
        line.pop(0)
        return pg.channel.run(lambda: pg.collect(sender, tag))

    def finish(got: tuple[int, np.ndarray]) -> Tensor:
        source, data = got
        work.come_from(source)
        if data.nbytes != tensor.numel() * tensor.element_size():
            raise DistBackendError(
                f"recv: rank {source} sent {data.nbytes} bytes, the tensor {tuple(tensor.shape)} of {tensor.dtype} has "
                f"{tensor.numel() * tensor.element_size()}"
            )
        touch(tensor)
        write(tensor, np.ascontiguousarray(data).view(tensor.k.np))
        return tensor

    work = Work(start=job, finish=finish, source=-1 if sender is None else sender)
    line.append(work)
    return work


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive into ``tensor`` from rank ``src``, or without it from whoever sends first; the sender's rank."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """One ``isend`` or ``irecv`` for :func:`batch_isend_irecv`."""

    def __init__(self, op: Any, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0, group_peer: int | None = None) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        need_tensor(tensor, "tensor")
        pg = world.resolve(group)
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.group_peer = index(pg, peer, group_peer, "P2POp") if pg is not None else -1
        self.peer = pg.ranks[self.group_peer] if pg is not None else peer

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__} peer={self.peer}, {self.tensor.shape}, {self.tensor.dtype})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start all; their handles."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    works = [p.op(p.tensor, group=p.group, tag=p.tag, **{_PEER[p.op]: p.group_peer}) for p in p2p_op_list]
    return [w for w in works if w is not None]


_PEER = {isend: "group_dst", irecv: "group_src"}
