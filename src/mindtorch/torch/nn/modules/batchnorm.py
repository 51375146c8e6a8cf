"""Batch normalisation."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from .. import functional as F
from ..parameter import UninitializedBuffer, UninitializedParameter
from ._affine import make_affine, reset_affine
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """Parameters weight, bias (C) with ``affine``; buffers running_mean, running_var (C), num_batches_tracked ()."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        where = {"device": device, "dtype": dtype}
        make_affine(self, num_features, affine, affine and bias, **where)
        if track_running_stats:
            self.register_buffer("running_mean", torch.zeros(num_features, **where))
            self.register_buffer("running_var", torch.ones(num_features, **where))
            self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was seen: mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """weight 1, bias 0, and fresh statistics."""
        self.reset_running_stats()
        if self.affine:
            reset_affine(self)

    def _check_input_dim(self, input: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} must say which inputs it takes (_check_input_dim)")

    def extra_repr(self) -> str:
        """Settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        self._mend_older(state_dict, prefix, local_metadata.get("version", None), error_msgs)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _mend_older(self, state_dict: Any, prefix: str, version: int | None, error_msgs: list[str]) -> None:
        # files of version 1 and older do not count batches
        if version in (None, 0, 1) and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                have = self.num_batches_tracked
                usable = have is not None and not have.is_meta
                state_dict[key] = have if usable else torch.tensor(0, dtype=torch.long)


class _BatchNorm(_NormBase):
    def forward(self, input: Any) -> Any:
        """Same shape; in training updates the running statistics (a cumulative mean when ``momentum`` is None)."""
        self._check_input_dim(input)
        buffers = self._buffers
        momentum = 0.0 if self.momentum is None else self.momentum
        training = self.training
        try:
            mean, var, count = buffers["running_mean"], buffers["running_var"], buffers["num_batches_tracked"]
            weight, bias = self._parameters["weight"], self._parameters["bias"]
        except KeyError:
            mean, var, count = self.running_mean, self.running_var, self.num_batches_tracked
            weight, bias = self.weight, self.bias
        if training and self.track_running_stats and count is not None:
            count.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(count)
        if not training and mean is None and var is None:
            training = True
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(input, mean, var, weight, bias, training, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalises each feature of (N, C) or (N, C, L) over the rest."""

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Normalises each channel of (N, C, H, W) over the rest."""

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Normalises each channel of (N, C, D, H, W) over the rest."""

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over all processes; one process is BatchNorm. On the CPU too, where PyTorch has none."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Any) -> Any:
        """Same shape. In training the statistics are those of all processes, each of which must call this."""
        from ..parallel.distributed import world_size

        if not self.training or world_size(self.process_group) < 2:
            return super().forward(input)
        from ._functions import sync_batch_norm

        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        mean, var = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        return sync_batch_norm(input, self.weight, self.bias, mean, var, self.eps, momentum, self.process_group)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """``module`` with every BatchNorm in it replaced by a SyncBatchNorm that shares its tensors."""
        out = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            out = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                with torch.no_grad():
                    out.weight = module.weight
                    out.bias = module.bias
            out.running_mean = module.running_mean
            out.running_var = module.running_var
            out.num_batches_tracked = module.num_batches_tracked
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Takes ``num_features`` from the second dimension of the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = torch.tensor(0, dtype=torch.long, device=device)

    def reset_parameters(self) -> None:
        """Set the values once the shape is known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Shape the members for ``input``."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        members = [self.weight, self.bias] if self.affine else []
        if self.track_running_stats:
            members += [self.running_mean, self.running_var]
        for m in members:
            if m is not None:
                m.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """BatchNorm1d that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """BatchNorm2d that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """BatchNorm3d that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim
