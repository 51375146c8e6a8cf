"""Collectives over Python objects: pickled, so only between processes that trust each other."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from .collectives import _peer, _source, index, member, root

_TAG = 1 << 40


def _dump(obj: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(obj), np.uint8).copy()


def _load(a: np.ndarray) -> Any:
    return pickle.loads(a.tobytes())


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """The ``obj`` of every process into ``object_list``, by group rank."""
    pg = member(group, "all_gather_object")
    if pg is None:
        return
    if len(object_list) < pg.size():
        raise ValueError(f"all_gather_object: object_list has {len(object_list)} places, the group {pg.size()} processes")
    data = _dump(obj)

    def job() -> list[Any]:
        sizes = [int(s[0]) for s in pg.all_gather(np.array([data.nbytes], np.int64))]
        padded = np.zeros(max(sizes), np.uint8)
        padded[: data.nbytes] = data
        return [_load(a[:n]) for a, n in zip(pg.all_gather(padded), sizes)]

    object_list[: pg.size()] = pg.channel.run(job)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None, group_dst: int | None = None
) -> None:
    """The ``obj`` of every process into ``object_gather_list`` of rank ``dst`` (0 by default)."""
    pg = member(group, "gather_object")
    if pg is None:
        return
    target = root(pg, dst, group_dst, "gather_object", object_gather_list)
    data = _dump(obj)
    parts = pg.channel.run(lambda: pg.gather(data, target))
    if parts is not None and object_gather_list is not None:
        object_gather_list[: pg.size()] = [_load(p) for p in parts]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """The objects of rank ``src`` into the ``object_list`` of all. ``device`` is where tensors travel in PyTorch: here the host."""
    pg = member(group, "broadcast_object_list")
    if pg is None:
        return
    if not isinstance(object_list, list) or not object_list:
        raise ValueError("broadcast_object_list: object_list must be a list with as many places in all processes, and not empty")
    source = index(pg, 0 if src is None and group_src is None else src, group_src, "broadcast_object_list")
    data = _dump(object_list) if pg.here == source else np.zeros(0, np.uint8)

    def job() -> Any:
        n = int(pg.broadcast(np.array([data.nbytes], np.int64), source)[0])
        return pg.broadcast(data if pg.here == source else np.zeros(n, np.uint8), source)

    got = pg.channel.run(job)
    if pg.here != source:
        values = _load(got)
        if len(values) != len(object_list):
            raise RuntimeError(f"broadcast_object_list: rank {src} sent {len(values)} objects, this list has {len(object_list)} places")
        object_list[:] = values


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """The i-th object of rank ``src`` into the first place of the output list of the member i."""
    pg = member(group, "scatter_object_list")
    if pg is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    source = index(pg, 0 if src is None and group_src is None else src, group_src, "scatter_object_list")
    values = scatter_object_input_list
    if pg.here == source and (values is None or len(values) != pg.size()):
        raise ValueError("source rank must provide non-None scatter_object_input_list with one object for each process")

    def job() -> Any:
        call = pg.step()
        if pg.here != source:
            return _load(pg.of(source, call))
        assert values is not None
        for i, v in enumerate(values):
            if i != source:
                pg.to(i, _dump(v), call)
        return values[source]

    scatter_object_output_list[0] = pg.channel.run(job)


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None,
    use_batch: bool = False,
) -> None:  # fmt: skip
    """Send the objects to rank ``dst``."""
    pg = member(group, "send_object_list")
    if pg is None:
        return
    to = pg.ranks[_peer(pg, dst, group_dst, "send_object_list send")]
    data = _dump(object_list)
    pg.channel.run(lambda: pg.post(to, _TAG, data))


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None,
    use_batch: bool = False,
) -> int:  # fmt: skip
    """Receive objects from rank ``src`` into ``object_list``; the sender's rank."""
    pg = member(group, "recv_object_list")
    if pg is None:
        return -1
    there = _source(pg, src, group_src, "recv_object_list")
    source, data = pg.channel.run(lambda: pg.collect(None if there is None else pg.ranks[there], _TAG))
    values = _load(data)
    if len(values) != len(object_list):
        raise RuntimeError(f"recv_object_list: rank {source} sent {len(values)} objects, this list has {len(object_list)} places")
    object_list[:] = values
    return source
