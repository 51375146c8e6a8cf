"""Starts the processes of a job on this machine and watches them: ``python -m mindtorch launch``, torchrun's flags and environment.

MindSpore's own starter, msrun, needs a scheduler process and is there with ``--msrun``; this one needs none, since rank 0 serves
the store the others meet in.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

from mindtorch.log import ignored

from . import msrun
from .rendezvous import free_port
from .workers import Worker, end, streams

__all__ = ["main"]

_UNUSED = {
    "rdzv_conf": ("", "the store has no such settings"),
    "start_method": ("spawn", "workers are programs of their own"),
    "event_log_handler": ("null", "events are not logged"),
    "logs_specs": (None, "logs are as --log-dir, --redirects and --tee say"),
    "duplicate_stdout_filters": ("", "output is not filtered"),
    "duplicate_stderr_filters": ("", "output is not filtered"),
    "numa_binding": (None, "processes are not bound; use numactl with --no-python"),
}
"""Flags of torchrun that are accepted and change nothing: their defaults, and why."""


def parser() -> argparse.ArgumentParser:
    """torchrun's flags. Each has its default from PET_NAME in the environment, as there."""
    p = argparse.ArgumentParser(
        prog="python -m mindtorch launch",
        description="Run a program in several processes on this machine, one rank each. RANK, LOCAL_RANK, WORLD_SIZE, "
        "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set for torch.distributed.init_process_group().",
    )

    def flag(name: str, *more: str, **kw: Any) -> None:
        given = os.environ.get(f"PET_{name.replace('-', '_').upper()}")
        if given is not None:
            kw["default"] = given not in ("", "0", "false", "False") if kw.get("action") else kw.get("type", str)(given)
        p.add_argument(*dict.fromkeys((f"--{name}", f"--{name.replace('-', '_')}", *more)), **kw)

    flag("nproc-per-node", "--nproc", default="1", help="processes on this machine: a number, or cpu, gpu, npu, auto")
    flag("nnodes", default="1", help="machines; of MIN:MAX the larger")
    flag("node-rank", type=int, default=0, help="this machine's number")
    flag("master-addr", default=None, help="address of machine 0")
    flag("master-port", type=int, default=None, help="free port on machine 0 (default: any on one machine, else 29500)")
    flag("local-addr", default=None, help="this machine's address: the default of --master-addr on machine 0")
    flag("standalone", action="store_true", help="one machine, any free port: the default")
    flag("rdzv-endpoint", default="", help="HOST[:PORT], the same as --master-addr and --master-port")
    flag("rdzv-backend", default="static", choices=["static", "c10d"], help="both mean the store rank 0 serves")
    flag("rdzv-id", default="none", help="name of the job")
    flag("max-restarts", type=int, default=0, help="how often all processes are started again after one has failed")
    flag("monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    flag("role", default="default", help="name in front of lines with --tee")
    flag("log-dir", default=None, help="write each rank's output to DIR/RANK/stdout.log and stderr.log as well")
    flag("redirects", "-r", default="0", help="not on the console: 1 stdout, 2 stderr, 3 both; per local rank 0:3,1:2")
    flag("tee", "-t", default="0", help="lines on the console begin with the rank; values as --redirects")
    flag("local-ranks-filter", default="", help="only these local ranks on the console: 0,2")
    flag("signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="signals to the launcher that end the job")
    flag("shutdown-timeout", type=float, default=5.0, help="seconds between asking processes to end and killing them")
    flag("virtual-local-rank", action="store_true", help="LOCAL_RANK is 0 in every process")
    flag("msrun", action="store_true", help="MindSpore's msrun starts the processes and joins them through its scheduler")
    for name, (default, reason) in _UNUSED.items():
        flag(name.replace("_", "-"), default=default, help=f"accepted without effect: {reason}")
    p.add_argument("--no-python", "--no_python", action="store_true", help="the program is an executable of its own")
    p.add_argument("--run-path", "--run_path", action="store_true", help="run the script by path: what is done anyway")
    p.add_argument("-m", "--module", action="store_true", help="the program is a module, as in python -m")
    p.add_argument("program", help="script, module or executable")
    p.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return p


def _count(text: str) -> int:
    if text in ("auto", "gpu", "npu", "xpu"):
        return 1
    if text == "cpu":
        return os.cpu_count() or 1
    return int(text)


class Job:
    """What this launcher has to start: the flags, understood."""

    def __init__(self, p: argparse.ArgumentParser, options: argparse.Namespace) -> None:
        self.options = options
        try:
            self.nodes = int(str(options.nnodes).split(":")[-1])
            self.size = _count(str(options.nproc_per_node))
            self.hidden = streams(options.redirects, self.size)
            self.marked = streams(options.tee, self.size)
            shown = [int(r) for r in options.local_ranks_filter.split(",")] if options.local_ranks_filter else range(self.size)
            self.signals = [signal.Signals[s.strip()] for s in options.signals_to_handle.split(",") if s.strip()]
        except (ValueError, KeyError) as error:
            p.error(str(error))
        if self.size < 1 or self.nodes < 1 or not 0 <= options.node_rank < self.nodes:
            p.error(f"nproc-per-node {self.size}, nnodes {self.nodes} and node-rank {options.node_rank} do not fit together")
        for r in range(self.size):
            if r not in shown:
                self.hidden[r], self.marked[r] = 3, 0
        for name, (default, reason) in _UNUSED.items():
            if getattr(options, name) != default:
                ignored("launch", f"--{name.replace('_', '-')}", reason)
        self.logs = options.log_dir or ""
        if any(self.hidden) and not self.logs:
            self.logs = tempfile.mkdtemp(prefix="mindtorch-launch-")
            print(f"mindtorch launch: output that is not shown is in {self.logs}", file=sys.stderr)
        self.errors = tempfile.mkdtemp(prefix="mindtorch-errors-")
        self.host, self.port = self._address(p)
        start = [] if options.no_python else [sys.executable, "-u", "-m", "mindtorch", *(["-m"] if options.module else [])]
        self.command = [*start, options.program, *options.arguments]

    def _address(self, p: argparse.ArgumentParser) -> tuple[str, int]:
        """Where the processes meet; port 0: a free one for every start."""
        o = self.options
        host, port = o.master_addr, o.master_port
        if o.rdzv_endpoint and not o.standalone:
            name, _, number = o.rdzv_endpoint.rpartition(":")
            host = host or name or number
            port = port or (int(number) if name else None)
        host = host or (o.local_addr if o.node_rank == 0 else None)
        if self.nodes > 1 and not host:
            p.error("--nnodes above 1 needs --master-addr, the address of machine 0")
        if o.standalone or self.nodes == 1 and not port:
            return host or "127.0.0.1", 0
        return host or "127.0.0.1", port or 29500

    def environment(self, local: int, attempt: int, port: int) -> dict[str, str]:
        """The environment of one worker."""
        o = self.options
        rank, world = o.node_rank * self.size + local, self.nodes * self.size
        env = dict(os.environ)
        env.update(
            RANK=str(rank),
            LOCAL_RANK="0" if o.virtual_local_rank else str(local),
            WORLD_SIZE=str(world),
            LOCAL_WORLD_SIZE=str(self.size),
            GROUP_RANK=str(o.node_rank),
            GROUP_WORLD_SIZE=str(self.nodes),
            ROLE_RANK=str(rank),
            ROLE_WORLD_SIZE=str(world),
            ROLE_NAME=o.role,
            MASTER_ADDR=self.host,
            MASTER_PORT=str(port),
            TORCHELASTIC_RUN_ID=o.rdzv_id,
            TORCHELASTIC_RESTART_COUNT=str(attempt),
            TORCHELASTIC_MAX_RESTARTS=str(o.max_restarts),
            TORCHELASTIC_USE_AGENT_STORE="False",
            TORCHELASTIC_ERROR_FILE=os.path.join(self.errors, f"{attempt}-{rank}.json"),
            PYTHONUNBUFFERED="1",
        )
        if self.size > 1:
            # as torchrun: each process with all cores would fight over them
            env.setdefault("OMP_NUM_THREADS", "1")
        return env

    def start(self, attempt: int, workers: list[Worker]) -> None:
        """Start all processes, into ``workers``."""
        port = self.port or free_port()
        for i in range(self.size):
            env = self.environment(i, attempt, port)
            rank = int(env["RANK"])
            parts = [self.logs, *([f"restart{attempt}"] if attempt else []), str(rank)]
            folder = os.path.join(*parts) if self.logs else ""
            label = f"[{self.options.role}{rank}]:"
            workers.append(Worker(rank, self.command, env, folder, self.hidden[i], self.marked[i], label))


def main(args: list[str] | None = None) -> int:
    """Start, watch, and return the exit status: 0, or that of the first process that failed (128 + signal)."""
    p = parser()
    job = Job(p, p.parse_args(args))
    options = job.options
    if options.msrun:
        shutil.rmtree(job.errors, ignore_errors=True)
        return msrun.start(job, p)
    stopped: list[int] = []
    old = {s: signal.signal(s, lambda n, _: stopped.append(n)) for s in job.signals}
    try:
        for attempt in range(options.max_restarts + 1):
            workers: list[Worker] = []
            try:
                job.start(attempt, workers)
                failed = _watch(workers, options.monitor_interval, stopped)
            finally:
                end(workers, options.shutdown_timeout)
            if failed is None:
                return 128 + stopped[0] if stopped else 0
            left = options.max_restarts - attempt
            print(failed.last_words(), file=sys.stderr, end="")
            print(
                f"mindtorch launch: rank {failed.rank} (process {failed.process.pid}) ended {failed.status()}; the other processes "
                "were stopped" + (f"; all are started again, {left - 1} more restarts are left" if left else ""),
                file=sys.stderr,
                flush=True,
            )
        code = failed.process.returncode
        return code if code > 0 else 128 - code
    finally:
        shutil.rmtree(job.errors, ignore_errors=True)
        for s, handler in old.items():
            signal.signal(s, handler)


def _watch(workers: list[Worker], interval: float, stopped: list[int]) -> Worker | None:
    """Wait until all have ended well or a signal came: None. Or the first that failed."""
    while not stopped:
        codes = [w.process.poll() for w in workers]
        for w, c in zip(workers, codes):
            if c:
                return w
        if all(c == 0 for c in codes):
            return None
        time.sleep(interval)
    return None


if __name__ == "__main__":
    sys.exit(main())
