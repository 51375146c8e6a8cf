"""The interpreter of pickles against Python's: every protocol, from bytes and from files looked at in small windows."""

import io
import pickle
import random
from collections import Counter, OrderedDict

import pytest

from mindtorch.formats import pth_pickle
from mindtorch.formats.pth_hooks import SAFE_BUILTINS
from mindtorch.formats.pth_pickle import SafeUnpickler, UnpicklingError

SHARED = ["shared", (1,)]
TWICE = [SHARED, SHARED, {"again": SHARED}]
OBJECTS = [
    None, True, False, 0, 1, 255, 256, 65535, 65536, -1, -(1 << 31), 1 << 40, -(1 << 62), 1.5, -2.25e300, "", "text",
    "ünïcode \U0001f600\n'\"\\", "long " * 40_000, b"", b"bytes\x00\xff", bytes(range(256)) * 600, bytearray(b"ba"),
    (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [[], [1, [2]]], {}, {"a": {"b": (None, [1])}, 2: "x"}, {1, "b"},
    frozenset({1, 2}), TWICE, OrderedDict(a=1, b=OrderedDict(c=2)), Counter("abca"),
    1j, {f"layers.{i}.weight": (i, f"key {i}", [i] * 3) for i in range(400)}, [list(range(1500))],
]  # fmt: skip


def find(module, name):
    return bytes if (module, name) == ("builtins", "bytes") else SAFE_BUILTINS[module, name]


def reader(source):
    return SafeUnpickler(source, find, lambda pid: ("pid", pid))


@pytest.mark.parametrize("window", [1, 19, 1 << 16])
@pytest.mark.parametrize("protocol", range(6))
def test_what_is_read_is_what_python_reads(protocol, window, monkeypatch):
    monkeypatch.setattr(pth_pickle, "_WINDOW", window)
    for obj in OBJECTS:
        raw = pickle.dumps(obj, protocol)
        if window == 1 and len(raw) > 5000:
            continue
        stream = io.BytesIO(b"before" + raw + raw + b"after")
        stream.seek(6)
        for got in (reader(raw).load(), reader(stream).load(), reader(stream).load()):
            assert got == obj and type(got) is type(obj)
            assert obj is not TWICE or got[0] is got[1] is got[2]["again"]
        assert stream.read() == b"after"


class Persistent(pickle.Pickler):
    def persistent_id(self, obj):
        return obj if isinstance(obj, str) and obj.isdecimal() else None


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_persistent_ids(protocol):
    out = io.BytesIO()
    Persistent(out, protocol).dump(["12", {"a": "7"}, "text"])
    assert reader(out.getvalue()).load() == [("pid", "12"), {"a": ("pid", "7")}, "text"]


@pytest.mark.parametrize("source", [bytes, io.BytesIO], ids=["bytes", "file"])
@pytest.mark.parametrize("protocol", range(6))
def test_every_cut_is_noticed(protocol, source):
    raw = pickle.dumps([(1, 300, 70_000, 1 << 40), "text", b"bytes", {"k": 2.5}, SHARED, [1j, (1, 2)]], protocol)
    for n in range(len(raw)):
        with pytest.raises(UnpicklingError):
            reader(source(raw[:n])).load()


@pytest.mark.parametrize(
    "raw",
    [b"t.", b"\x86.", b"K\x01\x86.", b"\x85.", b"(0t.", b"q\x00.", b"(q\x00.", b"h\x00.", b"R.", b"NR.",
     b"N)R.", b"]]R.", b"K\x01K\x02.", b".", b"(K\x01.", b"2.", b"1.", b"a.", b"]a.", b"u.", b"}(Nu.", b"s.", b"b.",
     b"\x81.", b"N)\x81.", b"\x95" + bytes(8), b"X\xff\xff\xff\xff", b"\x8d" + b"\xff" * 8, b"I1", b"\xff.", b"\x00."],
)  # fmt: skip
def test_nonsense_is_refused(raw):
    for source in (raw, io.BytesIO(raw)):
        with pytest.raises(UnpicklingError):
            reader(source).load()


def test_garbage_never_gets_out():
    rng = random.Random(3)
    raw = [pickle.dumps(o, p) for o in OBJECTS for p in (0, 2, 4) if len(pickle.dumps(o, p)) < 500]
    for _ in range(4000):
        b = bytearray(rng.choice(raw))
        for _ in range(rng.choice((1, 2, 8))):
            b[rng.randrange(len(b))] = rng.randrange(256)
        outcome = []
        for source in (bytes(b), io.BytesIO(b)):
            try:
                outcome.append(repr(reader(source).load()))
            except (UnpicklingError, KeyError) as e:
                outcome.append(type(e).__name__)
        assert outcome[0] == outcome[1]
