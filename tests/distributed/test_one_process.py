"""torch.distributed in one process against PyTorch, its stores, and the protocol between processes on a line that loses messages."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest
import torch.distributed as theirs

import mindtorch.torch as mt
import mindtorch.torch.distributed as ours
import torch
from mindtorch.torch.distributed import channel as ch
from mindtorch.torch.distributed.group import ProcessGroup
from mindtorch.torch.distributed.reduction import ReduceOp

SIDES = [SimpleNamespace(t=mt, d=ours), SimpleNamespace(t=torch, d=theirs)]


def both(f):
    """The answer of ours, equal to PyTorch's; an exception answers with its type."""
    out = []
    for side in SIDES:
        try:
            out.append(f(side.t, side.d))
        except Exception as e:
            out.append(type(e).__name__)
    assert out[0] == out[1]
    return out[0]


@pytest.fixture
def world(tmp_path):
    for i, side in enumerate(SIDES):
        side.d.init_process_group("gloo", init_method=f"file://{tmp_path}/{i}", rank=0, world_size=1)
    yield
    for side in SIDES:
        if side.d.is_initialized():
            side.d.destroy_process_group()


def test_collectives_of_one_process(world):
    def scenario(t, d):
        x = t.arange(4.0)
        d.all_reduce(x)
        d.broadcast(x, 0)
        w = d.all_reduce(x, async_op=True)
        done = w.wait(), w.is_completed()
        L = [t.zeros(4)]
        d.all_gather(L, x)
        y, z = t.zeros(4), t.zeros(4)
        d.reduce_scatter(y, [x])
        d.all_to_all([z], [x])
        o = [None]
        d.all_gather_object(o, {"a": 1})
        d.barrier()
        g = d.new_group([0])
        return (
            x.tolist(), done, L[0].tolist(), y.tolist(), z.tolist(), o, d.get_rank(g), d.get_world_size(), d.get_backend(),
            d.get_process_group_ranks(g), str(d.ReduceOp.SUM), d.GroupMember.NON_GROUP_MEMBER,
        )  # fmt: skip

    both(scenario)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, d: d.all_reduce(3),
        lambda t, d: d.all_reduce(t.ones(2), op=9),
        lambda t, d: d.all_reduce(t.ones(2), op=d.ReduceOp.BOR),
        lambda t, d: d.all_reduce(t.ones(2).int(), op=d.ReduceOp.AVG),
        lambda t, d: d.all_reduce(t.ones(2, dtype=t.complex64), op=d.ReduceOp.MIN),
        lambda t, d: d.all_gather([t.ones(3)], 3),
        lambda t, d: d.all_gather([], t.ones(3)),
        lambda t, d: d.all_gather([t.ones(3).int()], t.ones(3)),
        lambda t, d: d.broadcast(t.ones(1), 5),
        lambda t, d: d.send(t.ones(1), 0),
        lambda t, d: d.scatter(t.ones(1), None, 0),
        lambda t, d: d.gather(t.ones(1), None, 0),
        lambda t, d: d.gather_object(1, None, 0),
        lambda t, d: d.all_to_all_single(t.ones(2), t.ones(3)),
        lambda t, d: d.all_to_all_single(t.ones(3), t.ones(3), [3], [2]),
        lambda t, d: d.new_group([3]),
        lambda t, d: d.init_process_group("gloo"),
        lambda t, d: d.P2POp(d.all_reduce, t.ones(1), 0),
    ],
)
def test_errors_of_one_process(world, call):
    assert both(call).endswith("Error")


@pytest.mark.parametrize(
    "call",
    [
        lambda t, d: d.all_reduce(t.ones(1)),
        lambda t, d: d.get_rank(),
        lambda t, d: d.get_world_size(),
        lambda t, d: d.destroy_process_group(),
        lambda t, d: d.init_process_group("gloo", rank=0, world_size=1),
        lambda t, d: d.init_process_group("gloo", init_method="abc://x"),
        lambda t, d: d.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0),
        lambda t, d: d.init_process_group("gloo", init_method="env://", store=d.HashStore(), rank=0, world_size=1),
    ],
)
def test_errors_without_a_job(monkeypatch, call):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert both(call).endswith("Error")
    assert not ours.is_initialized()


def store(d, kind, tmp_path):
    if kind == "tcp":
        return d.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=1))
    if kind == "file":
        return d.FileStore(str(tmp_path / d.__name__), 1)
    return d.PrefixStore("p", d.HashStore()) if kind == "prefix" else d.HashStore()


@pytest.mark.parametrize("kind", ["tcp", "file", "hash", "prefix"])
def test_stores(tmp_path, kind):
    def scenario(t, d):
        s = store(d, kind, tmp_path)
        s.set_timeout(timedelta(seconds=0.2))
        before = s.num_keys()
        s.set("a", "b")
        s.set("a", "c\n\x00")
        out = [s.get("a"), s.add("n", 3), s.add("n", -1), s.get("n"), s.check(["a", "n"]), s.check(["a", "zz"])]
        if kind != "prefix":
            out += [s.compare_set("new", "", "v"), s.compare_set("other", "x", "v"), s.compare_set("new", "w", "u"), s.compare_set("new", "v", "u")]
        out += [s.num_keys() - before, s.delete_key("a"), s.num_keys() - before]
        out.append(s.check(["a"]))
        try:
            s.wait(["zz"], timedelta(seconds=0.1))
        except RuntimeError:
            out.append("late")
        return out

    both(scenario)


def test_tcp_store_between_threads():
    master = ours.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=20), wait_for_workers=False)
    got = []

    def client():
        s = ours.TCPStore("127.0.0.1", master.port, 2, False, timedelta(seconds=20))
        s.append("log", "x")
        got.append(s.get("late"))
        got.append(s.multi_get(["late", "log"]))

    thread = threading.Thread(target=client)
    thread.start()
    master.wait(["log"])
    master.multi_set(["late"], ["here"])
    thread.join(20)
    assert got == [b"here", [b"here", b"x"]]
    with pytest.raises(RuntimeError, match="failed to listen"):
        ours.TCPStore("127.0.0.1", master.port, 1, True)


class Line:
    """Messages between threads, by order alone; like MindSpore it gives up a wait and then drops what comes."""

    def __init__(self, size, patience):
        self.size, self.patience = size, patience
        self.bell = threading.Condition()
        self.sent = {}
        self.next = {}

    def end(self, rank):
        def send(to, a):
            with self.bell:
                self.sent.setdefault((rank, to), []).append(a.copy())
                self.bell.notify_all()

        def recv(source, a):
            key = (source, rank)
            number = self.next.get(key, 0)
            self.next[key] = number + 1
            with self.bell:
                if not self.bell.wait_for(lambda: len(self.sent.get(key, ())) > number, self.patience):
                    return False
                a[:] = self.sent[key][number]
            return True

        def all_reduce(a, operation, group):
            raise AssertionError("the line has no collectives")

        return SimpleNamespace(send=send, recv=recv, world="", all_reduce=all_reduce)


def ranks(size, work, patience=20.0):
    """Run ``work(group)`` in a thread per rank over one line; the results by rank."""
    line, hub = Line(size, patience), ours.HashStore()
    out = [None] * size

    def go(r):
        c = ch.Channel(line.end(r), hub, r, size)
        c.timeout = 20.0
        c.introduce()
        try:
            out[r] = work(ProcessGroup(c, list(range(size)), "line", "mccl"))
        except Exception as e:
            out[r] = e

    threads = [threading.Thread(target=go, args=(r,)) for r in range(size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return out


def test_a_late_process_is_waited_for(monkeypatch):
    monkeypatch.setattr(ch, "_LATE", 0.2)

    def work(pg):
        for turn in range(3):
            if pg.here == turn:
                time.sleep(1.0)  # the others' waits are given up after 0.4 s
            pg.barrier()
        return float(pg.all_reduce(np.full(3, pg.here + 1.0), ReduceOp.SUM)[0])

    assert ranks(3, work, patience=0.4) == [6.0, 6.0, 6.0]


def test_receives_and_collectives_may_cross():
    def work(pg):
        c = pg.channel
        if pg.here == 0:
            c.send(1, ch.DATA, pg.id, 5, np.arange(5, dtype=np.uint8))
            c.send(1, ch.DATA, pg.id, 4, np.zeros(9000, np.uint8))
        pg.barrier()
        if pg.here == 0:
            return None
        return len(c.receive(0, ch.DATA, pg.id, 4)), c.receive(0, ch.DATA, pg.id, 5).tolist()

    assert ranks(2, work)[1] == (9000, [0, 1, 2, 3, 4])


def test_different_collectives_are_named():
    def work(pg):
        return pg.barrier() if pg.here else pg.all_reduce(np.ones(2), ReduceOp.SUM)

    out = ranks(2, work)
    assert all(isinstance(e, ours.DistBackendError) for e in out)
    assert "rank 0 calls all_reduce float64 2 SUM, rank 1 calls barrier" in str(out[0])


def test_uneven_gather_and_exchange():
    def work(pg):
        got = pg.gather(np.arange(pg.here + 1), 0)
        parts = [np.full(pg.here + 1, 10 * pg.here + i) for i in range(pg.size())]
        swapped = pg.all_to_all(parts, [np.empty(i + 1, np.int64) for i in range(pg.size())])
        return [a.tolist() for a in got or []], [a.tolist() for a in swapped]

    out = ranks(3, work)
    assert out[0] == ([[0], [0, 1], [0, 1, 2]], [[0], [10, 10], [20, 20, 20]])
    assert out[2] == ([], [[2], [12, 12], [22, 22, 22]])


def test_ddp_of_one_process_and_data_parallel(world):
    def scenario(t, d):
        t.manual_seed(0)
        m = t.nn.parallel.DistributedDataParallel(t.nn.Linear(2, 2))
        with m.no_sync():
            m(t.ones(1, 2)).sum().backward()
        with m.join():
            m(t.ones(1, 2)).sum().backward()
        p = t.nn.DataParallel(t.nn.Linear(2, 1))
        return list(m.state_dict()), m.module.weight.grad.tolist(), list(p.state_dict()), round(p(t.ones(3, 2)).sum().item(), 4)

    both(scenario)


def test_nothing_of_mindspore_for_one_process():
    import subprocess
    import sys

    code = (
        "import sys, mindtorch.torch.distributed as d\n"
        "d.init_process_group('hccl', store=d.HashStore(), rank=0, world_size=1); d.barrier()\n"
        "assert not {'mindspore', 'numba', 'scipy', 'torch'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_mindspore_without_what_is_used_is_refused():
    pytest.importorskip("mindspore")
    from mindspore.communication import management
    from mindspore.mint.distributed import distributed as functions

    from mindtorch.engine.mindspore.collectives import _starter

    assert callable(_starter(functions, management, True))
    with pytest.raises(RuntimeError, match="_init_with_store.*msrun"):
        _starter(functions, SimpleNamespace(), True)
    assert _starter(functions, SimpleNamespace(), False) is None
    with pytest.raises(RuntimeError, match="dist_comm_isend_op"):
        _starter(SimpleNamespace(), management, True)
