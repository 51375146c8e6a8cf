"""`profile`: recording in windows given by a schedule. `schedule`, `tensorboard_trace_handler` and their enumerations."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from typing import Any

from mindtorch import log
from mindtorch.core import observe
from mindtorch.torch.profiler import events as _events
from mindtorch.torch.profiler import trace
from mindtorch.torch.profiler.recording import Options, Recorder


class ProfilerActivity(Enum):
    """What to record. Everything runs on the host here."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a schedule asks for in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class RecordScope(IntEnum):
    """``FunctionEvent.scope``: ops, nodes of backward passes, ranges."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    USER_SCOPE = 7


def supported_activities() -> set[ProfilerActivity]:
    """Activities that can be recorded."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Cycles of ``wait`` idle steps, ``warmup`` steps whose events are dropped and ``active`` recorded ones.

    ``repeat`` cycles (0: without end) begin after ``skip_first`` steps; with ``skip_first_wait`` the first has no wait.
    """
    if min(wait, warmup, repeat, skip_first, skip_first_wait) < 0 or active <= 0:
        raise AssertionError(
            f"schedule(): wait, warmup, repeat, skip_first must be at least 0 and active at least 1, got wait={wait}, "
            f"warmup={warmup}, active={active}, repeat={repeat}, skip_first={skip_first}"
        )
    if warmup == 0:
        import warnings

        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        at = step % cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable[[Any], None]:
    """An ``on_trace_ready`` that writes ``<worker>.<time>.pt.trace.json[.gz]`` into ``dir_name``, made when missing."""

    def handler(prof: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as e:
            raise RuntimeError("Can't create directory: " + dir_name) from e
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


def _wanted(activities: Iterable[Any] | None) -> set[Any]:
    wanted = {a for part in ([ProfilerActivity.CPU] if activities is None else activities) for a in ([*part] if isinstance(part, dict) else [part])}
    for a in sorted(wanted - supported_activities(), key=str):
        log.ignored("profile", "activities", f"{a} has no events of its own: ops are timed on the host, waiting for the device")
    if not wanted:
        raise AssertionError("No valid profiler activities found")
    return wanted


class _KinetoProfile:
    """A recording that is started and stopped by hand. Options as of `profile`."""

    def __init__(
        self, *, activities: Iterable[Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False, custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        self.activities = _wanted(activities)
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.acc_events = acc_events
        log.without_effect(
            "profile", "events come from mindtorch's own recorder, which has no such setting",
            experimental_config=(experimental_config, None), execution_trace_observer=(execution_trace_observer, None),
            custom_trace_id_callback=(custom_trace_id_callback, None),
            post_processing_timeout_s=(post_processing_timeout_s, None),
        )  # fmt: skip
        self.preset_metadata: dict[str, Any] = {}
        self._recorder: Recorder | None = None
        self._done: Recorder | None = None
        self._kept: list[Any] = []
        self._shown: Any = None
        self._user: dict[str, Any] = {}

    # ------------------------------------------------------------------ recording
    def start(self) -> None:
        """Begin to record."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """End the recording."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Observe, without keeping anything yet."""
        if self._recorder is None:
            options = Options(self.record_shapes, self.profile_memory, self.with_stack, self.with_flops)
            self._recorder = Recorder(options)
            self._recorder.start()

    def start_trace(self) -> None:
        """Keep events from now on."""
        if self._recorder is None:
            raise AssertionError("Profiler must be initialized before calling start_trace(): call start(), or prepare_trace()")
        self._recorder.clear()

    def stop_trace(self) -> None:
        """Stop observing; the events are there to be looked at."""
        if self._recorder is None:
            raise AssertionError("Profiler must be initialized before calling stop_trace(): call start() first")
        self._recorder.stop()
        self._done, self._recorder, self._shown = self._recorder, None, None
        self._kept = [*self._kept, *self._done.events] if self.acc_events else self._done.events

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Stop and resume recording in the middle of a window."""
        if self._recorder is None:
            return
        observing = self._recorder in observe.OBSERVERS
        if enable and not observing:
            observe.attach(self._recorder)
            observe.RANGES.append(self._recorder)
        elif not enable and observing:
            observe.detach(self._recorder)
            observe.RANGES.remove(self._recorder)

    # ------------------------------------------------------------------ looking at it
    def events(self) -> _events.EventList:
        """All events in order of their beginnings. AssertionError before anything was recorded."""
        if self._done is None:
            raise AssertionError("Profiler is not initialized: no window has been recorded (is the schedule longer than the loop?)")
        if self._shown is None:
            self._shown = _events.build(
                self._kept, self._done.began, self._done.loose, profile_memory=self.profile_memory, with_flops=self.with_flops,
                trace=self.export_chrome_trace,
            )  # fmt: skip
        return self._shown

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> _events.EventList:
        """Events added up by name, and by input shapes and the innermost frames of the user's stack when asked."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        """Write the recording for chrome://tracing or Perfetto (gzip when ``path`` ends in .gz)."""
        self.events()
        assert self._done is not None
        trace.write(path, self._kept, {**self.preset_metadata, **self._user}, self._done.ledger)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graphs: see ``EventList.export_stacks``. Needs ``with_stack=True``."""
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write bytes held by tensors over time, by category (parameters, optimiser state, inputs, activations, gradients ...).

        ``.html``: a picture; ``.raw.json.gz``: all changes; else JSON (gzip for ``.gz``) of times and sizes, in PyTorch's form.
        RuntimeError without ``profile_memory=True``.
        """
        import warnings

        warnings.warn("export_memory_timeline() is deprecated in PyTorch and will go there", FutureWarning, stacklevel=2)
        self.events()
        ledger = self._done.ledger if self._done is not None else None
        if ledger is None:
            raise RuntimeError("export_memory_timeline(): nothing is known of memory; use profile(profile_memory=True)")
        if device is not None and not str(device).startswith("cpu"):
            log.ignored("export_memory_timeline", "device", "the memory of all tensors is in one timeline")
        trace.write_memory(path, ledger)

    def add_metadata(self, key: str, value: str) -> None:
        """A text that goes into the trace file under ``key``."""
        self._user[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """A value, given as JSON text, that goes into the trace file under ``key``. ValueError when it is no JSON."""
        self._user[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """As `add_metadata_json`, before the recording begins."""
        self.preset_metadata[key] = json.loads(value)


class profile(_KinetoProfile):  # noqa: N801 - public name
    """Record ops, backward passes, optimiser steps, batches and ``record_function`` ranges.

    A context manager. With ``schedule`` call ``step()`` after every step: ``on_trace_ready(profiler)`` is called at the end
    of every recorded window, without a schedule at the end of the block. ``record_shapes``, ``profile_memory`` (bytes of
    results), ``with_stack`` (the user's frames) and ``with_flops`` say what is kept of each op; module paths always are.
    """

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False, use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None, post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            activities=activities, record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack,
            with_flops=with_flops, with_modules=with_modules, experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer, acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback, post_processing_timeout_s=post_processing_timeout_s,
        )  # fmt: skip
        log.without_effect("profile", "deprecated in PyTorch; give activities instead", use_cuda=(use_cuda, None))
        self.record_steps = schedule is not None
        self.schedule = schedule or _always
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._step: Any = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the action of step 0."""
        self._turn(ProfilerAction.NONE, self.current_action)
        self._open_step()

    def stop(self) -> None:
        """End; an open recording is handed to ``on_trace_ready``."""
        self._close_step()
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._finish()
        elif self._recorder is not None:
            self._recorder.stop()
            self._recorder = None

    def step(self) -> None:
        """The next step begins."""
        self._close_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        self._turn(before, self.current_action)
        self._open_step()

    def get_trace_id(self) -> str | None:
        """None: traces carry no identity here."""
        return None

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Accepted; traces carry no identity here."""
        log.ignored("profile", "custom_trace_id_callback", "traces carry no identity")

    # ------------------------------------------------------------------ windows
    def _finish(self) -> None:
        self.stop_trace()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _turn(self, before: ProfilerAction, now: ProfilerAction) -> None:
        recording = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if before is ProfilerAction.RECORD_AND_SAVE or (before is ProfilerAction.RECORD and now not in recording):
            self._finish()
            before = ProfilerAction.NONE
        if now is not ProfilerAction.NONE:
            self.prepare_trace()
        elif self._recorder is not None:
            self._recorder.stop()
            self._recorder = None
        if now in recording and before not in recording:
            self.start_trace()

    def _open_step(self) -> None:
        if self.record_steps and self._recorder is not None:
            self._step = self._recorder.enter("user", f"ProfilerStep#{self.step_num}", None)

    def _close_step(self) -> None:
        if self._step is not None and self._recorder is not None:
            self._recorder.leave(self._step)
        self._step = None


class _ExperimentalConfig:
    """Settings of PyTorch's own tracer. Any are taken; `profile` says that they have no effect."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.args, self.settings = args, settings


class ExecutionTraceObserver:
    """PyTorch's writer of execution graphs; there is none here, and registering it says so."""

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """RuntimeError: use ``profile(...).export_chrome_trace``."""
        raise RuntimeError("ExecutionTraceObserver: execution graphs are not recorded; use profile(...).export_chrome_trace(path)")


def kineto_available() -> bool:
    """Whether profiles can be recorded."""
    return True
