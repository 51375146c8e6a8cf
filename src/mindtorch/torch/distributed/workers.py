"""The processes a launcher started on this machine: their output, their end, and why they ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any

__all__ = ["OUT", "ERR", "Worker", "end", "streams"]

OUT, ERR = 1, 2
"""Bits of --redirects and --tee."""


def streams(text: str, size: int) -> list[int]:
    """What --redirects and --tee say for each local rank: "3" for all, or "0:1,1:3". ValueError for anything else."""
    if ":" not in text:
        values = {r: int(text) for r in range(size)}
    else:
        values = {int(r): int(v) for r, v in (pair.split(":") for pair in text.split(","))}
    if any(v not in (0, 1, 2, 3) for v in values.values()) or any(not 0 <= r < size for r in values):
        raise ValueError(f"{text!r}: 0 nothing, 1 stdout, 2 stderr, 3 both, or RANK:VALUE,... with local ranks below {size}")
    return [values.get(r, 0) for r in range(size)]


class Worker:
    """One process of the job, and the threads that copy its output.

    ``folder`` gets ``stdout.log`` and ``stderr.log`` (empty: no files). Streams in ``hidden`` do not reach the console, those in
    ``marked`` do with ``label`` in front of every line.
    """

    def __init__(
        self, rank: int, command: list[str], env: dict[str, str], folder: str, hidden: int, marked: int, label: str
    ) -> None:
        self.rank = rank
        self.folder = folder
        self.hidden = hidden
        self.error_file = env.get("TORCHELASTIC_ERROR_FILE", "")
        self._files: list[IO[bytes]] = []
        self._copiers: list[threading.Thread] = []

        def piped(bit: int) -> Any:
            return subprocess.PIPE if folder or (hidden | marked) & bit else None

        # a session of its own, so that what the worker starts ends with it
        self.process = subprocess.Popen(command, env=env, start_new_session=True, stdout=piped(OUT), stderr=piped(ERR))
        for bit, name, pipe, console in (
            (OUT, "stdout", self.process.stdout, sys.stdout),
            (ERR, "stderr", self.process.stderr, sys.stderr),
        ):
            if pipe is not None:
                mark = label.encode() if marked & bit else b""
                self._copy(name, pipe, console if marked & bit or not hidden & bit else None, mark)

    def _copy(self, name: str, pipe: Any, console: Any, mark: bytes) -> None:
        file = None
        if self.folder:
            os.makedirs(self.folder, exist_ok=True)
            file = open(os.path.join(self.folder, f"{name}.log"), "wb", buffering=0)  # noqa: SIM115 - closed in finish
            self._files.append(file)
        t = threading.Thread(target=_lines, args=(pipe, file, console, mark), daemon=True)
        t.start()
        self._copiers.append(t)

    def signal(self, number: int) -> None:
        """Send a signal to the worker and everything it started."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def finish(self) -> None:
        """Let the rest of the output through."""
        for t in self._copiers:
            t.join(2.0)
        for f in self._files:
            f.close()

    def status(self) -> str:
        """How it ended."""
        code = self.process.returncode
        return f"with status {code}" if code >= 0 else f"by signal {signal.Signals(-code).name}"

    def last_words(self) -> str:
        """What it died of: the end of an error log nobody saw, else what ``errors.record`` wrote down."""
        path = os.path.join(self.folder, "stderr.log")
        if self.folder and self.hidden & ERR and os.path.exists(path):
            with open(path, errors="replace") as f:
                return "".join(f.readlines()[-40:])
        if self.error_file and os.path.exists(self.error_file):
            with open(self.error_file) as f:
                return str(json.load(f)["message"]["message"]) + "\n"
        return ""


def _lines(pipe: Any, file: IO[bytes] | None, console: Any, mark: bytes) -> None:
    for line in iter(pipe.readline, b""):
        if file is not None:
            file.write(line)
        if console is not None:
            console.write((mark + line).decode(errors="replace"))
            console.flush()
    pipe.close()


def end(workers: list[Worker], grace: float) -> None:
    """Stop what still runs: first asked, and after ``grace`` seconds killed."""
    alive = [w for w in workers if w.process.poll() is None]
    for w in alive:
        w.signal(signal.SIGTERM)
    limit = time.monotonic() + grace
    for w in alive:
        try:
            w.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            w.signal(signal.SIGKILL)
            w.process.wait()
    for w in workers:
        w.signal(signal.SIGKILL)  # what a worker left behind
        w.finish()
