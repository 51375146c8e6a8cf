"""Steps of DistributedDataParallel in several local processes, mindtorch against PyTorch's gloo: ``python benchmarks/distributed.py``.

Jobs of both are started in turn, ``ROUNDS`` each; per case the median over the rounds of each round's median step is printed, in
milliseconds. "alone": the same step in every process without DDP, "late": DDP that starts to reduce when backward is over.
``--size N`` processes (2), ``--json FILE`` writes the numbers.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from side_by_side import argument, write_json

ROUNDS = 3
STEPS = 15
LIMIT = 240


def models(torch: Any) -> dict[str, tuple[Any, Any]]:
    """Models with a batch: much to send for little work, and the opposite."""
    nn = torch.nn
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 768), nn.ReLU(), nn.Linear(768, 10))
    deep = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU())), nn.Linear(256, 10))
    small = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    return {
        "small MLP, 6 KB": (small, torch.randn(32, 32)),
        "wide MLP, 4.2 MB": (wide, torch.randn(64, 256)),
        "deep MLP, 2.1 MB": (deep, torch.randn(1024, 256)),
    }


def step(torch: Any, net: Any, x: Any) -> Callable[[], None]:
    """One step of SGD."""
    opt = torch.optim.SGD(net.parameters(), lr=0.001)

    def go() -> None:
        opt.zero_grad()
        net(x).square().mean().backward()
        opt.step()

    return go


def late(torch: Any, dist: Any, net: Any, x: Any) -> Callable[[], None]:
    """The same with one all-reduce of all gradients behind backward."""
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    flat = torch.zeros(sum(p.numel() for p in net.parameters()))

    def go() -> None:
        opt.zero_grad()
        net(x).square().mean().backward()
        torch.cat([p.grad.reshape(-1) for p in net.parameters()], out=flat)
        dist.all_reduce(flat.div_(dist.get_world_size()))
        at = 0
        for p in net.parameters():
            p.grad.copy_(flat[at : at + p.numel()].view(p.shape))
            at += p.numel()
        opt.step()

    return go


def rank() -> None:
    """One process of a job: rank 0 prints the median of every case."""
    import copy

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    import torch

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    out = {}
    for name, (net, x) in models(torch).items():
        cases = {
            "alone": step(torch, copy.deepcopy(net), x),
            "DDP": step(torch, DDP(copy.deepcopy(net)), x),
            "DDP, 0.5 MB buckets": step(torch, DDP(copy.deepcopy(net), bucket_cap_mb=0.5), x),
            "late": late(torch, dist, copy.deepcopy(net), x),
        }
        times: dict[str, list[float]] = {c: [] for c in cases}
        for turn in range(STEPS + 3):
            for c, go in cases.items():
                dist.barrier()
                begin = time.perf_counter()
                go()
                if turn >= 3:
                    times[c].append((time.perf_counter() - begin) * 1e3)
        out[name] = {c: statistics.median(ts) for c, ts in times.items()}
    if dist.get_rank() == 0:
        print(json.dumps(out), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def job(ours: bool, size: int) -> dict[str, dict[str, float]]:
    """What rank 0 of one job measured."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, *(["-m", "mindtorch"] if ours else []), __file__, "--rank"]
    running = []
    for r in range(size):
        env = {**os.environ, "RANK": str(r), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        env.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    try:
        text = running[0].communicate(timeout=LIMIT)[0]
    finally:
        for p in running:
            p.kill()
    return json.loads(next(line for line in text.splitlines() if line.startswith("{")))


def main() -> None:
    """Run the jobs in turn and print the table."""
    size = int(argument("--size", "2"))
    seen: dict[bool, list[dict[str, dict[str, float]]]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for ours in (True, False):
            seen[ours].append(job(ours, size))
    result = {}
    for name in seen[True][0]:
        for case in seen[True][0][name]:
            a, b = (statistics.median(s[name][case] for s in seen[ours]) for ours in (True, False))
            result[f"{name}: {case}"] = {"mindtorch": a, "pytorch": b, "ratio": a / b}
            print(f"{name + ': ' + case:40s} mindtorch {a:7.1f} ms   PyTorch, gloo {b:7.1f} ms   ratio {a / b:.2f}")
    write_json("distributed", {"size": size, "cases": result})


if __name__ == "__main__":
    rank() if "--rank" in sys.argv else main()
