"""One job for many checks: run by several processes, under PyTorch or under mindtorch, with the same numbers expected.

Usage: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT in the environment; scenario.py OUT_DIR PART... Each rank writes what it saw to
OUT_DIR/rank.pkl: plain numbers, lists and strings by name.
"""

import os
import pickle
import sys
import time

import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

import torch

SEEN = {}
TORCH = "mindtorch" not in torch.__name__ and "mindtorch" not in sys.modules
R = int(os.environ["RANK"])
N = int(os.environ["WORLD_SIZE"])
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64", "complex128"]


def plain(x):
    if isinstance(x, torch.Tensor):
        if x.dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        return x.detach().tolist()
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    return str(x) if isinstance(x, str) else x


def note(name, value):
    SEEN[name] = plain(value)


def attempt(name, f):
    try:
        note(name, f())
    except Exception as e:
        note(name, type(e).__name__)


def values(dtype, n, salt=0):
    """Small numbers that differ by rank, exact in every dtype."""
    base = (torch.arange(n) * 7 + R * 3 + salt) % 5 - (0 if dtype in ("uint8", "bool") else 2)
    if dtype == "bool":
        return base > 2
    t = base.to(getattr(torch, dtype))
    return t + 1j * t.flip(0) if dtype.startswith("complex") else t


def tail(t):
    """Enough of a long tensor to tell a wrong one: both ends and a checksum."""
    v = t.detach()
    v = torch.view_as_real(v).reshape(-1) if v.is_complex() else v.reshape(-1)
    return [plain(v[:6]), plain(v[-3:]), v.double().abs().sum().item(), list(t.shape)]


def reductions():
    ops = ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"]
    for dtype in DTYPES:
        for n in (5, 3000):  # inside one frame, and through the engine's collective
            for op in ops:
                if dtype == "bool" and op == "BXOR" or n > 5 and op == "PRODUCT":
                    continue
                if n > 5 and dtype not in ("float32", "float64", "bfloat16", "uint8", "int64") and op != "SUM":
                    continue

                def go(op=op, n=n, dtype=dtype):
                    t = values(dtype, n)
                    dist.all_reduce(t, op=getattr(dist.ReduceOp, op))
                    return tail(t)

                attempt(f"all_reduce {dtype} {n} {op}", go)


def gathered(x):
    out = [torch.zeros_like(x) for _ in range(N)]
    dist.all_gather(out, x)
    return [tail(o) for o in out]


def gathered_in_1(x):
    out = [torch.zeros_like(x) for _ in range(N)] if R == 1 else None
    dist.gather(x, out, dst=1)
    return [tail(o) for o in out or []]


def scattered(dtype, n):
    got = torch.zeros_like(values(dtype, n))
    dist.scatter(got, [values(dtype, n, i) for i in range(N)] if R == 0 else None, src=0)
    return tail(got)


def exchanged(dtype, n):
    outs = [torch.zeros_like(values(dtype, n)) for _ in range(N)]
    dist.all_to_all(outs, [values(dtype, n, i) for i in range(N)])
    return [tail(o) for o in outs]


def sent(x):
    if R == 0:
        dist.send(x, 1)
    elif R == 1:
        got = torch.zeros_like(x)
        return [dist.recv(got, 0), tail(got)]


def spread(x):
    dist.broadcast(x, N - 1)
    return tail(x)


def moves():
    for dtype in DTYPES:
        for n in (4, 2000):
            x = values(dtype, n)
            attempt(f"broadcast {dtype} {n}", lambda: spread(x.clone()))
            attempt(f"all_gather {dtype} {n}", lambda: gathered(x))
            attempt(f"gather {dtype} {n}", lambda: gathered_in_1(x))
            attempt(f"scatter {dtype} {n}", lambda: scattered(dtype, n))
            attempt(f"all_to_all {dtype} {n}", lambda: exchanged(dtype, n))
            if dtype != "int16" or not TORCH:  # gloo raises in the middle of it and breaks the pair
                attempt(f"send {dtype} {n}", lambda: sent(x))


def composed():
    x = torch.arange(2.0 * N).reshape(N, 2) + R
    out = torch.zeros(2)
    dist.reduce_scatter(out, list(x))
    note("reduce_scatter", out)
    out = torch.zeros(1, 2)
    getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)(out, x, op=dist.ReduceOp.MAX)
    note("reduce_scatter_tensor", out)
    out = torch.zeros(N * 2, 3)
    getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(out, torch.full((2, 3), float(R)))
    note("all_gather_into_tensor", out)
    r = torch.ones(3, dtype=torch.float64) * (R + 1)
    dist.reduce(r, 1)
    note("reduce", r if R == 1 else None)
    ins = [1 + (R + i) % 2 for i in range(N)]
    outs = [1 + (R + i) % 2 for i in range(N)]
    o = torch.zeros(sum(outs), 2)
    dist.all_to_all_single(o, torch.arange(2.0 * sum(ins)).reshape(-1, 2) + 100 * R, outs, ins)
    note("all_to_all_single", o)
    m = torch.zeros(4, 6)
    dist.all_reduce(m[:, 1:3].fill_(R + 1.0))
    note("all_reduce of a slice", m)
    m = torch.zeros(3, 2)
    dist.broadcast(m.t(), 0) if R else dist.broadcast(torch.arange(6.0).reshape(2, 3), 0)
    note("broadcast into a transpose", m if R else None)


def handles():
    a, b = torch.ones(3000) * R, torch.ones(4) * R
    w = [dist.all_reduce(a, async_op=True), dist.all_reduce(b, op=dist.ReduceOp.MAX, async_op=True), dist.barrier(async_op=True)]
    note("wait", [x.wait() for x in w])
    note("completed", [x.is_completed() for x in w])
    note("async results", [a[-1], b])
    x, y = torch.full((3,), float(R)), torch.zeros(3)
    ops = [dist.P2POp(dist.irecv, y, (R - 1) % N), dist.P2POp(dist.isend, x, (R + 1) % N)]
    for q in dist.batch_isend_irecv(ops):
        q.wait()
    note("ring", y)
    if R == 0:
        dist.isend(torch.ones(2), 1, tag=7).wait()
        dist.isend(torch.zeros(2), 1, tag=3).wait()
    if R == 1:
        p, q = torch.full((2,), 9.0), torch.full((2,), 9.0)
        second, first = dist.irecv(q, 0, tag=3), dist.irecv(p, 0, tag=7)
        second.wait()
        first.wait()
        note("tags", [p, q])


def futures():
    """Handles that are real: callbacks chained to a running collective, and answers from whoever sends first."""
    a = torch.ones(3000) * (R + 1)
    work = dist.all_reduce(a, async_op=True)
    chained = work.get_future().then(lambda f: f.value()[0] * 2)
    note("chained", [chained.wait()[-1], work.wait(), work.is_completed(), chained.done()])
    failed = work.get_future().then(lambda f: 1 // 0)
    attempt("failed callback", failed.wait)
    if R == 0:
        got = []
        for _ in range(2 * (N - 1)):
            x = torch.zeros(2)
            got.append([dist.recv(x), x[0].item()])
        x = torch.zeros(2)
        dist.recv(x, N - 1, tag=5)
        note("from anybody", [sorted(got), [g for g in got if g[0] == 1], x])
    else:
        dist.send(torch.full((2,), R * 10.0), 0)
        dist.send(torch.full((2,), R * 10.0 + 1), 0)
        if R == N - 1:
            dist.send(torch.full((2,), 99.0), 0, tag=5)
    dist.barrier()
    x = torch.zeros(1)
    w = dist.irecv(x, (R - 1) % N)  # gloo waits for ever when it is waited for twice
    if R % 2:
        w.wait()
    dist.send(torch.full((1,), R + 1.0), (R + 1) % N)
    if R % 2 == 0:
        w.wait()
    note("ring of receives", x)
    attempt("monitored", lambda: dist.monitored_barrier(wait_all_ranks=True))


def objects():
    out = [None] * N
    dist.all_gather_object(out, {"rank": R, "long": "x" * (R * 5000)})
    note("all_gather_object", [[o["rank"], len(o["long"])] for o in out])
    out = [None] * N if R == 0 else None
    dist.gather_object((R, "a"), out, dst=0)
    note("gather_object", [list(o) for o in out or []])
    held = [1, "two", {"three": 3}] if R == 0 else [None] * 3
    dist.broadcast_object_list(held, src=0)
    note("broadcast_object_list", held)
    got = [None]
    dist.scatter_object_list(got, [f"for {i}" for i in range(N)] if R == 0 else None, src=0)
    note("scatter_object_list", got)


def groups():
    odd = dist.new_group(list(range(1, N, 2)))
    even = dist.new_group(list(range(0, N, 2)))
    mine = odd if R % 2 else even
    note("group", [dist.get_rank(mine), dist.get_world_size(mine), dist.get_process_group_ranks(mine), dist.get_rank(even if R % 2 else odd)])
    for n in (3, 2500):
        t = torch.full((n,), float(R))
        dist.all_reduce(t, group=mine)
        note(f"group all_reduce {n}", t[-1])
        dist.broadcast(t.fill_(float(R)), dist.get_global_rank(mine, 0), group=mine)
        note(f"group broadcast {n}", t[0])
    note("group rank", dist.get_group_rank(mine, R))
    dist.monitored_barrier()


def errors():
    x = torch.ones(3)
    attempt("send to itself", lambda: dist.send(x, R))
    attempt("no tensor", lambda: dist.all_reduce(3))
    attempt("dtypes", lambda: dist.all_gather([x.int()] * N, x))
    attempt("length", lambda: dist.all_gather([x], x))
    attempt("shapes", lambda: dist.all_gather([torch.ones(2)] * N, x))
    attempt("group of nobody", lambda: dist.new_group([N]))
    attempt("twice", lambda: dist.init_process_group("gloo"))
    attempt("scatter list", lambda: dist.scatter(x, None, src=R))
    attempt("p2p op", lambda: dist.P2POp(dist.all_reduce, x, (R + 1) % N))
    attempt("bits of floats", lambda: dist.all_reduce(x, op=dist.ReduceOp.BAND))
    attempt("complex max", lambda: dist.all_reduce(x + 1j, op=dist.ReduceOp.MAX))
    attempt("split sizes", lambda: dist.all_to_all_single(x, x, [1] * N, [5] * N))
    # a barrier of gloo also reports what failed before it if that is still in its queue: let its threads take it out
    for _ in range(4):
        dist.all_reduce(x)
    time.sleep(1.0 if TORCH else 0.0)
    dist.barrier()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 40)
        self.bn = nn.BatchNorm1d(40)
        self.b = nn.Linear(40, 3)
        self.spare = nn.Linear(2, 2)

    def forward(self, x, spare=False):
        y = self.b(torch.tanh(self.a(x)))
        return y + self.spare(y[:, :2]).sum() if spare else y


def data():
    g = torch.Generator().manual_seed(3)
    return torch.randn(24 * 4, 6, generator=g), torch.randint(0, 3, (24 * 4,), generator=g)


def curve(model, steps, pick, no_sync=None):
    """Losses of this process over ``steps`` of SGD with momentum."""
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    x, y = data()
    losses = []
    for step in range(steps):
        xs, ys = pick(x, step), pick(y, step)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(xs), ys)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def shard(t, step):
    whole = t[(step % 4) * 24 : (step % 4 + 1) * 24]
    return whole[R * 24 // N : (R + 1) * 24 // N]


def training():
    torch.manual_seed(11 + R)  # rank 0's parameters must win
    net = Net()
    ddp = DDP(net, find_unused_parameters=True, bucket_cap_mb=0.0005)
    losses = curve(ddp, 12, shard)
    mean = torch.tensor(losses)
    dist.all_reduce(mean)
    note("ddp curve", mean / N)
    note("ddp weights", net.a.weight[0])
    note("ddp keys", list(ddp.state_dict()))
    note("ddp unused", net.spare.weight.grad)
    torch.manual_seed(11)
    alone = Net()
    note("whole batch curve", curve(alone, 12, lambda t, s: t[(s % 4) * 24 : (s % 4 + 1) * 24]))
    note("whole batch weights", alone.a.weight[0])


def details():
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    ddp = DDP(net, gradient_as_bucket_view=True)
    x = torch.arange(12.0).reshape(3, 4) / 10 + R
    with ddp.no_sync():
        ddp(x).square().sum().backward()
    note("no_sync", net[2].weight.grad)
    ddp(x * 2).square().sum().backward()
    note("after no_sync", net[2].weight.grad)
    note("buffers", [net[1].running_mean, net[1].num_batches_tracked])
    net.zero_grad()
    part = DDP(Net(), find_unused_parameters=True)
    part(torch.ones(2, 6) * (R + 1), spare=R == 0).sum().backward()
    note("used in one process", part.module.spare.bias.grad)
    part = DDP(Net())
    part(torch.ones(2, 6)).sum().backward()
    attempt("unfinished", lambda: part(torch.ones(2, 6)))
    still = DDP(Net(), static_graph=True)
    for _ in range(2):
        still(torch.ones(2, 6) * (R + 1)).sum().backward()
    note("static_graph", still.module.b.bias.grad)
    attempt("no gradient needed", lambda: DDP(nn.ReLU()))
    attempt("device_ids", lambda: DDP(nn.Linear(1, 1), device_ids=[0]))


class Deep(nn.Module):
    """Layers in another order than they are used in, one of them twice, two in checkpointed blocks."""

    def __init__(self, blocks=1, reentrant=False):
        super().__init__()
        self.last, self.first = nn.Linear(8, 1), nn.Linear(4, 8)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        self.blocks, self.reentrant = blocks, reentrant

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        x = self.first(x)
        for _ in range(self.blocks):
            x = checkpoint(self.block, x, use_reentrant=self.reentrant) + x
        return self.last(x)


def overlap():
    """Buckets of one parameter each, sent while the backward pass goes on."""
    x = (torch.arange(12.0).reshape(3, 4) / 10 - R) / 4
    for name, net, options in (
        ("plain", Deep(), {}),
        ("twice", Deep(2), {}),
        ("views", Deep(2), {"gradient_as_bucket_view": True}),
        ("reentrant", Deep(1, True), {}),
        ("static", Deep(2, True), {"static_graph": True}),
        ("found", Deep(2), {"find_unused_parameters": True}),
    ):
        torch.manual_seed(21)
        for p in net.parameters():
            nn.init.normal_(p, std=0.3)
        ddp = DDP(net, bucket_cap_mb=0.0002, **options)
        opt = torch.optim.SGD(net.parameters(), lr=0.02)
        losses = []
        for step in range(4):
            opt.zero_grad(set_to_none=step != 2)
            loss = ddp(x * (step + 1)).square().mean()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        note(f"overlap {name}", [losses, [p.grad for p in net.parameters()]])
    ddp = DDP(Deep(2, True), bucket_cap_mb=0.0002)
    attempt("gradient twice", lambda: ddp(x).sum().backward())
    dist.barrier()


def gan():
    """Two forward passes before one backward, two backward passes a step, a frozen discriminator."""
    torch.manual_seed(31)
    gen, critic = DDP(nn.Linear(3, 4), bucket_cap_mb=0.00001), DDP(nn.Linear(4, 1))
    og, oc = torch.optim.SGD(gen.parameters(), lr=0.05), torch.optim.SGD(critic.parameters(), lr=0.05)
    seen = []
    for step in range(3):
        real, z = torch.full((2, 4), R + 1.0 + step), torch.full((2, 3), 0.5 * (R + 1))
        oc.zero_grad()
        (critic(real).mean() - 1).square().backward()
        critic(gen(z).detach()).mean().square().backward()
        oc.step()
        seen.append(critic.module.weight.grad.clone())
        og.zero_grad()
        for p in critic.parameters():
            p.requires_grad_(False)
        (critic.module(gen(z)).mean() - 1).square().backward()
        for p in critic.parameters():
            p.requires_grad_(True)
        og.step()
        seen.append(gen.module.weight.grad.clone())
        oc.zero_grad()
        a, b = critic(real), critic(real * 2)
        (a.square() + b).mean().backward()
        seen.append(critic.module.weight.grad.clone())
    note("gan", seen)


def hooked():
    """What a communication hook sees, in which order, and what the user's own hooks see."""
    torch.manual_seed(41)
    net = Deep()
    ddp = DDP(net, bucket_cap_mb=0.0002)
    log, passes = [], []

    def hook(state, bucket):
        names = {id(p): n for n, p in net.named_parameters()}
        log.append([bucket.index(), bucket.is_last(), [names[id(p)] for p in bucket.parameters()], len(bucket.gradients())])
        return dist.all_reduce(bucket.buffer().div_(N), async_op=True).get_future().then(lambda f: f.value()[0] * 2)

    ddp.register_comm_hook(None, hook)
    own = []
    net.first.weight.register_post_accumulate_grad_hook(lambda p: own.append(p.grad.clone()))
    for turn in range(3):
        net.zero_grad()
        ddp(torch.ones(2, 4) * (R + 1)).square().sum().backward()
        note(f"hooked gradients {turn}", [p.grad for p in net.parameters()])
        passes.append(list(log))
        log.clear()
    note("hooked own", own)
    # the first pass has buckets that are guessed, those after it the order in which the gradients came
    note("hooked buckets", passes[1:])


def uneven():
    torch.manual_seed(6)
    net = nn.Linear(2, 1)
    ddp = DDP(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    with ddp.join():
        for step in range(2 + R):
            opt.zero_grad()
            ddp(torch.ones(1, 2) * (step + 1 + R)).square().sum().backward()
            opt.step()
    note("join", net.weight)
    x, y = torch.arange(10.0).reshape(10, 1), torch.arange(10.0)
    sampler = torch.utils.data.DistributedSampler(range(10), shuffle=True, seed=4)
    sampler.set_epoch(2)
    note("sampler", list(sampler))
    set_ = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(set_, batch_size=2, sampler=sampler)
    net = nn.Linear(1, 1)
    ddp = DDP(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    losses = []
    for a, b in loader:  # the last batch is shorter
        opt.zero_grad()
        loss = nn.functional.mse_loss(ddp(a).squeeze(1), b)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    note("uneven last batch", losses)
    note("uneven weights", net.weight)


def extras():
    import torch.distributed.nn.functional as dnn
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    x = (torch.arange(4.0) + R).requires_grad_()
    (dnn.all_reduce(x).square() * (R + 1)).sum().backward()
    note("differentiable all_reduce", x.grad)
    x = (torch.arange(4.0) + R).requires_grad_()
    parts = dnn.all_gather(x)
    sum((p.square() * (R + i)).sum() for i, p in enumerate(parts)).backward()
    note("differentiable all_gather", x.grad)
    x = (torch.arange(4.0) + R).requires_grad_()
    (dnn.broadcast(x, 0) * (R + 2)).sum().backward()
    note("differentiable broadcast", x.grad)
    xs = [(torch.arange(2.0) + R + i).requires_grad_() for i in range(N)]
    dnn.reduce_scatter(torch.zeros(2), xs).square().sum().backward()
    note("differentiable reduce_scatter", [v.grad for v in xs])
    for name in ("allreduce_hook", "fp16_compress_hook"):
        torch.manual_seed(1)
        ddp = DDP(nn.Linear(3, 2))
        ddp.register_comm_hook(None, getattr(default_hooks, name))
        ddp(torch.ones(2, 3) * (R + 0.3)).square().sum().backward()
        note(name, ddp.module.weight.grad)


def sync_norm():
    """Not in PyTorch on the CPU: compared with the whole batch in one process."""
    g = torch.Generator().manual_seed(8)
    x = torch.randn(4 * N, 3, 5, generator=g)
    torch.manual_seed(2)
    norm = nn.BatchNorm1d(3)
    nn.init.uniform_(norm.weight)
    whole = x.clone().requires_grad_()
    (norm(whole) ** 3).sum().backward()
    sync = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3))
    sync.load_state_dict({**norm.state_dict(), "running_mean": torch.zeros(3), "running_var": torch.ones(3)})
    cut = slice(4 * R, 4 * R + 4)
    part = x[cut].clone().requires_grad_()
    (sync(part) ** 3).sum().backward()
    note("sync input", [part.grad, whole.grad[cut]])
    note("sync running", [[sync.running_mean, sync.running_var], [norm.running_mean, norm.running_var]])
    total = sync.weight.grad.clone()
    dist.all_reduce(total)
    note("sync weight", [total, norm.weight.grad])


def main():
    dist.init_process_group("gloo")
    note("who", [dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.is_initialized()])
    for part in sys.argv[2:]:
        globals()[part]()
    if not TORCH:
        sync_norm()
    dist.barrier()
    dist.destroy_process_group()
    note("after", dist.is_initialized())
    with open(os.path.join(sys.argv[1], f"{R}.pkl"), "wb") as f:
        pickle.dump(SEEN, f)


main()
