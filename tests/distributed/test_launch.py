"""``python -m mindtorch launch``: torchrun's flags, its environment, restarts, logs, and the end of a job that fails."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from jobs import LIMIT, environment, launch, run

from mindtorch.torch.distributed import workers

SAYS = """
import json, os, sys
names = ("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME ROLE_WORLD_SIZE MASTER_ADDR "
         "TORCHELASTIC_RUN_ID TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RESTART_COUNT OMP_NUM_THREADS")
print(json.dumps([{n: os.environ.get(n) for n in names.split()}, os.environ["MASTER_PORT"].isdigit(), sys.argv[1:]]))
print("complaint of", os.environ["RANK"], file=sys.stderr)
"""


def said(text: str) -> list[list]:
    """What the ranks printed, by rank."""
    found = [json.loads(line[line.index("[{") :]) for line in text.splitlines() if "[{" in line]
    return sorted(found, key=lambda m: int(m[0]["RANK"]))


def plain(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Workers that are Python programs without mindtorch: they start fast. ``args``: flags, the script, its arguments."""
    at = next(i for i, a in enumerate(args) if a.endswith(".py"))
    return launch(*args[:at], "--no-python", sys.executable, *args[at:], **more)


@pytest.fixture
def says(tmp_path):
    (tmp_path / "says.py").write_text(SAYS)
    return str(tmp_path / "says.py")


def test_environment_is_that_of_torchrun(says):
    """Both launchers, the same flags: the same variables."""
    flags = ["--nproc-per-node=2", "--rdzv_id=me", "--role=actor", "--max_restarts=1", "--master_port=29777"]
    ours = launch(*flags, "--no-python", sys.executable, says, "--lr", "0.1")
    command = [sys.executable, "-m", "torch.distributed.run", *flags, says, "--lr", "0.1"]
    theirs = run(command)
    assert ours.returncode == theirs.returncode == 0, ours.stderr + theirs.stderr
    assert said(ours.stdout) == said(theirs.stdout) and len(said(ours.stdout)) == 2


def test_two_launchers_are_two_machines(says):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    got = []
    for node in (0, 1):
        flags = ["--nnodes=1:2", f"--node_rank={node}", "--nproc=2", f"--rdzv_endpoint=127.0.0.1:{port}", "--rdzv-backend=c10d"]
        done = plain(*flags, says)
        assert done.returncode == 0, done.stderr
        got += said(done.stdout)
    assert [m[0]["RANK"] for m in got] == ["0", "1", "2", "3"]
    assert [m[0]["LOCAL_RANK"] + m[0]["GROUP_RANK"] for m in got] == ["00", "10", "01", "11"]
    assert {m[0]["WORLD_SIZE"] for m in got} == {"4"}
    refused = plain("--nnodes=2", says)
    assert refused.returncode == 2 and "--master-addr" in refused.stderr


def test_defaults_come_from_the_environment(says):
    done = plain(says, PET_NPROC_PER_NODE="2", PET_RDZV_ID="from-env", PET_MAX_RESTARTS="2")
    assert [m[0]["TORCHELASTIC_RUN_ID"] + m[0]["TORCHELASTIC_MAX_RESTARTS"] for m in said(done.stdout)] == ["from-env2"] * 2


def test_modules_run_by_name(says, tmp_path):
    done = launch("--nproc=1", "-m", "says", "x", PYTHONPATH=f"{environment()['PYTHONPATH']}{os.pathsep}{tmp_path}")
    assert done.returncode == 0 and said(done.stdout)[0][2] == ["x"], done.stderr


def test_output_goes_where_the_flags_say(says, tmp_path):
    logs = tmp_path / "logs"
    done = plain("--nproc=2", "--role=r", "--log-dir", str(logs), "--redirects=0:3,1:1", "--tee=1:2", says)
    assert done.returncode == 0 and done.stdout == "" and done.stderr == "[r1]:complaint of 1\n"
    for rank in "01":
        assert said((logs / rank / "stdout.log").read_text())[0][0]["RANK"] == rank
        assert (logs / rank / "stderr.log").read_text() == f"complaint of {rank}\n"
    done = plain("--nproc=2", "--local-ranks-filter=1", says)
    assert [m[0]["RANK"] for m in said(done.stdout)] == ["1"] and "complaint of 0" not in done.stderr
    done = plain("--nproc=1", "--tee=5", says)
    assert done.returncode == 2 and "0 nothing, 1 stdout" in done.stderr
    done = plain("--nproc=1", "--rdzv-conf=a=1", says)
    assert done.returncode == 0 and "--rdzv-conf" in done.stderr and "no effect" in done.stderr


def test_values_of_redirects():
    assert workers.streams("3", 2) == [3, 3] and workers.streams("1:2", 3) == [0, 2, 0]
    for text in ("x", "4", "3:1", "0:9"):
        with pytest.raises(ValueError, match="invalid literal|0 nothing"):
            workers.streams(text, 2)


DIES = """
import os, sys, time
turn, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), os.environ["RANK"]
open(os.path.join(sys.argv[1], f"{turn}-{rank}-{os.environ['MASTER_PORT']}"), "w").close()
print("turn", turn, flush=True)
if turn < 2:
    if rank == "1":
        sys.exit(7)
    time.sleep(600)
"""


def test_failed_jobs_start_again(tmp_path):
    (tmp_path / "dies.py").write_text(DIES)
    seen, logs = tmp_path / "seen", tmp_path / "logs"
    seen.mkdir()
    script = [str(tmp_path / "dies.py"), str(seen)]
    done = plain("--nproc=2", "--max-restarts=2", f"--log-dir={logs}", *script)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name[:3] for p in seen.iterdir()) == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert "status 7" in done.stderr and "1 more restarts are left" in done.stderr
    assert (logs / "0" / "stdout.log").read_text() == "turn 0\n"
    assert (logs / "restart2" / "1" / "stdout.log").read_text() == "turn 2\n"
    done = plain("--nproc=2", "--max-restarts=1", *script)
    assert done.returncode == 7 and done.stderr.count("status 7") == 2


RECORDS = """
import os, sys, time
from mindtorch.torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    if os.environ["RANK"] == "0":
        raise ArithmeticError("recorded")
    time.sleep(600)

main()
"""


def test_what_a_silent_worker_died_of_is_shown(tmp_path):
    (tmp_path / "records.py").write_text(RECORDS)
    done = plain("--nproc=2", "--redirects=3", f"--log-dir={tmp_path / 'logs'}", str(tmp_path / "records.py"))
    assert done.returncode == 1 and "ArithmeticError: recorded" in done.stderr and "rank 0" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_all(tmp_path, number):
    script = tmp_path / "waits.py"
    script.write_text(
        "import os, sys, time, pathlib\n"
        "pathlib.Path(sys.argv[1], os.environ['RANK']).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    command = [sys.executable, "-m", "mindtorch", "launch", "--nproc", "2", "--no-python", sys.executable, str(script), str(tmp_path)]
    p = subprocess.Popen(command, env=environment())
    try:
        end = time.monotonic() + LIMIT
        files = [tmp_path / "0", tmp_path / "1"]
        while not all(f.exists() and f.read_text() for f in files) and time.monotonic() < end:
            time.sleep(0.05)
        p.send_signal(number)
        assert p.wait(LIMIT) == 128 + number
        for f in files:
            with pytest.raises(ProcessLookupError):
                os.kill(int(f.read_text()), 0)
    finally:
        p.terminate()
        p.wait(LIMIT)


BY_MSRUN = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
t = torch.full((3,), dist.get_rank() + 1.0)
dist.all_reduce(t)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MS_ROLE")
print("said", dist.get_rank() == int(os.environ["RANK"]), [os.environ[n] for n in names], t.tolist(), flush=True)
dist.barrier()
"""


def test_msrun_starts_and_joins_the_processes(tmp_path):
    """MindSpore's own starter and scheduler, torchrun's variables."""
    pytest.importorskip("mindspore")
    (tmp_path / "job.py").write_text(BY_MSRUN)
    done = launch("--msrun", "--nproc=2", "--log-dir", str(tmp_path / "logs"), str(tmp_path / "job.py"))
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = {f"said True ['{r}', '{r}', '2', '2', 'MS_WORKER'] [3.0, 3.0, 3.0]" for r in range(2)}
    logs = [(tmp_path / "logs" / f"worker_{r}.log").read_text().splitlines() for r in range(2)]
    assert {line for log in logs for line in log if line.startswith("said")} == wanted
    assert (tmp_path / "logs" / "scheduler.log").exists()


@pytest.mark.parametrize("flag", ["--max-restarts=1", "--redirects=3", "--tee=3"])
def test_msrun_has_not_every_flag(flag):
    done = launch("--msrun", flag, "x.py")
    assert done.returncode == 2 and f"{flag.split('=')[0]} cannot be had with --msrun" in done.stderr
