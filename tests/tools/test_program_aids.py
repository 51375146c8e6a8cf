"""tracking, proposal, fix_random and loss_compare."""

from __future__ import annotations

import csv
import os
import random
import sys

import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.tools import error_advice, line_tracer, randomness, widget

FRAMES = pytest.mark.parametrize("frame", [torch, mt], ids=["pytorch", "mindtorch"])


def net(frame):
    class Net(frame.nn.Module):
        def forward(self, x):
            y = self.scaled(x)
            z = frame.log(y)
            return z + 1

        def scaled(self, x):
            return x * 2

    return Net()


# ------------------------------------------------------------------------------------------ tracking
@FRAMES
def test_tracking_stops_where_nan_appears(frame, capsys):
    before = sys.gettrace()
    with pytest.raises(line_tracer.KeywordFound, match="z = Tensor.*nan=1") as e:
        with line_tracer.tracking(check_keyword="NaN"):
            net(frame)(frame.tensor([1.0, -1.0]))
    assert sys.gettrace() is before
    assert "z = frame.log(y)" in str(e.value) and isinstance(e.value, SystemExit)
    assert "'nan' appears" in capsys.readouterr().err
    with line_tracer.tracking(check_keyword="nan", check_mode=2):
        net(frame)(frame.tensor([1.0, -1.0]))
    err = capsys.readouterr().err
    assert err.count("'nan' appears") == 2 and "y = " not in err


@FRAMES
def test_tracking_levels_and_filters(frame, capsys):
    def lines(**kwargs):
        with line_tracer.tracking(**kwargs):
            net(frame)(frame.tensor([1.0, 2.0]))
        return capsys.readouterr().err

    one = lines()
    assert "call forward" in one and "call scaled" not in one and "returned = Tensor(shape=(2,), dtype=torch.float32, max=" in one
    assert "call scaled" in lines(level=2) and "call scaled" not in lines(level=2, depth=1, func_wl=["forward", "scaled"])
    assert "call scaled" in lines(func_wl=["scaled"]) and "call forward" not in lines(func_wl=["scaled"])
    assert lines(level=2, path_bl=[os.path.basename(__file__)]) == ""
    only = lines(event_list=["return"])
    assert "return" in only and "call" not in only
    counts = [lines(level=n).count("call ") for n in (1, 2, 4)]
    assert counts == sorted(set(counts))


def test_tracking_as_a_decorator_and_on_errors(capsys):
    @line_tracer.tracking(level=2, max_variable_length=20)
    def run(n):
        text = "x" * 100
        if n:
            raise KeyError(text)
        return n

    for _ in range(2):
        run(0)
    err = capsys.readouterr().err
    assert err.count("call run") == 2 and "xxx..." in err and "x" * 30 not in err
    with pytest.raises(KeyError):
        run(1)
    assert "raised KeyError" in capsys.readouterr().err
    for kwargs in ({"level": 9}, {"check_mode": 0}, {"depth": 0}, {"event_list": ["step"]}, {"check_keyword": ""}):
        with pytest.raises(ValueError, match="tracking"):
            line_tracer.tracking(**kwargs)


# ------------------------------------------------------------------------------------------ proposal
def grown(frame):
    x = frame.ones(2, requires_grad=True)
    y = x.exp()
    y += 1
    y.sum().backward()


FAULTS = {
    "in_features": lambda f: f.nn.Linear(3, 2)(f.ones(1, 4)),
    "NCHW": lambda f: f.nn.Conv2d(3, 2, 1)(f.ones(1, 4, 4, 4)),
    "broadcast": lambda f: f.ones(3) + f.ones(4),
    "x.view(x.size(0), -1)": lambda f: f.ones(6).view(4),
    "contiguous()": lambda f: f.ones(2, 3).t().view(6),
    "torch.cat": lambda f: f.cat([f.ones(1, 2), f.ones(1, 3)], 0),
    "Labels start at 0": lambda f: f.nn.functional.cross_entropy(f.ones(1, 2), f.tensor([2])),
    "num_embeddings": lambda f: f.nn.Embedding(2, 2)(f.tensor([5])),
    "no parameter leads to": lambda f: f.ones(1).sum().backward(),
    "is overwritten|overwritten": grown,
    "in place where gradients": lambda f: f.ones(1, requires_grad=True).add_(1),
    "single number": lambda f: f.ones(2, requires_grad=True).backward(),
    "detach().numpy()": lambda f: f.ones(2, requires_grad=True).numpy(),
    "same names or shapes": lambda f: f.nn.Linear(2, 2).load_state_dict({"w": f.ones(1)}),
    "single value per channel": lambda f: f.nn.BatchNorm1d(2)(f.ones(1, 2)),
    "different dtypes": lambda f: f.ones(2, 2) @ f.ones(2, 2).double(),
    "collate_fn": lambda f: next(iter(f.utils.data.DataLoader([f.ones(1), f.ones(2)], batch_size=2))),
}


@FRAMES
@pytest.mark.parametrize("word", FAULTS)
def test_proposal_knows_real_errors(frame, word, capsys):
    with pytest.raises(Exception) as e, error_advice.proposal():
        FAULTS[word](frame)
    err = " ".join(capsys.readouterr().err.replace("|", " ").split())
    assert any(w in err for w in word.split("|")), (str(e.value), err)
    assert "Your code" in err and os.path.basename(__file__) in err


def test_proposal_writes_a_file_and_passes_the_error_on(tmp_path, capsys):
    @error_advice.proposal(tmp_path, print_clear_stack=True)
    def run():
        try:
            torch.ones(3) + torch.ones(4)
        except RuntimeError as e:
            raise ValueError("a step failed") from e

    for _ in range(2):
        with pytest.raises(ValueError, match="a step failed"):
            run()
    text = (tmp_path / "mindspore_failure_analysis_report.log").read_text()
    assert text.count("ValueError: a step failed") == 2 and "do not broadcast" in text and "frames of frameworks left out" in text
    capsys.readouterr()
    with pytest.raises(SystemExit), error_advice.proposal():
        sys.exit(3)
    assert capsys.readouterr().err == ""
    with pytest.raises(ZeroDivisionError), error_advice.proposal():
        1 / 0  # noqa: B018
    assert "No entry of the knowledge base fits" in capsys.readouterr().err
    with pytest.raises(TypeError):
        error_advice.proposal(print_clear_stack=1)


# ------------------------------------------------------------------------------------------ seeds
def test_fix_random_seeds_everything():
    def draw():
        return random.random(), float(np.random.rand()), float(torch.rand(())), float(mt.rand(()))

    randomness.fix_random()
    first = draw()
    randomness.fix_random(17)
    other = draw()
    randomness.fix_random(16)
    assert draw() == first and all(a != b for a, b in zip(first, other))
    assert first[2] == first[3]
    with pytest.raises(TypeError, match="seed"):
        randomness.fix_random("1")


# ------------------------------------------------------------------------------------------ losses
def test_loss_compare(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("start\nstep 1 lm_loss: 2.0 lm_loss: 9\nstep 2 lm_loss:1e-1\nstep 3 lm_loss: 4\n")
    (tmp_path / "b.txt").write_text("lm_loss: 2.0\nlm_loss: 0.2\n")
    sides = [{"path": f"{n}.txt", "loss_tag": "lm_loss:", "label": n} for n in "ab"]
    got = widget.loss_compare(*sides, title="t")
    assert got["LEFT_MAX"] == 4 and got["LEFT_MIN"] == 0.1 and got["RIGHT_MEAN"] == pytest.approx(1.1)
    assert got["MAX_ABS_ERROR"] == pytest.approx(0.1) and got["MAX_REL_ERROR"] == pytest.approx(0.5)
    assert sorted(os.listdir("loss_compare")) == ["a.csv", "b.csv", "error.png", "loss_compare.png", "statistic.csv"]
    assert list(csv.reader(open("loss_compare/a.csv"))) == [["step", "loss"], ["0", "2.0"], ["1", "0.1"], ["2", "4.0"]]
    assert list(csv.reader(open("loss_compare/statistic.csv")))[0] == list(got)
    from PIL import Image

    pixels = np.asarray(Image.open("loss_compare/loss_compare.png").convert("RGB"))
    assert pixels.shape[0] > 300 and len(np.unique(pixels.reshape(-1, 3), axis=0)) > 10
    with pytest.raises(ValueError, match="no number follows"):
        widget.loss_compare({**sides[0], "loss_tag": "none:"}, sides[1])
    with pytest.raises(TypeError, match="right_file"):
        widget.loss_compare(sides[0], "b.txt")


def test_objects_in_files(tmp_path):
    import pickle

    widget.object_dump({"a": [1, None]}, tmp_path / "o.json")
    assert widget.object_load(tmp_path / "o.json") == {"a": [1, None]}
    (tmp_path / "o.pkl").write_bytes(pickle.dumps({"a": (1, 2)}))
    assert widget.object_load(tmp_path / "o.pkl") == {"a": (1, 2)}
    (tmp_path / "o.pkl").write_bytes(pickle.dumps(os.system))
    with pytest.raises(ValueError, match="system"):
        widget.object_load(tmp_path / "o.pkl")
