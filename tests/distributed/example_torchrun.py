"""A Trainer as tutorials for torchrun have it: DistributedSampler, snapshots it resumes from, a failure on purpose.

Usage under a launcher: example_torchrun.py OUT_DIR EPOCHS. Rank 1 fails in epoch 1 unless the job was restarted.
"""

import json
import os
import sys

import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import torch


class Numbers(Dataset):
    def __init__(self, size):
        g = torch.Generator().manual_seed(0)
        self.data = [(torch.rand(20, generator=g), torch.rand(1, generator=g)) for _ in range(size)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]


class Trainer:
    def __init__(self, model, loader, optimizer, folder):
        self.rank = int(os.environ["LOCAL_RANK"])
        self.model, self.loader, self.optimizer = model, loader, optimizer
        self.snapshot, self.losses, self.epochs_run = os.path.join(folder, "snapshot.pt"), [], 0
        if os.path.exists(self.snapshot):
            found = torch.load(self.snapshot, map_location="cpu", weights_only=True)
            self.model.load_state_dict(found["model"])
            self.epochs_run, self.losses = found["epochs"], found["losses"]
        self.model = DDP(self.model)

    def train(self, epochs):
        for epoch in range(self.epochs_run, epochs):
            if epoch == 1 and self.rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                raise RuntimeError("a failure on purpose")
            self.loader.sampler.set_epoch(epoch)
            for source, target in self.loader:
                self.optimizer.zero_grad()
                loss = F.mse_loss(self.model(source), target)
                loss.backward()
                self.optimizer.step()
                self.losses.append(loss.item())
            if self.rank == 0:
                torch.save({"model": self.model.module.state_dict(), "epochs": epoch + 1, "losses": self.losses}, self.snapshot)


@record
def main():
    init_process_group(backend="gloo")
    torch.manual_seed(0)
    data, model = Numbers(44), torch.nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    loader = DataLoader(data, batch_size=8, pin_memory=False, shuffle=False, sampler=DistributedSampler(data))
    trainer = Trainer(model, loader, optimizer, sys.argv[1])
    trainer.train(int(sys.argv[2]))
    if trainer.rank == 0:
        with open(os.path.join(sys.argv[1], "seen.json"), "w") as f:
            json.dump([trainer.losses, model.weight.tolist(), os.environ["TORCHELASTIC_RESTART_COUNT"]], f)
    destroy_process_group()


if __name__ == "__main__":
    main()
