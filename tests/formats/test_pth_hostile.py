"""Files made to harm: refused, without memory and without running anything; saves that are killed or run out of disk."""

import io
import os
import pickle
import struct
import subprocess
import sys
import textwrap
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.formats import pth, weights
from mindtorch.formats.pth_zip import ZipWriter

P2 = b"\x80\x02"
DICT = b"ccollections\nOrderedDict\n"


def archive(text, **records):
    out = io.BytesIO()
    writer = ZipWriter(out, "archive")
    writer.record("data.pkl", text)
    for name, data in records.items():
        writer.record(name.replace("__", "/"), data)
    writer.close()
    return out.getvalue()


def legacy(text):
    return b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {})) + text + pickle.dumps([], 2)


def number(n):
    raw = n.to_bytes(n.bit_length() // 8 + 1, "little")
    return b"\x8a" + bytes([len(raw)]) + raw


def storage(count=b"K\x04", key=b"X\x01\x00\x00\x000", cls=b"ctorch\nFloatStorage\n"):
    return b"(X\x07\x00\x00\x00storage" + cls + key + b"X\x03\x00\x00\x00cpu" + count + b"tQ"


REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
BOMBS = {
    "tuple of tuples as a key": P2 + b"})" + b"2\x86" * 60 + b"Ns.",
    "deep tuple as a key": P2 + b"})" + b"\x85" * 200_000 + b"Ns.",
    "colliding integer keys": P2 + b"}" + b"".join(number(k * (2**61 - 1)) + b"Ns" for k in range(9, 3000)) + b".",
    "bytearray of a size": P2 + b"c__builtin__\nbytearray\n" + number(1 << 40) + b"\x85R.",
    "storage of a size": P2 + b"ctorch\nUntypedStorage\n" + number(1 << 40) + b"\x85R.",
    "float storage of a size": P2 + b"ctorch\nFloatStorage\n" + number(1 << 40) + b"\x85R.",
    "tensor of a size": P2 + b"ctorch\nTensor\n" + number(1 << 40) + b"\x85R.",
    "new tensor": P2 + b"ctorch\nTensor\n)\x81.",
    "text of 8 exabytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 63) + b"abc.",
    "bytes of 4 gigabytes": b"\x80\x04B" + struct.pack("<I", 0xFFFFFFFF) + b"abc.",
    "integer of 4 gigabytes": P2 + b"\x8b" + struct.pack("<I", 0xFFFFFFFF) + b"abc.",
    "very long decimal": b"I" + b"9" * 100_000 + b"\n.",
    "negative memo": b"Ng-1\n.",
    "rebuild with a call of anything": P2 + b"ctorch._tensor\n_rebuild_from_type_v2\n(" + DICT + b"ctorch\nTensor\n)}tR.",
    "rebuild within a rebuild": P2 + b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._tensor\n_rebuild_from_type_v2\n"
    b"ctorch\nTensor\n(cos\nsystem\nN)NtNtR.",
    "attribute of torch as a layout": P2 + b"ctorch.serialization\n_get_layout\nX\x04\x00\x00\x00load\x85R.",
    "sizes that are no numbers": P2 + REBUILD + b"(" + storage() + b"K\x00G" + b"\0" * 8 + b"\x85)\x89NtR.",
    "tensor over no storage": P2 + REBUILD + b"(NK\x00))\x89NtR.",
    "persistent id of nonsense": P2 + b"(NNtQ.",
    "a path as a key": P2 + storage(key=b"X\x10\x00\x00\x00../../etc/passwd") + b".",
    "negative storage size": P2 + storage(count=b"J\xff\xff\xff\xff") + b".",
    "storage size of 8 exabytes": P2 + storage(count=number(1 << 62)) + b".",
    "no class as a storage": P2 + storage(cls=b"ccollections\nOrderedDict\n") + b".",
}


@pytest.mark.parametrize("container", ["zip", "legacy"])
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_in_little_memory(name, container):
    raw = archive(BOMBS[name], data__0=np.zeros(16, np.uint8)) if container == "zip" else legacy(BOMBS[name])
    for load in (pth.load_arrays, mt.load):
        load(io.BytesIO(torch_file()))
        tracemalloc.start()
        try:
            with pytest.raises((RuntimeError, pickle.UnpicklingError)):
                load(io.BytesIO(raw))
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()


LAUGHS = {
    "tuples": P2 + b"]" + b"2\x86" * 60 + b".",
    "lists": P2 + b"]q\x00K\x01a" + b"".join(b"0](h%ch%ceq%c" % (i, i, i + 1) for i in range(60)) + b".",
    "one list very often": P2 + b"]q\x00(" + b"]" * 2000 + b"e0](" + b"h\x00" * 5000 + b"e.",
}


@pytest.mark.parametrize("name", LAUGHS)
def test_what_repeats_itself_beyond_reason_is_not_listed(name):
    raw = archive(LAUGHS[name])
    assert pth.load_arrays(io.BytesIO(raw)) is not None
    with pytest.raises(RuntimeError, match="so often"):
        weights.describe(io.BytesIO(raw))
    with pytest.raises(RuntimeError, match="so often"):
        weights.read(io.BytesIO(raw), flatten=True)
    with pytest.raises((RuntimeError, ValueError), match=r"so often|nested"):
        weights.read(io.BytesIO(raw))


def torch_file(obj=None):
    out = io.BytesIO()
    torch.save({"w": torch.arange(5.0)} if obj is None else obj, out)
    return out.getvalue()


def test_expanded_tensors_cannot_be_computed_with():
    meta = b"(" + storage() + b"K\x00" + number(1 << 40) + b"\x85K\x00\x85\x89N}X\x03\x00\x00\x00neg\x88stR."
    with pytest.raises(RuntimeError, match="expanded"):
        mt.load(io.BytesIO(archive(P2 + REBUILD + meta, data__0=np.zeros(16, np.uint8))))


def deflated(records, root="archive/"):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in records.items():
            z.writestr(root + name, data)
    return out.getvalue()


def test_zip_bombs():
    text = pickle.dumps(0, 2)
    for raw in (
        deflated({"data.pkl": P2 + b"]" * (20 << 20)}),
        deflated({"data.pkl": text, "data/0": bytes(80 << 20), "data/1": bytes(80 << 20)}),
    ):
        tracemalloc.start()
        try:
            with pytest.raises(RuntimeError, match="bomb"):
                pth.load_arrays(io.BytesIO(raw))
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()
    assert pth.load_arrays(io.BytesIO(deflated({"data.pkl": text, "data/0": bytes(1 << 20)}))) == 0


def test_directories_that_lie():
    raw = torch_file()
    names = {n.filename: n.header_offset for n in zipfile.ZipFile(io.BytesIO(raw)).infolist()}

    def patched(name, at, value):
        """Change bytes of a directory entry, ``at`` counted from its start."""
        entry = raw.rfind(name.encode()) - 46
        return raw[: entry + at] + value + raw[entry + at + len(value) :]

    other = struct.pack("<I", names["archive/data.pkl"])
    for broken, match in (
        (patched("archive/data/0", 42, other), "overlaps|not what|no record"),
        (patched("archive/data.pkl", 46, b"archive/data.pkx"), r"data\.pkl"),
        (patched("archive/data/0", 10, b"\x63\x00"), "method"),
        (patched("archive/data/0", 8, b"\x01\x00"), "encrypted"),
        (patched("archive/data/0", 20, struct.pack("<II", 1 << 31, 1 << 31)), "overlaps|two sizes|truncated"),
        (patched("archive/data/0", 16, b"\0\0\0\0"), "checksum"),
    ):
        with pytest.raises(RuntimeError, match=match):
            pth.load_arrays(io.BytesIO(broken))
    twice = io.BytesIO()
    writer = ZipWriter(twice, "a")
    for _ in range(2):
        writer.record("data.pkl", pickle.dumps(0, 2))
    writer.close()
    with pytest.raises(RuntimeError, match="same name"):
        pth.load_arrays(io.BytesIO(twice.getvalue()))
    with pytest.raises(RuntimeError, match="version 11"):
        pth.load_arrays(io.BytesIO(archive(pickle.dumps(0, 2), version=b"11\n")))


def test_large_records_are_verified_by_the_threads_too(tmp_path):
    path = tmp_path / "a.pth"
    state = {f"w{i}": torch.full((1 << 20,), float(i)) for i in range(4)}
    torch.save(state, path)
    for key, value in mt.load(path).items():
        assert value.a.tobytes() == state[key].numpy().tobytes()
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 4
    path.write_bytes(raw)
    with pytest.raises(RuntimeError, match="checksum"):
        mt.load(path)


def test_fuzz(tmp_path):
    script = Path(__file__).parents[2] / "scripts/fuzz_weights.py"
    command = [sys.executable, script, "--count", "150", "--only", "zip,legacy,tar", "--keep", tmp_path / "found"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("150 files") == 6


# ------------------------------------------------------------------------------------------ saving

CHILD = """
    import os, random, resource, signal, sys, time
    import numpy as np
    from mindtorch.formats import pth, weights

    class Arrays(pth.Hooks):
        def storage_of(self, obj):
            return obj if isinstance(obj, pth.StorageData) else None

    def save(n, path):
        flat = np.full(4 << 20, n % 251, np.uint8)
        pth.save({"n": n, "s": pth.StorageData("ByteStorage", flat, "cpu", "k")}, path, Arrays())

    path = sys.argv[1]
    save(0, path)
"""
KILLS = """
    rng = random.Random(0)
    for _ in range(50):
        pid = os.fork()
        if not pid:
            n = 0
            while True:
                n += 1
                save(n, path)
        time.sleep(rng.random() / 30)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        got = pth.load_arrays(path)
        assert (got["s"].data == got["n"] % 251).all() and len(got["s"].data) == 4 << 20
    named = [f for f in os.listdir(os.path.dirname(path)) if not f.endswith("a.pth")]
    assert len(named) <= (0 if hasattr(os, "O_TMPFILE") else 50) + 3, named
    print("intact")
"""
FULL = """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    try:
        save(7, path)
    except OSError as e:
        print("OSError", e.errno)
    assert pth.load_arrays(path)["n"] == 0 and os.listdir(os.path.dirname(path)) == ["a.pth"]
    print("intact")
"""


@pytest.mark.parametrize("story", [KILLS, FULL], ids=["killed fifty times", "no space"])
def test_the_old_file_survives(tmp_path, story):
    code = textwrap.dedent(CHILD) + textwrap.dedent(story)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.pth")], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["intact"], done.stdout + done.stderr
    assert story is KILLS or "OSError" in done.stdout


def test_devices_and_folders(tmp_path):
    with pytest.raises(IsADirectoryError):
        mt.save({}, tmp_path)
    if os.path.exists("/dev/full"):
        with pytest.raises(OSError, match="No space"):
            mt.save({"w": mt.ones(100_000)}, "/dev/full")
