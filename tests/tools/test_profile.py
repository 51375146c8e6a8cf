"""step_timer and python -m mindtorch profile: the split, the verdict, the recommendation, the trial, the cProfile view."""

import cProfile
import io
import json
import os
import subprocess
import sys
import time

import pytest

import mindtorch.torch as mt
from mindtorch.core import observe
from mindtorch.tools import step_timer
from mindtorch.tools.timing import functions, preprocess, verdict
from mindtorch.tools.timing.clock import PHASES, Enough, Step, StepClock
from mindtorch.tools.timing.step_timer import LiveLine

DataLoader, Dataset = mt.utils.data.DataLoader, mt.utils.data.Dataset


class Data(Dataset):
    def __init__(self, n=12, seconds=0.0):
        self.n, self.seconds = n, seconds

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(self.seconds)
        return mt.randn(4), i % 3


class Training:
    def __init__(self, **sleeps):
        self.net = mt.nn.Linear(4, 3)
        self.opt = mt.optim.SGD(self.net.parameters(), lr=0.1)
        self.sleeps = sleeps

    def pause(self, phase):
        time.sleep(self.sleeps.get(phase, 0))

    def __call__(self, x, y):
        self.opt.zero_grad()
        self.pause("forward")
        out = self.net(x)
        loss = mt.nn.functional.cross_entropy(out, y)
        out.register_hook(lambda g: self.pause("backward"))
        loss.backward()
        self.pause("clip")
        self.opt.step()
        self.pause("other")


def test_each_phase_gets_its_time():
    train = Training(forward=0.03, backward=0.04, clip=0.02, other=0.05)
    timer = step_timer(DataLoader(Data(seconds=0.02), batch_size=4), quiet=True)
    ends = []
    began = time.perf_counter()
    for x, y in timer:
        train(x, y)
        ends.append(time.perf_counter() - began)
    assert len(timer.steps) == 3 and [s.first for s in timer.steps] == [True, False, False]
    split = timer.result
    assert len(split.steps) == 2 and split.training
    for phase, least in (("data", 0.08), ("forward", 0.03), ("backward", 0.04), ("optimizer", 0.02), ("other", 0.05)):
        assert split.phases[phase] >= least, phase
    assert split.phases["transfer"] == 0
    assert sum(s.total for s in timer.steps) >= 0.22 * 3 and sum(s.total for s in timer.steps[:2]) <= ends[2]
    assert sum(split.phases.values()) == pytest.approx(split.step)
    assert not observe.RANGES


def test_report_and_break():
    out = io.StringIO()
    train = Training()
    for i, (x, y) in enumerate(step_timer(DataLoader(Data(seconds=0.002), batch_size=2), file=out)):
        train(x, y)
        if i == 4:
            break
    text = out.getvalue()
    assert "Mean of 3 training steps, the first one left out:" in text
    for word in ("data", "host to device", "forward", "backward", "optimizer", "other", "Data Time", "the loader is the bottleneck", "recommended"):
        assert word in text
    assert not observe.RANGES
    with pytest.raises(TypeError, match="loader must be a DataLoader"):
        step_timer([1, 2])
    assert len(step_timer(DataLoader(Data(), batch_size=5))) == 3


def test_numbers_do_not_change():
    def run(wrap):
        mt.manual_seed(3)
        train = Training()
        for x, y in wrap(DataLoader(Data(), batch_size=4, shuffle=True)):
            train(x, y)
        return train.net.weight.detach().numpy().tolist(), mt.rand(2).tolist()

    assert run(lambda loader: step_timer(loader, quiet=True)) == run(lambda loader: loader)


def clocked(program, **options):
    clock = StepClock(**options)
    clock.start()
    try:
        program()
    except Enough:
        pass
    finally:
        clock.stop()
    return clock


class Seconds:
    """A clock that the program under test moves on."""

    now = 0.0

    def pause(self, seconds):
        self.now += seconds


def exact(program, seconds):
    class Exact(StepClock):
        def _now(self):
            return seconds.now

    clock = Exact()
    clock.start()
    try:
        program()
    finally:
        clock.stop()
    return clock


def test_phases_are_exact():
    t = Seconds()
    train = Training(forward=3, backward=5, clip=7, other=11)
    train.pause = lambda phase: t.pause(train.sleeps[phase])

    class Timed(Data):
        def __getitem__(self, i):
            t.pause(1)
            return super().__getitem__(i)

    def program():
        for x, y in DataLoader(Timed(), batch_size=4):
            train(x, y)
            t.pause(13)

    steps = exact(program, t).steps
    wanted = {"data": 4, "transfer": 0, "forward": 3, "backward": 5, "optimizer": 7, "other": 24}
    assert [s.phases for s in steps] == [wanted] * 3 and [s.total for s in steps] == [43] * 3


def test_evaluation_inside_a_step_is_its_own():
    t = Seconds()
    train = Training(forward=1, backward=1, clip=1, other=1)
    train.pause = lambda phase: t.pause(1)
    inner = DataLoader(Data(4), batch_size=2)

    def program():
        for x, y in DataLoader(Data(), batch_size=4):
            train(x, y)
            with mt.no_grad():
                for a, _ in inner:
                    train.net(a)
                    t.pause(100)

    clock = exact(program, t)
    split = verdict.Split(clock.steps)
    assert [len(split.steps), len(split.evaluating)] == [2, 5] and len(clock.loaders) == 2
    assert split.phases == {"data": 0, "transfer": 0, "forward": 1, "backward": 1, "optimizer": 1, "other": 1}
    assert verdict.mean_phases(split.evaluating)["forward"] == 100


def test_two_loaders_in_one_step():
    train = Training()

    def program():
        for (x, y), _ in zip(DataLoader(Data(seconds=0.002), batch_size=4), DataLoader(Data(seconds=0.002), batch_size=4)):
            train(x, y)

    steps = clocked(program).steps
    assert len(steps) == 3 and all(s.trained for s in steps) and all(s.phases["data"] >= 0.016 for s in steps)


def test_without_a_loader_steps_end_with_the_optimizers():
    train = Training()

    def program():
        for _ in range(5):
            train(mt.randn(2, 4), mt.tensor([0, 1]))

    split = verdict.Split(clocked(program).steps)
    assert len(split.steps) == 4 and split.loader is None and not split.bound
    assert "there is no DataLoader" in verdict.text(split)


def test_without_a_loader_nothing_lies_between_two_steps():
    t = Seconds()
    net = mt.nn.Linear(4, 2)
    opt = mt.optim.SGD(net.parameters(), lr=0.1)

    def program():
        for _ in range(3):
            t.pause(2)  # making a batch
            loss = net(mt.randn(2, 4)).sum()
            t.pause(3)
            opt.zero_grad()  # behind the forward pass, as many programs have it
            loss.backward()
            opt.step()
            t.pause(7)

    steps = exact(program, t).steps
    assert [s.total for s in steps] == [0, 12, 12] and [s.phases["forward"] for s in steps[1:]] == [12, 12]


def test_limit_and_workers():
    train = Training()

    def program():
        for _ in range(100):
            for x, y in DataLoader(Data(), batch_size=4):
                train(x, y)

    clock = clocked(program, limit=3)
    assert sum(not s.first for s in clock.steps) == 3
    loader = DataLoader(Data(), batch_size=4)
    clocked(lambda: [train(x, y) for x, y in loader], workers=1)
    assert loader.num_workers == 1


@pytest.mark.parametrize(
    ("data", "network", "bound"),
    [(0.5, 0.5, True), (0.05, 0.5, True), (0.005, 0.5, False), (2.0, 0.5, True), (0.0, 0.5, False), (0.00001, 0.02, False)],
)
def test_the_rule(data, network, bound):
    assert verdict.loader_bound(data, network) is bound


def test_recommended_workers():
    assert verdict.workers_for(20, 10) == 2 and verdict.workers_for(21, 10) == 3 and verdict.workers_for(1, 10) == 1


class _Crop:
    def __call__(self, x):
        return x

    def __repr__(self):
        return "Crop()"


class _Slow(_Crop):
    def __call__(self, x):
        time.sleep(0.003)
        return x

    def __repr__(self):
        return "Slow()"


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x


class Images(Data):
    def __init__(self, transform=None):
        super().__init__(8)
        self.transform = transform

    def __getitem__(self, i):
        x = mt.ones(3)
        return x if self.transform is None else self.transform(x)


def collate(samples):
    out = mt.stack(samples)
    time.sleep(0.02)
    return out


def test_slowest_transform_and_line():
    stages = [_Crop(), _Slow()]
    loader = DataLoader(Images(Compose(stages)), batch_size=4)
    parts = preprocess.measure(loader)
    assert parts.samples >= 0.012 > parts.collate
    assert preprocess.slowest(loader, parts).startswith("transform Slow() (")
    assert [type(t) for t in stages] == [_Crop, _Slow]
    loader = DataLoader(Images(), batch_size=4, collate_fn=collate)
    text = preprocess.slowest(loader, preprocess.measure(loader))
    assert text.startswith("collate_fn, ") and "time.sleep(0.02)" in text and os.path.basename(__file__) in text
    loader = DataLoader(Data(4, 0.002), batch_size=2)
    assert "Data.__getitem__" in (text := preprocess.slowest(loader, preprocess.measure(loader))) and "time.sleep(self.seconds)" in text


def test_more_than_sixteen_workers_names_the_slowest_part():
    loader = DataLoader(Data(4, 0.02), batch_size=1)
    steps = [Step(loader, first=False)]
    steps[0].trained = True
    steps[0].phases.update(data=0.02, forward=0.001)
    split = verdict.Split(steps)
    split.look_at_loader()
    assert split.recommended == 20
    text = verdict.text(split)
    assert "More than 16 workers" in text and "time.sleep(self.seconds)" in text


def test_live_line():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    step = Step(None, False)
    step.phases.update(dict.fromkeys(PHASES, 0.001))
    for file, shown in ((Terminal(), True), (io.StringIO(), False)):
        line = LiveLine(file)
        line(step)
        line(step)
        line.close()
        assert file.getvalue().count("step 1: 6.0 ms = data 1.0") == shown
        assert "step 2" not in file.getvalue()


def test_functions_of_mindtorch():
    for other in (mt.optim.Adam, mt.optim.RMSprop, mt.optim.ASGD):  # the first use of a class wraps its step
        other([mt.nn.Parameter(mt.zeros(1))])
    train = Training()
    profile = cProfile.Profile()
    profile.enable()
    for x, y in DataLoader(Data(8), batch_size=4):
        train(x, y)
    profile.disable()
    rows = functions.rows(profile, __file__)
    by = {r.api: r for r in rows}
    assert by["torch.utils.data.DataLoader.__next__"].calls == 3 and by["torch.nn.Linear.forward"].calls == 2
    assert by["Tensor.backward"].calls >= 2 and by["torch.optim.SGD.step"].calls == 2
    assert sum(r.share for r in rows) == pytest.approx(1)
    assert all(0 <= r.own <= r.total + 1e-9 for r in rows)
    assert by["Tensor.backward"].caller.endswith("(__call__)")
    assert [r.total for r in rows] == sorted((r.total for r in rows), reverse=True)
    assert functions.text(rows, 2).splitlines()[-1] == f"... and {len(rows) - 2} more"


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS"])
def test_functions_tell_the_optimizer(name):
    p = mt.nn.Parameter(mt.ones(3))
    opt = getattr(mt.optim, name)([p], lr=0.1)

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    profile = cProfile.Profile()
    profile.enable()
    opt.step(closure)
    profile.disable()
    found = [r.api for r in functions.rows(profile, __file__) if r.api.endswith(".step")]
    # AdamW has all it does from Adam: nothing in a profile tells the two apart when the process has made both.
    assert found == [f"torch.optim.{name}.step"] or (name in ("Adam", "AdamW") and found[0].startswith("torch.optim.Adam.step"))


SCRIPT = """
import sys, time, torch
from torch.utils.data import Dataset, DataLoader

class Slow(Dataset):
    def __len__(self):
        return 32
    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.randn(4), i % 3

def main():
    net = torch.nn.Linear(4, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(Slow(), batch_size=4):
        time.sleep(0.01)
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
    print("finished", sys.argv[1:])

if __name__ == "__main__":
    main()
    if "fail" in sys.argv:
        sys.exit(3)
"""


def command(folder, *args):
    (folder / "train.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run([sys.executable, "-m", "mindtorch", "profile", *args], cwd=folder, env=env, capture_output=True, text=True)  # noqa: PLW1510


def test_command_with_trial(tmp_path):
    done = command(tmp_path, "--try", "--json", "o.json", "train.py", "--", "a", "--steps")
    assert done.returncode == 0, done.stderr
    assert "finished ['a', '--steps']" in done.stdout and "Tried with num_workers=2: step" in done.stdout
    got = json.loads((tmp_path / "o.json").read_text())
    assert (got["steps"], got["training"], got["loader_bound"], got["num_workers"], got["recommended_num_workers"]) == (7, True, True, 0, 2)
    assert got["phases"]["data"] >= 0.016 and got["phases"]["forward"] >= 0.01
    assert sum(got["phases"].values()) == pytest.approx(got["step"], rel=0.02)
    assert got["trial"]["num_workers"] == 2 and got["trial"]["steps"] == 7
    assert not done.stderr


def test_command_with_functions_ops_and_trace(tmp_path):
    done = command(tmp_path, "--steps", "4", "--cprofile", "--sort", "tottime", "--ops", "5", "--trace", "t.json", "train.py")
    assert done.returncode == 0, done.stderr
    assert "finished" not in done.stdout and "Mean of 4 training steps" in done.stdout
    assert "Ordered by: internal time" in (tmp_path / "time_log.txt").read_text()
    assert "torch.nn.Linear.forward" in done.stdout and "train.py:12 (main)" in done.stdout
    assert "enumerate(DataLoader)#_SingleProcessDataLoaderIter" in done.stdout
    rows = [e["args"]["name"] for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e["name"] == "thread_name"]
    assert {r.rpartition(": ")[2] for r in rows} == {"forward", "backward", "optimizer", "DataLoader"}


def test_command_keeps_the_programs_exit_status(tmp_path):
    done = command(tmp_path, "train.py", "fail")
    assert done.returncode == 3 and "Mean of 7 training steps" in done.stdout
    assert command(tmp_path, "missing.py").returncode == 2


NPU = """
import torch
from torch.utils.data import DataLoader, TensorDataset
dev = torch.device("npu")
net = torch.nn.Linear(4, 3).to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 3, (8,))), batch_size=2):
    x, y = x.to(dev), y.to(dev)
    opt.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
"""


def test_transfers_to_a_device(tmp_path, monkeypatch):
    pytest.importorskip("mindspore")
    monkeypatch.setenv("MINDTORCH_NPU_SIM", "1")
    monkeypatch.setenv("MSA_LOG", "3")
    (tmp_path / "npu.py").write_text(NPU)
    done = command(tmp_path, "--json", "o.json", "npu.py")
    assert done.returncode == 0, done.stderr
    got = json.loads((tmp_path / "o.json").read_text())
    assert got["steps"] == 3 and all(got["phases"][p] > 0 for p in ("data", "transfer", "forward", "backward", "optimizer"))
