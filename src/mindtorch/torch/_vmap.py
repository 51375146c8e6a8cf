"""``vmap``: the function runs once per sample and the results are stacked, so every op works and gradients flow."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.tensor import Tensor
from mindtorch.torch.utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_unflatten


def _batch(name: str, in_dims: Any, args: tuple[Any, ...]) -> tuple[int, list[Any], list[int | None], TreeSpec]:
    """Batch size, flat arguments, the dimension mapped of each (None: the same for all), and the structure."""
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...): in_dims must be an int or a (nested) tuple, got {type(in_dims)}"
        )
    if not args:
        raise ValueError(f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs")
    flat, spec = tree_flatten(args)
    wanted = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    dims = _broadcast_to_and_flatten(wanted, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...): in_dims is not compatible with the structure of inputs"
        )
    sizes = set()
    for i, (x, d) in enumerate(zip(flat, dims)):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...): in_dims must hold ints or None, got {d!r}")
        if not isinstance(x, Tensor):
            raise ValueError(f"vmap({name}): input {i} of type {type(x)} is no Tensor; give None as its in_dim")
        if not -x.dim() <= d < x.dim():
            raise ValueError(f"vmap({name}): Got in_dim={d} for an input of dimensionality {x.dim()}")
        dims[i] = d % x.dim()
        sizes.add(x.shape[dims[i]])
    if not sizes:
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...): at least one input must be mapped over")
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}"
        )
    return sizes.pop(), flat, dims, spec


def _join(name: str, outs: list[Any], out_dims: Any) -> Any:
    flats = [tree_flatten(o) for o in outs]
    spec = flats[0][1]
    dims = _broadcast_to_and_flatten(tuple(out_dims) if isinstance(out_dims, list) else out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of the outputs"
        )
    joined = []
    for column, d in zip(zip(*(f for f, _ in flats), strict=True), dims):
        if d is None:
            joined.append(column[0])
            continue
        if not isinstance(column[0], Tensor):
            raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(column[0])}")
        if not -column[0].dim() - 1 <= d <= column[0].dim():
            raise IndexError(f"vmap({name}, ..., out_dims={d}): the output has {column[0].dim()} dimensions per sample")
        joined.append(torch.stack(list(column), d))
    return tree_unflatten(joined, spec)


class _Randomness:
    """Gives every sample the random numbers that ``randomness`` asks for."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.before = torch.get_rng_state() if kind != "different" else None

    def start(self) -> None:
        if self.kind == "same":
            torch.set_rng_state(self.before)

    def end(self, name: str) -> None:
        if self.kind == "error" and not torch.equal(torch.get_rng_state(), self.before):
            torch.set_rng_state(self.before)
            raise RuntimeError(
                f"vmap: called random operation while in randomness error mode (in {name}). Please either use the "
                "'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """``func`` mapped over a dimension of its inputs.

    Keyword arguments are the same for all samples. ``in_dims`` and ``out_dims`` are dimensions, None for what is not
    mapped, or nested like the arguments. Samples run one after the other, so any ``chunk_size`` is honoured.
    ``randomness``: "error", "same" or "different".
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", type(func).__name__)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        size, flat, dims, spec = _batch(name, in_dims, args)
        parts = [x.unbind(d) if d is not None else None for x, d in zip(flat, dims)]
        rng = _Randomness(randomness)
        outs = []
        for i in range(size):
            rng.start()
            call = tree_unflatten([x if p is None else p[i] for x, p in zip(flat, parts)], spec)
            outs.append(func(*call, **kwargs))
        rng.end(name)
        if not outs:
            raise ValueError(f"vmap({name}): the mapped dimension has size 0, so the shape of the outputs is unknown")
        return _join(name, outs, out_dims)

    return wrapped
