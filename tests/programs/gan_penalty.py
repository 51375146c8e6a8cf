"""A Wasserstein GAN on a ring of points: two optimisers and a gradient penalty (double backward)."""

import json
import math

import torch
from torch import autograd, nn, optim

torch.manual_seed(17)
gen = nn.Sequential(nn.Linear(4, 32), nn.ELU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 1))
opt_g = optim.RMSprop(gen.parameters(), lr=1e-3)
opt_c = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9), amsgrad=True)


def ring(n):
    angle = torch.rand(n) * 2 * math.pi
    return torch.stack((angle.cos(), angle.sin()), dim=1) + 0.05 * torch.randn(n, 2)


def penalty(real, fake):
    alpha = torch.rand(real.size(0), 1).expand_as(real)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    (slope,) = autograd.grad(score, mixed, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


losses = []
for step in range(15):
    for p in critic.parameters():
        p.requires_grad = True
    real, z = ring(64), torch.randn(64, 4)
    fake = gen(z).detach()
    opt_c.zero_grad()
    loss_c = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    loss_c.backward()
    opt_c.step()
    for p in critic.parameters():
        p.requires_grad = False
    opt_g.zero_grad()
    loss_g = -critic(gen(torch.randn(64, 4))).mean()
    loss_g.backward()
    opt_g.step()
    losses += [loss_c.item(), loss_g.item()]
with torch.no_grad():
    points = gen(torch.randn(256, 4))
print(json.dumps({"losses": losses, "final": [points.norm(dim=1).mean().item(), points.std().item()]}))
