"""``python -m mindtorch convert``: checkpoints from one format to another, listed, or compared."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
from typing import Any

_EPILOG = """formats: PyTorch (.pth .pt .bin; any of its containers), TorchScript (read only), safetensors, npz, MindSpore ckpt.
The format of a file that is read is told by its contents, that of a file to be written by its suffix or --to.

examples:
  python -m mindtorch convert model.pth model.ckpt --names mindspore
  python -m mindtorch convert model.ckpt model.safetensors --names torch --net model.py:Net
  python -m mindtorch convert checkpoint.pth model.npz --select state_dict
  python -m mindtorch convert --list model.pth
  python -m mindtorch convert --diff a.pth b.safetensors --atol 1e-6

exit status: 0 done, or no differences; 1 --diff found differences; 2 the command or a file is wrong."""


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m mindtorch convert",
        description="Convert, list or compare checkpoints. Neither PyTorch nor MindSpore is needed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("files", nargs="+", metavar="FILE", help="IN OUT; one file with --list; A B with --diff")
    what = p.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the tensors of a file")
    what.add_argument("--diff", action="store_true", help="compare the tensors of two files")
    p.add_argument("--to", choices=("pth", "safetensors", "npz", "ckpt"), help="format of OUT, whatever its suffix")
    p.add_argument("--names", choices=("keep", "mindspore", "torch"), default="keep",
                   help="names of OUT: as they are, as mindspore.nn layers have them, or as PyTorch has them")  # fmt: skip
    p.add_argument("--map", metavar="RULES.json", help="rules for names, or a map that get_weight_map saved")
    p.add_argument("--reverse", action="store_true", help="use the map backwards (new names to old)")
    p.add_argument(
        "--net", metavar="FILE.py:CALLABLE", help="the network, which tells what kind each layer is (runs the file)"
    )
    p.add_argument("--kind", action="append", default=[], metavar="LAYER=KIND",
                   help="say what a layer is: --kind 'wte=Embedding' --kind 'blocks.*.act=PReLU'")  # fmt: skip
    p.add_argument("--flatten", action="store_true", help="take nested dicts whole, names joined with dots")
    p.add_argument("--select", metavar="NAME", help="take one part of a nested checkpoint, such as state_dict")
    p.add_argument("--complex", choices=("refuse", "pairs"), default="refuse",
                   help="complex tensors where OUT has none: refuse, or pairs of real numbers")  # fmt: skip
    p.add_argument("--crc", action="store_true", help="add MindSpore's checksum to a ckpt")
    p.add_argument("--rtol", type=float, default=0.0, help="--diff: relative tolerance (default 0)")
    p.add_argument("--atol", type=float, default=0.0, help="--diff: absolute tolerance (default 0)")
    p.add_argument("--any-dtype", action="store_true", help="--diff: different dtypes are no difference")
    p.add_argument("--all", action="store_true", help="--diff: show equal tensors too")
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    p.add_argument("--quiet", action="store_true", help="no progress bar, no table")
    return p


def main(args: list[str]) -> int:
    """The exit status."""
    p = _parser()
    try:
        o = p.parse_intermixed_args(args)
    except SystemExit as e:
        return int(e.code or 0)
    wanted = 1 if o.list else 2
    if len(o.files) != wanted:
        return _fail(f"{'--list takes one file' if o.list else 'two files are needed'}, got {len(o.files)}")
    try:
        if o.list:
            return _list(o)
        return _diff(o) if o.diff else _convert(o)
    except (OSError, RuntimeError, ValueError, TypeError, EOFError, KeyError, pickle.UnpicklingError, MemoryError) as e:
        return _fail(f"{e}" if not isinstance(e, (KeyError, MemoryError)) else f"{type(e).__name__}: {e}")


def _fail(message: str) -> int:
    print(f"python -m mindtorch convert: {message}", file=sys.stderr)
    return 2


def _list(o: Any) -> int:
    from mindtorch.formats import weights
    from mindtorch.tools import weight_tables as t

    kind, rows, metadata = weights.describe(o.files[0])
    if o.json:
        tensors = [{"name": r.name, "dtype": r.dtype, "shape": list(r.shape), "bytes": r.nbytes} for r in rows]
        print(json.dumps({"format": kind, "metadata": metadata, "tensors": tensors}))
        return 0
    out = t.console()
    out.print(t.listing(rows))
    out.print(f"\n{o.files[0]}: {kind}", markup=False)
    out.print(t.summary(rows))
    for key, value in metadata.items():
        out.print(f"metadata {key}: {value}", markup=False)
    return 0


def _read(path: str, o: Any) -> dict[str, Any]:
    """The weights of one side of a comparison. Nested checkpoints are compared whole."""
    from mindtorch.formats import weights
    from mindtorch.tools import weight_tables as t

    with t.bar(o.quiet or o.json, {"reading": os.path.getsize(path)}) as progress:
        flatten = o.flatten or not o.select
        return weights.read(path, flatten=flatten, part=o.select, progress=lambda n: progress("reading", n)).values


def _diff(o: Any) -> int:
    from mindtorch.tools import rules as _rules
    from mindtorch.tools import weight_tables as t
    from mindtorch.tools.weight_diff import differences

    a, b = (_read(f, o) for f in o.files)
    chosen, kinds = _rules_of(o), _net_kinds(o)
    if o.names != "keep" or o.map or o.kind:
        a = _rules.apply(a, _rules.plan(a, o.names, chosen, kinds), chosen)
    rows = differences(a, b, rtol=o.rtol, atol=o.atol, any_dtype=o.any_dtype)
    counts: dict[str, int] = {}
    for r in rows:
        counts[r.status] = counts.get(r.status, 0) + 1
    if o.json:
        shown = [
            {
                "name": r.name,
                "status": r.status,
                **({k: _finite(v) for k, v in r.apart._asdict().items()} if r.apart else {}),
            }
            for r in rows
            if o.all or r.status != "equal"
        ]
        print(json.dumps({"counts": counts, "rows": shown}))
    elif not o.quiet:
        out = t.console()
        if o.all or any(r.status != "equal" for r in rows):
            out.print(t.comparison(rows, o.all))
        out.print(", ".join(f"{n} {k}" for k, n in counts.items()) or "both files are empty", markup=False)
    return int(any(r.fails for r in rows))


def _finite(v: Any) -> Any:
    """Strict JSON has no NaN."""
    return None if isinstance(v, float) and (v != v or v in (float("inf"), float("-inf"))) else v


def _rules_of(o: Any) -> Any:
    from mindtorch.tools import rules as _rules
    from mindtorch.tools.naming import kind_named

    rules = _rules.load(o.map) if o.map else _rules.Rules()
    if o.reverse:
        rules = rules.reversed()
    for text in o.kind:
        layer, equals, kind = text.rpartition("=")
        if not equals:
            raise ValueError(f"--kind takes LAYER=KIND, got {text!r}")
        rules.kinds[layer] = kind_named(kind)
    return rules


def _net_kinds(o: Any) -> dict[str, str]:
    if not o.net:
        return {}
    from mindtorch.cli import switch
    from mindtorch.tools.convert import kinds_of_network, network

    if not switch.active() and switch.real_torch() is None:
        switch.install()  # the network's "import torch" needs no PyTorch
    return kinds_of_network(network(o.net))


def _convert(o: Any) -> int:
    from mindtorch.tools import weight_tables as t
    from mindtorch.tools.convert import convert

    source, target = o.files
    total = os.path.getsize(source)
    rules = _rules_of(o)
    with t.bar(o.quiet or o.json, {"reading": total, "writing": total}) as progress:
        done = convert(
            source, target, to=o.to, names=o.names, rules=rules, kinds=_net_kinds(o), flatten=o.flatten,
            part=o.select, complex=o.complex, crc=o.crc, progress=progress,
        )  # fmt: skip
    if o.json:
        print(json.dumps(_report(done)))
    elif not o.quiet:
        _show(done, t)
    return 0


def _report(done: Any) -> dict[str, Any]:
    return {
        "from": done.source_kind, "to": done.target_kind, "tensors": len(done.rows), "parameters": done.parameters,
        "bytes": done.nbytes, "renamed": done.renamed, "left_out": done.left_out, "unsure": done.unsure,
        "copies": done.copies,
    }  # fmt: skip


def _some(names: Any) -> str:
    names = list(names)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _show(done: Any, t: Any) -> None:
    out = t.console()
    out.print(f"{done.source} ({done.source_kind}) -> {done.target} ({done.target_kind})", markup=False)
    out.print(t.summary(done.rows))
    if done.renamed:
        out.print(f"renamed: {_some(f'{a} -> {b}' for a, b in done.renamed.items())}", markup=False)
    if done.left_out:
        out.print(f"left out: {_some(done.left_out)}", markup=False)
    if done.copies:
        out.print(f"shared memory, written once for each name: {_some('='.join(g) for g in done.copies)}", markup=False)
    for reason in sorted(set(done.unsure.values())):
        names = [n for n, r in done.unsure.items() if r == reason]
        layers = [n.rpartition(".")[0] for n in names]
        out.print(
            f"names kept, since the file does not tell the layer ({reason}): {_some(names)}\n"
            f"  say it with --net FILE.py:CALLABLE or --kind '{layers[0] or '*'}=KIND'",
            markup=False,
        )
