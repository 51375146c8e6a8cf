"""A job in which rank 1 fails while the others wait for it. Usage: mortal.py raise|kill|term"""

import os
import signal
import sys
import time

import torch.distributed as dist

import torch

dist.init_process_group("nccl")
x = torch.ones(4)
dist.all_reduce(x)
print("sum", x.tolist(), "args", sys.argv[1:], flush=True)
if dist.get_rank() == 1:
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "raise":
        raise ArithmeticError("rank one has had enough")
if sys.argv[1] == "done":
    sys.exit(0)
open(os.path.join(sys.argv[2], f"waiting{dist.get_rank()}"), "w").close()
dist.all_reduce(x)
time.sleep(60)
