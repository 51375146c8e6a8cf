"""How one bucket of gradients is averaged: whole, or in half precision on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindtorch.torch as torch
import mindtorch.torch.distributed as dist
from mindtorch.torch.futures import Future

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper"]


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """The average of the bucket, in its own dtype."""
    group = process_group or dist.group.WORLD
    flat = bucket.buffer().div_(group.size())
    return dist.all_reduce(flat, group=group, async_op=True).get_future().then(lambda f: f.value()[0])


def _compressed(process_group: Any, bucket: Any, dtype: Any) -> Future:
    group = process_group or dist.group.WORLD
    flat = bucket.buffer()
    small = flat.to(dtype).div_(group.size())
    work = dist.all_reduce(small, group=group, async_op=True)
    return work.get_future().then(lambda f: flat.copy_(f.value()[0]))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The average of the bucket rounded to float16: half the bytes of float32."""
    return _compressed(process_group, bucket, torch.float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The average of the bucket rounded to bfloat16."""
    return _compressed(process_group, bucket, torch.bfloat16)


def _wrapper(hook: Callable[..., Future], dtype: Any) -> Callable[..., Future]:
    def wrapped(state: Any, bucket: Any) -> Future:
        kind = bucket.buffer().dtype
        bucket.set_buffer(bucket.buffer().to(dtype))
        return hook(state, bucket).then(lambda f: f.value().to(kind))

    return wrapped


def fp16_compress_wrapper(hook: Callable[..., Future]) -> Callable[..., Future]:
    """``hook`` on a float16 bucket."""
    return _wrapper(hook, torch.float16)


def bf16_compress_wrapper(hook: Callable[..., Future]) -> Callable[..., Future]:
    """``hook`` on a bfloat16 bucket."""
    return _wrapper(hook, torch.bfloat16)
