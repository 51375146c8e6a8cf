"""``python -m torch.distributed.launch``: the old name of ``torch.distributed.run``."""

from __future__ import annotations

import sys

from .run import main as main

if __name__ == "__main__":
    # its own flag, from before programs took LOCAL_RANK from the environment
    sys.exit(main([a for a in sys.argv[1:] if a not in ("--use-env", "--use_env")]))
