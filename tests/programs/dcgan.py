"""A deep convolutional GAN on synthetic 16x16 images: weights_init by class name, two Adams, BCELoss, detached fakes."""

import json
import random

import torch
from torch import nn, optim

random.seed(7)
torch.manual_seed(7)
nz, ngf, ndf, nc, batch = 16, 8, 8, 3, 16


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.main(x).view(-1, 1).squeeze(1)


class Blobs(torch.utils.data.Dataset):
    """Coloured bumps, one per index."""

    def __len__(self):
        return 256

    def __getitem__(self, i):
        y = torch.linspace(-1, 1, 16).view(16, 1)
        x = torch.linspace(-1, 1, 16).view(1, 16)
        cx, cy = (i % 16) / 8 - 1, (i // 16) / 8 - 1
        bump = torch.exp(-4 * ((x - cx) ** 2 + (y - cy) ** 2))
        return torch.stack([bump, 1 - bump, bump * (i % 3) / 2]) * 2 - 1, i % 3


net_g, net_d = Generator(), Discriminator()
net_g.apply(weights_init)
net_d.apply(weights_init)
criterion = nn.BCELoss()
fixed_noise = torch.randn(batch, nz, 1, 1)
opt_d = optim.Adam(net_d.parameters(), lr=0.0001, betas=(0.5, 0.999))
opt_g = optim.Adam(net_g.parameters(), lr=0.0001, betas=(0.5, 0.999))
loader = torch.utils.data.DataLoader(Blobs(), batch_size=batch, shuffle=True, num_workers=0, drop_last=True)
losses, steps = [], 0
while steps < 15:
    for real, _ in loader:
        net_d.zero_grad()
        label = torch.full((batch,), 1.0, dtype=real.dtype)
        err_real = criterion(net_d(real), label)
        err_real.backward()
        fake = net_g(torch.randn(batch, nz, 1, 1))
        label.fill_(0.0)
        err_fake = criterion(net_d(fake.detach()), label)
        err_fake.backward()
        opt_d.step()
        net_g.zero_grad()
        label.fill_(1.0)
        err_g = criterion(net_d(fake), label)
        err_g.backward()
        opt_g.step()
        losses += [(err_real + err_fake).item(), err_g.item()]
        steps += 1
        if steps == 15:
            break
net_g.eval()
with torch.no_grad():
    images = net_g(fixed_noise)
print(json.dumps({"losses": losses, "final": [images.mean().item(), images.std().item()]}))
