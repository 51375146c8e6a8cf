"""The safetensors format, against the package."""

import io
import json
import struct

import ml_dtypes
import numpy as np
import pytest

from mindtorch.formats import safetensors as st

real = pytest.importorskip("safetensors")


def arrays():
    rng = np.random.default_rng(0)
    return {
        f"{kind.lower()}.{i}": rng.integers(0, 2, shape).astype(dtype)
        for kind, dtype in st.TYPES.items()
        for i, shape in enumerate([(), (3,), (2, 3), (0, 2)])
    }


def test_bytes_are_those_of_the_package():
    import safetensors.torch

    import torch

    def tensor(a):
        bits = {1: "u1", 2: "i2", 4: "i4", 8: "i8"}[a.dtype.itemsize]
        name = a.dtype.name
        return torch.from_numpy(a.view(bits).copy()).view(getattr(torch, name)) if a.dtype.kind != "b" else torch.from_numpy(a)

    values = arrays()
    out = io.BytesIO()
    st.write(out, values, {"format": "pt"})
    want = safetensors.torch.save({k: tensor(a) for k, a in values.items()}, {"format": "pt"})
    assert out.getvalue() == want
    got, metadata = st.read(want)
    assert metadata == {"format": "pt"} and sorted(got) == sorted(values)
    for k, a in values.items():
        assert got[k].dtype == a.dtype and got[k].shape == a.shape and got[k].tobytes() == a.tobytes(), k


def test_names_and_metadata_with_any_text(tmp_path):
    path = tmp_path / "a.safetensors"
    st.write(path, {'q"{}[]\\é\n': np.ones(2), "[[[{{{": np.ones(1)}, {"a": '{"data_offsets": [1, 2]}' * 50})
    got, metadata = st.read(path)
    assert set(got) == {'q"{}[]\\é\n', "[[[{{{"} and metadata["a"].startswith("{")
    with real.safe_open(path, "np") as f:
        assert set(f.keys()) == set(got) and f.metadata() == metadata


@pytest.mark.parametrize("value", [np.ones(2, "c16"), np.array(["a"]), np.array([None])])
def test_dtypes_the_format_lacks(value, tmp_path):
    with pytest.raises(TypeError, match="cannot hold 'x'"):
        st.write(tmp_path / "a", {"x": value})
    with pytest.raises(TypeError, match="texts"):
        st.write(tmp_path / "a", {}, {"a": 3})


def file(header, data=b"", size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def one(**changes):
    spec = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}
    return {"a": {k: v for k, v in spec.items() if v is not None}}


HOSTILE = {
    "short": b"\x01\x00",
    "header longer than the file": file(one(), size=1 << 20),
    "header of 2**63": file(one(), size=1 << 63),
    "no brace": file(b"[]      "),
    "empty header": file(b""),
    "no json": file(b"{nonsense}"),
    "no text": file(b'{"\xff\xfe": 1}'),
    "deep lists": file(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "deep objects": file(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "many empty lists": file(b'{"a":[' + b"[]," * 3_000_000 + b"[]]}"),
    "huge number": file(b'{"a":{"dtype":"F32","shape":[' + b"9" * 4000 + b'],"data_offsets":[0,8]}}', b"\0" * 8),
    "same name twice": file(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}'),
    "overlap": file({**one(), "b": one(data_offsets=[4, 12])["a"]}, b"\0" * 12),
    "gap": file({**one(), "b": one(data_offsets=[12, 20])["a"]}, b"\0" * 20),
    "start behind zero": file(one(data_offsets=[4, 12]), b"\0" * 12),
    "truncated data": file(one(), b"\0" * 7),
    "bytes left": file(one(), b"\0" * 9),
    "offsets backwards": file(one(data_offsets=[8, 0]), b"\0" * 8),
    "negative offset": file(one(data_offsets=[-8, 0]), b"\0" * 8),
    "offset is no integer": file(one(data_offsets=[0, 8.0]), b"\0" * 8),
    "offset is true": file(one(data_offsets=[False, 8]), b"\0" * 8),
    "shape does not fit": file(one(shape=[3]), b"\0" * 8),
    "shape overflows": file(one(shape=[1 << 61, 8, 4]), b"\0" * 8),
    "negative shape": file(one(shape=[-2]), b"\0" * 8),
    "too many dims": file(one(shape=[1] * 100 + [2]), b"\0" * 8),
    "unknown dtype": file(one(dtype="F33"), b"\0" * 8),
    "no dtype": file(one(dtype=None), b"\0" * 8),
    "one key more": file(one(device="cuda"), b"\0" * 8),
    "spec is no object": file({"a": [1]}),
    "metadata no texts": file({"__metadata__": {"a": 1}}),
    "metadata no object": file({"__metadata__": "a"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name):
    with pytest.raises(st.SafetensorError, match="corrupted|unknown dtype"):
        st.read(HOSTILE[name])


def test_four_bit_types_are_listed_and_refused_in_words():
    data = memoryview(file(one(dtype="F4", shape=[16]), b"\0" * 8))
    entries, _, base = st.parse(data)
    assert entries["a"].nbytes == 8
    with pytest.raises(st.SafetensorError, match="F4"):
        st.array_of(data, base, entries["a"])


def test_views_share_memory_and_misaligned_data_are_copied():
    for pad in (0, 1):
        text = json.dumps(one()).encode()
        text += b" " * (-len(text) % 8 + pad)
        data = np.frombuffer(bytearray(file(text, struct.pack("<2f", 1, 2))), "u1")
        entries, _, base = st.parse(memoryview(data))
        a = st.array_of(memoryview(data), base, entries["a"], copy=False)
        assert a.tolist() == [1, 2] and a.flags.aligned
        assert np.shares_memory(a, data) == (data.ctypes.data % 4 == 0 and pad == 0)


def test_bfloat16_bits_survive():
    a = np.array([1.5, -0.0, np.inf, np.nan], ml_dtypes.bfloat16)
    out = io.BytesIO()
    st.write(out, {"a": a})
    assert st.read(out.getvalue())[0]["a"].tobytes() == a.tobytes()
