"""REINFORCE with a policy network and Categorical draws on a small corridor."""

import json
from collections import deque

import torch.nn.functional as F
from torch.distributions import Categorical

import torch
from torch import nn, optim


class Corridor:
    """Walk from cell 2 to cell 5 of a row of six; falling off the left end is bad."""

    def reset(self):
        self.at, self.t = 2, 0
        return self.observe()

    def observe(self):
        return torch.eye(6)[self.at]

    def step(self, action):
        self.at += 1 if action == 1 else -1
        self.t += 1
        if self.at < 0:
            return None, -1.0, True
        if self.at == 5:
            return None, 1.0, True
        return self.observe(), -0.05, self.t >= 20


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(6, 32)
        self.dropout = nn.Dropout(p=0.2)
        self.affine2 = nn.Linear(32, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.affine2(x), dim=1)


torch.manual_seed(543)
env, policy = Corridor(), Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps = 1e-8
losses, lengths = [], []
for _ in range(30):
    state, done = env.reset(), False
    while not done:
        m = Categorical(policy(state.unsqueeze(0)))
        action = m.sample()
        policy.saved_log_probs.append(m.log_prob(action))
        state, reward, done = env.step(action.item())
        policy.rewards.append(reward)
    total, returns = 0, deque()
    for r in policy.rewards[::-1]:
        total = r + 0.99 * total
        returns.appendleft(total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std(unbiased=False) + eps)
    loss = torch.cat([-p * r for p, r in zip(policy.saved_log_probs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    lengths.append(len(policy.rewards))
    del policy.rewards[:]
    del policy.saved_log_probs[:]
print(json.dumps({"losses": losses, "final": lengths}))
