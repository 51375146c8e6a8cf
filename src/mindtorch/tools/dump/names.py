"""Names of recorded calls: ``Tensor___mul___0`` in files, ``torch.Tensor.__mul__(0)`` in tables, and what is the same op.

A call has a kind (NN, Functional, Torch, Tensor ...), a name and a count: how many calls of this kind and name came before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PREFIX = {
    "torch.nn.": "NN",
    "torch.nn.functional.": "Functional",
    "torch.Tensor.": "Tensor",
    "torch.": "Torch",
    "torch._VF.": "VF",
    "torch.linalg.": "Linalg",
    "torch.fft.": "FFT",
    "torch.special.": "Special",
}
"""How a call is written in tables -> its kind in files. Kinds of 1.0.18 and, behind them, those it does not record."""
DOTTED = {kind: prefix for prefix, kind in PREFIX.items()}
_ITEM = re.compile(
    r"^(?P<kind>[A-Za-z]+)_(?P<name>.+)_(?P<count>\d+)_(?P<phase>forward|backward)_(?P<role>input|output)(?P<index>(?:\.[^/]*)?)$"
)
_LAYER = re.compile(r"^LAYER_(?P<name>.+?)_(?:forward|backward)_(?:input|output)(?:\.\d+)*$")


@dataclass(frozen=True)
class Item:
    """A recorded value: which call, forward or backward, input or output, and where in it (``.0.1`` or nothing)."""

    kind: str
    name: str
    count: int
    phase: str
    role: str
    index: str

    @property
    def call(self) -> str:
        """``NN_ReLU_0``."""
        return f"{self.kind}_{self.name}_{self.count}"

    @property
    def shown(self) -> str:
        """``torch.nn.ReLU(0) input[0]``, as the comparison writes it."""
        return f"{shown_call(self.kind, self.name, self.count)} {self.role}{shown_index(self.index)}"


def shown_call(kind: str, name: str, count: int) -> str:
    """``torch.nn.ReLU(0)``."""
    return f"{DOTTED.get(kind, kind + '.')}{name}({count})"


def shown_index(index: str) -> str:
    """``.0.1`` -> ``[0][1]``."""
    return "".join(f"[{part}]" for part in index.split(".")[1:])


def parse(text: str) -> Item | None:
    """The parts of ``NN_ReLU_0_forward_input.0``; None for module markers and anything else."""
    m = _ITEM.match(text)
    if m is None or m["kind"] == "LAYER":
        return None
    return Item(m["kind"], m["name"], int(m["count"]), m["phase"], m["role"], m["index"])


def parse_layer(text: str) -> str | None:
    """Module name in a marker (dots written as underscores), None when it is no marker."""
    m = _LAYER.match(text)
    return m["name"] if m else None


def file_index(label: str) -> str:
    """Place of a value in arguments, ``[0][mask]``, as file names carry it: ``.0.mask``."""
    if not label:
        return ""
    parts = re.findall(r"\[([^\]]*)\]", label)
    return "".join("." + re.sub(r"[^A-Za-z0-9_-]", "-", p) for p in parts)


# Operators and the functions they call. Reflected and in-place forms are the same computation.
_OPERATORS = {
    "truediv": "div", "div": "div", "true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub",
    "floordiv": "floor_divide", "mod": "remainder", "invert": "bitwise_not", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "negative": "neg", "absolute": "abs", "matmul": "matmul", "concat": "cat", "concatenate": "cat",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "clip": "clamp",
    "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan", "fix": "trunc", "det": "linalg_det", "inverse": "inv", "norm": "norm", "pow": "pow", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "view": "reshape", "flatten": "flatten", "adaptiveavgpool2d": "adaptive_avg_pool2d",
}  # fmt: skip
_REFLECTED = {"radd", "rmul", "rsub", "rtruediv", "rdiv", "rpow", "rmatmul", "rfloordiv", "rmod", "rand", "ror", "rxor"}
_INPLACE = {"iadd", "imul", "isub", "itruediv", "idiv", "ipow", "iand", "ior", "ixor", "imatmul", "ifloordiv", "imod"}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MODULES = {
    "re_lu": "relu", "re_lu6": "relu6", "leaky_re_lu": "leaky_relu", "p_re_lu": "prelu", "r_re_lu": "rrelu", "si_lu": "silu",
    "log_softmax": "log_softmax", "si_lu_": "silu", "gelu": "gelu", "mse_loss": "mse_loss", "bce_loss": "binary_cross_entropy",
    "cross_entropy_loss": "cross_entropy", "nll_loss": "nll_loss", "l1_loss": "l1_loss", "huber_loss": "huber_loss",
    "bce_with_logits_loss": "binary_cross_entropy_with_logits", "smooth_l1_loss": "smooth_l1_loss", "elu": "elu",
    "kl_div_loss": "kl_div", "upsample": "interpolate", "multihead_attention": "multi_head_attention_forward", "mish": "mish",
}  # fmt: skip


def canonical(kind: str, name: str) -> str:
    """One word for calls that compute the same: ``x * 2``, ``torch.mul`` and ``mul_``; ``nn.ReLU`` and ``F.relu``."""
    if kind == "NN":
        word = _CAMEL.sub("_", name).lower().replace("_1d", "1d").replace("_2d", "2d").replace("_3d", "3d")
        if word.startswith("batch_norm"):
            word = "batch_norm"
        return _MODULES.get(word, word)
    word = name
    if word.startswith("__") and word.endswith("__"):
        word = word[2:-2]
        if word in _REFLECTED or word in _INPLACE:
            word = word[1:]
    elif word.endswith("_") and not word.startswith("_"):
        word = word[:-1]
    return _OPERATORS.get(word, word)
