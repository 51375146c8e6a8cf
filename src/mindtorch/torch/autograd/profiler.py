"""``torch.autograd.profiler``: the older interface to the same recorder, and `record_function`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mindtorch import log
from mindtorch.core import observe

_NO_VIEWER = "there is no such viewer on this host; use torch.profiler.profile and its export_chrome_trace"


class record_function:  # noqa: N801 - public name
    """A named range in profiles: ``with record_function("name"):``, or ``@record_function("name")`` on a function."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._tokens: list[Any] = []

    def __enter__(self) -> record_function:
        if observe.RANGES:
            self._tokens = observe.enter("user", self.name, self.args)
        return self

    def __exit__(self, *exc: Any) -> None:
        tokens, self._tokens = self._tokens, []
        observe.leave(tokens)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return fn(*args, **kwargs)

        return ranged


class profile:  # noqa: N801 - public name
    """Record the ops of a ``with`` block. ``enabled=False`` records nothing; other options as of ``torch.profiler``."""

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None, record_shapes: bool = False,
        with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False, with_modules: bool = False,
        use_kineto: bool = False, use_cpu: bool = True, experimental_config: Any = None, acc_events: bool = False,
        custom_trace_id_callback: Any = None, post_processing_timeout_s: float | None = None, activity_filters: Any = None,
    ) -> None:  # fmt: skip
        from mindtorch.torch.profiler.profiler import _KinetoProfile

        log.without_effect(
            "autograd.profiler.profile", "ops are timed on the host by mindtorch's own recorder", use_cuda=(use_cuda, False),
            use_device=(use_device, None), use_cpu=(use_cpu, True), activity_filters=(activity_filters, None),
        )  # fmt: skip
        log.without_effect("autograd.profiler.profile", "there is one recorder", quietly=True, use_kineto=(use_kineto, False))
        self.enabled = enabled
        self.entered = False
        self._profile = _KinetoProfile(
            record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops,
            with_modules=with_modules, experimental_config=experimental_config, acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback, post_processing_timeout_s=post_processing_timeout_s,
        )  # fmt: skip

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._profile.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self.enabled:
            self._profile.stop()

    @property
    def function_events(self) -> Any:
        """The recorded events (an ``EventList``)."""
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the events' own times in microseconds."""
        return self.function_events.self_cpu_time_total

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> Any:
        """Events added up by name: see ``torch.profiler.profile.key_averages``."""
        return self._profile.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> Any:
        """All events in one sum."""
        return self.function_events.total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The table of the events themselves, one row each: arguments of ``EventList.table``."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        """Write the recording for chrome://tracing or Perfetto."""
        self._profile.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graphs."""
        self._profile.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Any) -> None:
        """Stop and resume recording inside the block."""
        self._profile.toggle_collection_dynamic(enabled, activities)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._profile._done is None else str(self.function_events)

    __repr__ = __str__


class _Emit:
    """Marks for an external viewer. Accepted, so that scripts run; nothing is emitted."""

    _tool = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes
        self.entered = False

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self._tool} annotation context manager is not reentrant")
        self.entered = True
        log.ignored(type(self).__name__, "enabled", _NO_VIEWER)
        return self

    def __exit__(self, *exc: Any) -> None:
        """Nothing was begun."""


class emit_nvtx(_Emit):  # noqa: N801 - public name
    """NVTX marks for nvprof: nothing is emitted, and a warning says so."""

    _tool = "NVTX"


class emit_itt(_Emit):  # noqa: N801 - public name
    """ITT marks for VTune: nothing is emitted, and a warning says so."""

    _tool = "ITT"


def kineto_available() -> bool:
    """Whether profiles can be recorded."""
    return True


def __getattr__(name: str) -> Any:
    if name in ("EventList", "FunctionEvent", "FunctionEventAvg", "DeviceType"):
        from mindtorch.torch.profiler import events

        return getattr(events, name)
    if name == "ProfilerActivity":
        from mindtorch.torch.profiler.profiler import ProfilerActivity

        return ProfilerActivity
    raise AttributeError(f"module 'torch.autograd.profiler' has no attribute '{name}'")


__all__ = ["emit_itt", "emit_nvtx", "kineto_available", "profile", "record_function"]
