"""The Chrome trace of a recording: rows per thread and phase, nested modules and ops, arrows from forward to backward."""

from __future__ import annotations

import gzip
import json
import os
import socket
from typing import Any

from mindtorch.torch.profiler import recording
from mindtorch.torch.profiler.memory import Ledger, page

_ROWS = {"": "forward", "backward": "backward", "optimizer": "optimizer", "data": "DataLoader", "transfer": "transfer"}
_CATEGORIES = {"op": "cpu_op", "node": "cpu_op", "module": "python_function", "backward": "user_annotation", "transfer": "cpu_op"}
_STRIDE = 10_000_000
"""Between the numbers of the rows of one thread; above every thread's own number."""


def _tid(lane: recording.Lane, phase: str) -> int:
    return lane.ident + _STRIDE * list(_ROWS).index(phase)


def _meta(name: str, tid: int, key: str, value: Any) -> dict[str, Any]:
    return {"ph": "M", "name": name, "ts": 0, "pid": os.getpid(), "tid": tid, "args": {key: value}}


def _row_names(rows: dict[int, tuple[recording.Lane, str]]) -> list[dict[str, Any]]:
    out = [_meta("process_name", 0, "name", "python"), _meta("process_labels", 0, "labels", "CPU")]
    for index, (tid, (lane, phase)) in enumerate(sorted(rows.items())):
        out.append(_meta("thread_name", tid, "name", f"thread {lane.ident} ({lane.name}): {_ROWS[phase]}"))
        out.append(_meta("thread_sort_index", tid, "sort_index", index))
    return out


def _span(number: int, e: recording.Event, forward_of: dict[int, recording.Event]) -> dict[str, Any]:
    args: dict[str, Any] = {"Ev Idx": number}
    if e.seq >= 0:
        source = forward_of.get(e.seq)
        args["Sequence number"] = e.seq
        args["Fwd thread id"] = source.thread.ident if e.kind == "node" and source is not None else 0
    if e.shapes is not None:
        args["Input Dims"] = e.shapes
    if e.module:
        args["Module Hierarchy"] = e.module
    if e.stack:
        args["Call stack"] = ";".join(recording.located(e.stack))
    if e.flops:
        args["flops"] = e.flops
    if e.kernel:
        args["kernel"] = e.kernel
    if e.prepared:
        args["compiling us"] = e.prepared / 1e3
    return {
        "ph": "X",
        "cat": _CATEGORIES.get(e.kind, "user_annotation"),
        "name": e.name,
        "pid": os.getpid(),
        "tid": _tid(e.thread, e.phase),
        "ts": e.start / 1e3,
        "dur": (e.end - e.start) / 1e3,
        "args": args,
    }


def _arrow(e: recording.Event, at_end: bool) -> dict[str, Any]:
    out = {
        "ph": "f" if at_end else "s",
        "id": e.seq,
        "pid": os.getpid(),
        "tid": _tid(e.thread, e.phase),
        "ts": e.start / 1e3,
        "cat": "fwdbwd",
        "name": "fwdbwd",
    }
    if at_end:
        out["bp"] = "e"
    return out


def _memory(ledger: Ledger) -> list[dict[str, Any]]:
    """An instant event for each change, as PyTorch writes them."""
    held, out = sum(ledger.before.values()), []
    for c in sorted(ledger.changes):
        held += c.bytes
        args = {"Total Reserved": 0, "Total Allocated": held, "Bytes": c.bytes, "Device Id": -1, "Device Type": 0, "Addr": c.number}
        where = {"pid": os.getpid(), "tid": c.thread.ident if c.thread is not None else 0, "ts": c.at / 1e3}
        out.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", **where, "args": args})
    return out


def made(spans: list[recording.Event], metadata: dict[str, Any], ledger: Ledger | None = None) -> dict[str, Any]:
    """The trace as it goes into the file."""
    spans = [e for e in spans if e.end]
    forward_of = {e.seq: e for e in spans if e.kind == "op" and e.seq >= 0 and not e.backward}
    rows: dict[int, tuple[recording.Lane, str]] = {}
    events: list[dict[str, Any]] = []
    for i, e in enumerate(spans):
        rows[_tid(e.thread, e.phase)] = (e.thread, e.phase)
        events.append(_span(i, e, forward_of))
        if e.kind == "node" and e.seq in forward_of:
            events += [_arrow(forward_of[e.seq], False), _arrow(e, True)]
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        **metadata,
        "traceEvents": _row_names(rows) + events + (_memory(ledger) if ledger is not None else []),
    }


def _write(path: str, text: str) -> None:
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def write(path: str, spans: list[recording.Event], metadata: dict[str, Any], ledger: Ledger | None = None) -> None:
    """Write the trace; compressed when ``path`` ends in .gz."""
    _write(path, json.dumps({**made(spans, metadata, ledger), "traceName": path}))


def write_memory(path: str, ledger: Ledger) -> None:
    """Write a memory timeline: see ``profile.export_memory_timeline``."""
    if str(path).endswith(".html"):
        _write(path, page(ledger))
    elif str(path).endswith((".raw.json.gz", ".raw.json")):
        _write(path, json.dumps(ledger.raw()))
    else:
        _write(path, json.dumps(ledger.timeline()))
