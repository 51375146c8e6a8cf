"""A character-level LSTM language model on Python's help topics, with a sampled continuation."""

import json
import os
import sys

import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from text import load_text

torch.manual_seed(3)
text = load_text(20000)
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden=48, layers=2):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.encoder = nn.Embedding(vocab, hidden)
        self.rnn = nn.LSTM(hidden, hidden, layers, dropout=0.1, batch_first=True)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        out, state = self.rnn(self.encoder(x), state)
        return self.decoder(out), state


def random_chunk(size=24, batch=8):
    starts = torch.randint(0, len(data) - size - 1, (batch,)).tolist()
    x = torch.stack([data[s : s + size] for s in starts])
    y = torch.stack([data[s + 1 : s + size + 1] for s in starts])
    return x, y


model = CharRNN(len(chars))
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
criterion = nn.CrossEntropyLoss()
losses = []
for _ in range(30):
    x, y = random_chunk()
    optimizer.zero_grad()
    logits, _ = model(x)
    loss = criterion(logits.view(-1, len(chars)), y.view(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
model.eval()
with torch.no_grad():
    logits, state = model(data[:20].unsqueeze(0))
    picked = []
    for _ in range(20):
        p = torch.softmax(logits[0, -1] / 0.8, dim=0)
        nxt = torch.multinomial(p, 1)
        picked.append(nxt.item())
        logits, state = model(nxt.view(1, 1), state)
print(json.dumps({"losses": losses, "final": picked}))
