"""``python -m mindtorch tune``: ten scripts with planted slowness, their clean versions, and single rules."""

import json
import os
import subprocess
import sys

import pytest

import mindtorch.torch as mt
from mindtorch.tools import advice
from mindtorch.tools.advice import sources

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(os.path.dirname(os.path.dirname(HERE)), "src")
PLANTED = {
    "power": "power",
    "item_in_loop": "item in a loop",
    "loop_over_rows": "loop over rows",
    "cat_in_loop": "cat in a loop",
    "evaluation": "evaluation without no_grad",
    "workers": "workers",
    "collate": "slow collate_fn",
    "double": "float64 by accident",
    "checkpoint": "checkpoint in every step",
    "clone": "needless copy",
}


def tune(*args, cwd=HERE):
    env = {**os.environ, "PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mindtorch", "tune", *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )
    return done


def hints(name, folder, *args):
    file = folder / "advice.json"
    done = tune("--json", str(file), os.path.join(HERE, "slow", f"{name}.py"), *args)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert found["untried"] == []
    return found["hints"]


def test_planted_slowness_is_found(tmp_path):
    missed = []
    for name, rule in PLANTED.items():
        file = os.path.join(HERE, "slow", f"{name}.py")
        with open(file) as f:
            line = next(i for i, text in enumerate(f, 1) if text.rstrip().endswith("# slow"))
        found = hints(name, tmp_path)
        if not any(h["rule"] == rule and h["line"] == line and os.path.samefile(h["file"], file) for h in found):
            missed.append((name, found))
        assert all(h["gain"] >= 0.03 and h["after"] < h["before"] for h in found)
    assert len(missed) <= 1, missed


def test_clean_scripts_get_no_advice(tmp_path):
    said = {name: hints(name, tmp_path, "--", "clean") for name in PLANTED}
    assert {k: v for k, v in said.items() if v} == {}


def test_script_that_fails_is_reported(tmp_path):
    (tmp_path / "bad.py").write_text("import torch\ntorch.ones(2) @ torch.ones(3)\n")
    done = tune("bad.py", cwd=tmp_path)
    assert done.returncode == 1 and "RuntimeError" in done.stdout and "no step was seen" in done.stdout
    assert tune("missing.py", cwd=tmp_path).returncode == 2


def test_arguments_reach_the_script(tmp_path):
    (tmp_path / "args.py").write_text("import sys\nprint(__name__, sys.argv)\n")
    assert "__main__ ['args.py', '--lr', '1']" in tune("args.py", "--", "--lr", "1", cwd=tmp_path).stdout


def rules(found):
    return {h.rule: h for h in found.hints}


def stepping(body, steps=14):
    """A program whose steps are ``body`` and an optimiser that moves nothing."""

    def run():
        optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.0)
        for _ in range(steps):
            body()
            optimizer.step()

    return run


def test_attention_written_out():
    q, k, v = (mt.randn(2, 4, 128, 32) for _ in range(3))

    def body():
        mt.softmax(q @ k.transpose(-2, -1) / 32**0.5, -1) @ v

    chain_seen = []
    from mindtorch.tools.advice import rules_loops

    real, rules_loops._attention_times = rules_loops._attention_times, lambda *a: chain_seen.append(real(*a)) or (1.0, 0.0)
    try:
        found = rules(advice.tune(stepping(body)))
    finally:
        rules_loops._attention_times = real
    assert found["unfused attention"].line == body.__code__.co_firstlineno + 1
    assert all(before > 0 and after > 0 for before, after in chain_seen)  # both ways agreed and were timed


def test_repeated_conversion():
    x = mt.randn(300_000)

    def body():
        x.to(mt.float64)

    hint = rules(advice.tune(stepping(body)))["repeated to"]
    assert hint.line == body.__code__.co_firstlineno + 1 and hint.after == 0


def test_copies_that_are_written_to_are_needed():
    x = mt.randn(300_000)

    def body():
        y = x.clone()
        y[0] = 1

    assert "needless copy" not in rules(advice.tune(stepping(body)))


def test_contiguous_before_view_is_needed_and_before_sum_is_not():
    x = mt.randn(600, 500)

    def needed():
        x.t().contiguous().view(-1).sum()

    def needless():
        x.t().contiguous() + 1

    assert "needless copy" not in rules(advice.tune(stepping(needed)))
    assert "needless copy" in rules(advice.tune(stepping(needless)))


def test_zero_grad_keeps_the_gradients():
    def run():
        net = mt.nn.Linear(600, 600)
        optimizer = mt.optim.SGD(net.parameters(), lr=0.0)
        x = mt.randn(2, 600)
        for _ in range(14):
            optimizer.zero_grad(set_to_none=False)
            net(x).sum().backward()
            optimizer.step()

    assert "zero_grad" in rules(advice.tune(run))


def test_recurrence_is_no_loop_over_rows():
    x, w = mt.randn(64, 8), mt.randn(8, 8)

    def body():
        h = mt.zeros(8)
        for t in range(64):
            h = mt.tanh(x[t] + w @ h)

    assert "loop over rows" not in rules(advice.tune(stepping(body)))


def test_double_on_purpose_is_left_alone():
    w = mt.randn(200, 200, dtype=mt.float64)
    net = mt.nn.Linear(200, 200).double()
    assert "float64 by accident" not in rules(advice.tune(stepping(lambda: net(w).exp())))


def test_everything_tries_what_changes_numbers():
    net = mt.nn.Linear(8, 8)
    found = advice.tune(stepping(lambda: net(mt.ones(2, 8))), everything=True)
    assert {"amp", "batch_size", "graph"} <= set(found.tried)


def test_observers_are_gone_afterwards():
    from mindtorch.core import observe

    with pytest.raises(ValueError, match="steps must be at least 6"):
        advice.tune(lambda: None, steps=3)
    advice.tune(stepping(lambda: mt.ones(3) + 1))
    assert not observe.OBSERVERS and not observe.RANGES and print.__module__ == "builtins"


def test_user_files():
    assert sources.is_users(__file__) and not sources.is_users(advice.__file__)
    assert not sources.is_users(pytest.__file__) and not sources.is_users("<string>")


def certain(old, new, budget=0.0):
    """In place of measuring: both ways run, and the new one takes half the time."""
    old(), new()
    return 1.0, 0.5


@pytest.mark.parametrize(("rule", "name"), [("amp", "mixed precision"), ("batch_size", "batch size"), ("graph", "graph mode")])
def test_rules_that_change_numbers_run_both_ways(monkeypatch, rule, name):
    from mindtorch.tools.advice import rules_training

    net = mt.nn.Sequential(mt.nn.Linear(8, 8), mt.nn.ReLU())
    monkeypatch.setattr(rules_training, "pair", certain)

    def body():
        net(mt.ones(2, 8)).sum().backward()

    found = advice.tune(stepping(body), everything=True)
    assert found.untried == []
    hint = rules(found)[name]
    assert hint.line == body.__code__.co_firstlineno + 1 and os.path.samefile(hint.file, __file__) and hint.text == "net(mt.ones(2, 8)).sum().backward()"
    assert (hint.before, hint.after) == (1000.0, 500.0 if rule != "batch_size" else 250.0)
    assert name not in rules(advice.tune(stepping(body)))  # only when asked for


def test_print_in_every_step(capsys):
    import builtins
    import time

    class Slow:
        def __str__(self):
            time.sleep(0.003)
            return "loss"

    def body():
        builtins.print(Slow())

    hint = rules(advice.tune(stepping(body)))["print in the step"]
    assert hint.line == body.__code__.co_firstlineno + 1 and hint.before >= 3 and hint.after == pytest.approx(hint.before / 50)
    assert "loss" in capsys.readouterr().out


def test_tensor_ops_on_a_few_elements_in_a_dataset(monkeypatch):
    from mindtorch.tools.advice import rules_ops

    monkeypatch.setattr(rules_ops, "pair", certain)

    class Data(mt.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            x = mt.ones(4)
            return (x - 0.5) / 0.25

    def run():
        optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.0)
        for _ in mt.utils.data.DataLoader(Data(), batch_size=4):
            optimizer.step()

    hint = rules(advice.tune(run))["numpy in transforms"]
    assert hint.line == Data.__getitem__.__code__.co_firstlineno + 2 and "8 calls on at most 256 elements a batch" in hint.message


def test_each_rule_of_the_guide_is_tried():
    found = advice.tune(stepping(lambda: None), everything=True)
    assert set(found.tried) == {
        "power", "item_in_loop", "rows", "printing", "tiny", "repeated_to", "no_grad", "zero_grad", "cat_in_loop", "needless_copy", "attention",
        "accidental_double", "amp", "workers", "batch_size", "graph", "collate", "checkpoint",
    }  # fmt: skip


def test_nothing_below_three_per_cent():
    from mindtorch.tools.advice.record import Loop, Step
    from mindtorch.tools.advice.rules_ops import make
    from mindtorch.tools.advice.sources import Site

    loop = Loop(None, [Step(i, False, 0.0, 0.0, wall=1.0, cpu=1.0) for i in range(4)])
    assert loop.seconds == 1.0
    assert make("x", loop, Site(__file__, 1), "", 0.5, 0.4701) == []
    (hint,) = make("x", loop, Site(__file__, 1), "", 0.5, 0.47)
    assert hint.gain == pytest.approx(0.03) and hint.step == 1000.0
