"""Starts the processes of a job on this machine and watches them: ``python -m mindtorch launch``, torchrun's flags and environment.

MindSpore's own starter, msrun, needs a scheduler process; this one does not, since rank 0 serves the store the others meet in.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any

from .rendezvous import free_port

__all__ = ["main"]

_GRACE = 5.0
"""Seconds between asking the remaining processes to end and killing them."""


def parser() -> argparse.ArgumentParser:
    """The flags of torchrun that have a meaning here."""
    p = argparse.ArgumentParser(
        prog="python -m mindtorch launch",
        description="Run a program in several processes on this machine, one rank each. RANK, LOCAL_RANK, WORLD_SIZE, "
        "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set for torch.distributed.init_process_group().",
    )

    def flag(name: str, *more: str, **kw: Any) -> None:
        p.add_argument(*dict.fromkeys((f"--{name}", f"--{name.replace('-', '_')}", *more)), **kw)

    flag("nproc-per-node", "--nproc", default="1", help="processes on this machine: a number, or cpu, gpu, auto")
    flag("nnodes", default="1", help="machines")
    flag("node-rank", type=int, default=0, help="this machine's number")
    flag("master-addr", default=None, help="address of machine 0")
    flag("master-port", type=int, default=None, help="free port on machine 0 (default: any on one machine, else 29500)")
    flag("standalone", action="store_true", help="one machine, any free port: the default")
    flag("rdzv-endpoint", default="", help="HOST[:PORT], the same as master-addr and master-port")
    flag("rdzv-backend", default="static", help="static or c10d; both mean the store rank 0 serves")
    flag("rdzv-id", default="none", help="name of the job")
    flag("rdzv-conf", default="", help="accepted, not used")
    flag("max-restarts", type=int, default=0, help="only 0: a job that fails ends")
    flag("monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    flag("role", default="default", help="name in front of lines with --tee")
    flag("log-dir", default=None, help="write each rank's output to DIR/RANK/stdout.log and stderr.log as well")
    flag("redirects", "-r", default="0", help="3: output goes to --log-dir only")
    flag("tee", "-t", default="0", help="3: lines on the console begin with the rank")
    p.add_argument("--no-python", "--no_python", action="store_true", help="the program is an executable of its own")
    p.add_argument("-m", "--module", action="store_true", help="the program is a module, as in python -m")
    p.add_argument("program", help="script, module or executable")
    p.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return p


def _count(text: str) -> int:
    if text in ("auto", "gpu", "npu"):
        return 1
    if text == "cpu":
        return os.cpu_count() or 1
    return int(text)


class Worker:
    """One process of the job, and the threads that copy its output."""

    def __init__(self, rank: int, command: list[str], env: dict[str, str], options: argparse.Namespace) -> None:
        self.rank = rank
        self.files: list[IO[bytes]] = []
        self.copiers: list[threading.Thread] = []
        self.folder = os.path.join(options.log_dir, str(rank)) if options.log_dir else ""
        piped = bool(self.folder) or options.tee != "0"
        # a session of its own, so that what the worker starts ends with it
        self.process = subprocess.Popen(
            command,
            env=env,
            start_new_session=True,
            stdout=subprocess.PIPE if piped else None,
            stderr=subprocess.PIPE if piped else None,
        )
        if piped:
            label = f"[{options.role}{rank}]:".encode() if options.tee != "0" else b""
            show = options.redirects == "0"
            for name, pipe, console in (("stdout", self.process.stdout, sys.stdout), ("stderr", self.process.stderr, sys.stderr)):
                file = None
                if self.folder:
                    os.makedirs(self.folder, exist_ok=True)
                    file = open(os.path.join(self.folder, f"{name}.log"), "wb", buffering=0)  # noqa: SIM115 - closed in finish
                    self.files.append(file)
                t = threading.Thread(target=_copy, args=(pipe, file, console if show else None, label), daemon=True)
                t.start()
                self.copiers.append(t)

    def signal(self, number: int) -> None:
        """Send a signal to the worker and everything it started."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def finish(self) -> None:
        """Let the rest of the output through."""
        for t in self.copiers:
            t.join(2.0)
        for f in self.files:
            f.close()

    def last_words(self) -> str:
        """The end of its error log, when it went nowhere else."""
        if not self.folder:
            return ""
        with open(os.path.join(self.folder, "stderr.log"), errors="replace") as f:
            return "".join(f.readlines()[-40:])


def _copy(pipe: Any, file: IO[bytes] | None, console: Any, label: bytes) -> None:
    for line in iter(pipe.readline, b""):
        if file is not None:
            file.write(line)
        if console is not None:
            console.write((label + line).decode(errors="replace"))
            console.flush()
    pipe.close()


def environment(options: argparse.Namespace, local: int, local_size: int, nodes: int, address: tuple[str, int]) -> dict[str, str]:
    """The environment of one worker."""
    rank = options.node_rank * local_size + local
    env = dict(os.environ)
    env.update(
        RANK=str(rank),
        LOCAL_RANK=str(local),
        WORLD_SIZE=str(nodes * local_size),
        LOCAL_WORLD_SIZE=str(local_size),
        GROUP_RANK=str(options.node_rank),
        GROUP_WORLD_SIZE=str(nodes),
        ROLE_RANK=str(rank),
        ROLE_WORLD_SIZE=str(nodes * local_size),
        ROLE_NAME=options.role,
        MASTER_ADDR=address[0],
        MASTER_PORT=str(address[1]),
        TORCHELASTIC_RUN_ID=options.rdzv_id,
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_MAX_RESTARTS="0",
        PYTHONUNBUFFERED="1",
    )
    if local_size > 1:
        # as torchrun: each process with all cores would fight over them
        env.setdefault("OMP_NUM_THREADS", "1")
    return env


def _address(options: argparse.Namespace, nodes: int) -> tuple[str, int]:
    host, port = options.master_addr, options.master_port
    if options.rdzv_endpoint and not options.standalone:
        name, _, number = options.rdzv_endpoint.rpartition(":")
        host = host or name or number
        port = port or (int(number) if name else None)
    if nodes > 1 and not host:
        raise SystemExit("python -m mindtorch launch: --nnodes above 1 needs --master-addr, the address of machine 0")
    if options.standalone or nodes == 1 and not port:
        return host or "127.0.0.1", free_port()
    return host or "127.0.0.1", port or 29500


def main(args: list[str] | None = None) -> int:
    """Start, watch, and return the exit status: 0, or that of the first process that failed (128 + signal)."""
    p = parser()
    options = p.parse_args(args)
    nodes = int(str(options.nnodes).split(":")[-1])
    local_size = _count(str(options.nproc_per_node))
    if local_size < 1 or nodes < 1 or not 0 <= options.node_rank < nodes:
        p.error(f"nproc-per-node {local_size}, nnodes {nodes} and node-rank {options.node_rank} do not fit together")
    if options.max_restarts:
        print("mindtorch launch: --max-restarts is not available: a job that fails ends", file=sys.stderr)
    if options.redirects != "0" and not options.log_dir:
        p.error("--redirects needs --log-dir")
    address = _address(options, nodes)
    start = [] if options.no_python else [sys.executable, "-u", "-m", "mindtorch", *(["-m"] if options.module else [])]
    command = [*start, options.program, *options.arguments]
    stopped: list[int] = []
    old = {s: signal.signal(s, lambda n, _: stopped.append(n)) for s in (signal.SIGINT, signal.SIGTERM)}
    workers: list[Worker] = []
    try:
        for i in range(local_size):
            env = environment(options, i, local_size, nodes, address)
            workers.append(Worker(int(env["RANK"]), command, env, options))
        return _watch(workers, options, stopped)
    finally:
        _end(workers)
        for s, handler in old.items():
            signal.signal(s, handler)


def _watch(workers: list[Worker], options: argparse.Namespace, stopped: list[int]) -> int:
    """Wait until all have ended well, one has failed, or a signal came."""
    while True:
        if stopped:
            return 128 + stopped[0]
        codes = [w.process.poll() for w in workers]
        failed = [(w, c) for w, c in zip(workers, codes) if c]
        if failed:
            w, code = failed[0]
            _end(workers, options.redirects != "0" and w or None)
            how = f"with status {code}" if code > 0 else f"by signal {signal.Signals(-code).name}"
            print(
                f"mindtorch launch: rank {w.rank} (process {w.process.pid}) ended {how}; the other processes were stopped",
                file=sys.stderr,
                flush=True,
            )
            return code if code > 0 else 128 - code
        if all(c == 0 for c in codes):
            return 0
        time.sleep(options.monitor_interval)


def _end(workers: list[Worker], tell: Worker | None = None) -> None:
    """Stop what still runs: first asked, then killed."""
    alive = [w for w in workers if w.process.poll() is None]
    for w in alive:
        w.signal(signal.SIGTERM)
    limit = time.monotonic() + _GRACE
    for w in alive:
        try:
            w.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            w.signal(signal.SIGKILL)
            w.process.wait()
    for w in workers:
        w.signal(signal.SIGKILL)  # what a worker left behind
        w.finish()
    if tell is not None:
        print(tell.last_words(), file=sys.stderr, end="")


if __name__ == "__main__":
    sys.exit(main())
