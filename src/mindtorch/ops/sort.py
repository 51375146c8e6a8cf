"""Ordering: sort, top-k, selection, unique values, search, histograms. Kernels: engine/host/sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check
from mindtorch.core.signature import to_int
from mindtorch.core.tensor import Tensor, constant, values
from mindtorch.engine.host import sort as K
from mindtorch.ops import notes
from mindtorch.ops.reduce import at_index
from mindtorch.ops.table import composite, op


def _scatter(g: Any, shape: tuple[int, ...], dim: int, index: Tensor) -> Tensor:
    return at_index(g[0], shape, dim, True, index)


_GRAD = {"input": lambda g, input_shape, dim, out1: _scatter(g, input_shape, dim, out1)}
_sort = op(
    "sort(T input, dim dim=-1, bool descending=False, any stable=None)",
    half="f32",
    ns="_C",
    structseq="values indices",
    nodes={"stable is not None": "SortBackward1"},
    nondiff=(1,),
    grad=_GRAD,
)(K.sort)


@composite("sort(T input, any dim=-1, any descending=False, *, any stable=None)", out=True, note=notes.TIES)
def sort(input: Tensor, dim: Any = -1, descending: Any = False, *, stable: Any = None) -> Any:
    """(values, indices) along ``dim``; always stable."""
    return _sort(input, to_int(dim), bool(descending), stable)


@composite("argsort(T input, any dim=-1, any descending=False, *, any stable=None)", note=notes.TIES)
def argsort(input: Tensor, dim: Any = -1, descending: Any = False, *, stable: Any = None) -> Tensor:
    """Indices that sort ``input`` along ``dim``."""
    return _sort(input, to_int(dim), bool(descending), stable)[1]


@composite("msort(T input)", out=True)
def msort(input: Tensor) -> Tensor:
    """Values sorted along the first dimension."""
    return _sort(input, 0, False, None)[0]


_topk = op(
    "topk(T input, int number, dim dim=-1, bool largest=True, bool sorted=True)",
    half="f32",
    ns="_C",
    structseq="values indices",
    nondiff=(1,),
    grad=_GRAD,
)(K.topk)


@composite("topk(T input, int k, any dim=-1, bool largest=True, bool sorted=True)", out=True, note=f"sorted also with sorted=False; {notes.TIES}")
def topk(input: Tensor, k: Any, dim: Any = -1, largest: bool = True, sorted: bool = True) -> Any:
    """(values, indices) of the ``k`` largest (smallest) elements along ``dim``, always in order."""
    return _topk(input, to_int(k), to_int(dim), largest, sorted)


def _picked(g: Any, shape: tuple[int, ...], dim: int, keepdim: bool, index: Tensor) -> Tensor:
    return at_index(g[0], shape, dim, keepdim, index)


_PICK: dict[str, Any] = {
    "half": "f32",
    "out": True,
    "structseq": "values indices",
    "nondiff": (1,),
    "grad": {"input": lambda g, input_shape, dim, keepdim, out1: _picked(g, input_shape, dim, keepdim, out1)},
}
_kthvalue = op("kthvalue(T input, int number, dim dim=-1, bool keepdim=False)", **{**_PICK, "ns": "_C", "out": False})(
    K.kthvalue
)


@composite("kthvalue(T input, int k, any dim=-1, bool keepdim=False)", out=True, note=notes.TIES)
def kthvalue(input: Tensor, k: Any, dim: Any = -1, keepdim: bool = False) -> Any:
    """(value, index) of the ``k``-th smallest element (from 1) along ``dim``."""
    return _kthvalue(input, to_int(k), to_int(dim), bool(keepdim))


mode = op("mode(T input, dim dim=-1, bool keepdim=False)", **_PICK, note=notes.TIES)(K.mode)

# ------------------------------------------------------------------------------------------ unique values
_unique2 = op("_unique2(T input)", half="f32", ns="_C", nondiff=(0, 1, 2), grad={})(K.unique)
_distinct = op("_distinct(T input)", half="f32", ns="_C", grad={})(K.distinct)
_unique_dim = op("unique_dim(T input, dim dim)", half="f32", ns="_C", nondiff=(0, 1, 2), grad={})(K.unique_dim)
_unique_runs = op("unique_consecutive(T input, dim? dim=None)", half="f32", ns="_C", nondiff=(0, 1, 2), grad={})(
    K.unique_consecutive
)


def _choose(r: Any, inverse: bool, counts: bool) -> Any:
    picked = [r[0], *([r[1]] if inverse else []), *([r[2]] if counts else [])]
    return picked[0] if len(picked) == 1 else tuple(picked)


@composite("unique(T input, bool sorted=True, bool return_inverse=False, bool return_counts=False, any dim=None)")
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """Distinct elements (slices along ``dim``), always sorted; optionally places and counts."""
    if dim is None and not return_inverse and not return_counts:
        return _distinct(input)
    r = _unique2(input) if dim is None else _unique_dim(input, to_int(dim))
    return _choose(r, return_inverse, return_counts)


@composite("unique_consecutive(T input, bool return_inverse=False, bool return_counts=False, any dim=None)")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """Runs of equal elements (slices along ``dim``) reduced to one."""
    r = _unique_runs(input, None if dim is None else to_int(dim))
    return _choose(r, return_inverse, return_counts)


# ------------------------------------------------------------------------------------------ search
_searchsorted = op(
    "searchsorted(T seq, T values, bool right, bool narrow, T? sorter)", promote="none", half="f32", ns="_C", grad={}
)(K.searchsorted)


def _as_tensor(v: Any, like: Tensor) -> Tensor:
    """A number as a 0-dim tensor of its own kind (``like``'s dtype when that is at least as high)."""
    if isinstance(v, Tensor):
        return v
    d = D.of_number(v)
    d = like.dtype if like.dtype.category >= d.category else d
    return constant(np.asarray(v, d.np))


@composite(
    "searchsorted(T sorted_sequence, any input, *, bool out_int32=False, bool right=False, any side=None, any "
    "sorter=None)",
    ns="torch",
    out=True,
)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Tensor:
    """Places at which ``input`` would be inserted into the sorted last dimension of ``sorted_sequence``."""
    check(
        side in (None, "left", "right"),
        RuntimeError,
        f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}",
    )
    check(
        not (right and side == "left"),
        RuntimeError,
        "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
    )
    values = _as_tensor(input, sorted_sequence)
    seq, v = sorted_sequence.a, values.a
    check(seq.ndim > 0, RuntimeError, "torch.searchsorted(): the sorted sequence must have at least 1 dimension")
    check(
        seq.ndim == 1 or (v.ndim == seq.ndim and v.shape[:-1] == seq.shape[:-1]),
        RuntimeError,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
        "boundaries tensor "
        f"and input value tensor must match, but we got boundaries tensor {list(seq.shape)} and input {list(v.shape)}",
    )
    return _searchsorted(sorted_sequence, values, right or side == "right", out_int32, sorter)


@composite("bucketize(any input, T boundaries, *, bool out_int32=False, bool right=False)", ns="torch", out=True)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Index of the bucket of each element, given 1-D sorted ``boundaries``."""
    check(
        boundaries.a.ndim == 1,
        RuntimeError,
        f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.a.ndim})",
    )
    return _searchsorted(boundaries, _as_tensor(input, boundaries), right, out_int32, None)


_isin = op("isin(T elements, T test, bool invert)", promote="same", ns="_C", grad={})(K.isin)


@composite(
    "isin(any elements, any test_elements, *, bool assume_unique=False, bool invert=False)", ns="torch", out=True
)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is in ``test_elements``. ``assume_unique`` only promises something that could save time."""
    if not isinstance(elements, Tensor):
        elements = _as_tensor(elements, test_elements)
    return _isin(elements, _as_tensor(test_elements, elements), invert)


# ------------------------------------------------------------------------------------------ histograms
bincount = op("bincount(T input, T? weights=None, int minlength=0)", promote="none", grad={})(K.bincount)
_histc = op("histc(T input, int bins, float min, float max)", half="f32", ns="_C", grad={})(K.histc)


@composite("histc(T input, int bins=100, N min=0, N max=0)", out=True, note=notes.HALF)
def histc(input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    """Counts of elements in ``bins`` equal bins between ``min`` and ``max`` (the data's range when equal)."""
    return _histc(input, int(bins), float(min), float(max))


_histogramdd = op(
    "_histogramdd(T input, TL edges, T? weight, bool density)", promote="none", half="f32", ns="_C", grad={}
)(K.histogramdd)


def _edges(x: Tensor, bins: Any, range_: Any) -> list[Tensor]:
    """Edges per dimension from a count, counts, a tensor or tensors."""
    dims = x.shape[-1]
    if isinstance(bins, int):
        bins = [bins] * dims
    if isinstance(bins, Tensor):
        bins = [bins]
    check(
        len(bins) == dims, RuntimeError, f"torch.histogramdd(): expected {dims} sequences of bin edges, got {len(bins)}"
    )
    if isinstance(bins[0], Tensor):
        for b in bins:
            check(
                b.dtype is x.dtype,
                RuntimeError,
                f"torch.histogram(): input {x.dtype} and bins {b.dtype} must have one dtype",
            )
        return [b.detach().contiguous() for b in bins]
    return [constant(e) for e in K.bin_edges(values(x), [int(b) for b in bins], range_)]


@composite(
    "histogram(T input, any bins, *, any range=None, any weight=None, bool density=False)",
    out=True,
    structseq="hist bin_edges",
)
def histogram(input: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """(hist, bin_edges) of all elements; ``bins`` a count or a tensor of edges."""
    x = input.detach().reshape(-1, 1)
    edges = _edges(x, bins, range)
    return histogram.row.structseq(_histogramdd(x, edges, weight, density), edges[0])


@composite(
    "histogramdd(T input, any bins, any range=None, any weight=None, bool density=False)",
    ns="torch",
    structseq="hist bin_edges",
)
def histogramdd(input: Tensor, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """(hist, bin_edges) of points in the last dimension."""
    x = input.detach().reshape(-1, input.shape[-1])
    edges = _edges(x, bins, range)
    return histogramdd.row.structseq(_histogramdd(x, edges, weight, density), tuple(edges))
