"""A DataLoader whose workers send tensors: a module without PyTorch, for children that start anew and import it.

``python large_tensors.py spawn`` checks one way of starting workers.
"""

import contextlib
import os
import sys

import mindtorch.torch as mt
from mindtorch.torch.utils.data import DataLoader, Dataset


class LargeTensors(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {
            "x": mt.full((3, 50, 60), float(i)),
            "b": mt.ones(2, dtype=mt.bfloat16),
            "i": i,
            "s": str(i),
            "none": [i],
        }


def held():
    """Descriptors of batches' memory that this process still has open (each batch is above the limit for the pipe)."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [link for link in links if "mindtorch-batch" in link]


def check(context):
    loader = DataLoader(LargeTensors(), batch_size=2, num_workers=2, multiprocessing_context=context)
    batches = list(loader)
    assert len(batches) == 3
    for n, b in enumerate(batches):
        assert b["x"].shape == (2, 3, 50, 60) and b["x"][:, 0, 0, 0].tolist() == [2.0 * n, 2.0 * n + 1]
        assert b["b"].dtype == mt.bfloat16 and b["b"].shape == (2, 2) and b["b"].sum().item() == 4
        assert b["i"].dtype == mt.int64 and b["s"] == [str(2 * n), str(2 * n + 1)]
        b["x"].add_(1)
        assert b["x"][0, 0, 0, 0].item() == 2.0 * n + 1
    assert held()
    del b, batches, loader
    assert not held()


if __name__ == "__main__":
    check(sys.argv[1])
