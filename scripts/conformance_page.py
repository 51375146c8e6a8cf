"""Writes docs/conformance.json and docs/conformance.md from the results of scripts/conformance.py."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import conformance_engines
import conformance_names


def totals(results: dict[str, Any]) -> dict[str, int]:
    """Counts per status, of all entries and of the measured ones."""
    count = Counter(r["status"] for r in results.values())
    measured = len(results) - count["skipped"]
    samples = sum(r.get("samples", 0) for r in results.values())
    return {"entries": len(results), "measured": measured, "passed": count["pass"], "samples": samples}


def _head(t: dict[str, int], columns: dict[str, dict[str, Any]]) -> list[str]:
    share = 100 * t["passed"] / max(t["measured"], 1)
    return [
        "# Conformance",
        "",
        "Written by `make conformance`; the same data is in [conformance.json](conformance.json).",
        "",
        f"**{t['passed']} of {t['measured']} measured entries of PyTorch's `op_db` pass ({share:.1f} %)**: value, dtype, shape and",
        f"gradient of {t['samples']} samples. An entry counts with its variant; up to 48 of its samples, spread evenly, are run and all must pass.",
        f"{t['entries'] - t['measured']} more entries are not measured, for the reasons below.",
        *conformance_engines.head(columns),
        "",
        "float32 results may differ by 2e-6 relative plus 2e-5 absolute (gradients: four times that), wider only where `op_db`",
        "itself asks for it. Random ops are compared value by value with the same seed. Uninitialised memory is compared by shape",
        "and dtype. Functions of matrices (`matrix_exp`) are compared relative to the largest element of the result, and",
        "decompositions that are defined up to signs or phases through `op_db`'s own reduction.",
    ]


def _second(second: Any) -> list[str]:
    if second is None:
        return ["", "No second instrument was given to this run (`--beside`)."]
    t = second["totals"]
    return [
        "",
        "A second instrument replays expectations recorded as NumPy arrays in a process without PyTorch (1e-3 relative, 1e-4",
        f"absolute): **{t['fwd_dtype_grad_pass']} of {t['op_entries']} entries** pass value, dtype and gradient.",
        "Entries on which the two disagree: " + ("; ".join(second["differences"]) or "none") + ".",
    ]


def _entries(results: dict[str, Any]) -> list[str]:
    lines = ["", "## Entries that do not pass", "", "| entry | status | reason |", "|---|---|---|"]
    for n, r in results.items():
        if r["status"] not in ("pass", "skipped"):
            lines.append(f"| {n} | {r['status']} | {_cell(r.get('why', ''))} |")
    groups: dict[str, list[str]] = {}
    for n, r in results.items():
        if r["status"] == "skipped":
            groups.setdefault(r["why"], []).append(n)
    lines += ["", "## Entries not measured", ""]
    return lines + [f"- {why}: {', '.join(f'`{n}`' for n in ns)}" for why, ns in groups.items()]


def _cell(text: str) -> str:
    return text.replace("|", "/")[:200]


def _names(spaces: dict[str, dict[str, str]]) -> list[str]:
    lines = [
        "", "## Public names", "",
        "*works*: present, and no case is known to fail; *partial*: what fails is named; *absent*: grouped by reason below.", "",
        "| namespace | public names in PyTorch | works | partial | absent |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for s, d in spaces.items():
        c = Counter(v.partition(":")[0] for v in d.values())
        lines.append(f"| {s} | {len(d)} | {c['works']} | {c['partial']} | {c['absent']} |")
    lines += ["", "### Partial", ""]
    for s, d in spaces.items():
        lines += [f"- `{s}.{n}`: {v.partition(': ')[2]}" for n, v in d.items() if v.startswith("partial")]
    lines += ["", "### Absent, by reason", ""]
    for s, d in spaces.items():
        groups: dict[str, list[str]] = {}
        for n, v in d.items():
            if v.startswith("absent"):
                groups.setdefault(v.partition(": ")[2], []).append(n)
        if groups:
            lines.append(f"**{s}**")
            lines += ["", *(f"- {why}: {', '.join(f'`{n}`' for n in ns)}" for why, ns in sorted(groups.items())), ""]
    return lines


def _known(root: Path) -> list[str]:
    lines = ["## Arguments accepted without effect", "", "Each says so once in the log.", "", "| op | argument | reason |", "|---|---|---|"]
    lines += [f"| {op} | {arg} | {_cell(why)} |" for _, op, arg, why in conformance_names.ignored_arguments(root)]
    notes = conformance_names.declared_deviations()
    if notes:
        lines += ["", "## Deviations declared by ops", "", *(f"- `{name}`: {note}" for name, note in notes)]
    kernels = conformance_names.kernel_deviations()
    lines += ["", "## Deviations of MindSpore's kernels", "", "On its CPU target, as the columns *npu-sim* and *mindspore* use them.", ""]
    lines += [f"- `{name}`: {note}" for name, note in kernels]
    lines += ["", "## Known differences found by other tests", "", "Listed in `tests/xfails.txt`:", ""]
    for row in (root / "tests" / "xfails.txt").read_text(encoding="utf-8").splitlines():
        test, _, why = row.partition("\t")
        if why:
            lines.append(f"- {why} (`{test.lstrip('~')}`)")
    return lines


def _kept(docs: Path) -> dict[str, Any]:
    """What the last runs left in docs/conformance.json."""
    path = docs / "conformance.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(root: Path, results: dict[str, Any], beside: Any, differ: list[str] | None) -> str:
    """Both files from a run on the CPU; returns the line of totals. The engines' columns and a second instrument's totals stay."""
    kept = _kept(root / "docs")
    t = totals(results)
    failing = {r.get("op", n): f"{n}: {r['why']}" for n, r in results.items() if r["status"] not in ("pass", "skipped")}
    second = kept.get("second") if beside is None else {"totals": beside["totals"], "differences": differ}
    names = conformance_names.table(failing)
    _page(root, {"totals": t, "second": second, "engines": kept.get("engines", {}), "ops": results, "names": names})
    return f"{t['passed']} of {t['measured']} measured entries pass ({t['entries']} in op_db)"


def write_engine(root: Path, engine: str, results: dict[str, Any]) -> str:
    """Both files from a run on MindSpore's kernels: its column changes, the rest stays. Returns the line of totals."""
    kept = _kept(root / "docs")
    if "ops" not in kept:
        raise SystemExit("docs/conformance.json is not there: run `make conformance` first")
    column = conformance_engines.column(root, results, kept["ops"])
    kept["engines"] = {**kept.get("engines", {}), engine: column}
    _page(root, kept)
    return conformance_engines.line(engine, column)


def rewrite(root: Path) -> None:
    """The page from the results there are: notes of rows, ignored arguments and known differences are read again."""
    kept = _kept(root / "docs")
    failing = {r.get("op", n): f"{n}: {r['why']}" for n, r in kept["ops"].items() if r["status"] not in ("pass", "skipped")}
    _page(root, {**kept, "names": conformance_names.table(failing)})


def _page(root: Path, data: dict[str, Any]) -> None:
    found = data["engines"]
    columns = {"CPU": conformance_engines.host_column(data["ops"]), **{e: found[e] for e in conformance_engines.ENGINES if e in found}}
    lines = [
        *_head(data["totals"], columns), *_second(data["second"]), *_entries(data["ops"]), *_names(data["names"]), *_known(root),
        *conformance_engines.entry_by_entry(columns),
    ]  # fmt: skip
    docs = root / "docs"
    docs.joinpath("conformance.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    docs.joinpath("conformance.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
