"""op_db on MindSpore's kernels: ``scripts/conformance.py --engine npu-sim`` (or ``mindspore``), a column of the page each.

``npu-sim``: every input is on the simulated accelerator. ``mindspore``: CPU tensors with ``MINDTORCH_KERNELS=mindspore``.
An entry is *right* (MindSpore's kernels alone), *accepted* (MindSpore takes the call and has no kernel for its CPU
target, so the host computed it), *fallback* (the host computed a part), or *wrong*.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

ENGINES = {"npu-sim": ("MINDTORCH_NPU_SIM", "1"), "mindspore": ("MINDTORCH_KERNELS", "mindspore")}
SCALE = 5.0
"""MindSpore's own kernels round differently (exp: 4e-6): 1e-5 relative, 1e-4 absolute."""
LIMIT = 16
WORDS = ("right", "accepted", "fallback", "wrong", "absent")


def environment(engine: str) -> None:
    """Set what the engine needs; before mindtorch is imported."""
    name, value = ENGINES[engine]
    os.environ[name] = value
    os.environ.setdefault("GLOG_v", "4")


class _OnDevice:
    """mindtorch as the replay sees it: what it makes is on the accelerator."""

    def __init__(self, mt: Any) -> None:
        self._mt = mt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mt, name)

    def device(self, *args: Any) -> Any:
        """The accelerator, whatever device the sample names."""
        return self._mt.device("npu")

    def tensor(self, *args: Any, **kwargs: Any) -> Any:
        """A tensor on the accelerator."""
        return self._mt.tensor(*args, **kwargs).to("npu")


def prepare(replay: Any, engine: str) -> None:
    """Make the replay run on ``engine``."""
    from mindtorch.core import accelerate

    accelerate.SEEN = {}
    if engine == "npu-sim":
        plain = replay.to_numpy
        replay.mt.set_default_device("npu")  # what a sample's steps create without naming a device
        replay.mt = _OnDevice(replay.mt)
        convert = replay._Replay.convert
        # Samples that name their device, as a string or an object, mean the device under test.
        replay._Replay.convert = lambda self, v: convert(self, "npu" if isinstance(v, str) and v == "cpu" else v)
        replay.to_numpy = lambda t: plain(t.detach().cpu() if getattr(t.device, "type", "") == "npu" else t)


def start() -> None:
    """Forget what ran before."""
    from mindtorch.core import accelerate

    accelerate.SEEN = {}


def seen() -> dict[str, dict[str, str]]:
    """What ran since, per kind ("kernel", "accepted", "fallback"): row -> why it did not run on MindSpore."""
    from mindtorch.core import accelerate
    from mindtorch.engine.mindspore import kernels

    kinds: dict[str, dict[str, str]] = {}
    for row, what in sorted((accelerate.SEEN or {}).items()):
        for kind, why in what.items():
            kinds.setdefault(kind, {})[row] = why or (kernels.reason(row) if kind == "fallback" else "")
    return kinds


def word(result: dict[str, Any]) -> str:
    """The engine's word for an entry, "" when it was not measured."""
    status = result["status"]
    if status in ("skipped", "absent"):
        return "absent" if status == "absent" else ""
    if status != "pass":
        return "wrong"
    ran = result.get("rows", {})
    return "fallback" if ran.get("fallback") else "accepted" if ran.get("accepted") else "right"


def commit(root: Path) -> str:
    """The commit that is measured, "unknown" outside a repository."""
    r = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return r.stdout.strip() or "unknown"


def _why(result: dict[str, Any], word: str) -> str:
    """What stands beside the word: the rows that the host computed with their reasons, or what is wrong."""
    if word in ("fallback", "accepted"):
        return "; ".join(f"{row}: {why}" for row, why in result["rows"][word].items())
    return result.get("why", "") if word in ("wrong", "absent") else ""


def column(root: Path, results: dict[str, Any], host: dict[str, Any]) -> dict[str, Any]:
    """An engine's column for docs/conformance.json: totals, and for each entry its word and the reason.

    What is absent here and present in the host's results is wrong.
    """
    words = {n: word(r) for n, r in results.items()}
    words = {n: "wrong" if w == "absent" and host.get(n, {}).get("status") != "absent" else w for n, w in words.items()}
    count = Counter(w for w in words.values() if w)
    entries = {n: {"word": w, "why": _why(results[n], w)} for n, w in words.items() if w}
    return {"commit": commit(root), "scale": SCALE, "totals": {w: count[w] for w in WORDS}, "measured": sum(count.values()), "entries": entries}


def line(engine: str, column: dict[str, Any]) -> str:
    """One line of totals."""
    t = column["totals"]
    share = 100 * (t["right"] + t["accepted"]) / max(column["measured"] - t["absent"], 1)
    return f"{engine}: " + ", ".join(f"{k} {v}" for k, v in t.items()) + f" of {column['measured']}; {share:.1f} % right or accepted"


def host_column(results: dict[str, Any]) -> dict[str, Any]:
    """The host kernels' results in the form of an engine's column."""
    words = {n: {"pass": "right", "skipped": "", "absent": "absent"}.get(r["status"], "wrong") for n, r in results.items()}
    count = Counter(w for w in words.values() if w)
    return {
        "totals": {w: count[w] for w in WORDS}, "measured": sum(count.values()),
        "entries": {n: {"word": w, "why": results[n].get("why", "")} for n, w in words.items() if w},
    }  # fmt: skip


def head(columns: dict[str, dict[str, Any]]) -> list[str]:
    """The page's table of totals; ``columns`` begins with the host's."""
    if len(columns) == 1:
        return ["", "MindSpore's kernels were not measured yet: `make conformance ENGINE=npu-sim`, `make conformance ENGINE=mindspore`."]
    lines = ["", "| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    lines += [f"| {w} | " + " | ".join(str(c["totals"][w]) for c in columns.values()) + " |" for w in WORDS]
    lines.append("| measured | " + " | ".join(str(c["measured"]) for c in columns.values()) + " |")
    at = ", ".join(f"{e} at commit {c['commit']} and {c['scale']:g} times the tolerance below" for e, c in columns.items() if "commit" in c)
    return [
        *lines, "",
        "*CPU*: what runs by default. *npu-sim* (`make conformance ENGINE=npu-sim`): every tensor is on the simulated accelerator.",
        "*mindspore* (`ENGINE=mindspore`): CPU tensors with `MINDTORCH_KERNELS=mindspore`. *right*: MindSpore's kernels alone, numbers",
        "drawn on the host by design included; *accepted*: MindSpore takes types and shapes and has no kernel for its CPU target, so the",
        f"host computed it; *fallback*: the host computed a part. The last two columns run up to {LIMIT} samples of an entry, with a wider",
        f"tolerance because MindSpore's own kernels round differently: {at}. Nothing here ran on Ascend.",
    ]  # fmt: skip


def entry_by_entry(columns: dict[str, dict[str, Any]]) -> list[str]:
    """The page's last part: one line for each entry."""
    lines = ["", "## Entry by entry", "", "| entry | " + " | ".join(columns) + " | reason |", "|---|" + "---|" * len(columns) + "---|"]
    for n in next(iter(columns.values()))["entries"]:
        got = [c["entries"].get(n, {"word": "", "why": ""}) for c in columns.values()]
        why = "; ".join(dict.fromkeys(g["why"] for g in got if g["why"])).replace("|", "/")[:300]
        lines.append(f"| {n} | " + " | ".join(g["word"] for g in got) + f" | {why} |")
    return lines
