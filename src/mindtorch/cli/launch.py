"""``python -m mindtorch launch``: several processes of one program."""

from __future__ import annotations


def main(args: list[str]) -> int:
    """Start the program of ``args`` in several processes; the exit status of the job."""
    from mindtorch.torch.distributed.run import main as run

    return run(args)
