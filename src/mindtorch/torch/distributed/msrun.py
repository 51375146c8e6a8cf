"""``python -m mindtorch launch --msrun``: MindSpore's msrun starts the processes, and its scheduler joins them.

The launcher calls `start`. msrun then runs this module in each process it makes: in its scheduler, which does nothing but join
the others, and in the workers, which get torchrun's variables beside msrun's own and become the program.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from typing import Any

from .rendezvous import free_port

__all__ = ["start"]

_NOT_THERE = ("max_restarts", "redirects", "tee", "local_ranks_filter", "virtual_local_rank")
"""Flags that msrun has nothing for."""


def start(job: Any, parser: Any) -> int:
    """Run the job by msrun and return its exit status. Each worker's output is shown, and kept in a folder by rank."""
    o = job.options
    for name in _NOT_THERE:
        if str(getattr(o, name)) not in ("0", "", "False"):
            parser.error(f"--{name.replace('_', '-')} cannot be had with --msrun, which starts each process once and shows its output")
    if importlib.util.find_spec("mindspore") is None:
        parser.error("--msrun needs MindSpore, which is not installed; leave it out to start the processes without a scheduler")
    port = job.port or free_port()
    logs = job.logs or tempfile.mkdtemp(prefix="mindtorch-msrun-")
    print(f"mindtorch launch: msrun writes the output of each process to {logs}", file=sys.stderr, flush=True)
    env = job.environment(0, 0, port)
    for name in ("RANK", "LOCAL_RANK", "ROLE_RANK", "WORLD_SIZE"):
        del env[name]
    env.setdefault("GLOG_v", "3")
    # msrun starts what it finds under the name of python.
    folder = os.path.dirname(sys.executable)
    python = "python" if os.path.exists(os.path.join(folder, "python")) else "python3"
    env["PATH"] = os.pathsep.join((folder, env.get("PATH", os.defpath)))
    world = job.nodes * job.size
    command = [
        sys.executable, "-m", "mindspore.parallel.cluster.run", f"--worker_num={world}", f"--local_worker_num={job.size}",
        f"--master_addr={job.host}", f"--master_port={port}", f"--node_rank={o.node_rank}", f"--log_dir={logs}", "--join=True",
        python, "-u", "-m", __name__, *job.command,
    ]  # fmt: skip
    code = subprocess.call(command, env=env)
    return code if code >= 0 else 128 - code


def become(command: list[str]) -> None:
    """In a process of msrun: be the scheduler until the job is over, or become ``command`` with torchrun's variables set."""
    env = os.environ
    if env["MS_ROLE"] == "MS_SCHED":
        from mindtorch.engine.mindspore import collectives

        try:
            collectives.schedule()
        except RuntimeError as error:  # a worker is gone, whose own traceback is what the user needs
            sys.exit(f"msrun's scheduler: {str(error).splitlines()[0]}")
        return
    rank = env["MS_NODE_ID"]
    env.update(RANK=rank, ROLE_RANK=rank, LOCAL_RANK=env["DEVICE_ID"], WORLD_SIZE=env["MS_WORKER_NUM"], MINDTORCH_JOB="msrun")
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    become(sys.argv[1:])
