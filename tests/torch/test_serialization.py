"""torch.save and torch.load both ways against PyTorch; pickling, copying, storages."""
# ruff: noqa: E501 - tables of cases are easier to read unwrapped

import collections
import copy
import importlib
import io
import mmap
import pickle
import zipfile

import numpy as np
import pytest

import mindtorch.torch as mt
import torch

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32",
          "uint64", "bool", "complex64", "complex128"]  # fmt: skip


def ours(obj, **options):
    buffer = io.BytesIO()
    mt.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def theirs(obj, **options):
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def equal(a, b):
    """Our tensor against PyTorch's, bit for bit."""
    assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype) and a.requires_grad == b.requires_grad
    assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
    x = np.ascontiguousarray(a.detach().a).reshape(-1).view(np.uint8)
    y = b.detach().contiguous().reshape(-1).view(torch.uint8)
    assert x.tolist() == y.tolist()


@pytest.mark.parametrize(
    ("dtype", "legacy"),
    # PyTorch cannot read uint16 to uint64 from a legacy stream
    [(d, legacy) for d in DTYPES for legacy in (False, True) if not (legacy and d in ("uint16", "uint32", "uint64"))],
)
def test_tensors_both_ways(dtype, legacy):
    def build(t):
        x = t.arange(12).to(getattr(t, dtype)).reshape(3, 4)
        return {"x": x, "v": x[1:, ::2], "t": x.t(), "e": x[:0], "s": x[2, 3], "l": [x[0], (x[1],)]}

    options = {"_use_new_zipfile_serialization": not legacy}
    a = mt.load(theirs(build(torch), **options))
    b = torch.load(ours(build(mt), **options))
    c = mt.load(ours(build(mt), **options))
    for key in "xvtes":
        equal(a[key], build(torch)[key])
        equal(build(mt)[key], b[key])
        equal(c[key], b[key])
    for loaded in (a, b, c):
        first = loaded["x"].untyped_storage().data_ptr()
        assert loaded["v"].untyped_storage().data_ptr() == first
    a["x"][1, 0] = 1
    a["v"].zero_()
    assert not bool(a["x"][1:, ::2].any())


def test_everything_a_checkpoint_holds():
    def build(t):
        meta = collections.OrderedDict(
            w=t.nn.Parameter(t.arange(3.0)), frozen=t.nn.Parameter(t.ones(2), requires_grad=False)
        )
        meta._metadata = {"": {"version": 1}}
        return {
            "meta": meta, "size": t.Size([1, 2]), "dtype": t.float16, "device": t.device("cpu"), "set": {1, 2},
            "counter": collections.Counter("aab"), "text": "ü", "bytes": b"\x00\xff", "big": 1 << 70, "none": None,
            "tuple": (1, 2.5, True, 1j), "grad": t.ones(2, requires_grad=True), "array": bytearray(b"x"),
        }  # fmt: skip

    for protocol in (2, 3, 4, 5):
        got = mt.load(ours(build(mt), pickle_protocol=protocol))
        assert type(got["meta"]["w"]) is mt.nn.Parameter and got["meta"]._metadata == {"": {"version": 1}}
    got, want = torch.load(ours(build(mt))), build(torch)
    back, mine = mt.load(theirs(build(torch))), build(mt)
    for loaded, expected, t in ((got, want, torch), (back, mine, mt)):
        assert list(loaded) == list(expected)
        for key in expected:
            if key not in ("meta", "grad"):
                assert loaded[key] == expected[key] and type(loaded[key]) is type(expected[key]), key
        assert type(loaded["meta"]["w"]) is t.nn.Parameter and loaded["meta"]["w"].tolist() == [0, 1, 2]
        assert not loaded["meta"]["frozen"].requires_grad and loaded["meta"]._metadata == {"": {"version": 1}}
        assert loaded["grad"].requires_grad and loaded["grad"].is_leaf


def test_modules_and_optimizers():
    def build(t):
        t.manual_seed(0)
        net = t.nn.Sequential(t.nn.Linear(4, 3), t.nn.BatchNorm1d(3), t.nn.ReLU())
        opt = t.optim.Adam(net.parameters(), lr=0.1)
        net(t.ones(5, 4)).sum().backward()
        opt.step()
        return net, opt

    net, opt = build(mt)
    theirs_net, theirs_opt = build(torch)
    both = {"model": net.state_dict(), "opt": opt.state_dict()}
    loaded = torch.load(ours(both))
    theirs_net.load_state_dict(loaded["model"])
    theirs_opt.load_state_dict(loaded["opt"])
    state = mt.load(theirs({"model": theirs_net.state_dict(), "opt": theirs_opt.state_dict()}))
    assert list(state["model"]) == list(net.state_dict())
    net.load_state_dict(state["model"])
    opt.load_state_dict(state["opt"])
    for name, value in net.state_dict().items():
        equal(value, theirs_net.state_dict()[name])


def test_whole_modules_travel_both_ways():
    mt.manual_seed(0)
    net = mt.nn.Sequential(mt.nn.Linear(4, 3), mt.nn.BatchNorm1d(3), mt.nn.ReLU(), mt.nn.Dropout(0.5)).eval()
    file = ours(net)
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        mt.load(file)
    file.seek(0)
    there = torch.load(file, weights_only=False)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    want = there(torch.from_numpy(x))
    np.testing.assert_allclose(net(mt.from_numpy(x)).detach().numpy(), want.detach().numpy(), rtol=1e-6, atol=1e-7)
    here = mt.load(theirs(there), weights_only=False)
    assert type(here) is mt.nn.Sequential and repr(here) == repr(net)
    np.testing.assert_allclose(here(mt.from_numpy(x)).detach().numpy(), want.detach().numpy(), rtol=1e-6, atol=1e-7)


def test_files_on_disk(tmp_path):
    want = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).state_dict()
    for zipped in (True, False):
        torch.save(want, tmp_path / "theirs.pth", _use_new_zipfile_serialization=zipped)
        sd = mt.load(tmp_path / "theirs.pth")
        assert list(sd) == list(want)
        for key in want:
            equal(sd[key], want[key])
    path = tmp_path / "big.pth"
    mt.save({"w": mt.arange(100000.0)}, path)
    mapped = mt.load(path, mmap=True)["w"]
    assert mapped[12345].item() == 12345
    mapped[0] = 7
    assert mt.load(str(path))["w"][0].item() == 0
    assert torch.load(path, mmap=True)["w"][5].item() == 5
    with pytest.raises(ValueError, match="file path"):
        mt.load(io.BytesIO(path.read_bytes()), mmap=True)
    with zipfile.ZipFile(path) as z:
        assert z.namelist()[0] == "big/data.pkl"


def test_map_location():
    file = theirs([torch.ones(2), torch.zeros(1)])
    raw = file.getvalue().replace(b"cpuq", b"cpuq")
    cuda = raw  # PyTorch names the location in the pickle: exchange it
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(cuda)) as a, zipfile.ZipFile(out, "w") as b:
        for n in a.namelist():
            data = a.read(n)
            b.writestr(
                n, data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0") if n.endswith(".pkl") else data
            )
    with pytest.raises(RuntimeError, match="map_location"):
        mt.load(io.BytesIO(out.getvalue()))
    for where in ("cpu", mt.device("cpu"), {"cuda:0": "cpu"}, lambda s, loc: s):
        assert mt.load(io.BytesIO(out.getvalue()), map_location=where)[0].tolist() == [1, 1]
    seen = []
    mt.load(io.BytesIO(out.getvalue()), map_location=lambda s, loc: seen.append((type(s), loc)) or s)
    assert seen == [(mt.UntypedStorage, "cuda:0")] * 2
    meta = mt.load(io.BytesIO(raw), map_location="meta")
    assert meta[0].device.type == "meta" and tuple(meta[0].shape) == (2,)
    with pytest.raises(RuntimeError, match="don't know how to restore"):
        mt.load(io.BytesIO(raw), map_location="foo")


def test_safe_globals():
    file = ours({"a": np.float64(3.5), "b": np.arange(3)})
    with pytest.raises(pickle.UnpicklingError, match=r"numpy.*scalar.*add_safe_globals"):
        mt.load(file)
    file.seek(0)
    assert "numpy.core.multiarray.scalar" in mt.serialization.get_unsafe_globals_in_checkpoint(file)
    from numpy.core.multiarray import _reconstruct, scalar

    allowed = [scalar, _reconstruct, np.ndarray, np.dtype, type(np.dtype("f8")), type(np.dtype("i8"))]
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        mt.load(file)
    file.seek(0)
    with mt.serialization.safe_globals(allowed[:0]):
        assert mt.serialization.get_safe_globals() == []
    file.seek(0)
    got = mt.load(file, weights_only=False)
    assert got["a"] == 3.5 and got["b"].tolist() == [0, 1, 2]


class Thing:
    def __init__(self):
        self.x = mt.ones(2)


def test_classes_of_the_user():
    file = ours(Thing())
    with pytest.raises(pickle.UnpicklingError, match="Thing"):
        mt.load(file)
    file.seek(0)
    with mt.serialization.safe_globals([Thing]):
        assert mt.load(file).x.tolist() == [1, 1]
    file.seek(0)
    assert type(mt.load(file, weights_only=False)) is Thing


def test_arguments():
    file = ours(mt.ones(1))
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        mt.load(file, pickle_module=pickle, weights_only=True)
    with pytest.raises(TypeError):
        mt.load(file, nonsense=1)
    with pytest.raises(AttributeError, match="seekable"):
        mt.load(5)
    with pytest.raises(AttributeError, match="write"):
        mt.save(1, 5)
    x = mt.arange(4.0)
    with pytest.raises(RuntimeError, match="different types"):
        mt.save([x, x.view(mt.int32)], io.BytesIO())


def test_script_archives_are_explained(tmp_path):
    path = str(tmp_path / "s.pt")
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), path)
    with pytest.raises(RuntimeError, match="TorchScript"):
        mt.load(path)


def test_pickle_and_deepcopy():
    x = mt.arange(6.0).reshape(2, 3)
    y = x.t()
    assert pickle.loads(pickle.dumps(y)).tolist() == y.tolist()
    assert pickle.loads(pickle.dumps(y)).stride() == y.stride()
    p = pickle.loads(pickle.dumps(mt.nn.Parameter(x)))
    assert type(p) is mt.nn.Parameter and p.requires_grad
    a, b = copy.deepcopy([x, y])
    a[0, 1] = 9
    assert b[1, 0].item() == 9 and x[0, 1].item() == 1
    leaf = mt.ones(2, requires_grad=True)
    (leaf * 2).sum().backward()
    twin = copy.deepcopy(leaf)
    assert twin.requires_grad and twin.grad.tolist() == [2, 2] and twin.grad is not leaf.grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(leaf * 2)
    x.note = "kept"
    assert copy.deepcopy(x).note == "kept" and pickle.loads(pickle.dumps(x)).note == "kept"
    for value in (mt.float32, mt.Size([1, 2]), mt.device("cpu")):
        assert pickle.loads(pickle.dumps(value)) == value and copy.deepcopy(value) == value


def test_storages():
    x, y = mt.arange(4.0), torch.arange(4.0)
    s, r = x.untyped_storage(), y.untyped_storage()
    assert repr(s) == repr(r) and len(s) == len(r) == s.nbytes() and s.tolist() == r.tolist() and s[7] == r[7]
    assert repr(s[4:8]) == repr(r[4:8])
    s[3] = 64
    assert x[0].item() == 2.0
    assert x[1:].untyped_storage().data_ptr() == s.data_ptr()
    t, u = x.storage(), y.storage()
    assert repr(t).splitlines()[-1] == repr(u).splitlines()[-1] and t[1] == 1.0 and t.type() == u.type()
    assert isinstance(t, mt.FloatStorage) and not isinstance(t, mt.IntStorage)
    assert mt.FloatStorage([1, 2]).tolist() == [1.0, 2.0] and mt.FloatStorage(3).size() == 3
    assert t.long().tolist() == [2, 1, 2, 3]
    z = s.clone().fill_(0)
    assert x[1].item() == 1.0 and z.tolist() == [0] * 16
    with pytest.raises(RuntimeError, match="memory of a tensor"):
        s.resize_(100)
    assert mt.UntypedStorage(4).resize_(8).nbytes() == 8
    restored = pickle.loads(pickle.dumps(t))
    assert restored.tolist() == t.tolist()


class Sub(mt.Tensor):
    """A subclass of the user's."""


def test_generators_and_subclasses():
    file = ours({"g": mt.Generator().manual_seed(3), "state": mt.get_rng_state()})
    there = torch.load(file, weights_only=False)
    assert there["g"].initial_seed() == 3
    want = torch.rand(3, generator=torch.Generator().manual_seed(3)).tolist()
    assert torch.rand(3, generator=there["g"]).tolist() == want
    here = mt.load(theirs(torch.Generator().manual_seed(3)), weights_only=False)
    assert mt.rand(3, generator=here).tolist() == want
    assert mt.rand(3, generator=copy.deepcopy(mt.Generator().manual_seed(3))).tolist() == want
    sub = mt.load(ours(mt.ones(2).as_subclass(Sub)), weights_only=False)
    assert type(sub) is Sub and repr(sub) == "Sub([1., 1.])"


@pytest.mark.parametrize("t", [mt, torch])
def test_settings_by_name(t, tmp_path):
    config = importlib.import_module(f"{t.__name__}.utils.serialization").config
    before = {k: v for k, v in config.get_config_copy().items() if k[0] != "_"}
    assert before == {
        "load.mmap": False, "load.endianness": None, "load.mmap_flags": mmap.MAP_PRIVATE, "load.calculate_storage_offsets": False,
        "save.compute_crc32": True, "save.use_pinned_memory_for_d2h": False, "save.storage_alignment": 64,
    }  # fmt: skip
    with config.patch({"save.storage_alignment": 4096, "save.compute_crc32": False}):
        assert not t.serialization.get_crc32_options() and config.save.storage_alignment == 4096
        t.save({"w": t.arange(3), "v": t.ones(2)}, tmp_path / "a.pth")
    with zipfile.ZipFile(tmp_path / "a.pth") as z:
        assert all(i.CRC == 0 for i in z.infolist())
    raw = (tmp_path / "a.pth").read_bytes()
    assert b"4096" in raw and raw.index(np.arange(3).tobytes()) % 4096 == 0 and raw.index(np.ones(2, "f4").tobytes()) % 4096 == 0
    for other in (mt, torch):
        assert other.load(tmp_path / "a.pth", mmap=True)["w"].tolist() == [0, 1, 2]
    assert config.patch("load.mmap", True)(lambda: config.load.mmap)() is True and config.load.mmap is False
    with pytest.raises(AttributeError, match="save.nothing does not exist"):
        config.save.nothing = 1


def test_settings_are_checked_and_have_effect(tmp_path):
    config = mt.utils.serialization.config
    mt.save(mt.ones(2), tmp_path / "a.pth")
    with config.patch("load.mmap", True):
        assert mt.load(tmp_path / "a.pth").untyped_storage().filename == str(tmp_path / "a.pth")
    assert mt.load(tmp_path / "a.pth").untyped_storage().filename is None
    for name, value, error in (
        ("save.storage_alignment", 0, ValueError), ("load.endianness", "big", TypeError), ("load.nothing", 1, AttributeError)
    ):  # fmt: skip
        with pytest.raises(error), config.patch(name, value):
            pass
    assert set(dir(config.load)) == {"mmap", "endianness", "mmap_flags", "calculate_storage_offsets"}
