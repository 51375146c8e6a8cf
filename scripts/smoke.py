"""Under a minute: import, one forward and backward, one training loop whose loss must fall, one save and load."""

from __future__ import annotations

import io

import mindtorch.torch as torch
from mindtorch.torch import nn


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    x = torch.randn(64, 8)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(100):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    if not losses[-1] < 0.1 * losses[0]:
        raise SystemExit(f"the loss did not fall: {losses[0]:.4f} -> {losses[-1]:.4f}")
    f = io.BytesIO()
    torch.save(net.state_dict(), f)
    f.seek(0)
    net.load_state_dict(torch.load(f))
    print(f"smoke: loss {losses[0]:.4f} -> {losses[-1]:.4f}, saved and loaded")


if __name__ == "__main__":
    main()
