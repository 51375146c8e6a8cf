"""Sentences that several rows say of themselves: where their results differ from PyTorch's by more than rounding."""

HALF = (
    "half precision is widened to float32 inside and rounded once; PyTorch rounds between its steps, so that elements which cancel "
    "differ by more than one rounding"
)
TIES = (
    "among equal elements the indices are those of a stable sort; without stable=True PyTorch's may be any of them beyond 16 elements"
)
LAPACK = "signs, phases and the order of equal values are those of SciPy's LAPACK, which need not be those of PyTorch's"
EXACT = "right to rounding, where PyTorch's own approximation is off by up to {}"
