"""Checkpoints of every age and kind as arrays and as tensors: 0.4.0, TorchScript, modules without class, sparse, float8."""

import gzip
import io
import mmap
import pickle
import struct
import tempfile
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from old_files import tar_checkpoint, version_040_checkpoint

import mindtorch.torch as mt
import torch
from mindtorch.formats import pth

GOLDEN = Path(__file__).with_name("golden")


def theirs(obj, **options):
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def bits(t):
    return t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same(a, t):
    """A NumPy array or a tensor of ours against one of PyTorch's, bit for bit."""
    a = a.detach().a if isinstance(a, mt.Tensor) else a
    assert a.shape == tuple(t.shape) and a.dtype.name == str(t.dtype).removeprefix("torch.")
    assert np.ascontiguousarray(a).tobytes() == bits(t)


@pytest.mark.parametrize("name", ["zip.pth", "legacy.pth"])
def test_goldens(name):
    want = torch.load(GOLDEN / name)
    for got in (pth.load_arrays(GOLDEN / name), mt.load(GOLDEN / name), pth.state_dict(GOLDEN / name)):
        assert list(got) == list(want)
        for key in want:
            same(got[key], want[key])


@pytest.mark.parametrize("safe", [True, False])
def test_files_of_mindtorch_040(safe):
    """They hold NumPy arrays beside dtypes, below class paths of that release."""
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    raw = version_040_checkpoint({"w": w, "b": w[0]})
    got = mt.load(io.BytesIO(raw), weights_only=safe)
    assert got["w"].dtype is mt.float32 and got["w"].tolist() == w.tolist() and got["b"].tolist() == [0, 1, 2]
    narrow = mt.load(io.BytesIO(version_040_checkpoint({"w": w}, "BFloat", 16)), weights_only=safe)
    assert narrow["w"].dtype is mt.bfloat16 and narrow["w"].tolist() == w.tolist()
    assert pth.load_arrays(io.BytesIO(raw))["w"].tolist() == w.tolist()


def test_numpy_arrays_are_not_allowed_elsewhere():
    out = io.BytesIO()
    torch.save({"a": np.ones(2)}, out)
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        mt.load(io.BytesIO(out.getvalue()))
    assert pth.load_arrays(io.BytesIO(out.getvalue()))["a"].tolist() == [1, 1]


@pytest.mark.parametrize("state", [(1, (3,), "f8", False, b"x" * 8), (1, (-1,), "f8", False, b""), (1, (2,), "O", False, b"x" * 16)])  # fmt: skip
def test_arrays_that_lie_are_refused(state):
    class Fake:
        def __reduce__(self):
            version, shape, kind, fortran, data = state
            return (
                np.core.multiarray._reconstruct,
                (np.ndarray, (0,), b"b"),
                (version, shape, np.dtype(kind), fortran, data),
            )

    with zipfile.ZipFile(out := io.BytesIO(), "w") as z:
        z.writestr("a/data.pkl", pickle.dumps(Fake(), 2))
    with pytest.raises(pickle.UnpicklingError):
        pth.load_arrays(io.BytesIO(out.getvalue()))


def test_torchscript(tmp_path):
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Sequential(torch.nn.Linear(4, 1))
    )
    path = tmp_path / "script.pt"
    torch.jit.save(torch.jit.script(net.eval()), str(path))
    for load in (mt.load, mt.jit.load):
        with pytest.raises(RuntimeError, match="mindtorch convert"):
            load(path)
    got, want = pth.state_dict(path), net.state_dict()
    assert got.keys() == want.keys()
    for key, value in want.items():
        same(got[key], value)
    entries = {e.name: e for e in pth.describe(path)}
    assert (
        entries["0.weight"] == ("0.weight", "float32", (4, 3), 48) and entries["1.num_batches_tracked"].dtype == "int64"
    )


class Net(torch.nn.Module):
    """A class that the reader cannot import."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(2, 2)
        self.register_buffer("kept", torch.ones(3))
        self.register_buffer("dropped", torch.ones(3), persistent=False)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))


def test_modules_without_their_class():
    net = Net()
    got = pth.state_dict(theirs({"model": net, "epoch": 3}))
    want = {f"model.{k}": v for k, v in net.state_dict().items()}
    assert list(got) == list(want)
    for key, value in want.items():
        same(got[key], value)
    kept = pth.load_arrays(theirs(net), unknown="keep")
    assert isinstance(kept, pth.Unknown) and kept.name == "Net"
    with pytest.raises(pickle.UnpicklingError):
        pth.load_arrays(theirs(net))
    loop = []
    loop.append({"again": loop})
    with pytest.raises(RuntimeError, match="contains itself"):
        pth.state_dict(theirs(loop))


def test_descriptions_read_nothing(tmp_path):
    path = tmp_path / "a.pth"
    torch.save({"model": {"w": torch.ones(2, 3).bfloat16()}, "step": 1, "l": [torch.ones(1)]}, path)
    assert [tuple(e) for e in pth.describe(path)] == [("model.w", "bfloat16", (2, 3), 12), ("l.0", "float32", (1,), 4)]
    assert [e.name for e in pth.describe(io.BytesIO(path.read_bytes()))] == ["model.w", "l.0"]


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
@pytest.mark.parametrize("legacy", [False, True])
def test_sparse_tensors_become_dense(layout, legacy):
    dense = torch.arange(24.0).reshape(4, 6) * (torch.arange(24).reshape(4, 6) % 5 == 0)
    kwargs = {"blocksize": (2, 3)} if layout in ("sparse_bsr", "sparse_bsc") else {}
    file = theirs(
        {"s": dense.to_sparse(layout=getattr(torch, layout), **kwargs)}, _use_new_zipfile_serialization=not legacy
    )
    assert mt.load(file)["s"].tolist() == dense.tolist()
    file.seek(0)
    assert pth.load_arrays(file)["s"]["layout"] == f"torch.{layout}"


def test_sparse_details():
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1]]), torch.tensor([[1.0, 2], [3, 4], [5, 6]]), (3, 2))
    assert mt.load(theirs(twice)).tolist() == twice.to_dense().tolist()
    huge = torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1), (1 << 20, 1 << 20))
    with pytest.raises(RuntimeError, match="too many"):
        mt.load(theirs(huge))


def test_float8_is_raw():
    x = torch.tensor([1.0, -2.0, 0.5]).to(torch.float8_e4m3fn)
    got = mt.load(theirs({"x": x}))["x"]
    assert got.dtype is mt.uint8 and got.tolist() == x.view(torch.uint8).tolist()
    same(pth.load_arrays(theirs({"x": x}))["x"], x)


def test_quantized_tensors_are_refused_clearly():
    q = torch.quantize_per_tensor(torch.ones(3), 0.1, 10, torch.quint8)
    half = torch.ones(2, dtype=torch.complex32)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    for tensor, match in ((q, r"quantized.*dequantize\(\)"), (half, "complex32.*complex64"), (nested, r"nested.*unbind\(\)")):
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match=match):
            mt.load(theirs(tensor))
    assert pth.load_arrays(theirs(q))["int_repr"].tolist() == q.int_repr().tolist()


def test_tar_as_tensors():
    got = mt.load(tar_checkpoint())
    assert got["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and got["b"].tolist() == [2, 3, 4]


def test_conjugates_and_views_of_legacy_files():
    z = torch.tensor([1 + 2j, 3 - 1j])
    for new in (True, False):
        got = mt.load(theirs({"z": z, "c": z.conj()}, _use_new_zipfile_serialization=new))
        assert got["c"].tolist() == z.conj().tolist()
        negative = mt.load(theirs(z.conj().imag, _use_new_zipfile_serialization=new))
        assert negative.tolist() == z.conj().imag.tolist()


def test_mmap_maps(tmp_path):
    path = tmp_path / "a.pth"
    torch.save({"w": torch.arange(1 << 20)}, path)
    got = mt.load(path, mmap=True)["w"]
    assert str(path) in Path("/proc/self/maps").read_text() and got[-1].item() == (1 << 20) - 1
    got[0] = 5
    assert torch.load(path)["w"][0].item() == 0
    torch.save({"w": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        mt.load(path, mmap=True)


@pytest.mark.parametrize("lib", [torch, mt])
def test_mmap_shared_writes_to_the_file(lib, tmp_path):
    path = tmp_path / "a.pth"
    lib.save({"w": lib.arange(6.0), "other": lib.ones(3)}, path)
    with mt.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        for _ in range(2):
            mt.load(path, mmap=True)["w"][0] = 7
    assert mt.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    mt.load(path, mmap=True)["w"][1] = 8
    # What was written is no damage, although the checksum of the file was another one.
    for reader in (torch, mt):
        assert reader.load(path)["w"].tolist() == [7, 1, 2, 3, 4, 5]
    raw = path.read_bytes()
    assert raw.count(np.ones(3, "f4").tobytes()) == 1
    with zipfile.ZipFile(path) as z:
        sums = {i.filename: i.CRC for i in z.infolist()}
    assert [n for n, crc in sums.items() if not crc] == ["a/data/0", "a/data/1"]


def test_skip_data_leaves_room(tmp_path):
    """The file of PyTorch's skip_data and ours are filled by hand, then read by both."""
    path, values = tmp_path / "a.pth", np.arange(1000, dtype=np.float32)
    for lib, state in ((torch, torch.zeros(1000)), (mt, mt.zeros(1000))):
        with lib.serialization.skip_data():
            lib.save({"w": state}, path)
            with pytest.raises(RuntimeError, match="Cannot use skip_data=True"):
                lib.save({"w": state}, tmp_path / "b", _use_new_zipfile_serialization=False)
        with zipfile.ZipFile(path) as z:
            info = z.getinfo("a/data/0")
            head = path.read_bytes()[info.header_offset :]
        assert info.CRC == 0 and info.file_size == 4000
        at = info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        assert not any(head[at - info.header_offset :][:4000])
        with open(path, "r+b") as f:
            f.seek(at)
            f.write(values.tobytes())
        for reader in (torch, mt):
            assert reader.load(path)["w"].tolist() == values.tolist()
        with mt.serialization.skip_data():
            assert mt.load(path)["w"].shape == (1000,)


def test_archives_zipped_again(tmp_path):
    """Stored or deflated, in another folder, behind other bytes, with descriptors instead of sizes."""
    raw = theirs({"w": torch.arange(5.0)}).getvalue()

    class Stream(io.BytesIO):
        def seekable(self):
            return False

    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for out in (io.BytesIO(), Stream()):
            with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w", method) as new:
                for name in old.namelist():
                    new.writestr(name.replace("archive/", "run 1/best/"), old.read(name))
            path = tmp_path / "again.pth"
            path.write_bytes(out.getvalue())
            assert mt.load(path)["w"].tolist() == mt.load(io.BytesIO(out.getvalue()))["w"].tolist() == [0, 1, 2, 3, 4]
    shifted = io.BytesIO(b"before" + raw)
    shifted.seek(6)
    assert mt.load(shifted)["w"].tolist() == [0, 1, 2, 3, 4]


class Reader18(pickle.Unpickler):
    """What PyTorch 1.8 knows: names, and persistent ids of five parts."""

    known = {"_rebuild_tensor_v2", "_rebuild_parameter", "OrderedDict", "FloatStorage", "LongStorage", "HalfStorage"}

    def find_class(self, module, name):
        assert module in ("torch", "torch._utils", "collections") and name in self.known, (module, name)
        if name.endswith("Storage"):
            return name
        return OrderedDict if name == "OrderedDict" else lambda *args: (name, args)

    def persistent_load(self, pid):
        kind, cls, key, location, count = pid
        assert kind == "storage" and location == "cpu" and isinstance(key, str)
        return cls, key, count


def test_readers_of_version_18():
    net = mt.nn.Sequential(mt.nn.Linear(2, 3), mt.nn.BatchNorm1d(3))
    out = io.BytesIO()
    mt.save({"model": net.state_dict(), "p": mt.nn.Parameter(mt.ones(2)), "h": mt.ones(1).half()}, out)
    with zipfile.ZipFile(out) as z:
        assert z.testzip() is None and int(z.read("archive/version")) == 3
        assert {n.split("/")[0] for n in z.namelist()} == {"archive"}
        got = Reader18(io.BytesIO(z.read("archive/data.pkl"))).load()
        kind, (storage, offset, size, stride, grad, hooks) = got["model"]["0.weight"]
        assert kind == "_rebuild_tensor_v2" and (offset, size, stride, grad) == (0, (3, 2), (2, 1), False)
        assert z.read(f"archive/data/{storage[1]}") == net[0].weight.detach().numpy().tobytes() and storage[2] == 6


def test_random_states_and_options():
    mt.manual_seed(5)
    state = mt.get_rng_state()
    file = io.BytesIO()
    mt.save({"cpu": state, "numpy": np.random.RandomState(0).get_state()[1].tolist()}, file)
    mt.set_rng_state(mt.load(io.BytesIO(file.getvalue()))["cpu"])
    torch.set_rng_state(torch.load(io.BytesIO(file.getvalue()))["cpu"])
    assert mt.rand(3).tolist() == torch.rand(3).tolist()
    mt.serialization.set_crc32_options(False)
    try:
        out = io.BytesIO()
        mt.save({"w": mt.ones(3)}, out)
    finally:
        mt.serialization.set_crc32_options(True)
    assert all(i.CRC == 0 for i in zipfile.ZipFile(out).infolist())
    assert torch.load(io.BytesIO(out.getvalue()))["w"].tolist() == mt.load(io.BytesIO(out.getvalue()))["w"].tolist()


def test_errors_of_map_location_are_the_callers():
    def locate(storage, location):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mt.load(theirs({"w": torch.ones(1)}), map_location=locate)


class Trickle(io.RawIOBase):
    """A file without a buffer, which gives less than it is asked for."""

    def __init__(self, data):
        super().__init__()
        self.inner = io.BytesIO(data)

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, *args):
        return self.inner.seek(*args)

    def tell(self):
        return self.inner.tell()

    def readinto(self, buffer):
        data = self.inner.read(min(len(buffer), 700))
        buffer[: len(data)] = data
        return len(data)


@pytest.mark.parametrize("legacy", [False, True])
def test_any_file_object(legacy, tmp_path):
    out = io.BytesIO()
    torch.save({f"w{i}": torch.arange(1000.0) for i in range(30)}, out, _use_new_zipfile_serialization=not legacy)
    for file in (Trickle(out.getvalue()), open(tmp_path / "a", "w+b", buffering=0), tempfile.SpooledTemporaryFile(10)):  # noqa: SIM115
        with file:
            if not isinstance(file, Trickle):
                file.write(out.getvalue())
                file.seek(0)
            assert all((w == mt.arange(1000.0)).all() for w in mt.load(file).values())


OTHERS = {
    "web page": b"\n <!DOCTYPE html><html>", "Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "JSON": b'{ "a": 1}', "compressed": gzip.compress(b"x"), "safetensors": struct.pack("<Q", 9) + b'{"a":[]}',
    "NumPy array": b"\x93NUMPY\x01\x00", "MindSpore": b"\n\x1c\n\x01a\x12\x17", "magic number": pickle.dumps({"a": 1}),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_other_files_are_named(what):
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=what):
        mt.load(io.BytesIO(OTHERS[what]))


def test_text_files_and_arrays_are_refused(tmp_path):
    with pytest.raises(TypeError, match="mode 'rb'"):
        mt.load(io.StringIO("text"))
    np.savez(tmp_path / "a.npz", a=np.ones(2))
    with pytest.raises(RuntimeError, match=r"numpy\.load"):
        mt.load(tmp_path / "a.npz")
