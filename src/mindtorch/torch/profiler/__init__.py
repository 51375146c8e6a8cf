"""``torch.profiler``: where the time of a program goes, op by op."""

from __future__ import annotations

from mindtorch.torch.autograd.profiler import record_function
from mindtorch.torch.profiler import itt
from mindtorch.torch.profiler.events import DeviceType
from mindtorch.torch.profiler.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    RecordScope,
    _ExperimentalConfig,
    _KinetoProfile,
    kineto_available,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "RecordScope", "_ExperimentalConfig", "_KinetoProfile",
    "itt", "kineto_available", "profile", "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
