"""Frequent operations in three sizes (S 8x8, M 64x256, L a million elements) for ``kernels.py --against torch``.

Every case is plain PyTorch code and runs unchanged in both packages. ``build`` makes the inputs once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Cases = dict[str, Callable[[], Any]]
SHAPES = {"S": (8, 8), "M": (64, 256), "L": (1000, 1000)}
"""Rows and columns per size."""
BATCHES = {"S": (4, 8, 4), "M": (16, 16, 20), "L": (32, 32, 32)}
"""Images, channels and edge per size, for layers over images."""


def _pointwise(torch: Any, x: Any, y: Any, pos: Any, mask: Any) -> Cases:
    F = torch.nn.functional
    z, s = x.clone(), x.clone()
    return {
        "mul": lambda: x * y, "mul_number": lambda: x * 2.0, "div": lambda: x / pos, "square": lambda: x**2, "sqrt": lambda: pos.sqrt(),
        "log": lambda: pos.log(), "exp": lambda: x.exp(), "tanh": lambda: x.tanh(), "sigmoid": lambda: x.sigmoid(),
        "gelu": lambda: F.gelu(x), "silu": lambda: F.silu(x), "relu": lambda: x.relu(), "abs": lambda: x.abs(), "neg": lambda: -x,
        "sin": lambda: x.sin(), "clamp": lambda: x.clamp(-1, 1), "maximum": lambda: torch.maximum(x, y),
        "where": lambda: torch.where(mask, x, y), "masked_fill": lambda: x.masked_fill(mask, 0.0), "gt": lambda: x > y,
        "eq_number": lambda: x == 0, "logical_and": lambda: mask & mask, "isnan": lambda: x.isnan(), "floor": lambda: x.floor(),
        "add_alpha_": lambda: z.add_(y, alpha=1e-6), "addcmul_": lambda: z.addcmul_(x, y, value=1e-6),
        "addcdiv_": lambda: z.addcdiv_(x, pos, value=1e-6), "lerp_": lambda: z.lerp_(y, 0.1), "mul_": lambda: s.mul_(1.0),
        "to_float64": lambda: x.to(torch.float64), "to_int64": lambda: x.long(), "bool_to_float": lambda: mask.float(),
        "clone": lambda: x.clone(), "zeros_like": lambda: torch.zeros_like(x), "pow_number": lambda: pos**1.5,
        "lerp": lambda: torch.lerp(x, y, 0.3), "softplus": lambda: F.softplus(x), "leaky_relu": lambda: F.leaky_relu(x),
    }  # fmt: skip


def _reduce(torch: Any, x: Any, mask: Any) -> Cases:
    F = torch.nn.functional
    return {
        "sum": lambda: x.sum(), "sum_dim0": lambda: x.sum(0), "mean": lambda: x.mean(), "mean_last": lambda: x.mean(-1),
        "var": lambda: x.var(), "var_last": lambda: x.var(-1), "std_dim0": lambda: x.std(0), "max": lambda: x.max(),
        "max_last": lambda: x.max(1), "argmax": lambda: x.argmax(-1), "amax": lambda: x.amax(0), "norm": lambda: x.norm(),
        "norm_last": lambda: x.norm(dim=-1), "prod_last": lambda: x.prod(-1), "any": lambda: mask.any(), "all_last": lambda: mask.all(-1),
        "count_nonzero": lambda: torch.count_nonzero(mask), "mask_sum": lambda: mask.sum(), "cumsum_last": lambda: x.cumsum(-1),
        "cumsum_dim0": lambda: x.cumsum(0), "cumprod": lambda: torch.cumprod(x, -1), "logsumexp": lambda: torch.logsumexp(x, -1),
        "softmax": lambda: x.softmax(-1), "log_softmax": lambda: F.log_softmax(x, -1), "softmax_dim0": lambda: x.softmax(0),
        "normalize": lambda: F.normalize(x, dim=-1),
    }  # fmt: skip


def _index(torch: Any, x: Any, y: Any, mask: Any, shape: tuple[int, int]) -> Cases:
    n, m = shape
    F = torch.nn.functional
    rows = torch.randint(0, n, (n,))
    cols = torch.randint(0, m, (n, m))
    ints = torch.randint(0, max(2, m // 2), (n * m,))
    edges = torch.linspace(-3, 3, m)
    acc, put = torch.zeros(n, m), torch.zeros(n, m)
    k = min(5, m)
    return {
        "gather": lambda: x.gather(1, cols), "scatter_add": lambda: acc.scatter_add(1, cols, x), "scatter": lambda: acc.scatter(1, cols, x),
        "index_add": lambda: acc.index_add(0, rows, x), "index_rows": lambda: x[rows], "index_select_1": lambda: x.index_select(1, rows % m),
        "index_mask": lambda: x[mask], "masked_select": lambda: x.masked_select(mask), "set_mask": lambda: put.__setitem__(mask, 1.0),
        "set_rows": lambda: put.__setitem__(rows, y), "nonzero": lambda: mask.nonzero(), "slice_step": lambda: x[:, ::2] + 1,
        "one_hot": lambda: F.one_hot(rows, n), "embedding": lambda: F.embedding(rows, x), "sort": lambda: x.sort(-1),
        "argsort": lambda: x.argsort(-1), "topk": lambda: x.topk(k), "unique": lambda: ints.unique(), "bincount": lambda: ints.bincount(),
        "searchsorted": lambda: torch.searchsorted(edges, x), "cat": lambda: torch.cat([x, y], 1), "stack": lambda: torch.stack([x, y]),
        "permute_copy": lambda: x.t().contiguous(), "flip": lambda: x.flip(0), "roll": lambda: x.roll(1, 0), "repeat": lambda: x.repeat(2, 1),
        "pad": lambda: F.pad(x, (1, 1)), "tril": lambda: x.tril(), "split": lambda: x.split(2 if n < 64 else n // 4), "chunk": lambda: x.chunk(2, 1),
        "take_along": lambda: torch.take_along_dim(x, cols, 1), "unbind": lambda: x[:8].unbind(0), "diagonal": lambda: x.diagonal().sum(),
    }  # fmt: skip


def _create(torch: Any, shape: tuple[int, int]) -> Cases:
    n, m = shape
    total = n * m
    values = [float(i) for i in range(min(total, 1000))]
    return {
        "zeros": lambda: torch.zeros(n, m), "full": lambda: torch.full((n, m), 1.5), "arange": lambda: torch.arange(total),
        "linspace": lambda: torch.linspace(0, 1, total), "eye": lambda: torch.eye(n), "rand": lambda: torch.rand(n, m),
        "randn": lambda: torch.randn(n, m), "randint": lambda: torch.randint(0, 10, (n, m)), "randperm": lambda: torch.randperm(total),
        "bernoulli": lambda: torch.empty(n, m).bernoulli_(0.3), "uniform_": lambda: torch.empty(n, m).uniform_(-1, 1),
        "tensor_list": lambda: torch.tensor(values), "Linear": lambda: torch.nn.Linear(m, n), "randn_like": lambda: torch.randn_like(torch.empty(n, m)),
    }  # fmt: skip


def _products(torch: Any, x: Any, y: Any, shape: tuple[int, int]) -> Cases:
    v = torch.randn(shape[1])
    b = torch.randn(8, *((t // 4 for t in shape) if shape[0] > 64 else shape))
    return {
        "matmul": lambda: x @ y.t(), "mv": lambda: x @ v, "bmm": lambda: b @ b.transpose(1, 2), "addmm": lambda: torch.addmm(v[: shape[0]] if
        shape[0] <= shape[1] else v[0], x, y.t()), "einsum": lambda: torch.einsum("ij,kj->ik", x, y), "outer": lambda: torch.outer(v, v),
        "cdist": lambda: torch.cdist(x[:200], y[:200]),
    }  # fmt: skip


def _layers(torch: Any, x: Any, y: Any, shape: tuple[int, int], size: str) -> Cases:
    nn, F = torch.nn, torch.nn.functional
    n, m = shape
    batch, channels, edge = BATCHES[size]
    image = torch.randn(batch, channels, edge, edge)
    label = torch.randint(0, m, (n,))
    w = torch.ones(m)
    norm1, norm2, group = nn.BatchNorm1d(m), nn.BatchNorm2d(channels), nn.GroupNorm(4, channels)
    prob = x.sigmoid()
    leaf = x.clone().requires_grad_()

    def back(f: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(f(leaf).sum(), leaf)

    return {
        "batch_norm1d": lambda: norm1(x), "batch_norm2d": lambda: norm2(image), "layer_norm": lambda: F.layer_norm(x, (m,), w, w),
        "group_norm": lambda: group(image), "max_pool2d": lambda: F.max_pool2d(image, 2), "avg_pool2d": lambda: F.avg_pool2d(image, 2),
        "adaptive_avg": lambda: F.adaptive_avg_pool2d(image, 1), "dropout": lambda: F.dropout(x, 0.3), "mse_loss": lambda: F.mse_loss(x, y),
        "l1_loss": lambda: F.l1_loss(x, y), "smooth_l1": lambda: F.smooth_l1_loss(x, y), "cross_entropy": lambda: F.cross_entropy(x, label),
        "bce": lambda: F.binary_cross_entropy(prob, prob), "bce_logits": lambda: F.binary_cross_entropy_with_logits(x, prob),
        "interpolate": lambda: F.interpolate(image, scale_factor=2), "bilinear": lambda: F.interpolate(image, scale_factor=2, mode="bilinear"),
        "unfold": lambda: F.unfold(image, 3), "grad_relu": back(lambda t: t.relu()), "grad_tanh": back(lambda t: t.tanh()),
        "grad_softmax": back(lambda t: t.softmax(-1)), "grad_mul": back(lambda t: t * y), "grad_gelu": back(F.gelu),
        "grad_index": back(lambda t: t[label % n]), "grad_cumsum": back(lambda t: t.cumsum(-1)), "grad_slice": back(lambda t: t[1:]),
    }  # fmt: skip


def _optimisers(torch: Any, shape: tuple[int, int], size: str) -> Cases:
    """Steps over 40 tensors of an eighth of the case's elements at size S, 5 otherwise."""
    out: Cases = {}
    kinds = {
        "SGD": {"lr": 1e-4, "momentum": 0.9}, "Adam": {"lr": 1e-5}, "AdamW": {"lr": 1e-5}, "RMSprop": {"lr": 1e-5}, "Adagrad": {"lr": 1e-5},
    }  # fmt: skip
    for name, options in kinds.items():
        params = [torch.nn.Parameter(torch.randn(shape)) for _ in range(40 if size == "S" else 5)]
        for p in params:
            p.grad = torch.randn(shape) * 0.01
        out[f"step_{name}"] = getattr(torch.optim, name)(params, **options).step
    params = [torch.nn.Parameter(torch.randn(shape)) for _ in range(5)]
    for p in params:
        p.grad = torch.randn(shape) * 1e-4
    out["clip_grad_norm_"] = lambda: torch.nn.utils.clip_grad_norm_(params, 1.0)
    return out


def build(torch: Any, sizes: str = "SML") -> Cases:
    """Cases named ``op:size``."""
    out: Cases = {}
    for size in sizes:
        shape = SHAPES[size]
        torch.manual_seed(0)
        x, y = torch.randn(shape), torch.randn(shape)
        mask = torch.rand(shape) > 0.5
        groups = (
            _pointwise(torch, x, y, x.abs() + 0.5, mask), _reduce(torch, x, mask), _index(torch, x, y, mask, shape), _create(torch, shape),
            _products(torch, x, y, shape), _layers(torch, x, y, shape, size), _optimisers(torch, shape, size),
        )  # fmt: skip
        for group in groups:
            out.update({f"{name}:{size}": fn for name, fn in group.items()})
    return out
