"""Jobs of several processes for tests: each has a time limit, and no process is left behind."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
LIMIT = 300


def environment(**more: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}
    env.update({"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **more})
    return env


def job(size: int, out: Path, ours: bool, parts: list[str]) -> list[dict[str, Any]]:
    """What every rank saw. Processes are started by hand, with torchrun's variables and nothing else."""
    out.mkdir()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, *(["-m", "mindtorch"] if ours else []), str(HERE / "scenario.py"), str(out), *parts]
    running = []
    for r in range(size):
        env = environment(RANK=str(r), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        log = open(out / f"{r}.log", "w")  # noqa: SIM115 - closed below
        running.append((subprocess.Popen(command, env=env, stdout=log, stderr=log), log))
    end = time.monotonic() + LIMIT
    try:
        while any(p.poll() is None for p, _ in running) and not any(p.poll() for p, _ in running) and time.monotonic() < end:
            time.sleep(0.05)
        # one that failed leaves the others waiting
        codes = [p.poll() for p, _ in running]
    finally:
        for p, log in running:
            p.kill()
            p.wait()
            log.close()
    tails = "\n".join((out / f"{r}.log").read_text(errors="replace")[-1500:] for r in range(size) if codes[r] != 0)
    assert codes == [0] * size, tails
    return [pickle.loads((out / f"{r}.pkl").read_bytes()) for r in range(size)]


def run(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Past the limit it is asked to end its children, then all of its session is killed."""
    p = subprocess.Popen(
        command, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = p.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        p.terminate()
        try:
            out, err = p.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
        raise AssertionError(f"{command} did not end in {LIMIT} s: {out[-1000:]} {err[-2000:]}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, p.returncode, out, err)


def launch(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """``python -m mindtorch launch`` with these arguments."""
    return run([sys.executable, "-m", "mindtorch", "launch", *args], **more)
