"""Checkpoints without a tensor class: every format read, hostile and broken files refused, writes atomic."""
# ruff: noqa: E501 - tables of cases are easier to read unwrapped

import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import types
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
from old_files import tar_checkpoint

import mindtorch.torch as mt
import torch
from mindtorch.formats import pth
from mindtorch.formats.pth_zip import ZipReader, ZipWriter

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


class Arrays(pth.Hooks):
    """Saves NumPy arrays as if they were storages' owners: enough to test the writer."""

    def storage_of(self, obj):
        return obj if isinstance(obj, pth.StorageData) else None


def torch_bytes(obj, **options):
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    return buffer.getvalue()


def rewound(file):
    file.seek(0)
    return file


def same(a, t):
    assert a.shape == tuple(t.shape) and a.dtype.name == str(t.dtype).removeprefix("torch.")
    assert tuple(s // a.itemsize for s in a.strides) == t.stride() or a.size == 0
    bits = t.contiguous().view(-1).view(torch.uint8) if t.dim() else t.reshape(1).view(torch.uint8)
    assert np.ascontiguousarray(a).reshape(-1).view(np.uint8).tolist() == bits.tolist()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype, legacy):
    x = (torch.arange(12.0) - 3).abs().to(dtype).reshape(3, 4)
    data = {"whole": x, "view": x[1:, ::2], "t": x.t(), "zero": x[:0], "scalar": x[0, 0]}
    try:
        raw = torch_bytes(data, _use_new_zipfile_serialization=not legacy)
        torch.load(io.BytesIO(raw))
    except (KeyError, AttributeError, RuntimeError):
        pytest.skip("PyTorch itself cannot")
    got = pth.load_arrays(io.BytesIO(raw))
    for key, t in data.items():
        same(got[key], t)
    assert np.shares_memory(got["whole"], got["view"]) and np.shares_memory(got["whole"], got["t"])
    assert got["whole"].flags.writeable


def test_deflated_and_renamed_archives():
    raw = torch_bytes({"w": torch.arange(5.0)})
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name.replace("archive/", "some name/"), old.read(name))
    assert pth.load_arrays(rewound(out))["w"].tolist() == [0, 1, 2, 3, 4]


def test_without_checksums():
    torch.serialization.set_crc32_options(False)
    try:
        raw = torch_bytes({"w": torch.arange(5.0)})
    finally:
        torch.serialization.set_crc32_options(True)
    assert pth.load_arrays(io.BytesIO(raw))["w"].tolist() == [0, 1, 2, 3, 4]


def big_endian(raw, widths):
    """A file of PyTorch's as a big-endian machine would have written it; ``widths`` are those of its storages."""
    out, left = io.BytesIO(), iter(widths)
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            if "/data/" in name:
                data = np.frombuffer(data, np.uint8).reshape(-1, next(left))[:, ::-1].tobytes()
            new.writestr(name, data)
    return rewound(out)


def test_big_endian_file():
    state = {"w": torch.arange(3.0), "c": torch.tensor([1 + 2j])}
    for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.float8_e5m2):
        state[str(dtype)] = torch.arange(1, 4).to(dtype)
    state["view"] = state["torch.uint32"][1:]
    file = big_endian(torch_bytes(state), (4, 4, 2, 4, 8, 1))
    for got in (pth.load_arrays(file), {k: v for k, v in mt.load(rewound(file)).items() if "float8" not in k}):
        for name, value in got.items():
            value = getattr(value, "a", value)
            bits = f"u{value.dtype.itemsize}" if value.dtype.itemsize < 8 else value.dtype
            want = state[name].view(torch.uint8).numpy() if "float8" in name else state[name].numpy()
            assert value.view(bits).tolist() == np.ascontiguousarray(want).view(bits).tolist(), name


def test_big_endian_bytes_of_unknown_type_are_refused():
    u = torch.arange(1, 5).to(torch.uint16)
    for state, widths in ((u.untyped_storage(), (2,)), ([u, u.view(torch.uint64)], (2,))):
        with pytest.raises(RuntimeError, match="big-endian and nothing in it says the dtype"):
            pth.load_arrays(big_endian(torch_bytes(state), widths))


def test_legacy_tar(tmp_path):
    path = tmp_path / "old.pth"
    path.write_bytes(tar_checkpoint().getvalue())
    got = pth.load_arrays(path)
    want = torch.load(path, weights_only=False)
    assert got["a"].tolist() == want["a"].tolist() and got["b"].tolist() == want["b"].tolist() == [2, 3, 4]
    got["b"][0] = 9
    assert got["a"][0, 2] == 9


# ------------------------------------------------------------------------------------------ refused


class Runs:
    def __reduce__(self):
        return os.system, ("touch /tmp/mindtorch-owned",)


class Evil:
    def __init__(self, fn, args):
        self.fn, self.args = fn, args

    def __reduce__(self):
        return self.fn, self.args


def zip_with(pickle_bytes):
    out = io.BytesIO()
    writer = ZipWriter(out, "archive")
    writer.record("data.pkl", pickle_bytes)
    writer.record("version", b"3\n")
    writer.close()
    out.seek(0)
    return out


HOSTILE = {
    "system": pickle.dumps(Runs(), 2),
    "eval": pickle.dumps(Evil(eval, ("1+1",)), 2),
    "getattr": pickle.dumps(Evil(getattr, ("", "join")), 2),
    "import": b"\x80\x02c__builtin__\n__import__\nX\x02\x00\x00\x00osq\x00\x85R.",
    "partial": b"\x80\x02cfunctools\npartial\n(cos\nsystem\nt R.",
    "dotted": b"\x80\x04\x8c\x0bcollections\x8c\x1cOrderedDict.fromkeys.__self__\x93.",
    "state of a function": b"\x80\x02ctorch._utils\n_rebuild_parameter\n}X\x08\x00\x00\x00__code__Nsb.",
    "slots of a class": b"\x80\x02ccollections\nOrderedDict\nN}X\x03\x00\x00\x00popK\x01s\x86b.",
    "call of a string": b"\x80\x02X\x02\x00\x00\x00os)R.",
    "call of a method": b"\x80\x02ccollections\nOrderedDict\n)R)R.",
    "inst": b"(ios\nsystem\n.",
    "obj": b"(cos\nsystem\no.",
    "ext": b"\x80\x02\x82\x01.",
    "encode to a file": b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.",
    "huge text": b"\x80\x02X\xff\xff\xff\xffa.",
    "memo": b"\x80\x02h\x07.",
    "no mark": b"\x80\x02t.",
    "empty": b"",
    "stops early": b"\x80\x02}q\x00",
    "two objects": b"\x80\x02}}.",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("container", ["zip", "legacy"])
def test_hostile_pickles_are_refused(name, container):
    if container == "zip":
        file = zip_with(HOSTILE[name])
    else:
        head = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
        file = io.BytesIO(head + HOSTILE[name])
    with pytest.raises(pickle.UnpicklingError):
        pth.load_arrays(file)
    assert not os.path.exists("/tmp/mindtorch-owned")


def rebuild(size, stride, offset, numel=4, key="0"):
    """A pickle of one float tensor with free choice of geometry."""

    class P(pickle.Pickler):
        def persistent_id(self, obj):
            return ("storage", torch.FloatStorage, key, "cpu", numel) if isinstance(obj, OrderedDict) else None

    out = io.BytesIO()
    P(out, 2).dump(Evil(torch._utils._rebuild_tensor_v2, (OrderedDict(), offset, size, stride, False, None)))
    return out.getvalue()


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((5,), (1,), 0),
        ((4,), (1,), 1),
        ((2,), (4,), 0),
        ((4,), (-1,), 3),
        ((2,), (1, 1), 0),
        ((1,), (1,), -1),
        ((2**40,), (1,), 0),
    ],
)
def test_tensors_outside_their_storage_are_refused(size, stride, offset):
    out = io.BytesIO()
    writer = ZipWriter(out, "x")
    writer.record("data.pkl", rebuild(size, stride, offset))
    writer.record("data/0", np.arange(4, dtype=np.float32))
    writer.close()
    with pytest.raises(RuntimeError, match="tensor"):
        pth.load_arrays(rewound(out))


def test_broken_files():
    raw = torch_bytes({"w": torch.arange(100.0)})
    old = torch_bytes({"w": torch.arange(100.0)}, _use_new_zipfile_serialization=False)
    flipped = bytearray(raw)
    flipped[raw.find(np.arange(100, dtype=np.float32).tobytes()) + 50] ^= 1
    with pytest.raises(RuntimeError, match="checksum"):
        pth.load_arrays(io.BytesIO(bytes(flipped)))
    for cut in (len(raw) - 1, len(raw) - 200, 600, 30):
        with pytest.raises(RuntimeError, match="truncated|corrupted"):
            pth.load_arrays(io.BytesIO(raw[:cut]))
    for cut in range(10, len(old) - 1, 37):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            pth.load_arrays(io.BytesIO(old[:cut]))
    with pytest.raises(EOFError):
        pth.load_arrays(io.BytesIO(b""))
    with pytest.raises(RuntimeError, match="Invalid magic number"):
        pth.load_arrays(io.BytesIO(pickle.dumps(5)))
    with pytest.raises(pickle.UnpicklingError):
        pth.load_arrays(io.BytesIO(b"hello world, this is no checkpoint"))
    with pytest.raises(FileNotFoundError):
        pth.load_arrays("/nowhere/at/all.pth")
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as z:
        z.writestr("a.txt", "x")
    with pytest.raises(RuntimeError, match=r"data\.pkl"):
        pth.load_arrays(rewound(plain))


def test_a_record_that_claims_to_be_huge_allocates_nothing():
    out = io.BytesIO()
    writer = ZipWriter(out, "x")
    writer.record("data.pkl", rebuild((4,), (1,), 0))
    writer.record("data/0", np.arange(4, dtype=np.float32))
    writer.entries[1] = (writer.entries[1][0], writer.entries[1][1], 1 << 45, 0)
    writer.close()
    with pytest.raises(RuntimeError, match="truncated"):
        pth.load_arrays(rewound(out))


# ------------------------------------------------------------------------------------------ writing


def test_layout_of_a_written_file(tmp_path):
    path = tmp_path / "my model.v2.pth"
    data = np.arange(1000, dtype=np.float32)
    storage = pth.StorageData("FloatStorage", data.view(np.uint8), "cpu", "k")
    pth.save({"s": storage, "n": [1, 2.5, None, "text"]}, path, Arrays())
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        names = z.namelist()
        assert names[0] == "my model.v2/data.pkl" and z.read("my model.v2/version") == b"3\n"
        assert z.read("my model.v2/byteorder") == b"little" and "my model.v2/.data/serialization_id" in names
    reader = ZipReader(open(path, "rb"), str(path))
    for info in reader.records.values():
        assert reader._offset(info) % 64 == 0
    assert reader.mapped("data/0").view(np.float32)[7] == 7
    got = torch.load(path)
    assert got["s"].tolist() == data.tolist() and got["n"] == [1, 2.5, None, "text"]


def test_zip64_directory():
    class Sink:
        """A file of 5 GB that keeps its first and last bytes only."""

        def __init__(self):
            self.parts = []

        def write(self, data):
            self.parts.append(data if len(data) < 1000 else len(data))

    sink = Sink()
    writer = ZipWriter(sink, "a")
    writer.at = 5 << 30
    writer.record("late", b"abc")
    writer.close()
    tail = b"".join(p for p in sink.parts if isinstance(p, bytes | memoryview))
    assert b"PK\x06\x06" in tail and b"PK\x06\x07" in tail and tail.endswith(b"\xff\xff\xff\xff\x00\x00")


def test_failure_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.pth"
    pth.save({"x": 1}, path, Arrays())
    before = path.read_bytes()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pth.save({"x": lambda: 1}, path, Arrays())

    def full(self, name, data, _real=ZipWriter.record):
        _real(self, name, data)
        if name == "byteorder":
            raise OSError(28, "No space left on device")

    real, ZipWriter.record = ZipWriter.record, full
    try:
        with pytest.raises(OSError, match="No space left"):
            pth.save({"x": 2}, path, Arrays())
    finally:
        ZipWriter.record = real
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.pth"]
    with pytest.raises(RuntimeError, match="Parent directory"):
        pth.save(1, tmp_path / "no" / "b.pth", Arrays())


def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "a.pth", tmp_path / "link.pth"
    pth.save(1, path, Arrays())
    path.chmod(0o640)
    link.symlink_to(path)
    pth.save(2, link, Arrays())
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640 and pth.load_arrays(path) == 2


def test_killed_while_saving_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.pth"
    pth.save({"x": 1}, path, Arrays())
    before = path.read_bytes()
    code = f"""
        import time
        from mindtorch.formats import pth, pth_zip
        real = pth_zip.ZipWriter.record
        def slow(self, name, data):
            real(self, name, data)
            self.file.flush()
            print("writing", flush=True)
            time.sleep(60)
        pth_zip.ZipWriter.record = slow
        pth.save({{"x": 2}}, {str(path)!r}, pth.Hooks())
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    assert child.stdout.readline().strip() == b"writing"
    time.sleep(0.1)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert path.read_bytes() == before and pth.load_arrays(path) == {"x": 1}


def test_unsafe_globals_are_listed():
    raw = torch_bytes({"a": torch.ones(1), "b": torch.nn.Linear(1, 1)})
    known = {
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch", "FloatStorage"),
        ("collections", "OrderedDict"),
        ("builtins", "set"),
    }
    got = pth.unsafe_globals(io.BytesIO(raw), lambda m, n: (m, n) in known)
    assert got == ["torch.nn.modules.linear.Linear", "torch._utils._rebuild_parameter"]


def test_other_picklers_change_nothing():
    code = """
        import pickle
        def meddle(self, obj):  # as dill does when it is imported
            raise AssertionError("the table of the standard pickler was asked")
        pickle._Pickler.dispatch[type] = pickle._Pickler.dispatch[dict] = meddle
        import io
        import mindtorch.torch as torch
        f = io.BytesIO()
        torch.save({"t": torch.ones(2), "d": torch.float32, "c": complex, "n": {1, 2}}, f)
        assert torch.load(io.BytesIO(f.getvalue()))["t"].tolist() == [1, 1]
        print("untouched")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.stdout == "untouched\n", done.stderr


class LambdaPickler(pickle._Pickler):
    """A pickler in Python that takes functions without a name, as dill's does."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_lambda(self, obj):
        if obj.__name__ != "<lambda>":
            return self.save_global(obj)
        return self.save_reduce(eval, ("lambda x: x + 1",), obj=obj)

    dispatch[type(lambda: 0)] = save_lambda


def test_another_pickler():
    module = types.ModuleType("other_pickle")
    module.__dict__.update(vars(pickle), Pickler=LambdaPickler)
    out = io.BytesIO()
    mt.save({"f": lambda x: x + 1, "n": mt.nn.Linear(1, 2), "g": mt.nn.functional.gelu, "d": OrderedDict}, out, pickle_module=module)
    for t in (mt, torch):
        got = t.load(io.BytesIO(out.getvalue()), pickle_module=module, weights_only=False)
        assert got["f"](1) == 2 and type(got["n"]) is t.nn.Linear and got["d"] is OrderedDict
        assert got["g"].__name__ == "gelu"
    with pytest.raises(TypeError, match="cannot use"):
        mt.save({}, out, pickle_module=types.SimpleNamespace(Pickler=object))


def test_objects_nested_as_deeply_as_pytorch_takes():
    obj, net = [], mt.nn.Identity()
    for _ in range(450):
        obj = [obj]
    for _ in range(150):
        net = mt.nn.Sequential(net)
    out = io.BytesIO()
    before = sys.getrecursionlimit()
    mt.save([obj, net], out)
    torch.save(obj, io.BytesIO())
    assert sys.getrecursionlimit() == before and len(mt.load(io.BytesIO(out.getvalue()), weights_only=False)) == 2
