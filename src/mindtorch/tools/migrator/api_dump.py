"""``api_dump_init``, ``api_dump_start``, ``api_dump_stop``: record every call of a training script, on either framework."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from mindtorch import log
from mindtorch.tools import frameworks
from mindtorch.tools.dump.recorder import CATEGORIES, MODES, TYPES, Recorder, Settings

_state: dict[str, Any] = {"recorder": None, "side": None, "output_path": ""}


def api_dump_init(
    net: Any, output_path: str | None = None, *, retain_backward: bool = False, compare_statedict: bool = False,
    format: str = "troubleshooter",
) -> None:  # fmt: skip
    """Choose the net and the folder (default ``./ts_api_dump``). Nothing is recorded before `api_dump_start`.

    ``net`` is an nn.Module of PyTorch or mindtorch. With ``retain_backward`` the gradients of outputs are recorded too;
    with ``compare_statedict`` the weights are saved beside the dump, as ``pt_net.pth`` or ``ad_net.pth``.

    ``format="msprobe"`` writes dump.json, stack.json and construct.json (and values) as msprobe 26 does for PyTorch, in
    ``<output_path>/step<n>/rank<r>``; everything is recorded then, whatever ``filter_data`` says.

    Dropout is left as it is: with the same seed mindtorch draws PyTorch's masks. Against a dump made by TroubleShooter,
    which replaces dropout by the identity, call ``net.eval()`` or set p to 0. Data must come in the same order on both sides.

    TypeError when ``net`` is no such module or a switch is no bool, ValueError for another format.
    """
    frame = frameworks.frame_of(net)
    if frame is None:
        raise TypeError(
            f"api_dump_init: net must be an nn.Module of PyTorch or mindtorch, got {type(net).__module__}.{type(net).__qualname__}"
        )
    for name, value in (("retain_backward", retain_backward), ("compare_statedict", compare_statedict)):
        if not isinstance(value, bool):
            raise TypeError(f"api_dump_init: {name} must be True or False, got {value!r}")
    kind = recorder_of(format)
    path = os.path.join(os.getcwd(), "ts_api_dump") if output_path is None else os.fspath(output_path)
    _detach()
    recorder = _state["recorder"] = kind(net, frame, path, retain_backward)
    if compare_statedict:
        save = frameworks.load(frame).save
        if recorder.files.save_weights(save, net.state_dict()):
            log.logger().warning("api_dump_init: %s was there and has been replaced", recorder.files.weights)
    log.logger().info("api_dump_init: use the same seed and the same order of data (shuffle=False, or equal seeds) on both sides")


def api_dump_start(
    mode: str = "all",
    scope: Sequence[str] | None = None,
    dump_type: str = "all",
    filter_data: bool = True,
    filter_stack: bool = True,
    overflow_check: bool = False,
    statistic_category: Sequence[str] = ("max", "min", "l2norm"),
) -> None:
    """Record from here on; call it again at each step to number the steps.

    Args:
        mode: "all"; "list" of exact names in ``scope`` (``NN_Conv2d_0``); "range" from the first to the second of two names;
            "api_list", parts of names in upper or lower case.
        dump_type: "all" values and statistics, "npy" values, "statistics", or "stack" (order and stacks only).
        filter_data: leave out integers, booleans, empty and 0-d tensors, and Python numbers.
        filter_stack: leave frames of the framework out of the stacks.
        overflow_check: record only calls whose output has NaN or infinite elements.
        statistic_category: of max, min, avg, md5, l2norm.

    RuntimeError before `api_dump_init`; ValueError and TypeError for values that mean nothing.
    """
    recorder = _recorder("api_dump_start")
    settings = Settings(
        _choice("mode", mode, MODES), _scope(mode, scope), _choice("dump_type", dump_type, TYPES), filter_data, filter_stack,
        overflow_check, _categories(statistic_category),
    )  # fmt: skip
    for name in ("filter_data", "filter_stack", "overflow_check"):
        if not isinstance(getattr(settings, name), bool):
            raise TypeError(f"api_dump_start: {name} must be True or False, got {getattr(settings, name)!r}")
    recorder.start(settings)
    if _state["side"] is None:
        if recorder.frame == frameworks.PYTORCH:
            from mindtorch.tools.dump.on_pytorch import PyTorchSide

            _state["side"] = PyTorchSide(recorder)
        else:
            from mindtorch.tools.dump.on_mindtorch import MindtorchSide

            _state["side"] = MindtorchSide(recorder)


def api_dump_stop() -> None:
    """Stop recording; the files are complete. RuntimeError before `api_dump_init`."""
    recorder = _recorder("api_dump_stop")
    was = recorder.running
    _detach()
    if was and recorder.files.count == 0:
        log.logger().warning(
            "api_dump_stop: nothing was recorded in %s: the scope matched no call, or no call was made", recorder.files.folder
        )
    elif was:
        log.logger().info("api_dump_stop: %d values recorded in %s", recorder.files.count, recorder.files.folder)


def recorder_of(format: str) -> type[Recorder]:
    """The class that writes a format. ValueError for an unknown one."""
    if format == "troubleshooter":
        return Recorder
    if format != "msprobe":
        raise ValueError(f"format must be 'troubleshooter' or 'msprobe', got {format!r}")
    from mindtorch.tools.dump.msprobe import MsprobeRecorder

    return MsprobeRecorder


def _detach() -> None:
    side, recorder = _state["side"], _state["recorder"]
    _state["side"] = None
    if side is not None:
        side.remove()
    if recorder is not None:
        recorder.stop()


def _recorder(caller: str) -> Recorder:
    recorder = _state["recorder"]
    if recorder is None:
        raise RuntimeError(f"{caller}: call api_dump_init(net, output_path) first")
    return recorder


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"api_dump_start: {name} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def _scope(mode: str, scope: Any) -> list[str]:
    if scope is None or (isinstance(scope, (list, tuple)) and not scope):
        if mode != "all":
            raise ValueError(f"api_dump_start: mode {mode!r} needs a scope, a list of names such as 'NN_Conv2d_0'")
        return []
    if mode == "all":
        raise ValueError("api_dump_start: mode 'all' takes no scope; use mode='list', 'range' or 'api_list' with it")
    if not isinstance(scope, (list, tuple)) or not all(isinstance(s, str) for s in scope):
        raise TypeError(f"api_dump_start: scope must be a list of names, got {scope!r}")
    if mode in ("list", "range"):
        for s in scope:
            if not s.rpartition("_")[2].isdigit():
                raise ValueError(f"api_dump_start: names of scope end in a number (NN_Conv2d_0), got {s!r}")
    if mode == "range" and len(scope) != 2:
        raise ValueError(f"api_dump_start: mode 'range' takes two names, got {len(scope)}")
    return list(scope)


def _categories(wanted: Any) -> tuple[str, ...]:
    if wanted is None:
        return ()
    if not isinstance(wanted, (list, tuple)):
        raise TypeError(f"api_dump_start: statistic_category must be a list, got {wanted!r}")
    for w in wanted:
        if w not in CATEGORIES:
            raise ValueError(f"api_dump_start: statistic_category takes {', '.join(CATEGORIES)}, got {w!r}")
    return tuple(wanted)
