"""Window functions with ``sym`` (symmetric or periodic) and keyword-only parameters; the formulas are in ``ops/window.py``."""

from mindtorch.ops import window as _window  # noqa: F401 - registers the functions
from mindtorch.ops.table import namespace as _namespace

_all = _namespace("signal")
bartlett = _all["bartlett"]
blackman = _all["blackman"]
cosine = _all["cosine"]
exponential = _all["exponential"]
gaussian = _all["gaussian"]
general_cosine = _all["general_cosine"]
general_hamming = _all["general_hamming"]
hamming = _all["hamming"]
hann = _all["hann"]
kaiser = _all["kaiser"]
nuttall = _all["nuttall"]

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]
