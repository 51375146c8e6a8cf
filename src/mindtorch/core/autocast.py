"""State of autocast per thread; the slow path of dispatch asks :func:`cast` what to do with an op's inputs."""

from __future__ import annotations

import threading
from typing import Any

from mindtorch.core import dtype as D
from mindtorch.core import modes
from mindtorch.core.tensor import Tensor

LOWER = frozenset(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution conv_tbc bmm mm baddbmm addmm "
    "addbmm linear matmul __rmatmul__ vecdot multi_dot matrix_power prelu scaled_dot_product_attention _einsum_pair".split()
)
"""Ops that run in the lower precision on the CPU."""

FP32 = frozenset(
    "avg_pool3d adaptive_avg_pool3d max_pool3d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d "
    "max_unpool2d max_unpool3d pad_reflect1d pad_reflect2d pad_replicate1d pad_replicate2d pad_replicate3d grid_sample "
    "grid_sampler grid_sampler_2d grid_sampler_3d binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss "
    "smooth_l1_loss huber_loss nll_loss cross_entropy kl_div ctc_loss poisson_nll_loss hinge_embedding_loss "
    "cosine_embedding_loss margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss "
    "multilabel_margin_loss polar prod quantile nanquantile stft cdist trace view_as_complex cholesky cholesky_ex "
    "cholesky_inverse cholesky_solve inverse inv inv_ex lu_solve orgqr ormqr householder_product pinverse geqrf lstsq qr svd "
    "svdvals eig eigh eigvals eigvalsh cond matrix_rank solve tensorinv tensorsolve triangular_solve fft ifft fft2 ifft2 "
    "fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft".split()
)
"""Ops that run in float32 on the CPU."""

PROMOTE = frozenset({"cat", "stack", "index_copy"})
"""Ops that run in the widest dtype of their inputs."""


def policy(name: str) -> str | None:
    """What autocast does with the inputs of op ``name``: "lower", "fp32", "promote" or nothing (PyTorch's CPU lists)."""
    if name in LOWER:
        return "lower"
    if name in FP32:
        return "fp32"
    return "promote" if name in PROMOTE else None


class _State(threading.local):
    enabled = False
    dtype = D.bfloat16
    cache = True


state = _State()


def set_state(enabled: bool, dtype: D.dtype, cache: bool = True) -> tuple[bool, D.dtype, bool]:
    """Switch autocast for this thread; returns the former state for :func:`restore`."""
    old = (state.enabled, state.dtype, state.cache)
    if enabled and not state.enabled:
        modes.enter_mode()
    elif state.enabled and not enabled:
        modes.leave_mode()
    state.enabled, state.dtype, state.cache = enabled, dtype, cache
    return old


def restore(old: tuple[bool, D.dtype, bool]) -> None:
    """Undo :func:`set_state`."""
    set_state(*old)


def _to(v: Any, d: D.dtype) -> Any:
    if isinstance(v, Tensor):
        ok = v.k.dtype.is_floating_point and v.k.dtype not in (D.float64, d)
        return v.to(d) if ok else v
    if isinstance(v, (list, tuple)):
        return type(v)(_to(x, d) for x in v)
    return v


def cast(policy: str | None, args: list[Any]) -> list[Any]:
    """``args`` with floating tensors cast by the row's policy: "lower", "fp32" or "promote"."""
    if policy is None or not state.enabled:
        return args
    if policy == "lower":
        return [_to(v, state.dtype) for v in args]
    if policy == "fp32":
        return [_to(v, D.float32) for v in args]
    flat: list[Tensor] = []
    for v in args:
        flat += [x for x in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(x, Tensor) and x.k.diff]
    if any(t.k.dtype is D.float32 for t in flat):
        return [_to(v, D.float32) for v in args]
    return args
