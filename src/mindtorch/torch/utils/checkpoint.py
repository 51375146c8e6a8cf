"""Activation checkpointing: what a function saves for backward is dropped and computed again when backward needs it."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import mindtorch.torch as torch
from mindtorch import log
from mindtorch.core import autocast as _autocast
from mindtorch.core.tape import _Walk
from mindtorch.core.tensor import Tensor

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """The recomputation did not do what the forward pass did."""


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors cut from the graph, ``requires_grad`` kept; other values as they are."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no input requires a gradient."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Accelerators that hold an argument, and their random states: none here."""
    return [], []


def set_device_states(devices: list[int], states: list[Any], *, device_type: str | None = None) -> None:
    """Restore what `get_device_states` returned. RuntimeError for a device that is not there."""
    if devices:
        raise RuntimeError(f"set_device_states: there is no device {devices[0]} in this process")


class _Surroundings:
    """Random stream and autocast of the forward pass, to be in force again during the recomputation."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.rng = torch.get_rng_state() if preserve_rng_state else None
        s = _autocast.state
        self.cast = (s.enabled, s.dtype, s.cache)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Put them in force; the present ones return at the end."""
        now = torch.get_rng_state() if self.rng is not None else None
        if self.rng is not None:
            torch.set_rng_state(self.rng)
        old = _autocast.set_state(*self.cast)
        try:
            yield
        finally:
            _autocast.restore(old)
            if now is not None:
                torch.set_rng_state(now)


# ------------------------------------------------------------------------------------------ reentrant


def _only_some_inputs() -> bool:
    """Whether the backward pass that is running was asked for the gradients of given inputs only."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        walk = frame.f_locals.get("self") if frame.f_code.co_name == "run" else None
        if isinstance(walk, _Walk):
            return walk.capture is not None
        frame = frame.f_back
    return False


class CheckpointFunction(torch.autograd.Function):
    """Runs the function without recording, and again with recording inside backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """``args`` are kept; intermediate results are not."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.around = _Surroundings(preserve_rng_state)
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with torch.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Recompute, then run backward through the recomputed graph; gradients of captured tensors are added there."""
        if _only_some_inputs():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). Set use_reentrant=False, or call .backward() without `inputs`."
            )
        args = list(ctx.others)
        for i, t in zip(ctx.places, ctx.saved_tensors):
            args[i] = t
        inputs = detach_variable(tuple(args))
        with torch.enable_grad(), ctx.around.again():
            outputs = ctx.run_function(*inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in inputs))


# ------------------------------------------------------------------------------------------ not reentrant


class _StopRecomputing(Exception):  # noqa: N818 - control flow, not an error
    """Everything that was saved has been computed again."""


_early_stop = True
_debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether recomputation stops as soon as everything needed is there (the default)."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Override the ``debug`` argument of `checkpoint` inside."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


class _Place:
    """Stands for the n-th tensor that the forward pass saved."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class _Frame:
    """One checkpointed call: counts what is saved, computes it again on demand."""

    def __init__(self, run: Callable[[], Any], context: Any, around: _Surroundings, check: bool, early: bool) -> None:
        self.run = run
        self.context = context
        self.around = around
        self.check = check
        self.early = early and _early_stop
        self.saved: list[tuple[Any, Any]] = []
        self.ready: dict[int, Tensor] = {}

    def pack(self, t: Tensor) -> _Place:
        """Forward: remember the metadata only."""
        self.saved.append((tuple(t.shape), t.dtype))
        return _Place(len(self.saved) - 1)

    def unpack(self, place: _Place) -> Tensor:
        """Backward: the tensor, computed again with all the others the first time one is needed."""
        if place.index not in self.ready:
            self.recompute()
        return self.ready.pop(place.index)

    def recompute(self) -> None:
        """Run the function once more, keeping what it saves this time."""
        count = 0
        self.ready = {}

        def keep(t: Tensor) -> Any:
            nonlocal count
            if count < len(self.saved):
                self._compare(count, t)
                self.ready[count] = t.detach()
            elif self.check:
                raise CheckpointError(
                    self._differs(f"more than the {len(self.saved)} tensors saved by the forward pass")
                )
            count += 1
            if self.early and count == len(self.saved):
                raise _StopRecomputing
            return _Place(-1)

        def refuse(_: Any) -> Any:
            raise CheckpointError("torch.utils.checkpoint: backward ran inside a recomputation")

        with contextlib.suppress(_StopRecomputing), torch.enable_grad(), self.around.again(), self.context:
            with torch.autograd.graph.saved_tensors_hooks(keep, refuse):
                self.run()
        if count < len(self.saved):
            raise CheckpointError(self._differs(f"{count} tensors, the forward pass saved {len(self.saved)}"))

    def _compare(self, i: int, t: Tensor) -> None:
        if self.check and self.saved[i] != (tuple(t.shape), t.dtype):
            shape, dtype = self.saved[i]
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\ntensor at position {i}:\nsaved metadata: shape {shape}, dtype {dtype}\n"
                f"recomputed metadata: shape {tuple(t.shape)}, dtype {t.dtype}"
            )

    @staticmethod
    def _differs(what: str) -> str:
        return (
            f"torch.utils.checkpoint: the recomputation saved {what}. The function must do the same both times: look "
            "for state it changes, or pass determinism_check='none' to skip this check"
        )


def _plain_call(
    function: Any, args: Any, kwargs: Any, preserve: bool, context_fn: Any, check: str, early_stop: bool
) -> Any:
    if check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {check!r}")
    forward_context, again_context = context_fn()
    frame = _Frame(
        lambda: function(*args, **kwargs), again_context, _Surroundings(preserve), check == "default", early_stop
    )
    if not torch.is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    with torch.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


def checkpoint(
    function: Any,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args)``, computed again in backward instead of keeping its intermediate results.

    ``preserve_rng_state`` (default True) replays the random stream. ``use_reentrant=False`` is the better kind: it
    works with ``autograd.grad``, keyword arguments and inputs that require no gradient.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; True is assumed.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    if debug if _debug is None else _debug:
        log.ignored("torch.utils.checkpoint.checkpoint", "debug", "errors name the tensor that differs in any case")
    return _plain_call(function, args, kwargs, preserve, context_fn, determinism_check, early_stop)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a Sequential (or a list of functions) in ``segments`` parts, all but the last checkpointed."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended; True is assumed.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if isinstance(functions, torch.nn.Sequential) else list(functions)

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    size = len(steps) // segments
    at = 0
    for _ in range(segments - 1):
        input = checkpoint(part(at, at + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
        at += size
    return part(at, len(steps))(input)
