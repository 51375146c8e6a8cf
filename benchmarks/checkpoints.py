"""Time and memory of torch.save and torch.load, mindtorch against PyTorch: ``python benchmarks/checkpoints.py [MB] [rounds]``.

Both sides are asked in turn and medians are compared. "load" starts, as a program does, without freed memory at hand;
"again" follows a load whose memory the allocator has kept. PyTorch verifies no checksum when it loads; mindtorch
always does. Set TMPDIR to choose the disk; it is the page cache that is
measured, since both sides write the same bytes. Memory is the growth of the peak over what the process held before.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
import tempfile
from typing import Any

from side_by_side import Side, serve

SIZE = int(os.environ.get("CHECKPOINT_MB", "1000"))


def build(torch: Any) -> dict[str, Any]:
    """A state dict of layers of 4 MB with biases; the file is written first, so that loading has something to read."""
    ours = torch.__name__ != "torch"
    path = os.path.join(os.environ["CHECKPOINT_DIR"], "ours.pth" if ours else "torch.pth")
    state: dict[str, Any] = {}
    for i in range(max(1, SIZE // 4)):
        state[f"layers.{i}.weight"] = torch.full((1024, 1024), float(i))
        state[f"layers.{i}.bias"] = torch.full((1024,), 0.5)
    torch.save(state, path)
    data = sum(t.numel() * t.element_size() for t in state.values()) / 1024

    def peak(what: str, step: Any) -> None:
        """Print the growth of the peak over the data, as a factor; 0 for a step that makes no new data."""
        ctypes.CDLL(None).malloc_trim(0)  # memory kept from an earlier step would hide the growth
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        before = _status("VmRSS")
        got = step()
        grown = _status("VmHWM") - before
        del got
        print(f"memory of {what}, {torch.__name__}: peak growth / data = {grown / data:.3f}", file=sys.stderr)

    return {
        "load": lambda: torch.load(path),
        "trim": lambda: ctypes.CDLL(None).malloc_trim(0),
        "mmap": lambda: torch.load(path, mmap=True),
        "save": lambda: torch.save(state, path),
        "memory_of_load": lambda: peak("load", lambda: torch.load(path)),
        "memory_of_save": lambda: peak("save", lambda: torch.save(state, path)),
    }


def _status(key: str) -> float:
    with open("/proc/self/status") as f:
        return next(float(line.split()[1]) for line in f if line.startswith(key))


def main() -> None:
    """Print a table."""
    if len(sys.argv) > 1:
        os.environ["CHECKPOINT_MB"] = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHECKPOINT_DIR"] = folder
        ours, theirs = Side(__file__, "mindtorch.torch", 1), Side(__file__, "torch", 1)
        for name in ("load", "again", "save", "mmap"):
            step = "load" if name == "again" else name
            pairs = []
            for n in range(rounds + 1):
                pair = []
                for side in (ours, theirs):
                    if name == "load":
                        side.time("trim", 1)
                    pair.append(side.time(step, 1))
                pairs += [tuple(pair)] if n else []
            a, b = (statistics.median(x) for x in zip(*pairs))
            best = tuple(min(x) for x in zip(*pairs))
            print(f"{name:6} {a:8.4f} s  PyTorch {b:8.4f} s  ratio {a / b:5.2f}  (best {best[0]:.4f}, {best[1]:.4f})")
        for name in ("memory_of_save", "memory_of_load"):
            for side in (ours, theirs):
                side.time(name, 1)
        ours.close()
        theirs.close()


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve(build)
    else:
        main()
