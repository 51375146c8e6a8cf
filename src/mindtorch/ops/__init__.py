"""The op table, one file per family. Importing this package registers every row and binds methods to Tensor."""

from __future__ import annotations

import importlib

FAMILIES = (
    "arith", "view_ops", "strided", "subscript", "create", "convert", "exchange", "copies", "methods",
    "pointwise_unary", "pointwise_binary", "compare", "index", "shape", "window",
    "reduce", "scan", "sort", "differences", "linalg", "linalg_norm", "linalg_decomp", "linalg_solve", "matrix_functions", "grids", "einsum",
    "fft", "special",
    "activation", "softmax", "norm", "norm_group", "loss", "loss_class", "loss_margin", "ctc", "embedding", "linear", "attention", "rnn",
    "random", "random_fill", "random_sample", "dropout",
    "conv", "pool", "pool_adaptive", "resize", "pad",
)  # fmt: skip

for _name in FAMILIES:
    importlib.import_module(f"mindtorch.ops.{_name}")

from mindtorch.ops import bind  # noqa: E402

bind.bind()

from mindtorch.core import errors  # noqa: E402

errors.install_hook()
