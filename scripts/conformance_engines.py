"""op_db on MindSpore's kernels: ``scripts/conformance.py --engine npu-sim`` (or ``mindspore``), one json per engine.

``npu-sim``: every input is on the simulated accelerator. ``mindspore``: CPU tensors with ``MINDTORCH_KERNELS=mindspore``.
An entry is *right* (MindSpore's kernels alone), *accepted* (MindSpore takes the call and has no kernel for its CPU
target, so the host computed it), *fallback* (the host computed a part), or *wrong*.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

ENGINES = {"npu-sim": ("MINDTORCH_NPU_SIM", "1"), "mindspore": ("MINDTORCH_KERNELS", "mindspore")}
SCALE = 25.0
"""MindSpore's own kernels round differently (exp: 4e-6): 5e-5 relative, 5e-4 absolute."""
LIMIT = 16
WORDS = ("right", "accepted", "fallback", "wrong")


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
        replay.to_numpy = lambda t: plain(t.detach().cpu() if getattr(t.device, "type", "") == "npu" else t)


def start() -> None:
    """Forget what ran before."""
    from mindtorch.core import accelerate

    accelerate.SEEN = {}


def seen() -> dict[str, list[str]]:
    """What ran since: the rows that the host computed, per kind."""
    from mindtorch.core import accelerate

    kinds: dict[str, list[str]] = {}
    for row, what in sorted((accelerate.SEEN or {}).items()):
        for kind in what:
            kinds.setdefault(kind, []).append(row)
    return kinds


def word(result: dict[str, Any]) -> str:
    """The engine's word for an entry, "" when it was not measured."""
    if result["status"] in ("skipped", "absent"):
        return ""
    if result["status"] != "pass":
        return "wrong"
    ran = result.get("rows", {})
    return "fallback" if ran.get("fallback") else "accepted" if ran.get("accepted") else "right"


def write(root: Path, engine: str, results: dict[str, Any]) -> str:
    """docs/conformance-<engine>.json; returns the line of totals."""
    words = {n: word(r) for n, r in results.items()}
    count = Counter(w for w in words.values() if w)
    measured = sum(count.values())
    rows = sorted({row for r in results.values() for row in r.get("rows", {}).get("fallback", [])})
    wrong = {n: results[n].get("why", "") for n, w in words.items() if w == "wrong"}
    totals = {w: count[w] for w in WORDS}
    data = {"measured": measured, "totals": totals, "wrong": wrong, "fallback rows": rows, "entries": words}
    path = root / "docs" / f"conformance-{engine}.json"
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return f"{engine}: " + ", ".join(f"{k} {v}" for k, v in totals.items()) + f" of {measured}"


def section(root: Path) -> list[str]:
    """The page's part about the engines, from the json files there are."""
    found = {e: json.loads(p.read_text(encoding="utf-8"))
             for e in ENGINES if (p := root / "docs" / f"conformance-{e}.json").exists()}  # fmt: skip
    if not found:
        return []
    lines = [
        "", "## On MindSpore's kernels", "",
        "`make conformance ENGINE=npu-sim` puts every input on the simulated accelerator; `ENGINE=mindspore` computes CPU tensors",
        f"with `MINDTORCH_KERNELS=mindspore`. Up to {LIMIT} samples of an entry; {SCALE:g} times the tolerance above. *right*: MindSpore's",
        "kernels alone; *accepted*: MindSpore takes the call and has no kernel for its CPU target; *fallback*: the host computed a",
        "part; random numbers drawn on the host by design do not count as a fallback.", "",
        "| | " + " | ".join(found) + " |", "|---|" + "---|" * len(found),
    ]  # fmt: skip
    for w in WORDS:
        lines.append(f"| {w} | " + " | ".join(str(d["totals"][w]) for d in found.values()) + " |")
    lines.append("| measured | " + " | ".join(str(d["measured"]) for d in found.values()) + " |")
    for e, d in found.items():
        lines += ["", f"{e}: rows the host computed for some arguments: " + ", ".join(f"`{r}`" for r in d["fallback rows"]) + "."]
        lines += [f"- wrong: `{n}`: {why[:160].replace('|', '/')}" for n, why in d["wrong"].items()]
    differ = [n for n in next(iter(found.values()))["entries"] if any(d["entries"].get(n) not in ("", "right") for d in found.values())]
    lines += ["", "Entries that are not right on every engine:", "", "| entry | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    lines += [f"| {n} | " + " | ".join(d["entries"].get(n, "") for d in found.values()) + " |" for n in differ]
    return lines
