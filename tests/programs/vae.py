"""A variational autoencoder on the digits: reparametrised draws, reconstruction and KL terms, then samples."""

import json

import torch.nn.functional as F
from sklearn.datasets import load_digits

import torch
from torch import nn, optim


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc21 = nn.Linear(48, 8)
        self.fc22 = nn.Linear(48, 8)
        self.fc3 = nn.Linear(8, 48)
        self.fc4 = nn.Linear(48, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


torch.manual_seed(1)
data = torch.from_numpy(load_digits().data).float() / 16
loader = torch.utils.data.DataLoader(data, batch_size=100, shuffle=True)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
losses = []
while len(losses) < 30:
    for batch in loader:
        optimizer.zero_grad()
        recon, mu, logvar = model(batch)
        loss = loss_function(recon, batch, mu, logvar)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(batch))
        if len(losses) == 30:
            break
with torch.no_grad():
    sample = model.decode(torch.randn(64, 8)).view(64, 1, 8, 8)
print(json.dumps({"losses": losses, "final": [sample.mean().item(), sample.std().item()]}))
