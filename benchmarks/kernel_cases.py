"""The kernels ``kernels.py`` chooses between: the same computation through mindtorch and through MindSpore's own ops.

``build(torch)`` gives closures over mindtorch tensors; ``build_mindspore`` the same names over the same numbers, host memory
to host memory (``from_numpy`` and ``asnumpy`` count: mindtorch would pay them). What MindSpore has no CPU kernel for is left
out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Cases = dict[str, Callable[[], Any]]
SIZES = {"S": (16, 32), "M": (256, 400), "L": (2048, 2000)}
"""Rows and columns."""
CONVS = {
    "lenet1": (64, 1, 28, 6, 5, 1, 2, 1), "lenet2": (64, 6, 14, 16, 5, 1, 0, 1), "3x3_56": (8, 64, 56, 64, 3, 1, 1, 1),
    "3x3_14": (8, 256, 14, 256, 3, 1, 1, 1), "3x3_stride2": (8, 64, 56, 128, 3, 2, 1, 1), "1x1": (8, 64, 56, 256, 1, 1, 0, 1),
    "7x7_stride2": (8, 3, 112, 64, 7, 2, 3, 1), "depthwise": (8, 64, 56, 64, 3, 1, 1, 64),
}  # fmt: skip
"""Images, channels, edge, outputs, kernel, stride, padding, groups."""


def arrays(size: str) -> dict[str, np.ndarray]:
    """The inputs of one size: ``x``, ``y``, positive ``p``, bool ``m``, indices ``i`` (rows, columns) and ``r`` (rows)."""
    n, k = SIZES[size]
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n, k), np.float32)
    index = rng.integers(0, k, (n, k))
    return {"x": x, "y": y, "p": np.abs(x) + np.float32(0.5), "m": x > 0, "i": index, "r": rng.integers(0, n, n), "w": y[0].copy()}


def conv_arrays(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Input and weight of one convolution."""
    n, c, edge, o, k, _, _, groups = CONVS[name]
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, c, edge, edge), np.float32), rng.standard_normal((o, c // groups, k, k), np.float32) * np.float32(0.1)


def _of_size(torch: Any, size: str) -> Cases:
    F = torch.nn.functional
    a = {k: torch.from_numpy(v) for k, v in arrays(size).items()}
    x, y, p, m, i, r, w = (a[k] for k in "xypmirw")
    n, k = x.shape
    leaf, zero = x.clone().requires_grad_(), torch.zeros(n, k)

    def back(f: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(f(leaf), leaf, y)

    return {
        "add": lambda: x + y, "mul": lambda: x * y, "div": lambda: x / p, "exp": lambda: x.exp(), "tanh": lambda: x.tanh(),
        "sigmoid": lambda: x.sigmoid(), "gelu": lambda: F.gelu(x), "silu": lambda: F.silu(x), "relu": lambda: F.relu(x),
        "where": lambda: torch.where(m, x, y), "clamp": lambda: x.clamp(-1, 1), "addcmul": lambda: torch.addcmul(x, y, p, value=0.3),
        "lerp": lambda: torch.lerp(x, y, 0.3), "sum": lambda: x.sum(), "sum_first": lambda: x.sum(0), "sum_last": lambda: x.sum(1),
        "var_last": lambda: x.var(1), "max_last": lambda: x.max(1)[0], "prod_last": lambda: x.prod(1), "logsumexp": lambda: x.logsumexp(1),
        "softmax": lambda: x.softmax(1), "log_softmax": lambda: x.log_softmax(1), "layer_norm": lambda: F.layer_norm(x, (k,), w, w),
        "batch_norm": lambda: F.batch_norm(x, None, None, training=True), "cross_entropy": lambda: F.cross_entropy(x, i[:, 0]),
        "gather": lambda: x.gather(1, i), "scatter_add": lambda: zero.scatter_add(1, i, x), "index_select": lambda: x.index_select(0, r),
        "index_add": lambda: zero.index_add(0, r, x), "embedding": lambda: F.embedding(r, x), "cumsum": lambda: x.cumsum(1),
        "sort": lambda: x.sort(1)[0], "topk": lambda: x.topk(5)[0], "cat": lambda: torch.cat([x, y], 1), "transpose": lambda: x.t().contiguous(),
        "matmul": lambda: x @ y.t(), "dropout": lambda: F.dropout(x, 0.3), "gelu_back": back(F.gelu), "softmax_back": back(lambda t: t.softmax(1)),
        "layer_norm_back": back(lambda t: F.layer_norm(t, (k,), w, w)), "tanh_back": back(lambda t: t.tanh()),
    }  # fmt: skip


def build(torch: Any) -> Cases:
    """All cases over mindtorch tensors, named ``op:size``."""
    out: Cases = {}
    for size in SIZES:
        out.update({f"{name}:{size}": fn for name, fn in _of_size(torch, size).items()})
    for name, (_, _, _, _, _, stride, pad, groups) in CONVS.items():
        x, w = (torch.from_numpy(v).requires_grad_() for v in conv_arrays(name))

        def forward(x: Any = x, w: Any = w, s: int = stride, p: int = pad, g: int = groups) -> Any:
            return torch.nn.functional.conv2d(x, w, None, s, p, 1, g)

        y = forward()
        ones = torch.ones_like(y)
        out[f"conv:{name}"] = forward
        # the graph is kept, so that only the two derivatives are timed
        out[f"conv_back:{name}"] = lambda y=y, x=x, w=w, g=ones: torch.autograd.grad(y, (x, w), g, retain_graph=True)
    return out


def _mindspore_ops(size: str) -> Cases:
    from mindtorch.engine.mindspore import door

    ms = door.load()
    ops, a = ms.ops, arrays(size)
    P = ops.operations
    take = door.tensor
    run: dict[str, Callable[..., Any]] = {
        "add": lambda x, y: ops.add(x, y), "mul": lambda x, y: ops.mul(x, y), "exp": lambda x: ops.exp(x), "tanh": lambda x: ops.tanh(x),
        "sigmoid": lambda x: ops.sigmoid(x), "relu": lambda x: ops.relu(x), "softmax": lambda x: P.Softmax(1)(x),
        "log_softmax": lambda x: P.LogSoftmax(1)(x), "matmul": lambda x, y: P.MatMul(False, True)(x, y), "sum_last": lambda x: P.ReduceSum()(x, 1),
        "sum_first": lambda x: P.ReduceSum()(x, 0), "gather": lambda x, i: ops.gather_elements(x, 1, i), "cumsum": lambda x: ops.cumsum(x, 1),
        "transpose": lambda x: ops.transpose(x, (1, 0)), "cat": lambda x, y: ops.cat([x, y], 1), "index_select": lambda x, r: ops.gather(x, r, 0),
        "layer_norm": lambda x, w: P.LayerNorm(1, 1)(x, w, w)[0], "div": lambda x, p: ops.div(x, p), "where": lambda m, x, y: ops.select(m, x, y),
        "sort": lambda x: P.Sort(1)(x)[0], "topk": lambda x: P.TopK()(x, 5)[0],
    }  # fmt: skip
    out = {}
    for name, fn in run.items():
        words = fn.__code__.co_varnames[: fn.__code__.co_argcount]
        out[f"{name}:{size}"] = lambda fn=fn, words=words: fn(*(take(a[k]) for k in words)).asnumpy()
    return out


def build_mindspore(_: Any) -> Cases:
    """The cases MindSpore's CPU kernels can compute (convolutions go through ``MINDTORCH_KERNELS=mindspore`` instead)."""
    out: Cases = {}
    for size in SIZES:
        for name, fn in _mindspore_ops(size).items():
            try:
                fn()
            except Exception:  # noqa: BLE001 - no kernel, or none for these types: not an option
                continue
            out[name] = fn
    return out
