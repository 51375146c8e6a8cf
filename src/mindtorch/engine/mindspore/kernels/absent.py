"""Rows that MindSpore cannot express, each with its reason; ``tests/accelerator/test_kernels.py`` wants every row here or built."""

from __future__ import annotations

ABSENT: dict[str, str] = {
    "_to_device": "the transfer between devices itself",
    "_channels_last": "another order of strides is a property of the host's memory; MindSpore's tensors are row-major",
    "nextafter": "MindSpore's NextAfter gives wrong neighbours on the CPU, and a composition would need the numbers' bits",
    "hash_tensor": "needs the numbers' bits: MindSpore has no view of a tensor in another dtype",
    "linalg_eig": "MindSpore's eig gives the eigenvalues in another order than LAPACK",
    "linalg_ldl_factor_ex": "MindSpore has no Bunch-Kaufman factorisation",
    "linalg_ldl_solve": "MindSpore has no Bunch-Kaufman factorisation to solve with",
    "_linalg_lstsq": "MindSpore's lstsq gives no rank, residuals and singular values",
    "bessel_y0": "MindSpore's bessel_y0 is good to 1e-4 only, in either precision",
    "bessel_y1": "MindSpore's bessel_y1 is good to 1e-4 only, in either precision",
    "airy_ai": "MindSpore has no Airy function",
    "ctc_losses": "a recursion over a lattice whose lengths are Python numbers; MindSpore's CTCLossV2 takes padded targets only",
    "ctc_loss_backward": "a recursion over a lattice whose lengths are Python numbers",
    "_standard_gamma_grad": "implicit differentiation of the distribution function: MindSpore has no such slope",
    "_dirichlet_grad": "implicit differentiation of the distribution function: MindSpore has no such slope",
}

DRAWN = frozenset({
    "_bernoulli", "_normal", "_normal_scalar_std", "_normal_scalar_mean", "poisson", "binomial", "multinomial",
    "_standard_gamma", "_sample_dirichlet", "_drawn", "_rrelu_train", "native_dropout",
})  # fmt: skip
"""Rows whose numbers come from PyTorch's CPU stream, drawn on the host and moved, by design."""
