"""Datasets, samplers, collation and the DataLoader against PyTorch: order for the same seed, workers, failures."""

import collections
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import large_tensors
import numpy as np
import pytest
import torch.utils.data as theirs

import mindtorch.torch as mt
import mindtorch.torch.utils.data as ours
import torch

EXACT = mt.Tensor is torch.Tensor
Point = collections.namedtuple("Point", "x y")


def plain(value):
    """Tensors as lists, with their dtype, inside any nesting."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(plain, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    return value


class Squares:
    """Map-style and picklable for every start method."""

    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i, float(i * i)


class Failing:
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i < 3:
            return i
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "exit":
            os._exit(3)
        if self.how == "sleep":
            time.sleep(30)
        if self.how == "unpicklable":
            return lambda: None
        raise self.how


class Random:
    """What the random streams of a worker give."""

    def __init__(self, lib):
        self.lib = lib

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return self.lib.initial_seed(), self.lib.rand(1).item(), random.random(), float(np.random.rand())


class Counting(ours.IterableDataset):
    def __init__(self, n, split=True):
        self.n, self.split = n, split

    def __iter__(self):
        info = ours.get_worker_info()
        if info is None or not self.split:
            return iter(range(self.n))
        return iter(range(info.id, self.n, info.num_workers))


def workers_alive():
    return {p.pid for p in multiprocessing.active_children() if p.name.startswith("mindtorch-worker")}


LOADERS = [
    {},
    {"batch_size": 3},
    {"batch_size": 3, "drop_last": True},
    {"batch_size": None},
    {"shuffle": True},
    {"shuffle": True, "batch_size": 6},
    {"shuffle": True, "batch_size": 6, "num_workers": 2},
    {"shuffle": True, "batch_size": 4, "num_workers": 2, "persistent_workers": True, "prefetch_factor": 1},
    {"batch_size": None, "num_workers": 1},
    {"sampler": [3, 1, 2], "batch_size": 2},
    {"batch_sampler": [[1, 2], [5], [7, 8, 9]], "num_workers": 1},
]


@pytest.mark.parametrize("options", LOADERS, ids=lambda o: ",".join(o) or "plain")
@pytest.mark.parametrize("own_generator", [False, True])
def test_order(options, own_generator):
    """Two epochs, and the state of the random stream in between and afterwards."""

    def run(lib, data):
        lib.manual_seed(7)
        extra = {}
        if own_generator:
            extra["generator"] = lib.Generator().manual_seed(3)
        loader = data.DataLoader(Squares(), **options, **extra)
        out = []
        for _ in range(2):
            out.append([plain(b) for b in loader])
            out.append(lib.randint(0, 1000, (2,), generator=extra.get("generator")).tolist())
        return out, len(loader)

    assert run(mt, ours) == run(torch, theirs)


SAMPLERS = [
    lambda d, g: d.RandomSampler(range(10), generator=g),
    lambda d, g: d.RandomSampler(range(10), num_samples=25, generator=g),
    lambda d, g: d.RandomSampler(range(10), num_samples=4, generator=g),
    lambda d, g: d.RandomSampler(range(10), replacement=True, num_samples=70, generator=g),
    lambda d, g: d.SubsetRandomSampler([4, 8, 1, 9], generator=g),
    lambda d, g: d.WeightedRandomSampler([0.1, 0.5, 3.0, 1.0], 9, generator=g),
    lambda d, g: d.WeightedRandomSampler([0.1, 0.5, 3.0, 1.0], 3, replacement=False, generator=g),
    lambda d, g: d.BatchSampler(d.RandomSampler(range(10), generator=g), 3, False),
    lambda d, g: d.BatchSampler(d.SequentialSampler(range(10)), 4, True),
]


@pytest.mark.parametrize("i", range(len(SAMPLERS)))
@pytest.mark.parametrize("own_generator", [False, True])
def test_samplers(i, own_generator):
    def run(lib, data):
        lib.manual_seed(11)
        g = lib.Generator().manual_seed(5) if own_generator else None
        s = SAMPLERS[i](data, g)
        out = [list(s), list(s), len(s)]
        return out, lib.randint(0, 1000, (2,), generator=g).tolist()

    assert run(mt, ours) == run(torch, theirs)


@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"drop_last": True, "seed": 4}])
@pytest.mark.parametrize("n", [2, 10, 11])
def test_distributed_sampler(options, n):
    for rank in range(3):
        out = []
        for data in (ours, theirs):
            s = data.DistributedSampler(range(n), num_replicas=3, rank=rank, **options)
            first = list(s)
            s.set_epoch(2)
            out.append((first, list(s), len(s)))
        assert out[0] == out[1]
    with pytest.raises(ValueError, match="Invalid rank 3"):
        ours.DistributedSampler(range(4), 3, 3)


def test_random_split():
    for lengths in ([7, 3], [0.3, 0.3, 0.4], [1, 0, 9]):
        out = []
        for lib, data in ((mt, ours), (torch, theirs)):
            lib.manual_seed(1)
            parts = data.random_split(range(10), lengths)
            fixed = data.random_split(range(10), lengths, generator=lib.Generator().manual_seed(42))
            out.append([[list(p) for p in parts], [p.indices for p in fixed]])
        assert out[0] == out[1]


def test_datasets():
    t = ours.TensorDataset(mt.arange(6).reshape(3, 2), mt.tensor([5, 6, 7]))
    assert len(t) == 3 and t[1][0].tolist() == [2, 3] and t[1][1].item() == 6
    both = t + ours.Subset(t, [2, 0])
    assert len(both) == 5 and both[3][1].item() == 7 and both[-1][1].item() == 5
    stacked = ours.StackDataset(a=range(3), b=[7, 8, 9])
    assert stacked[1] == {"a": 1, "b": 8} and stacked.__getitems__([0, 2]) == [{"a": 0, "b": 7}, {"a": 2, "b": 9}]
    assert ours.StackDataset(range(3), "abc")[2] == (2, "c")
    chain = Counting(2) + Counting(3)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert ours.Subset("abcde", [3, 1]).__getitems__([1, 0]) == ["b", "d"]
    assert issubclass(ours.Dataset[int], ours.Dataset) if isinstance(ours.Dataset[int], type) else True


COLLATE = [
    lambda lib: [lib.ones(2), lib.zeros(2)],
    lambda lib: [1, 2, 3],
    lambda lib: [True, False],
    lambda lib: [0.5, 1],
    lambda lib: ["a", "bc"],
    lambda lib: [b"a", b"b"],
    lambda lib: [np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)],
    lambda lib: [np.float32(1.5), np.float32(2)],
    lambda lib: [np.int16(1), np.int16(2)],
    lambda lib: [(1, "a", lib.ones(1)), (2, "b", lib.zeros(1))],
    lambda lib: [[1, 2.0], [3, 4.0]],
    lambda lib: [{"x": 1, "y": [lib.ones(1), (1, 2)]}, {"x": 2, "y": [lib.ones(1), (3, 4)]}],
    lambda lib: [Point(1, lib.ones(1)), Point(2, lib.ones(1))],
    lambda lib: [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
]


@pytest.mark.parametrize("i", range(len(COLLATE)))
def test_collate(i):
    mine, other = ours.default_collate(COLLATE[i](mt)), theirs.default_collate(COLLATE[i](torch))
    assert plain(mine) == plain(other) and type(mine).__name__ == type(other).__name__
    mine, other = ours.default_convert(COLLATE[i](mt)), theirs.default_convert(COLLATE[i](torch))
    assert plain(mine) == plain(other)


def test_collate_errors():
    for bad, kind in (
        ([object()], TypeError),
        ([[1, 2], [1]], RuntimeError),
        ([None], TypeError),
        ([np.array("x")], TypeError),
    ):
        with pytest.raises(kind):
            ours.default_collate(bad)
    with pytest.raises(RuntimeError):
        ours.default_collate([mt.ones(1), mt.ones(2)])


def test_collate_map_can_be_extended():
    from mindtorch.torch.utils.data._utils.collate import collate, default_collate_fn_map

    table = {**default_collate_fn_map, set: lambda batch, *, collate_fn_map=None: sorted(set.union(*batch))}
    assert collate([{1}, {2, 1}], collate_fn_map=table) == [1, 2]


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_large_tensors_from_workers(context):
    if EXACT:
        pytest.skip("needs our tensors")
    if context == "fork":
        large_tensors.check(context)
        return
    # Children start anew and import the main module: a small script of its own keeps that cheap.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, large_tensors.__file__, context], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_worker_streams():
    def run(lib, data):
        lib.manual_seed(0)
        return list(data.DataLoader(Random(lib), batch_size=None, num_workers=2))

    assert run(mt, ours) == run(torch, theirs)


def test_worker_info_and_init():
    class Info:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            w = ours.get_worker_info()
            return w.id, w.num_workers, w.seed - w.id, type(w.dataset).__name__, os.environ.get("WORKER_INIT")

    def init(worker_id):
        os.environ["WORKER_INIT"] = str(worker_id)

    assert ours.get_worker_info() is None
    got = list(ours.DataLoader(Info(), batch_size=None, num_workers=2, worker_init_fn=init))
    assert [(g[0], g[1], g[3], g[4]) for g in got] == [(i % 2, 2, "Info", str(i % 2)) for i in range(4)]
    assert len({g[2] for g in got}) == 1


def test_workers_stay_light():
    class Loaded:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return [m for m in ("mindspore", "numba") if m in sys.modules]

    code = (
        "import sys; import mindtorch.torch.utils.data as d\n"
        "class L:\n"
        "    def __len__(self): return 2\n"
        "    def __getitem__(self, i): return str([m for m in ('mindspore', 'numba') if m in sys.modules])\n"
        "print(list(d.DataLoader(L(), num_workers=1, batch_size=None)))\n"
    )
    if EXACT:
        pytest.skip("needs our tensors")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "['[]', '[]']", done.stderr


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable(workers):
    loader = ours.DataLoader(Counting(11), batch_size=2, num_workers=workers)
    expected = theirs.DataLoader(TheirCounting(11), batch_size=2, num_workers=workers)
    assert [plain(b) for b in loader] == [plain(b) for b in expected]
    dropped = ours.DataLoader(Counting(11), batch_size=2, num_workers=workers, drop_last=True)
    expected = theirs.DataLoader(TheirCounting(11), batch_size=2, num_workers=workers, drop_last=True)
    assert [plain(b) for b in dropped] == [plain(b) for b in expected]
    single = ours.DataLoader(Counting(5), batch_size=None, num_workers=workers)
    assert list(single) == list(theirs.DataLoader(TheirCounting(5), batch_size=None, num_workers=workers))


class TheirCounting(theirs.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = theirs.get_worker_info()
        return iter(range(self.n)) if info is None else iter(range(info.id, self.n, info.num_workers))


def test_iterable_persistent():
    loader = ours.DataLoader(Counting(5), batch_size=2, num_workers=2, persistent_workers=True)
    first, second = ([b.tolist() for b in loader] for _ in range(2))
    assert first == second == [[0, 2], [1, 3], [4]]
    loader._iterator._shutdown_workers()


def test_persistent_workers_are_the_same_processes():
    class Pid:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return os.getpid()

    loader = ours.DataLoader(Pid(), batch_size=None, num_workers=2, persistent_workers=True)
    a, b = list(loader), list(loader)
    assert a == b and os.getpid() not in a
    # An epoch that is given up leaves nothing behind in the next one.
    next(iter(loader))
    assert list(loader) == a
    loader._iterator._shutdown_workers()


@pytest.mark.parametrize("workers", [0, 1])
def test_exception_of_a_sample(workers):
    with pytest.raises(ValueError, match="boom") as caught:
        list(ours.DataLoader(Failing(ValueError("boom")), num_workers=workers))
    if workers:
        text = str(caught.value)
        assert text.startswith("Caught ValueError in DataLoader worker process 0.\nOriginal Traceback")
        assert "test_data.py" in text and "__getitem__" in text
    with pytest.raises(KeyError, match="lost"):
        list(ours.DataLoader(Failing(KeyError("lost")), num_workers=workers))


class Picky(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def test_exception_that_needs_arguments():
    with pytest.raises(RuntimeError, match="Caught Picky"):
        list(ours.DataLoader(Failing(Picky(1, 2)), num_workers=1))


def test_exception_in_init_and_in_sending():
    def init(i):
        raise ValueError("bad init")

    with pytest.raises(ValueError, match="bad init"):
        list(ours.DataLoader(Squares(), num_workers=1, worker_init_fn=init))
    with pytest.raises(Exception, match="pickle"):
        list(ours.DataLoader(Failing("unpicklable"), num_workers=1, batch_size=None))


def test_loading_goes_on_after_an_exception():
    it = iter(ours.DataLoader(Flaky(), num_workers=2, batch_size=None))
    got = []
    while True:
        try:
            got.append(next(it))
        except ValueError:
            got.append("error")
        except StopIteration:
            break
    assert got == [0, 1, 2, "error", 4, 5, 6, 7]


class Flaky:
    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 3:
            raise ValueError("once")
        return i


@pytest.mark.parametrize("how,text", [("kill", "SIGKILL"), ("exit", "exit status 3")])
@pytest.mark.parametrize("workers", [1, 2])
def test_dead_worker(how, text, workers):
    start, before = time.monotonic(), workers_alive()
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly.*" + text):
        list(ours.DataLoader(Failing(how), num_workers=workers))
    assert time.monotonic() - start < 20
    assert workers_alive() <= before


def test_timeout():
    loader = ours.DataLoader(Failing("sleep"), num_workers=1, timeout=0.5)
    it = iter(loader)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.5 seconds"):
        list(it)
    for w in it._workers:
        w.terminate()


def test_leaving_early_ends_the_workers():
    start, before = time.monotonic(), workers_alive()
    for _ in ours.DataLoader(Squares(2000), num_workers=2):
        break
    assert time.monotonic() - start < 4
    assert workers_alive() <= before


def test_two_loaders_at_once_end_cleanly():
    a = iter(ours.DataLoader(Squares(), num_workers=1))
    b = iter(ours.DataLoader(Squares(), num_workers=1))
    next(a), next(b)
    start = time.monotonic()
    del a
    assert time.monotonic() - start < 4
    assert len(list(b)) == 19


def test_many_tasks_ahead_do_not_block():
    """Both pipes full: long index lists one way, many batches the other."""
    sampler = [list(range(3000)) for _ in range(60)]
    loader = ours.DataLoader(Wide(), batch_sampler=sampler, num_workers=1, prefetch_factor=60, collate_fn=bytes_of)
    assert sum(len(b) for b in loader) == 60 * 50_000


class Wide:
    def __getitem__(self, i):
        return i


def bytes_of(batch):
    return b"x" * 50_000


def test_out_of_order():
    loader = ours.DataLoader(SlowFirst(), batch_size=None, num_workers=2, in_order=False)
    got = list(loader)
    assert sorted(got) == list(range(6)) and got[0] != 0


class SlowFirst:
    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 0:
            time.sleep(1.0)
        return i


def test_interrupt_is_clean():
    """Ctrl-C reaches the whole process group; the loader's process reports it once and nothing hangs."""
    code = (
        "import sys, time; import mindtorch.torch.utils.data as d\n"
        "class S:\n"
        "    def __len__(self): return 1000\n"
        "    def __getitem__(self, i):\n"
        "        time.sleep(0.2); return i\n"
        "print('go', flush=True)\n"
        "for x in d.DataLoader(S(), num_workers=2): print('batch', flush=True)\n"
    )
    if EXACT:
        pytest.skip("needs our tensors")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout.readline() == "go\n" and child.stdout.readline() == "batch\n"
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert err.count("Traceback") == 1 and err.strip().endswith("KeyboardInterrupt")


def test_loader_pickles():
    loader = ours.DataLoader(Squares(), batch_size=4, num_workers=1, persistent_workers=True)
    list(loader)
    again = pickle.loads(pickle.dumps(loader))
    assert again.batch_size == 4 and len(again) == 5
    loader._iterator._shutdown_workers()


BAD = [
    lambda d: d.DataLoader(Squares(), num_workers=-1),
    lambda d: d.DataLoader(Squares(), timeout=-1),
    lambda d: d.DataLoader(Squares(), prefetch_factor=2),
    lambda d: d.DataLoader(Squares(), num_workers=1, prefetch_factor=-1),
    lambda d: d.DataLoader(Squares(), persistent_workers=True),
    lambda d: d.DataLoader(Squares(), sampler=[1], shuffle=True),
    lambda d: d.DataLoader(Squares(), batch_sampler=[[1]], batch_size=2),
    lambda d: d.DataLoader(Squares(), batch_size=None, drop_last=True),
    lambda d: d.DataLoader(Squares(), batch_size=0),
    lambda d: d.DataLoader(Squares(), multiprocessing_context="fork"),
    lambda d: d.DataLoader(Squares(), num_workers=1, multiprocessing_context="x"),
    lambda d: d.DataLoader(Squares(), num_workers=1, multiprocessing_context=3),
    lambda d: setattr(d.DataLoader(Squares()), "batch_size", 3),
    lambda d: d.RandomSampler(Squares(), replacement=1),
    lambda d: d.RandomSampler([]),
    lambda d: d.RandomSampler(Squares(), num_samples=0),
    lambda d: d.BatchSampler([1], 0, False),
    lambda d: d.BatchSampler([1], 1, 0),
    lambda d: d.WeightedRandomSampler([1.0], 0),
    lambda d: d.WeightedRandomSampler([[1.0]], 1),
    lambda d: d.WeightedRandomSampler([1.0], 1, replacement=1),
    lambda d: d.random_split(range(4), [1, 2]),
    lambda d: d.ConcatDataset([]),
    lambda d: d.ConcatDataset([Squares()])[-50],
    lambda d: d.StackDataset(),
    lambda d: d.StackDataset([1], [1, 2]),
    lambda d: d.StackDataset([1], a=[1]),
    lambda d: d.Dataset()[0],
    lambda d: len(d.Dataset()),
]


@pytest.mark.parametrize("i", range(len(BAD)))
def test_errors(i):
    with pytest.raises(Exception) as expected:
        BAD[i](theirs)
    with pytest.raises(type(expected.value)) as caught:
        BAD[i](ours)
    assert str(caught.value) == str(expected.value)


def test_iterable_errors_and_warnings():
    for bad in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="DataLoader with IterableDataset"):
            ours.DataLoader(Counting(3), **bad)
    with pytest.raises(TypeError):
        len(ours.DataLoader(Counting(3)))
    with pytest.warns(UserWarning, match="worker processes in total"):
        ours.DataLoader(Squares(), num_workers=1000)
    with pytest.warns(UserWarning, match="no accelerator"):
        next(iter(ours.DataLoader(Squares(), pin_memory=True)))

    class Short(Counting):
        def __len__(self):
            return 1

    loader = ours.DataLoader(Short(3), batch_size=None)
    assert len(loader) == 1
    with pytest.warns(UserWarning, match="Length of IterableDataset"):
        list(loader)
