"""DistributedDataParallel: every process runs the module on its own data, gradients are averaged over all."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mindtorch.torch as torch
from mindtorch.log import ignored

from ..modules.module import Module
from ..parameter import UninitializedBuffer, UninitializedParameter
from .reducer import Reducer, flat_broadcast

__all__ = ["DistributedDataParallel"]

_MB = 1 << 20


def world_size(process_group: Any = None) -> int:
    """Number of processes of the group; 1 when torch.distributed was never started."""
    dist = sys.modules.get("mindtorch.torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return 1
    return dist.get_world_size(process_group)


class DistributedDataParallel(Module):
    """Runs ``module``; during each backward pass the gradients of all processes are averaged, in buckets.

    Parameters and buffers start as rank 0's, and buffers are rank 0's again before each forward pass. ``state_dict`` keys begin with
    ``module.``. One process, or no process group, needs no reduction. RuntimeError when no parameter needs a gradient, or when the
    processes hold different modules; ValueError for device_ids of modules on the CPU.
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
    ) -> None:
        super().__init__()
        self._check(module, device_ids, output_device)
        for name, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
            ("bucket_cap_mb_list", bucket_cap_mb_list),
        ):
            if value is not None:
                raise ValueError(f"DistributedDataParallel: {name} is not supported; leave it out")
        if check_reduction:
            ignored("DistributedDataParallel", "check_reduction", "an unfinished reduction is always detected, as in PyTorch")
        if skip_all_reduce_unused_params:
            ignored("DistributedDataParallel", "skip_all_reduce_unused_params", "buckets are reduced whole")
        self.module = module
        self.device_ids = device_ids
        self.output_device = output_device
        self.dim = dim
        self.process_group = process_group
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MB)
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", []))
        self._reducer: Reducer | None = None
        self._joining: _Joining | None = None
        if world_size(process_group) > 1:
            self._start(init_sync)

    @staticmethod
    def _check(module: Any, device_ids: Any, output_device: Any) -> None:
        params = list(module.parameters())
        if any(isinstance(p, (UninitializedParameter, UninitializedBuffer)) for p in params):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward pass to "
                "correctly initialize the modules"
            )
        if not any(p.requires_grad for p in params):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.")
        if device_ids and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if device_ids and all(p.device.type == "cpu" for p in params):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU "
                f"modules or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and module parameters "
                f"{ {p.device for p in params} }."
            )

    def _start(self, init_sync: bool) -> None:
        """Compare the modules of all processes, make them equal, and watch the parameters."""
        self._pg = torch.distributed.world.resolve(self.process_group)
        named = [(n, p) for n, p in self.module.named_parameters() if n not in self.parameters_to_ignore]
        params = [p for _, p in named if p.requires_grad]
        if init_sync:
            shapes: list[Any] = [None] * self._pg.size()
            mine = [(tuple(p.shape), str(p.dtype)) for _, p in named]
            torch.distributed.all_gather_object(shapes, mine, group=self.process_group)
            for r, other in enumerate(shapes):
                if len(other) != len(shapes[0]):
                    raise RuntimeError(
                        f"DDP expects same model across all ranks, but Rank 0 has {len(shapes[0])} params, while rank {r} has "
                        f"inconsistent {len(other)} params."
                    )
                for i, (a, b) in enumerate(zip(shapes[0], other)):
                    if a != b:
                        raise RuntimeError(
                            f"[{r}]: params[{i}] in this process with sizes {list(b[0])} appears not to match sizes of the same param "
                            f"in process 0: {list(a[0])}."
                        )
            flat_broadcast(self._pg, [p.detach() for _, p in named] + self._buffers_to_send(), 0)
        self._reducer = Reducer(self._pg, params, self.bucket_bytes_cap, self.gradient_as_bucket_view, self.static_graph)

    def _buffers_to_send(self) -> list[Any]:
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to this process."""
        state = dict(self.__dict__)
        state.update(_reducer=None, _pg=None, _joining=None, process_group=None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if world_size() > 1:
            self._start(False)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's output."""
        reducer = self._reducer
        if reducer is None:
            return self.module(*inputs, **kwargs)
        wanted = torch.is_grad_enabled() and self.require_backward_grad_sync
        if wanted:
            reducer.check()
        source = 0
        if self._joining is not None:
            source = self._joining.tell(wanted)
        if self.require_forward_param_sync and self.broadcast_buffers:
            buffers = self._buffers_to_send()
            if buffers:
                flat_broadcast(self._pg, buffers, source)
        reducer.expect = False
        output = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = wanted
        if wanted:
            reducer.prepare(output, self.find_unused_parameters)
        return output

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forward passes inside stay local and add up; the next pass outside averages the sums."""
        old, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = old

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let ``hook(state, GradBucket) -> Future[Tensor]`` reduce each bucket. TypeError for what cannot be called."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._reducer is not None:
            if self._reducer.hook is not None:
                raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
            self._reducer.hook = (state, hook)

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """For processes with different numbers of batches: those that are through go along with zero gradients until all are.

        Gradients are divided by the number of processes, or with ``divide_by_initial_world_size=False`` by those with batches.
        Afterwards all have the module of a process that was last. ``throw_on_early_termination``: RuntimeError in all instead.
        """
        if not enable or self._reducer is None:
            yield
            return
        # the order of the buckets is settled by all processes at once, and here some may have nothing to say
        self._reducer.may_sort = False
        self._joining = joining = _Joining(self, divide_by_initial_world_size, throw_on_early_termination)
        try:
            yield
            joining.shadow()
        finally:
            self._joining = None
            self._reducer.divisor = self._pg.size()


class _Joining:
    """Who still has batches: before each forward pass all processes exchange it, those that are through in a loop."""

    def __init__(self, ddp: DistributedDataParallel, divide: bool, throw: bool) -> None:
        self.ddp = ddp
        self.divide = divide
        self.throw = throw
        self.last = 0

    def _exchange(self, active: bool, wanted: bool, buffers: bool) -> np.ndarray:
        """One row per member: has a batch, will reduce gradients, will send buffers, will ask for used parameters."""
        ddp, pg = self.ddp, self.ddp._pg
        asks = wanted and ddp._reducer is not None and ddp._reducer.asks(ddp.find_unused_parameters)
        row = np.array([active, wanted, buffers, asks], np.int64)
        return np.stack(pg.channel.run(lambda: pg.all_gather(row)))

    def tell(self, wanted: bool) -> int:
        """Announce a forward pass; the member whose buffers all take."""
        ddp = self.ddp
        rows = self._exchange(True, wanted, ddp.require_forward_param_sync)
        active = np.flatnonzero(rows[:, 0])
        if self.throw and len(active) < len(rows):
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        if not self.divide:
            ddp._reducer.divisor = len(active)  # type: ignore[union-attr]
        return int(active[0])

    def shadow(self) -> None:
        """Go along until nobody has a batch, then take the module of one that was last."""
        ddp = self.ddp
        reducer, pg = ddp._reducer, ddp._pg
        assert reducer is not None
        last = pg.here
        while True:
            rows = self._exchange(False, False, False)
            active = np.flatnonzero(rows[:, 0])
            if not len(active):
                break
            if self.throw:
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
            last = int(active[0])
            if rows[last, 2] and ddp.broadcast_buffers:
                buffers = ddp._buffers_to_send()
                if buffers:
                    flat_broadcast(pg, buffers, last)
            if rows[last, 1]:
                reducer.shadow(bool(rows[last, 3]))
        votes = pg.channel.run(lambda: pg.all_gather(np.array([last], np.int64)))
        # those who ran the last batch saw nobody after them and name themselves
        source = min(i for i, v in enumerate(votes) if int(v[0]) == i)
        params = [p.detach() for n, p in ddp.module.named_parameters() if n not in ddp.parameters_to_ignore]
        flat_broadcast(pg, params + ddp._buffers_to_send(), source)
