"""``torch.sparse``: sparse layouts are not available; every entry says so and names the dense way."""

from __future__ import annotations

from typing import Any


def _refuse(name: str) -> Any:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torch.sparse.{name}: sparse tensors are not available in this release; use dense tensors and torch.{name}")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Refused with RuntimeError: sparse tensors are not available."
    return refused


addmm, mm, sum, softmax, log_softmax, spdiags = map(_refuse, ("addmm", "mm", "sum", "softmax", "log_softmax", "spdiags"))  # noqa: A001
sampled_addmm, spsolve, as_sparse_gradcheck = map(_refuse, ("sampled_addmm", "spsolve", "as_sparse_gradcheck"))
