"""Collectives whose results carry gradients back to the tensors of all processes. Every process must run the backward pass."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
import mindtorch.torch.distributed as dist

__all__ = ["all_gather", "all_reduce", "all_to_all_single", "broadcast", "reduce_scatter"]

SUM = dist.ReduceOp.SUM


def _plain(x: Any) -> Any:
    return x.detach().clone(memory_format=torch.contiguous_format)


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, op: Any, group: Any) -> Any:
        ctx.op, ctx.group = op, group
        out = _plain(x)
        dist.all_reduce(out, op=op, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        out = _plain(g)
        dist.all_reduce(out, op=ctx.op, group=ctx.group)
        return out, None, None


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: Any) -> Any:
        ctx.group = group
        outs = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(outs, _plain(x), group=group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        out = torch.empty_like(gs[0])
        dist.reduce_scatter(out, [_plain(g) for g in gs], group=ctx.group)
        return out, None


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, src: int, group: Any) -> Any:
        ctx.src, ctx.group = src, group
        out = _plain(x)
        dist.broadcast(out, src, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        out = _plain(g)
        dist.reduce(out, ctx.src, group=ctx.group)
        return out if dist.get_rank() == ctx.src else torch.zeros_like(out), None, None


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Any, group: Any, *xs: Any) -> Any:
        ctx.group = group
        out = torch.empty_like(output)
        dist.reduce_scatter(out, [_plain(x) for x in xs], group=group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        outs = [torch.empty_like(g) for _ in range(dist.get_world_size(ctx.group))]
        dist.all_gather(outs, _plain(g), group=ctx.group)
        return None, None, *outs


class _AllToAllSingle(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Any, outs: Any, ins: Any, group: Any, x: Any) -> Any:
        ctx.shape, ctx.outs, ctx.ins, ctx.group = x.shape, outs, ins, group
        out = torch.empty_like(output)
        dist.all_to_all_single(out, _plain(x), outs, ins, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        out = g.new_empty(ctx.shape)
        dist.all_to_all_single(out, _plain(g), ctx.ins, ctx.outs, group=ctx.group)
        return None, None, None, None, out


def all_reduce(tensor: Any, op: Any = SUM, group: Any = None) -> Any:
    """The reduction over all processes, same shape; gradients are reduced alike. RuntimeError for other operations than SUM and AVG."""
    if op not in (SUM, dist.ReduceOp.AVG):
        raise RuntimeError(f"torch.distributed.nn.all_reduce: ReduceOp.{op.name} has no gradient here; use SUM or AVG")
    return _AllReduce.apply(tensor, op, group)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all processes; the gradient of each goes back to its process, summed."""
    return _AllGather.apply(tensor, group)


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """The tensor of rank ``src``; its gradient is the sum of all."""
    return _Broadcast.apply(tensor, src, group)


def reduce_scatter(output: Any, input_list: list[Any], op: Any = SUM, group: Any = None) -> Any:
    """The sum of all processes' ``input_list[rank]``, of the shape of ``output``. RuntimeError for other operations."""
    if op is not SUM:
        raise RuntimeError(f"torch.distributed.nn.reduce_scatter: ReduceOp.{op.name} has no gradient here; use SUM")
    return _ReduceScatter.apply(output, group, *input_list)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Any:
    """As ``torch.distributed.all_to_all_single``, returned, of the shape of ``output``."""
    return _AllToAllSingle.apply(output, output_split_sizes, input_split_sizes, group, input)
