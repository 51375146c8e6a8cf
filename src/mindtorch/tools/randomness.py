"""``fix_random``: one seed for everything that draws random numbers."""

from __future__ import annotations

import os
import random
import sys

import numpy as np

from mindtorch.tools import frameworks


def fix_random(seed: int = 16) -> None:
    """Seed Python, NumPy, and of PyTorch, mindtorch and MindSpore those that the program has imported.

    PyTorch is asked for deterministic algorithms of cuDNN, and cuDNN is switched off. On mindtorch the same seed gives the
    numbers of PyTorch. Hashes of texts (PYTHONHASHSEED) are set for child processes. TypeError when ``seed`` is no int.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"fix_random: seed must be an int, got {seed!r}")
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    from mindtorch.cli import switch

    real = switch.real_torch() or switch.away_torch()
    if real is not None:
        real.manual_seed(seed)
        if real.cuda.is_available():
            real.cuda.manual_seed_all(seed)
        # PyTorch's own test machinery freezes these flags; its flags() context sets them then.
        if not getattr(real.backends, "flags_frozen", bool)():
            real.backends.cudnn.deterministic = True
            real.backends.cudnn.benchmark = False
            real.backends.cudnn.enabled = False
    if "mindtorch.torch" in sys.modules:
        frameworks.load(frameworks.MINDTORCH).manual_seed(seed)
    ms = sys.modules.get("mindspore")
    if ms is not None and hasattr(ms, "set_seed"):
        ms.set_seed(seed)
