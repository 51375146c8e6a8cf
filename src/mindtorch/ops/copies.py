"""``*_copy`` ops: what the view of the same name shows, in fresh contiguous memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindtorch.core import dtype as D
from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.signature import to_ints
from mindtorch.ops import view_ops as V
from mindtorch.ops.convert import _contiguous
from mindtorch.ops.strided import as_strided, unfold
from mindtorch.ops.table import composite


def _copy_of(sig: str, shown: Callable[..., Any]) -> Any:
    """Row ``sig`` copying what ``shown`` (same parameters) returns: one tensor or a tuple of them."""

    def copy(*args: Any) -> Any:
        got = shown(*args)
        return tuple(map(_contiguous, got)) if isinstance(got, (tuple, list)) else _contiguous(got)

    name = sig.partition("(")[0]
    copy.__doc__ = f"What ``{name.removesuffix('_copy')}`` returns, copied: writes to the result do not reach the input."
    node = "".join(w.capitalize() for w in name.removesuffix("_copy").split("_")) + "Backward0_copy"
    return composite(sig, ns="torch", out=True, node=node)(copy)


def _expand(input: Any, size: Any, implicit: bool) -> Any:
    # implicit only tells PyTorch's vmap that the expand was not written by the user
    return input.expand(to_ints(size))


def _view(input: Any, size: Any, dtype: Any) -> Any:
    """By shape, or by dtype (given by name or in the place of the shape)."""
    if dtype is not None or isinstance(size, D.dtype):
        check(dtype is None or size is None, TypeError, "view_copy(): give either size or dtype, not both")
        return V.view_method(input, dtype=size if dtype is None else dtype)
    check(size is not None, TypeError, "view_copy(): missing argument 'size' (a shape) or 'dtype'")
    return V.view_method(input, to_ints(size))


def _slice(input: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    check(step > 0, RuntimeError, f"slice_copy(): step must be positive, got {step}")
    dim = wrap_dim(dim, input.a.ndim)
    return input[(slice(None),) * dim + (slice(start, end, step),)]


alias_copy = _copy_of("alias_copy(T input)", lambda input: input)
detach_copy = _copy_of("detach_copy(T input)", lambda input: input.detach())
as_strided_copy = _copy_of("as_strided_copy(T input, ints size, ints stride, int? storage_offset=None)", as_strided)
diagonal_copy = _copy_of("diagonal_copy(T input, int offset=0, dim dim1=0, dim dim2=1)", V.diagonal)
expand_copy = _copy_of("expand_copy(T input, ints size, *, bool implicit=False)", _expand)
permute_copy = _copy_of("permute_copy(T input, ints dims)", V.permute)
select_copy = _copy_of("select_copy(T input, dim dim, int index)", V.select)
slice_copy = _copy_of("slice_copy(T input, dim dim=0, int? start=None, int? end=None, int step=1)", _slice)
split_copy = _copy_of("split_copy(T input, any split_size, dim dim=0)", V.split)
split_with_sizes_copy = _copy_of("split_with_sizes_copy(T input, ints split_sizes, dim dim=0)", V.split_with_sizes)
squeeze_copy = _copy_of("squeeze_copy(T input, any dim=None)", V.squeeze)
t_copy = _copy_of("t_copy(T input)", V.t)
transpose_copy = _copy_of("transpose_copy(T input, dim dim0, dim dim1)", V.transpose)
unbind_copy = _copy_of("unbind_copy(T input, dim dim=0)", V.unbind)
unfold_copy = _copy_of("unfold_copy(T input, dim dimension, int size, int step)", unfold)
unsqueeze_copy = _copy_of("unsqueeze_copy(T input, int dim)", V.unsqueeze)
view_copy = _copy_of("view_copy(T input, any size=None, *, dtype? dtype=None)", _view)
view_as_real_copy = _copy_of("view_as_real_copy(T input)", V.view_as_real)
view_as_complex_copy = _copy_of("view_as_complex_copy(T input)", V.view_as_complex)
