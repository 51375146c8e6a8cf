"""Anomaly detection: backward errors and NaNs name the line that recorded the operation."""

from __future__ import annotations

import warnings
from typing import Any

from mindtorch.core import modes


def _set(value: bool, check_nan: bool = True) -> bool:
    """Switch detection in this thread; ``check_nan``: look for NaNs in gradients too. Returns the former state."""
    modes.state.check_nan = check_nan  # type: ignore[attr-defined]
    old = getattr(modes.state, "anomaly", False)
    if value and not old:
        modes.enter_mode()
    elif old and not value:
        modes.leave_mode()
    modes.state.anomaly = value  # type: ignore[attr-defined]
    return old


def is_anomaly_check_nan_enabled() -> bool:
    """Whether backward looks for NaN: in anomaly mode, unless it was told not to."""
    return is_anomaly_enabled() and bool(getattr(modes.state, "check_nan", True))


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on in this thread."""
    return getattr(modes.state, "anomaly", False)


class detect_anomaly:  # noqa: N801 - public name
    """Context manager that switches anomaly detection on."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self.prev = False
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.prev = _set(True, self.check_nan)

    def __exit__(self, *exc: Any) -> None:
        _set(self.prev)


class set_detect_anomaly:  # noqa: N801 - public name
    """Switch anomaly detection on or off, at once and as a context manager."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = _set(bool(mode), check_nan)

    def __enter__(self) -> None:
        """Already switched by the constructor."""

    def __exit__(self, *exc: Any) -> None:
        _set(self.prev)
