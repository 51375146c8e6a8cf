"""``torch.autograd.profiler_util``: the classes that profiles are made of."""

from __future__ import annotations

from mindtorch.torch.profiler.events import EventList, FunctionEvent, FunctionEventAvg, Interval

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]
