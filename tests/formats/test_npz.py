"""npz archives against NumPy, hostile ones, and damaged files of all formats."""

import io
import os
import pathlib
import subprocess
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest

from mindtorch.formats import detect, npz

ROOT = pathlib.Path(__file__).parents[2]


def written(values):
    out = io.BytesIO()
    npz.write(out, values)
    return out.getvalue()


def test_numpy_reads_what_we_write():
    values = {"a.weight": np.arange(6.0).reshape(2, 3).T, "n": 3, "t": "hé", "b": np.array([True]), "c": np.ones(2, "c16")}
    got = np.load(io.BytesIO(written(values)))
    assert list(got) == list(values)
    assert all(np.array_equal(got[k], v) and got[k].dtype == np.asarray(v).dtype for k, v in values.items())


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_we_read_what_numpy_writes(save):
    values = {"a": np.arange(6).reshape(2, 3), "f": np.asfortranarray(np.ones((3, 2))), "e": np.zeros((0, 2)), "s": np.array(2)}
    values["big"] = np.arange(5).astype(">i4")
    out = io.BytesIO()
    save(out, **values, text=np.array("x"))
    got = npz.read(out.getvalue())
    assert got.pop("text") == "x" and list(got) == list(values)
    for k, v in values.items():
        assert np.array_equal(got[k], v) and got[k].dtype.isnative and got[k].flags.writeable


def test_small_floats_keep_their_dtype():
    values = {n: np.array([1.5, -0.0]).astype(getattr(ml_dtypes, n)) for n in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}
    data = written(values)
    assert np.load(io.BytesIO(data))["bfloat16@bfloat16"].dtype == np.uint16
    got = npz.read(data)
    assert {k: v.dtype.name for k, v in got.items()} == {k: k for k in values}
    assert all(got[k].tobytes() == v.tobytes() for k, v in values.items())


def npy(text, data=b""):
    head = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data


def archive(members, compress=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compress) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


def member(**changes):
    spec = {"descr": "<f4", "fortran_order": False, "shape": (2,), **changes}
    return archive({"a.npy": npy(repr(spec), b"\0" * 8)})


def overlapping():
    data = bytearray(archive({"a.npy": npy(repr({"descr": "<f4", "fortran_order": False, "shape": (2,)}), b"\0" * 8), "b.npy": b""}))
    at = data.rindex(b"PK\x01\x02")
    data[at + 42 : at + 46] = (0).to_bytes(4, "little")
    return bytes(data)


HOSTILE = {
    "truncated": member()[:-30],
    "objects": member(descr="|O"),
    "fields": member(descr=[("a", "<f4")]),
    "huge shape": member(shape=(1 << 40, 1 << 40)),
    "negative shape": member(shape=(-2,)),
    "shape with code": archive({"a.npy": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os'),)}", b"\0" * 8)}),
    "wrong size": member(shape=(3,)),
    "deep header": archive({"a.npy": npy("(" * 5000)}),
    "no array": archive({"a.npy": b"nothing"}),
    "huge header": archive({"a.npy": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b" " * 100}),
    "overlapping": overlapping(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(name):
    with pytest.raises(RuntimeError, match="corrupted|dtype|refused"):
        npz.read(HOSTILE[name])


def test_a_bomb_is_not_opened(monkeypatch):
    monkeypatch.setattr(npz, "_FREE", 1 << 20)
    bomb = archive({f"{i}.npy": b"\0" * (4 << 20) for i in range(3)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(RuntimeError, match="would expand to 12582912.*refused"):
        npz.read(bomb)


def test_checksum_of_a_member_is_verified():
    data = bytearray(written({"a": np.zeros(100)}))
    data[data.index(b"\n", 60) + 50] ^= 4
    with pytest.raises(RuntimeError, match="CRC"):
        npz.read(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04nothing", b"\x80\x02}q\x00.", b"hello world, this is text", archive({"a.txt": b"x"}), b"\x00" * 600,
     b"\x08\x00\x00\x00\x00\x00\x00\x01{"],
)  # fmt: skip
def test_what_is_no_checkpoint_is_said_to_be_none(data):
    with pytest.raises(RuntimeError, match="empty|zip archive|pickle|no checkpoint|truncated"):
        detect.kind_of(data)


def test_damaged_files_never_surprise(tmp_path):
    """Some hundred of them; ``scripts/fuzz_weights.py --count 20000`` takes more."""
    command = [sys.executable, str(ROOT / "scripts/fuzz_weights.py"), "--count", "300"]
    command += ["--only", "ckpt,safetensors,npz", "--keep", str(tmp_path / "found")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("300 files") == 5


KILLED = """
import sys
import numpy as np
from mindtorch.formats import weights
kind, path = sys.argv[1:]
n = 0
while True:
    n += 1
    weights.write(path, weights.Weights(kind, {"a": np.full(300_000, float(n)), "b": np.full(3, float(n))}), kind)
    print(n, flush=True)
"""


@pytest.mark.parametrize("kind", ["ckpt", "safetensors", "npz", "pth"])
def test_a_killed_writer_leaves_a_whole_file(kind, tmp_path):
    from mindtorch.formats import weights

    path = tmp_path / "a"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    for pauses in range(3):
        run = subprocess.Popen([sys.executable, "-c", KILLED, kind, str(path)], stdout=subprocess.PIPE, env=env)
        for _ in range(2 + pauses):
            run.stdout.readline()  # the next file is being written now
        run.kill()
        run.wait()
        got = weights.read(path).values
        assert len(set(got["a"])) == 1 and got["a"][0] == got["b"][0] >= 2
