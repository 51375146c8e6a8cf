"""The folder of a dump: one ``.npy`` per value, one line per value, one stack per call, one record per call.

::

    <output_path>/rank0/torch_api_dump/NN_ReLU_0_forward_output.npy     values
    <output_path>/rank0/torch_api_dump_info.csv                         one JSON array per line, in order
    <output_path>/rank0/torch_api_dump_stack.json                       call -> lines of the user's program
    <output_path>/rank0/torch_api_dump_calls.jsonl                      step, module path, weights of every call
    <output_path>/rank0/pt_net.pth                                      weights, when they were asked for

The first three and the weights are what TroubleShooter 1.0.18 writes; the fourth is ours and may be missing.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import numpy as np

from mindtorch.tools import frameworks
from mindtorch.tools.appending import Json, Lines, replace, save_array
from mindtorch.tools.values import Stats

STEM = {"pytorch": "torch", "mindtorch": "mindtorch", "mindspore": "mindspore"}
WEIGHTS = {"pytorch": "pt_net.pth", "mindtorch": "ad_net.pth"}
NAN = float("nan")


class DumpFiles:
    """Writes one process's dump. A dump that is there already is replaced when the first thing is written."""

    def __init__(self, output_path: str, frame: str) -> None:
        self.folder = os.path.join(os.path.abspath(output_path), f"rank{frameworks.rank()}")
        stem = os.path.join(self.folder, f"{STEM[frame]}_api_dump")
        self.arrays, self.info, self.stack = stem, f"{stem}_info.csv", f"{stem}_stack.json"
        self.calls = f"{stem}_calls.jsonl"
        self.weights = os.path.join(self.folder, WEIGHTS[frame])
        self.count = 0
        self._info: Lines | None = None
        self._calls: Lines | None = None
        self._stack: Json | None = None

    def open(self, header: dict[str, Any]) -> None:
        """Remove an older dump and start the files; calling it again does nothing."""
        if self._info is not None:
            return
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o700)
        if os.path.isdir(self.arrays):
            shutil.rmtree(self.arrays)
        for path in (self.info, self.stack, self.calls, self.info[: -len("csv")] + "pkl"):
            if os.path.exists(path):
                os.unlink(path)
        os.mkdir(self.arrays, 0o700)
        self._info, self._calls, self._stack = Lines(self.info), Lines(self.calls), Json(self.stack)
        self.call({"format": 1, **header})

    def save_weights(self, save: Any, state: Any) -> bool:
        """``save(state, file)`` into the weights file; whether an older one was replaced."""
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o700)
        there = os.path.exists(self.weights)
        replace(self.weights, lambda f: save(state, f), 0o400)
        return there

    def array(self, name: str, a: np.ndarray) -> None:
        """One value."""
        save_array(os.path.join(self.arrays, f"{name}.npy"), a)

    def line(self, name: str, dtype: str, shape: Any, stats: list[float], md5: Any, norm: Any) -> None:
        """One line of the info file."""
        if self._info is not None:
            self._info.add(json.dumps([name, 1, [], dtype, list(shape), stats, md5, norm]))
            self.count += 1

    def frames(self, keys: tuple[str, ...], lines: list[str]) -> None:
        """The stack of one call, under every form of its name that people search for."""
        if self._stack is not None:
            for key in keys:
                self._stack.add(lines, key)

    def call(self, record: dict[str, Any]) -> None:
        """One record of the calls file."""
        if self._calls is not None:
            self._calls.add(json.dumps(record, default=str))

    def flush(self) -> None:
        """Everything recorded so far is readable."""
        for f in (self._info, self._calls, self._stack):
            if f is not None:
                f.flush()

    def close(self) -> None:
        """No more records; what is there stays."""
        for f in (self._info, self._calls, self._stack):
            if f is not None:
                f.close()


def brief(s: Stats) -> list[Any]:
    """Statistics as the calls file has them: max, min, mean, norm, and counts of NaN and infinite elements if any."""
    out: list[Any] = [s.max, s.min, s.mean, s.norm]
    return [*out, s.nan, s.inf] if s.nan or s.inf else out
