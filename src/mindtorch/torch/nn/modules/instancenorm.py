"""Instance normalisation."""

from __future__ import annotations

import warnings
from typing import Any

from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Normalises each channel of each sample; running statistics only with ``track_running_stats``."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Any) -> None:
        n = self._nd
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")

    def _mend_older(self, state_dict: Any, prefix: str, version: int | None, error_msgs: list[str]) -> None:
        # files of PyTorch 0.3 carry statistics that nobody used: say so rather than call them unexpected
        if version is None and not self.track_running_stats:
            stats = [n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if stats:
                names = " and ".join(f'"{n}"' for n in stats)
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {type(self).__name__} with track_running_stats=False. If "
                    "state_dict is a checkpoint saved before 0.4.0, this may be expected because "
                    f"{type(self).__name__} does not track running stats by default since 0.4.0. Please remove these keys "
                    "from state_dict."
                )
                for n in stats:
                    state_dict.pop(prefix + n)
        super()._mend_older(state_dict, prefix, version, error_msgs)

    def forward(self, input: Any) -> Any:
        """Same shape."""
        self._check_input_dim(input)
        n = self._nd
        channels = input.size(-n - 1)
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={input.dim() - n - 1} to match num_features ({self.num_features}), but got: "
                    f"{channels}."
                )
            warnings.warn(
                f"input's size at dim={input.dim() - n - 1} does not match num_features. You can silence this warning by not "
                "passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        batched = input.dim() == n + 2
        out = F.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return out if batched else out.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Normalises over L of (N, C, L) or (C, L)."""

    _nd = 1


class InstanceNorm2d(_InstanceNorm):
    """Normalises over H, W of (N, C, H, W) or (C, H, W)."""

    _nd = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalises over D, H, W of (N, C, D, H, W) or (C, D, H, W)."""

    _nd = 3


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm1d that takes ``num_features`` from its first input."""

    _nd = 1
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm2d that takes ``num_features`` from its first input."""

    _nd = 2
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm3d that takes ``num_features`` from its first input."""

    _nd = 3
    cls_to_become = InstanceNorm3d
