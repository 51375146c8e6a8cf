"""NetDifferenceFinder: one network written twice."""

from __future__ import annotations

import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.tools import migrator

Finder = migrator.NetDifferenceFinder


def net(frame, gain=1.0):
    class Net(frame.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.bn = frame.nn.Linear(12, 3), frame.nn.BatchNorm1d(3)
            self.drop = frame.nn.Dropout(0.5)

        def forward(self, x, scale=None):
            y = self.drop(self.bn(self.fc(x)))
            return {"y": y * gain, "pair": (y, None if scale is None else y * scale)}

    made = Net()
    for p in made.parameters():
        frame.nn.init.normal_(p)
    return made


def test_two_nets_agree_with_the_weights_of_the_first(capsys):
    a, b = net(torch), net(mt)
    rows = Finder(a, b).compare(auto_inputs={"input": (((4, 12), np.float32), ((1,), np.float32)), "num": 2})
    assert [r[0] for r in rows[:3]] == ["step_0_result_0.y", "step_0_result_1.pair.0", "step_0_result_2.pair.1"]
    assert len(rows) == 6 and all(r[2] == "True" for r in rows)
    assert np.array_equal(a.fc.weight.detach().numpy(), b.fc.weight.detach().numpy())
    assert a.training and b.training
    out = capsys.readouterr().out
    assert "Parameter name of torch" in out and "PyTorch out" in out and "case 1: MindSpore net took" in out


def test_differences_are_shown(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((2, 12), np.float32))
    rows = Finder(net(torch), net(mt, gain=1.5), print_level=0, compare_params=False).compare([(str(tmp_path / "x.npy"),), (torch.ones(2, 12),)])
    assert [r[2] for r in rows] == ["False", "True", "False", "True"]
    assert "Parameter name" not in capsys.readouterr().out
    other = net(mt)
    mt.nn.init.ones_(other.fc.weight)
    kept = Finder(net(torch), other, 2, auto_conv_ckpt=0).compare((mt.ones(2, 12),))
    assert kept[0][2] == "False"
    assert "The list of comparison results for values" in capsys.readouterr().out


def test_weights_from_files(tmp_path):
    a = net(torch)
    torch.save(a.state_dict(), tmp_path / "a.pth")
    b, c = net(torch), net(mt)
    rows = Finder(b, c, 0, pt_params_path=tmp_path / "a.pth", ms_params_path=tmp_path / "a.pth").compare(auto_inputs=(((2, 12), np.float32),))
    assert all(r[2] == "True" for r in rows)
    assert torch.equal(b.fc.weight, a.fc.weight)
    with pytest.raises(ValueError, match="auto_conv_ckpt=0"):
        Finder(b, c, ms_params_path=tmp_path / "a.pth").compare(auto_inputs=(((2, 12), np.float32),))


def test_a_mindspore_cell(capsys):
    ms = pytest.importorskip("mindspore")

    class Cell(ms.nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc, self.bn = ms.nn.Dense(12, 3), ms.nn.BatchNorm1d(3)

        def construct(self, x):
            return self.bn(self.fc(x))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.bn = torch.nn.Linear(12, 3), torch.nn.BatchNorm1d(3)

        def forward(self, x):
            return self.bn(self.fc(x))

    rows = Finder(Net(), Cell()).compare(auto_inputs=(((4, 12), np.float32),))
    assert rows[0][:3] == ("step_0_result_0", "step_0_result_0", "True")
    assert "weight->gamma" in capsys.readouterr().out


def test_arguments():
    a, b = net(torch), net(mt)
    for error, make in (
        (TypeError, lambda: Finder(3, b)), (TypeError, lambda: Finder(a, "net")), (ValueError, lambda: Finder(a, b, 5)),
        (ValueError, lambda: Finder(a, b, auto_conv_ckpt=3)), (ValueError, lambda: Finder(a, b, pt_params_path="none.pth")),
        (ValueError, lambda: Finder(a, b).compare()), (TypeError, lambda: Finder(a, b).compare(np.ones(3))),
        (TypeError, lambda: Finder(a, b).compare(auto_inputs=((3,),))), (ValueError, lambda: Finder(a, b).compare(auto_inputs={"in": ()})),
    ):  # fmt: skip
        with pytest.raises(error):
            make()
