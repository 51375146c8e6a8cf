"""convert_to_ms_tensor and its inverse, with real PyTorch tensors."""

import os
import subprocess
import sys
from collections import OrderedDict, UserDict, defaultdict, namedtuple

import ml_dtypes
import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.tools import convert_to_ms_tensor, convert_to_torch_tensor

DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64 complex64 complex128".split()
Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_ways_share_memory_and_keep_strides(dtype):
    t = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)).t()
    ours = convert_to_ms_tensor(t)
    assert type(ours) is mt.Tensor and ours.dtype is getattr(mt, dtype) and tuple(ours.shape) == (3, 2)
    assert ours.data_ptr() == t.data_ptr() and ours.stride() == t.stride()
    back = convert_to_torch_tensor(ours)
    assert back.data_ptr() == t.data_ptr() and back.dtype == t.dtype and torch.equal(back, t)
    ours.zero_()
    assert not t.bool().any()


def test_containers_keep_their_types():
    data = {
        "tuple": (torch.ones(2), [torch.zeros(1)], ()), "pair": Pair(torch.ones(1), "x"), "ordered": OrderedDict(a=torch.ones(1)),
        "default": defaultdict(list, {1: torch.ones(1)}), "user": UserDict(a=torch.ones(1)), "deep": [[[{"k": (torch.ones(1),)}]]],
    }  # fmt: skip
    got = convert_to_ms_tensor(data)

    def check(a, b, tensor):
        assert type(a) is type(b) or isinstance(b, tensor)
        if isinstance(b, tensor):
            assert isinstance(a, (torch.Tensor, mt.Tensor)) and np.array_equal(a.numpy(), b.numpy())
        elif isinstance(a, (dict, UserDict)):
            assert list(a) == list(b)
            for k in a:
                check(a[k], b[k], tensor)
        elif isinstance(a, (tuple, list)):
            assert len(a) == len(b)
            for x, y in zip(a, b):
                check(x, y, tensor)

    check(data, got, mt.Tensor)
    check(got, convert_to_torch_tensor(got), torch.Tensor)
    assert got["default"].default_factory is list and isinstance(got["pair"], Pair)


def test_plain_values():
    got = convert_to_ms_tensor([True, None, "s", b"b", 3, 2.5, 1j, np.float16(2), np.bool_(True), np.array(["x"]), range(2)])
    assert got[:4] == [True, None, "s", b"b"] and got[0] is True
    assert [t.dtype for t in got[4:9]] == [mt.int64, mt.float32, mt.complex64, mt.float16, mt.bool]
    assert all(t.dim() == 0 for t in got[4:9]) and isinstance(got[9], np.ndarray)
    assert [t.item() for t in got[10]] == [0, 1]


def test_arrays():
    a = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(convert_to_ms_tensor(a).numpy(), a)
    for b in (a[::-1], a.astype(">f8"), np.broadcast_to(a[0], (2, 3))):
        t = convert_to_ms_tensor(b)
        assert np.array_equal(t.numpy(), b)
        t.add_(1)  # a copy of its own: nothing else changes
    assert np.array_equal(a, np.arange(6.0).reshape(2, 3))
    bf = np.ones(2, ml_dtypes.bfloat16)
    assert convert_to_ms_tensor(bf).dtype is mt.bfloat16 and convert_to_torch_tensor(bf).dtype == torch.bfloat16


def test_gradients_conjugates_and_parameters():
    p = torch.nn.Parameter(torch.ones(2))
    ours = convert_to_ms_tensor(p)
    assert not ours.requires_grad and ours.data_ptr() == p.data_ptr()
    c = torch.tensor([1 + 2j])
    assert convert_to_ms_tensor(c.conj()).tolist() == [1 - 2j] and convert_to_ms_tensor(c.conj().imag).tolist() == [-2.0]
    q = mt.nn.Parameter(mt.ones(2))
    assert convert_to_torch_tensor(q).requires_grad is False
    assert convert_to_torch_tensor(convert_to_ms_tensor(c).conj()).tolist() == [1 - 2j]
    x = mt.ones(1)
    assert convert_to_ms_tensor(x) is x and convert_to_torch_tensor(p) is p
    assert convert_to_torch_tensor(mt.ones(1, 3).expand(2, 3)).shape == (2, 3)


def test_packed_sequences():
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.zeros(1)])
    ours = convert_to_ms_tensor(packed)
    assert isinstance(ours, mt.nn.utils.rnn.PackedSequence) and ours.batch_sizes.tolist() == packed.batch_sizes.tolist()
    assert mt.nn.utils.rnn.pad_packed_sequence(ours)[0].tolist() == torch.nn.utils.rnn.pad_packed_sequence(packed)[0].tolist()
    assert isinstance(convert_to_torch_tensor(ours), torch.nn.utils.rnn.PackedSequence)


@pytest.mark.parametrize("bad", [object(), {1, 2}, torch.eye(2).to_sparse(), torch.empty(2, device="meta"),
                                 torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), torch.ones])  # fmt: skip
def test_what_cannot_be_converted(bad):
    with pytest.raises(TypeError, match="convert_to_ms_tensor takes"):
        convert_to_ms_tensor([bad])


def test_meta_tensors_have_nothing_to_convert():
    with pytest.raises(TypeError, match="meta"):
        convert_to_torch_tensor(mt.empty(2, device="meta"))


def test_mindspore_tensors():
    ms = pytest.importorskip("mindspore")
    t = ms.Tensor([1.5, 2.0], ms.bfloat16)
    assert convert_to_ms_tensor({"x": t})["x"].dtype is mt.bfloat16
    assert convert_to_torch_tensor(t).tolist() == [1.5, 2.0]
    assert convert_to_ms_tensor(ms.Tensor(3)).item() == 3


def test_a_dataloaders_batches_train_a_mindtorch_net():
    data = torch.utils.data.TensorDataset(torch.randn(8, 3), torch.arange(8) % 2)
    net = mt.nn.Linear(3, 2)
    for x, y in map(convert_to_ms_tensor, torch.utils.data.DataLoader(data, 4)):
        mt.nn.functional.cross_entropy(net(x), y).backward()
    assert net.weight.grad.abs().sum() > 0


def test_pytorch_is_not_needed_for_other_data():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from mindtorch.tools import convert_to_ms_tensor, convert_to_torch_tensor\n"
        "print(convert_to_ms_tensor((np.ones(2), 3)))\n"
        "try: convert_to_torch_tensor(np.ones(2))\n"
        "except ImportError as e: print('needs', e)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.path.join(os.path.dirname(__file__), "..", "..", "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert "tensor(3)" in done.stdout and "needs" in done.stdout and "pip install torch" in done.stdout, done.stderr
