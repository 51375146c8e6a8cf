"""``safetensors.torch``: dicts of tensors, and models whose tied weights are stored once."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import numpy as np

import mindtorch.torch as torch
from mindtorch.core.tensor import values
from mindtorch.formats import safetensors as _format
from mindtorch.tools.safetensors import _tensor, safe_open

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model", "storage_ptr", "storage_size"]


# ------------------------------------------------------------------------------------------ shared memory


def storage_ptr(tensor: torch.Tensor) -> int:
    """Address of the memory behind a tensor, 0 for tensors without one."""
    return 0 if tensor.is_meta else tensor.untyped_storage().data_ptr()


def storage_size(tensor: torch.Tensor) -> int:
    """Bytes of the memory behind a tensor."""
    return tensor.nelement() * tensor.element_size() if tensor.is_meta else tensor.untyped_storage().nbytes()


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and the one behind the last of a tensor's own elements."""
    if not tensor.nelement():
        return tensor.data_ptr(), tensor.data_ptr()
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1
    return tensor.data_ptr(), tensor.data_ptr() + reach * tensor.element_size()


def _find_shared_tensors(state_dict: dict[str, torch.Tensor]) -> list[set[str]]:
    """Names in groups whose elements overlap; names that share with nobody form groups of one."""
    storages: dict[Any, list[tuple[int, int, str]]] = {}
    for name, t in state_dict.items():
        if not t.is_meta and storage_ptr(t) and storage_size(t):
            storages.setdefault((str(t.device), storage_ptr(t), storage_size(t)), []).append((*_span(t), name))
    groups: list[set[str]] = []
    for spans in storages.values():
        spans.sort()
        reach = -1
        for start, stop, name in spans:
            if start < reach:
                groups[-1].add(name)
            else:
                groups.append({name})
            reach = max(reach, stop)
    return groups


def _is_complete(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of the memory behind it."""
    whole = tensor.nelement() * tensor.element_size() == storage_size(tensor)
    return whole and tensor.data_ptr() == storage_ptr(tensor)


def _remove_duplicate_names(
    state_dict: dict[str, torch.Tensor],
    *,
    preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """Kept name -> names that share its memory. RuntimeError for a group of which no tensor is the whole memory."""
    preferred, discarded = set(preferred_names or ()), set(discard_names or ())
    result: dict[str, list[str]] = {}
    for group in _find_shared_tensors(state_dict):
        if len(group) < 2:
            continue
        complete = {n for n in group if _is_complete(state_dict[n])}
        if not complete:
            raise RuntimeError(
                f"the tensors {sorted(group)} share memory and none of them is all of it, so none can stand for the "
                "others. Give them memory of their own with .clone()"
            )
        kept = min(complete & preferred or complete - discarded or complete)
        result[kept] = sorted(group - {kept})
    return result


# ------------------------------------------------------------------------------------------ dicts of tensors


def _arrays(tensors: Any) -> dict[str, np.ndarray]:
    """The memory of tensors that can be written. ValueError and RuntimeError as the original raises them."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, t in tensors.items():
        if not isinstance(t, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(t)}")
        if t.layout != torch.strided:
            raise ValueError(f"tensor `{name}` is sparse, which the format does not have; use .to_dense()")
        if t.is_meta:
            raise ValueError(f"tensor `{name}` is on the meta device and has no values to save")
    shared = [sorted(g) for g in _find_shared_tensors(tensors) if len(g) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, which the format cannot express: {shared}. Use `save_model` to save a model "
            "with tied weights, or .clone() the tensors"
        )
    for name, t in tensors.items():
        if not t.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. Call .contiguous() first"
            )
    return {name: values(t.detach().resolve_conj().resolve_neg()) for name, t in tensors.items()}


def save(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file. Tensors must be contiguous and must not share memory."""
    out = io.BytesIO()
    _format.write(out, _arrays(tensors), metadata)
    return out.getvalue()


def save_file(tensors: dict[str, torch.Tensor], filename: Any, metadata: dict[str, str] | None = None) -> None:
    """Write a file; it is replaced only when everything is written. Tensors must be contiguous and not share memory."""
    _format.write(filename, _arrays(tensors), metadata)


def load_file(filename: Any, device: Any = "cpu", *, backend: str = "mmap") -> dict[str, torch.Tensor]:
    """The tensors of a file, lying over its mapped memory (writing to them does not change the file)."""
    with safe_open(filename, framework="pt", device=device, backend=backend) as f:
        return f.get_tensors()


def load(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors in the bytes of a file."""
    return {name: _tensor(a, "pt", None) for name, a in _format.read(data)[0].items()}


# ------------------------------------------------------------------------------------------ models


def save_model(
    model: torch.nn.Module, filename: Any, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Write a model's state dict. Of tied weights one is stored, and the metadata say which names it stands for."""
    state = dict(model.state_dict())
    texts = dict(metadata or {})
    for kept, others in _remove_duplicate_names(state).items():
        for name in others:
            texts.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {k: v.contiguous() for k, v in state.items()}
    save_file(state, filename, texts or None)


def load_model(
    model: torch.nn.Module, filename: Any, strict: bool = True, device: Any = "cpu", *, backend: str = "mmap"
) -> tuple[list[str], list[str]]:
    """Load a file of `save_model`; ``(missing, unexpected)`` names. RuntimeError with ``strict`` when there are any."""
    state = load_file(filename, device, backend=backend)
    tied = _remove_duplicate_names(model.state_dict(), preferred_names=state)
    result = model.load_state_dict(state, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    for others in tied.values():
        for name in others:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for word, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                lines.append(f"    {word} key(s) in state_dict: {', '.join(repr(n) for n in sorted(names))}")
        raise RuntimeError("\n".join(lines))
    return sorted(missing), unexpected
