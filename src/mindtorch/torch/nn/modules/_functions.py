"""Batch normalisation whose statistics are those of all processes."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch


class AllReduceSum(torch.autograd.Function):
    """The sum over a group's processes; its gradient is the sum of all their gradients."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any) -> Any:
        """Same shape."""
        ctx.group = group
        out = x.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Same shape."""
        out = g.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(out, group=ctx.group)
        return out, None


def sync_batch_norm(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, momentum: float, group: Any
) -> Any:
    """Normalise (N, C, ...) per channel by mean and variance over all processes' N and the rest; updates the running ones.

    N may differ between processes. ValueError when all of them together have one value per channel.
    """
    dims = [d for d in range(x.dim()) if d != 1]
    shape = [1, -1] + [1] * (x.dim() - 2)
    y = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    local = x.numel() // x.size(1)
    sums = AllReduceSum.apply(torch.cat([y.sum(dims), y.new_full((1,), float(local))]), group)
    count = int(sums[-1].item())
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {tuple(x.shape)} in all processes together")
    mean = sums[:-1] / count
    centred = y - mean.view(shape)
    var = AllReduceSum.apply((centred * centred).sum(dims), group) / count
    if running_mean is not None:
        with torch.no_grad():
            running_mean.mul_(1 - momentum).add_(mean.detach().to(running_mean.dtype), alpha=momentum)
            running_var.mul_(1 - momentum).add_((var.detach() * (count / (count - 1))).to(running_var.dtype), alpha=momentum)
    out = centred * torch.rsqrt(var + eps).view(shape)
    if weight is not None:
        out = out * weight.view(shape)
    if bias is not None:
        out = out + bias.view(shape)
    return out.to(x.dtype)
