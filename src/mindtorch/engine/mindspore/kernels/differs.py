"""What MindSpore's kernels give beyond rounding differently from the host's, on its CPU target; the conformance page lists it."""

from __future__ import annotations

_LOG = "numbers below the smallest normal one count as that one, and those within 1e-7 of 1 give 0"
_ZERO = "gives 0 for -0"

DIFFERS: dict[str, str] = {
    "exp": "off by up to 4e-6 of the value",
    "log": _LOG, "log2": _LOG, "log10": _LOG, "logit": "infinite for numbers below the smallest normal one",
    "expm1": _ZERO, "log1p": _ZERO, "tanh": _ZERO,
    "bessel_j0": "single precision on MindSpore; float64 runs on the host", "bessel_j1": "single precision on MindSpore; float64 runs on the host",
    "linalg_svd": "signs of the vectors are MindSpore's", "linalg_eigh": "signs of the vectors are MindSpore's",
    "gather": "an index out of range is not looked for on the device",
}  # fmt: skip
