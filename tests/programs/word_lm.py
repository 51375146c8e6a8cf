"""A word-level GRU language model: tied weights, hidden state carried and detached, clipping, SGD by hand, annealing."""

import json
import math
import os
import sys

import torch.nn.functional as F

import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from text import load_text

torch.manual_seed(1111)
words = load_text(12000).split()
vocab = {w: i for i, w in enumerate(dict.fromkeys(words))}
ids = torch.tensor([vocab[w] for w in words], dtype=torch.int64)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp=40, nlayers=2, dropout=0.2):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers = ntoken, ninp, nlayers
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.GRU(ninp, ninp, nlayers, dropout=dropout)
        self.decoder = nn.Linear(ninp, ntoken)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt=10):
    n = min(bptt, len(source) - 1 - i)
    return source[i : i + n], source[i + 1 : i + 1 + n].view(-1)


def repackage_hidden(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


train_data = batchify(ids, 8)
model, lr = RNNModel(len(vocab)), 2.0
criterion = nn.NLLLoss()
losses = []
while len(losses) < 30:
    model.train()
    hidden = model.init_hidden(8)
    for i in range(0, train_data.size(0) - 1, 10):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        losses.append(loss.item())
        if len(losses) == 30:
            break
    lr /= 4.0
model.eval()
with torch.no_grad():
    output, _ = model(train_data[:10], model.init_hidden(8))
    final = math.exp(criterion(output, train_data[1:11].view(-1)).item())
print(json.dumps({"losses": losses, "final": final}))
