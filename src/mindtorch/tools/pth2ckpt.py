"""``pth2ckpt(path)``: a PyTorch checkpoint as a MindSpore checkpoint beside it. Also ``python -m mindtorch.tools.pth2ckpt``."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from mindtorch.formats import weights


def _target(path: str) -> str:
    stem, suffix = os.path.splitext(path)
    return f"{stem if suffix.lower() in ('.pth', '.pt', '.bin', '.tar', '.ckpt') else path}.ckpt"


def _names(path: Any) -> weights.Weights:
    """The weights of a file: of its only part that holds tensors, or all under dotted names when there are several."""
    kind = weights.kind_of(path)
    if kind not in ("pth", "torchscript"):
        raise ValueError(f"{os.fspath(path)} is no PyTorch checkpoint but {kind}; use 'python -m mindtorch convert'")
    if kind == "torchscript":
        return weights.read(path)
    tree = weights.tree_of(path)
    if isinstance(tree, dict):
        parts = [k for k, v in tree.items() if isinstance(v, dict) and v]
        loose = {k: v for k, v in tree.items() if k not in parts}
        if len(parts) == 1 and not set(map(str, tree[parts[0]])) & set(map(str, loose)):
            tree = {**tree[parts[0]], **loose}
    return weights.weights_of(tree, kind, flatten=True)


def pth2ckpt(path: Any, target: Any = None, *, rules: Any = None, names: str = "keep") -> str:
    """Convert the PyTorch file ``path`` to a MindSpore checkpoint; returns the path written. PyTorch is not needed.

    The result lies beside the source with the suffix ``.ckpt``, or at ``target``. The names stay PyTorch's unless
    ``names="mindspore"`` or ``rules`` (see `mindtorch.tools.convert.convert`) say otherwise. In a checkpoint such as
    ``{"epoch": 3, "state_dict": {...}}`` the inner names are used; with several inner dicts all names are dotted.

    RuntimeError or UnpicklingError for broken files, TypeError for dtypes MindSpore cannot read (complex, float8).
    """
    from mindtorch.tools import rules as _rules
    from mindtorch.tools.convert import _chosen

    out = os.fspath(target) if target is not None else _target(os.fspath(path))
    found = _names(path)
    if os.path.exists(out) and os.path.samefile(out, path):
        raise ValueError(f"the result would overwrite {out}; give another target")
    chosen = _chosen(rules)
    made = _rules.plan(found.values, names, chosen)
    found.values = _rules.apply(found.values, made, chosen)
    weights.write(out, found, "ckpt")
    print(f"{os.fspath(path)} -> {out}: {len(found.arrays)} tensors")
    return out


def main(args: list[str]) -> int:
    """``IN.pth [OUT.ckpt]``."""
    if not 1 <= len(args) <= 2 or args[0].startswith("-"):
        print("usage: python -m mindtorch.tools.pth2ckpt IN.pth [OUT.ckpt]", file=sys.stderr)
        return 2
    pth2ckpt(*args)
    return 0


class _Callable(ModuleType):
    """The package's attribute ``pth2ckpt`` is this module once it is imported as one; called, it converts as well."""

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        return pth2ckpt(*args, **kwargs)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
sys.modules[__name__].__class__ = _Callable
