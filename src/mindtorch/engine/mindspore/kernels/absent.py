"""Rows that MindSpore cannot express, each with its reason; ``tests/accelerator/test_kernels.py`` wants every row here or built."""

from __future__ import annotations

ABSENT: dict[str, str] = {
    "_to_device": "the transfer between devices itself",
    "_channels_last": "another order of strides is made by engine.mindspore.array, from a permuted copy",
    "linalg_eig": "MindSpore's eig gives the eigenvalues in another order than LAPACK",
    "linalg_ldl_factor_ex": "MindSpore has no Bunch-Kaufman factorisation",
    "linalg_ldl_solve": "MindSpore has no Bunch-Kaufman factorisation to solve with",
    "_standard_gamma_grad": "implicit differentiation of the distribution function: MindSpore has no such slope",
    "_dirichlet_grad": "implicit differentiation of the distribution function: MindSpore has no such slope",
}

DRAWN = frozenset({
    "_bernoulli", "_normal", "_normal_scalar_std", "_normal_scalar_mean", "poisson", "binomial", "multinomial",
    "_standard_gamma", "_sample_dirichlet", "_drawn", "_rrelu_train", "native_dropout",
})  # fmt: skip
"""Rows whose numbers come from PyTorch's CPU stream, drawn on the host and moved, by design."""
