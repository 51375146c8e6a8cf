"""``for batch in step_timer(loader):``: the split of the steps of one loop, printed at its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from mindtorch.tools.timing import verdict
from mindtorch.tools.timing.clock import PHASES, Step, StepClock


class LiveLine:
    """One line of a terminal, written over a few times a second. Elsewhere than in a terminal it is silent."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._on = hasattr(self._file, "isatty") and self._file.isatty()
        self._last = 0.0
        self._count = 0
        self._width = 0

    def __call__(self, step: Step) -> None:
        self._count += 1
        now = time.monotonic()
        if not self._on or now - self._last < 0.2:
            return
        self._last = now
        split = "  ".join(f"{p} {step.phases[p] * 1e3:.1f}" for p in PHASES)
        line = f"step {self._count}: {step.total * 1e3:.1f} ms = {split}"
        self._file.write("\r" + line.ljust(self._width))
        self._file.flush()
        self._width = max(self._width, len(line))

    def close(self) -> None:
        """Clear the line."""
        if self._on and self._width:
            self._file.write("\r" + " " * self._width + "\r")
            self._file.flush()


class step_timer:  # noqa: N801 - used like a function
    """Iterate ``loader`` with its steps timed; at the end of the loop (or at a ``break``) the split and verdict are printed.

    Each step is split into data, host to device, forward, backward, optimiser and other, synchronised, the first one left
    out. ``quiet`` prints nothing; the `Split` is in ``result`` either way. TypeError when ``loader`` is no DataLoader.
    """

    def __init__(self, loader: Any, *, quiet: bool = False, file: TextIO | None = None) -> None:
        from mindtorch.torch.utils.data import DataLoader

        if not isinstance(loader, DataLoader):
            raise TypeError(f"step_timer(): loader must be a DataLoader of mindtorch, got {type(loader).__name__}")
        self.loader, self.quiet, self.file = loader, quiet, file
        self.steps: list[Step] = []
        self.result: verdict.Split | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        live = LiveLine() if not self.quiet else None
        clock = StepClock(tick=live)
        clock.start()
        try:
            yield from self.loader
        finally:
            clock.stop()
            if live is not None:
                live.close()
            self.steps += [s for s in clock.steps if s.loader is self.loader]
            self.result = verdict.Split(self.steps)
            self.result.look_at_loader()
            if not self.quiet:
                print(verdict.text(self.result), file=self.file or sys.stdout, flush=True)
