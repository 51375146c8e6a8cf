"""Samples into batches."""

from __future__ import annotations

import collections.abc
import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import mindtorch.torch as torch

_WRONG = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars inside ``data`` (dicts, tuples, lists) as tensors; everything else as it is."""
    if isinstance(data, torch.Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else torch.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _same_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _same_sequence(data, [default_convert(d) for d in data])
    return data


def _same_mapping(like: Any, values: dict) -> Any:
    """``values`` in a mapping of the type of ``like``, or as a dict when that type cannot be made this way."""
    try:
        if isinstance(like, collections.abc.MutableMapping):
            # A copy keeps what the user's type holds beside its items.
            made = copy.copy(like)
            made.update(values)
            return made
        return type(like)(values)
    except TypeError:
        return values


def _same_sequence(like: Any, values: list) -> Any:
    """``values`` in a sequence of the type of ``like``, or as a list when that type cannot be made this way."""
    if type(like) is list:
        return values
    try:
        if isinstance(like, collections.abc.MutableSequence):
            made = copy.copy(like)
            for i, value in enumerate(values):
                made[i] = value
            return made
        return type(like)(values)
    except TypeError:
        return values


def collate(batch: list, *, collate_fn_map: dict | None = None) -> Any:
    """A batch from samples: the function that ``collate_fn_map`` has for the type of the first sample, applied inside
    dicts, tuples and lists. TypeError for a type nobody collates; RuntimeError for samples of unequal length."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        fn = collate_fn_map.get(kind) or _for_subclass(kind, collate_fn_map)
        if fn is not None:
            return fn(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        columns = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first}
        return _same_mapping(first, columns)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        size = len(first)
        if any(len(sample) != size for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else _same_sequence(first, columns)
    raise TypeError(_WRONG.format(kind))


def _for_subclass(kind: type, table: dict) -> Callable | None:
    for known, fn in table.items():
        if issubclass(kind, known):
            return fn
    return None


def collate_tensor_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    return torch.stack(tuple(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    if batch[0].dtype.kind in "SUO":
        raise TypeError(_WRONG.format(batch[0].dtype))
    return collate([torch.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    return torch.as_tensor(np.asarray(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    return torch.tensor(batch, dtype=torch.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    return torch.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    return batch


default_collate_fn_map: dict[Any, Callable] = {
    torch.Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: list) -> Any:
    """Tensors stacked, numbers and arrays made tensors, strings listed; dicts, tuples and lists column by column."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
