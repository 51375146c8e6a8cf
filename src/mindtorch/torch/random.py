"""``torch.random``: the default generator by functions, and ``fork_rng``."""

from __future__ import annotations

import contextlib
from collections.abc import Generator as Iter
from collections.abc import Iterable
from typing import Any

from mindtorch.core.device import accelerators
from mindtorch.core.generator import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
    thread_safe_generator,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iter[None, None, None]:
    """Put the default generator back on exit; an accelerator's numbers are drawn from it too.

    RuntimeError when ``devices`` names accelerators and there is none.
    """
    if not enabled:
        yield
        return
    wanted = list(devices or ())
    if wanted and device_type not in accelerators():
        raise RuntimeError(
            f"{_caller}: argument '{_devices_kw}' is {wanted} (device_type={device_type!r}), but this process has no "
            "such accelerator; leave it out to fork the CPU generator"
        )
    state = default_generator.stream.state()
    try:
        yield
    finally:
        default_generator.stream.restore(state)
