"""nn.TransformerEncoder over padded token sequences: sinusoid positions, padding masks, LambdaLR warm-up, mean pooling."""

import json
import math

from torch.nn.utils.rnn import pad_sequence

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=64):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


class Classifier(nn.Module):
    def __init__(self, vocab=40, d=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, d, padding_idx=0)
        self.pos = PositionalEncoding(d)
        layer = nn.TransformerEncoderLayer(d, nhead=4, dim_feedforward=64, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(d, 3)
        self.scale = math.sqrt(d)

    def forward(self, tokens, lengths):
        pad = torch.arange(tokens.size(0)).unsqueeze(0) >= lengths.unsqueeze(1)
        h = self.encoder(self.pos(self.embed(tokens) * self.scale), src_key_padding_mask=pad)
        keep = (~pad).t().unsqueeze(-1).to(h.dtype)
        return self.head((h * keep).sum(0) / keep.sum(0))


def make_batch(n=16):
    lengths = torch.randint(4, 20, (n,))
    seqs = [torch.randint(1, 40, (k,)) for k in lengths.tolist()]
    labels = torch.stack([(s % 3).float().mean().mul(1.5).long().clamp(0, 2) for s in seqs])
    return pad_sequence(seqs), lengths, labels


torch.manual_seed(21)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) ** -0.5, (s + 1) * 8**-1.5))
criterion = nn.CrossEntropyLoss()
losses = []
for _ in range(30):
    tokens, lengths, labels = make_batch()
    loss = criterion(model(tokens, lengths), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
model.eval()
with torch.no_grad():
    tokens, lengths, labels = make_batch(64)
    logits = model(tokens, lengths)
final = [criterion(logits, labels).item(), (logits.argmax(-1) == labels).float().mean().item()]
print(json.dumps({"losses": losses, "final": final}))
