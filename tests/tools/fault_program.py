"""A training program for either framework, and thirty ways to break one of its lines."""

from __future__ import annotations

from typing import Any, NamedTuple

PROGRAM = '''
nn, F = torch.nn, torch.nn.functional

class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=True)
        self.bn = nn.BatchNorm2d(cout, eps=1e-5, momentum=0.1)
        self.act = nn.LeakyReLU(0.1)
    def forward(self, x):
        x = self.conv(x)
        x = self.bn(x)
        return self.act(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = Block(3, 6)
        self.block2 = Block(6, 6)
        self.emb = nn.Embedding(10, 12)
        self.norm = nn.LayerNorm(12, eps=1e-5)
        self.q = nn.Linear(12, 12)
        self.k = nn.Linear(12, 12)
        self.rnn = nn.GRU(12, 12, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(12, 4)
        self.scale = nn.Parameter(torch.full((12,), 0.7))
    def forward(self, x, ids):
        x = self.block1(x)
        x = x + self.block2(x)
        x = F.avg_pool2d(x, 2)
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = x.reshape(x.shape[0], 12, -1)
        x = x.transpose(1, 2)
        e = self.emb(ids)
        x = torch.cat([x, e], 1)
        x = self.norm(x)
        q = self.q(x)
        k = self.k(x)
        w = torch.matmul(q, k.transpose(1, 2))
        w = w / 12 ** 0.5
        w = torch.softmax(w, dim=-1)
        x = torch.matmul(w, x)
        x = x * self.scale
        x, _ = self.rnn(x)
        x = F.gelu(x)
        x = self.drop(x)
        v = x[:, :2]
        p = x.mean(dim=1)
        p = torch.clamp(p, -0.5, 0.5)
        p = torch.exp(p)
        p = torch.log(p + 1.0)
        p = p - v.sum(dim=1)
        return self.head(p)

def run(start, stop, steps=2):
    torch.manual_seed(0)
    net = Net()
    change(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.0)
    start(net)
    for step in range(steps):
        torch.manual_seed(step + 1)
        x = torch.randn(4, 3, 8, 8)
        ids = torch.randint(0, 10, (4, 3))
        target = torch.randint(0, 4, (4,))
        optimizer.zero_grad()
        out = net(x, ids)
        loss = F.cross_entropy(out, target, reduction="mean")
        loss.backward()
        optimizer.step()
    stop()

def change(net):
    return None
'''


class Fault(NamedTuple):
    """Text to replace, its replacement, the call that must be named, and part of its line ("" for calls without one)."""

    old: str
    new: str
    api: str
    line: str


def _init(body: str, api: str, line: str) -> Fault:
    return Fault("def change(net):\n    return None", f"def change(net):\n    {body}", api, line)


FAULTS: dict[str, Fault] = {
    "wrong epsilon of batch norm": Fault("eps=1e-5, momentum", "eps=1e-2, momentum", "BatchNorm2d", "self.bn(x)"),
    "wrong momentum of batch norm": Fault("momentum=0.1)", "momentum=0.2)", "BatchNorm2d", "self.bn(x)"),
    "wrong epsilon of layer norm": Fault("LayerNorm(12, eps=1e-5)", "LayerNorm(12, eps=1e-2)", "LayerNorm", "self.norm(x)"),
    "transposed weight": _init("net.q.weight.data = net.q.weight.data.t().contiguous()", "Linear", "self.q(x)"),
    "dropped bias": _init("net.k.bias = None", "Linear", "self.k(x)"),
    "no bias in a convolution": Fault("padding=1, bias=True", "padding=1, bias=False", "Conv2d", "self.conv(x)"),
    "wrong padding": Fault("cout, 3, padding=1", "cout, 3, padding=1, padding_mode='reflect'", "Conv2d", "self.conv(x)"),
    "wrong slope": Fault("LeakyReLU(0.1)", "LeakyReLU(0.01)", "LeakyReLU", "self.act(x)"),
    "another activation": Fault("F.gelu(x)", "F.gelu(x, approximate='tanh')", "gelu", "F.gelu(x"),
    "half-pixel shift": Fault("align_corners=False", "align_corners=True", "interpolate", "F.interpolate(x"),
    "nearest for bilinear": Fault('mode="bilinear", align_corners=False', 'mode="nearest"', "interpolate", "F.interpolate(x"),
    "wrong reduction of the loss": Fault('reduction="mean"', 'reduction="sum"', "cross_entropy", "F.cross_entropy"),
    "label smoothing": Fault('reduction="mean"', "label_smoothing=0.1", "cross_entropy", "F.cross_entropy"),
    "max pooling for average": Fault("F.avg_pool2d(x, 2)", "F.max_pool2d(x, 2)", "pool2d", "pool2d(x, 2)"),
    "missing scale": Fault("        w = w / 12 ** 0.5\n", "        pass\n", "div", "w / 12 ** 0.5"),
    "wrong scale": Fault("w / 12 ** 0.5", "w / 12", "div", "w / 12"),
    "softmax over the wrong axis": Fault("softmax(w, dim=-1)", "softmax(w, dim=1)", "softmax", "torch.softmax(w"),
    "exchanged layers": Fault(
        "        x = self.conv(x)\n        x = self.bn(x)\n        return self.act(x)",
        "        x = self.conv(x)\n        x = self.act(x)\n        return self.bn(x)",
        "BatchNorm2d|LeakyReLU",
        "self.bn(x)|self.act(x)",
    ),
    "missing residual": Fault("x = x + self.block2(x)", "x = self.block2(x)", "add", "x + self.block2(x)"),
    "concatenation in the wrong order": Fault("cat([x, e], 1)", "cat([e, x], 1)", "cat", "torch.cat("),
    "NaN from log(0)": Fault("torch.log(p + 1.0)", "torch.log(p * 0.0)", "log|mul", "torch.log(p * 0.0)"),
    "wrong clamp": Fault("clamp(p, -0.5, 0.5)", "clamp(p, -0.5, 0.01)", "clamp", "torch.clamp(p"),
    "in place on a view": Fault("v = x[:, :2]", "v = x[:, :2]; v.mul_(2)", "mul_", "v.mul_(2)"),
    "wrong dtype": Fault("torch.exp(p)", "torch.exp(p.half())", "half|exp", "torch.exp(p"),
    "wrong axis of a mean": Fault("x.mean(dim=1)", "x[:, 1:].mean(dim=1)", "mean|getitem", "mean(dim=1)"),
    "another parameter": _init("net.scale.data.mul_(1.01)", "mul", "x * self.scale"),
    "gradient scaled by two": _init(
        "net.q.weight.register_hook(lambda g: g * 2)", "Linear", "self.q(x)"
    ),
    "gradient cut": Fault("k.transpose(1, 2))", "k.detach().transpose(1, 2))", "transpose|Linear|matmul", "k."),
    "wrong momentum of the optimiser": Fault("momentum=0.9", "momentum=0.8", "SGD.step", ""),
    "wrong learning rate": Fault("lr=0.05", "lr=0.04", "SGD.step", ""),
    "weight decay": Fault("weight_decay=0.0", "weight_decay=0.01", "SGD.step", ""),
    "clipped gradients": Fault(
        "        optimizer.step()", "        nn.utils.clip_grad_norm_(net.parameters(), 0.01)\n        optimizer.step()", "SGD.step", ""
    ),
    "another seed of the data": Fault("torch.manual_seed(step + 1)", "torch.manual_seed(step + 2)", "Conv2d", "self.conv(x)"),
}


def source_of(fault: Fault | None) -> str:
    """The program, broken."""
    if fault is None:
        return PROGRAM
    if fault.old not in PROGRAM:
        raise ValueError(f"the program has no {fault.old!r}")
    return PROGRAM.replace(fault.old, fault.new, 1)


def record(torch: Any, source: str, path: str, out: str, steps: int = 2, **options: Any) -> None:
    """Run a source on one framework from the file ``path`` and dump it into ``out``."""
    from mindtorch.tools import migrator as ts

    with open(path, "w", encoding="utf-8") as f:
        f.write(source)
    scope: dict[str, Any] = {"torch": torch, "__name__": "program"}
    exec(compile(source, path, "exec", dont_inherit=True), scope)

    def start(net: Any) -> None:
        ts.api_dump_init(net, out, retain_backward=True)
        ts.api_dump_start(**options)

    try:
        scope["run"](start, ts.api_dump_stop, steps)
    finally:
        ts.api_dump_stop()
