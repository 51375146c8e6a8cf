"""MindSpore checkpoints, against MindSpore itself."""

import io
import os

import ml_dtypes
import numpy as np
import pytest

from mindtorch.formats import ckpt

ms = pytest.importorskip("mindspore")

DTYPES = [np.dtype(t) for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")]
DTYPES.append(np.dtype(ml_dtypes.bfloat16))
SHAPES = [(), (1,), (3,), (2, 3), (2, 1, 4, 1), (0, 3)]


def values():
    rng = np.random.default_rng(0)
    return {f"{d.name}.{i}": rng.integers(0, 2, s).astype(d) for d in DTYPES for i, s in enumerate(SHAPES)}


def from_ms(t):
    a = t.asnumpy()
    a = a.view(np.uint16).view(ml_dtypes.bfloat16) if a.dtype.name == "bfloat16" else a
    return a.reshape(tuple(t.shape))


def test_mindspore_reads_what_we_write(tmp_path):
    want = values()
    path = str(tmp_path / "a.ckpt")
    ckpt.write(path, {**want, "step": 7, "lr": 0.1, "flag": True, "note": "hé"}, crc=True)
    got = ms.load_checkpoint(path, crc_check=True)
    assert got.pop("note") == "hé"
    assert int(got.pop("step").asnumpy()) == 7 and float(got.pop("lr").asnumpy()) == 0.1
    assert bool(got.pop("flag").asnumpy())
    assert list(got) == list(want)
    for name, a in want.items():
        b = from_ms(got[name])
        assert b.dtype == a.dtype and b.shape == a.shape and b.tobytes() == a.tobytes(), name


@pytest.mark.parametrize("crc", [False, True])
def test_we_read_what_mindspore_writes(tmp_path, crc):
    want = {k: a for k, a in values().items() if a.size}  # MindSpore itself writes nothing at all for empty tensors
    path = str(tmp_path / "b.ckpt")

    def tensor(a):
        return ms.Tensor(a.astype("f4")).astype(ms.bfloat16) if a.dtype.name == "bfloat16" else ms.Tensor(a)

    ms.save_checkpoint(
        [{"name": k, "data": tensor(a)} for k, a in want.items()],
        path,
        append_dict={"epoch": 3, "lr": 0.5, "on": True, "s": "x"},
        crc_check=crc,
    )
    got = ckpt.read(path)
    assert got.pop("s") == "x" and int(got.pop("epoch")) == 3 and float(got.pop("lr")) == 0.5 and bool(got.pop("on"))
    assert list(got) == list(want)
    for name, a in want.items():
        assert got[name].dtype == a.dtype and got[name].shape == a.shape and got[name].tobytes() == a.tobytes(), name
        assert got[name].flags.writeable


def test_large_tensors_are_written_in_slices(tmp_path, monkeypatch):
    monkeypatch.setattr(ckpt, "_SLICE", 1000)
    a = np.random.default_rng(1).standard_normal((300, 7)).astype("f4")
    path = str(tmp_path / "c.ckpt")
    ckpt.write(path, {"a": a, "b": a[:1]}, crc=True)
    assert len(ckpt.scan(memoryview(open(path, "rb").read()))["a"].pieces) == 9
    assert np.array_equal(ckpt.read(path)["a"], a)
    assert np.array_equal(ms.load_checkpoint(path, crc_check=True)["a"].asnumpy(), a)


def test_complex_numbers_are_refused_or_stored_as_pairs(tmp_path):
    c = {"w": np.array([[1 + 2j, 3]], np.complex64), "v": np.array(2j), "r": np.ones(2, "f4")}
    path = str(tmp_path / "d.ckpt")
    with pytest.raises(TypeError, match="'w'.*complex64.*pairs"):
        ckpt.write(path, c)
    assert not os.path.exists(path)
    ckpt.write(path, c, complex="pairs")
    assert ms.load_checkpoint(path)["w@complex64"].shape == (1, 2, 2)
    got = ckpt.read(path)
    assert list(got) == ["w", "v", "r"]
    assert all(got[k].dtype == c[k].dtype and np.array_equal(got[k], c[k]) for k in c)
    with pytest.raises(ValueError, match="'pears'"):
        ckpt.write(path, c, complex="pears")


@pytest.mark.parametrize("value", [np.ones(2, ml_dtypes.float8_e5m2), np.array(["a"]), None, [1, 2]])
def test_values_mindspore_has_no_type_for(tmp_path, value):
    with pytest.raises(TypeError, match="cannot hold 'x'"):
        ckpt.write(tmp_path / "e.ckpt", {"x": value})


def test_strided_and_backward_arrays(tmp_path):
    a = np.arange(12.0).reshape(3, 4)
    out = io.BytesIO()
    ckpt.write(out, {"t": a.T, "b": a[::-1, ::2]})
    got = ckpt.read(out.getvalue())
    assert np.array_equal(got["t"], a.T) and np.array_equal(got["b"], a[::-1, ::2])


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "f.ckpt"
    ckpt.write(path, {"a": np.ones(3)})
    before = path.read_bytes()

    def full(n):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        ckpt.write(path, {"a": np.zeros(3)}, progress=full)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["f.ckpt"]


def field(number, data):
    return ckpt._block(number, len(data)) + data


def value(name=b"a", dims=(2,), kind=b"Float32", data=b"\0" * 8):
    tensor = b"".join(b"\x08" + ckpt._number(n) for n in dims) + field(2, kind) + field(3, data)
    return field(1, field(1, name) + field(2, tensor))


HOSTILE = {
    "truncated": value()[:-1],
    "huge length": b"\x0a\xff\xff\xff\xff\x07" + value(),
    "length of 2**63": b"\x0a" + b"\xff" * 9 + b"\x01",
    "endless varint": b"\x0a" + b"\xff" * 40,
    "huge shape": value(dims=(1 << 40, 1 << 40)),
    "shape times size overflows": value(dims=(1 << 62, 4)),
    "negative size": value(dims=((1 << 64) - 2,)),
    "too many dims": value(dims=(1,) * 1000),
    "wrong size": value(dims=(3,)),
    "empty with huge other size": value(dims=(0, 1 << 60), data=b""),
    "unknown type": value(kind=b"Float7"),
    "no type": field(1, field(1, b"a") + field(2, field(3, b"12345678"))),
    "no name": field(1, field(2, b"")),
    "no tensor": field(1, field(1, b"a")),
    "name is no text": value(name=b"\xff\xfe"),
    "group": b"\x0b" + value(),
    "field zero": b"\x02\x00" + value(),
    "other field": field(7, b"abc"),
    "same name twice": value() + value(name=b"b") + value(),
    "slices differ": value() + value(dims=(1,), data=b"\0" * 4),
    "text of odd length": value(kind=b"str", dims=(0,), data=b"abc"),
    "text is no UTF-32": value(kind=b"str", dims=(0,), data=b"\xff\xff\xff\xff"),
    "map tensor": field(1, field(1, b"m") + field(3, b"")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name):
    with pytest.raises(RuntimeError, match="corrupted|holds"):
        ckpt.read(HOSTILE[name])


def test_the_checksum_is_verified():
    out = io.BytesIO()
    ckpt.write(out, {"a": np.zeros(100, "f4")}, crc=True)
    data = bytearray(out.getvalue())
    assert np.array_equal(ckpt.read(data)["a"], np.zeros(100, "f4"))
    data[60] ^= 1
    with pytest.raises(RuntimeError, match="checksum"):
        ckpt.read(data)
    with pytest.raises(RuntimeError, match="empty"):
        ckpt.read(b"")


def test_numbers_of_older_releases_have_the_shape_0():
    got = ckpt.read(value(dims=(0,), data=np.float32(2.5).tobytes()))
    assert got["a"].shape == () and float(got["a"]) == 2.5


def test_bools_are_zero_or_one():
    got = ckpt.read(value(kind=b"Bool", dims=(3,), data=b"\x00\x02\xff"))
    assert got["a"].tolist() == [False, True, True] and got["a"].view("u1").max() == 1
