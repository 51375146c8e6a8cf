"""Sequences of different lengths: packing, padding, and back."""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Iterable
from typing import Any

import mindtorch.torch as torch

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

PackedSequence_ = namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


class PackedSequence(PackedSequence_):
    """Time steps of a batch laid out one after the other: data (total, *), batch_sizes (longest) on the CPU.

    ``sorted_indices`` sorted the batch by length, ``unsorted_indices`` undoes it; None when it was sorted already.
    """

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> Any:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2 when batch_sizes is None")
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They "
                "should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def pin_memory(self) -> Any:
        """A copy in page-locked memory."""
        return self._each(lambda t: t.pin_memory())

    def _each(self, fn: Any) -> Any:
        move = [None if t is None else fn(t) for t in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(fn(self.data), self.batch_sizes, *move)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Data (and indices, when the device changes) converted as ``Tensor.to`` does."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        extra = {k: v for k, v in kwargs.items() if k not in ("device", "dtype")}
        move = [
            None if t is None else t.to(data.device, **extra) for t in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *move)

    def cuda(self, *args: Any, **kwargs: Any) -> Any:
        """On the accelerator known as "cuda"."""
        return self._each(lambda t: t.cuda(*args, **kwargs))

    def cpu(self, *args: Any, **kwargs: Any) -> Any:
        """On the host."""
        return self.to(*args, device="cpu", **kwargs)

    def double(self) -> Any:
        """Data as float64."""
        return self.to(dtype=torch.double)

    def float(self) -> Any:
        """Data as float32."""
        return self.to(dtype=torch.float)

    def half(self) -> Any:
        """Data as float16."""
        return self.to(dtype=torch.half)

    def long(self) -> Any:
        """Data as int64."""
        return self.to(dtype=torch.long)

    def int(self) -> Any:
        """Data as int32."""
        return self.to(dtype=torch.int)

    def short(self) -> Any:
        """Data as int16."""
        return self.to(dtype=torch.short)

    def char(self) -> Any:
        """Data as int8."""
        return self.to(dtype=torch.int8)

    def byte(self) -> Any:
        """Data as uint8."""
        return self.to(dtype=torch.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on an accelerator known as "cuda"."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes ``permutation`` (None stays None)."""
    if permutation is None:
        return None
    out = torch.empty_like(permutation)
    out.scatter_(0, permutation, torch.arange(0, permutation.numel(), device=permutation.device))
    return out


def pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    """(T, B, *) padded -> PackedSequence. ``lengths`` (B): a tensor on the CPU or a list, all at least 1."""
    if not isinstance(lengths, torch.Tensor):
        lengths = torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
    else:
        lengths = lengths.to(dtype=torch.int64)
    order = None
    if not enforce_sorted:
        lengths, order = torch.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    batch = input.size(1)
    if lengths.dim() != 1 or lengths.numel() != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} (batch_size={batch})"
        )
    sizes = lengths.tolist()
    if not sizes or min(sizes) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in itertools.pairwise(sizes)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not "
            "need ONNX exportability."
        )
    if sizes[0] > input.size(0):
        raise RuntimeError(f"Expected sequence lengths of at most {input.size(0)}, but got {sizes[0]}")
    counts = [sum(s > t for s in sizes) for t in range(sizes[0])]
    steps = [input[t, :n] for t, n in enumerate(counts)]
    return PackedSequence(torch.cat(steps, 0), torch.tensor(counts, dtype=torch.int64), order, None)


def pad_packed_sequence(
    sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """PackedSequence -> padded (T, B, *) and lengths (B), in the order before packing."""
    counts = sequence.batch_sizes.tolist()
    longest = len(counts)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    data, batch = sequence.data, counts[0]
    rows = []
    at = 0
    for t in range(longest):
        n = counts[t] if t < len(counts) else 0
        row = data[at : at + n]
        at += n
        if n < batch:
            fill = torch.full((batch - n, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
            row = torch.cat([row, fill], 0)
        rows.append(row)
    padded = torch.stack(rows, 1 if batch_first else 0)
    lengths = torch.tensor([sum(n > i for n in counts) for i in range(batch)], dtype=torch.int64)
    back = sequence.unsorted_indices
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Tensors (L_i, *) -> one padded tensor (T, B, *), or (B, T, *) with ``batch_first``."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    seqs = list(sequences.unbind(0)) if isinstance(sequences, torch.Tensor) else list(sequences)
    if not seqs:
        raise RuntimeError("received an empty list of sequences")
    longest = max(s.size(0) for s in seqs)
    if all(s.size(0) == longest for s in seqs):
        return torch.stack(seqs, 0 if batch_first else 1)
    rows = []
    for s in seqs:
        missing = longest - s.size(0)
        if missing:
            fill = torch.full((missing, *s.shape[1:]), padding_value, dtype=s.dtype, device=s.device)
            s = torch.cat([fill, s] if padding_side == "left" else [s, fill], 0)
        rows.append(s)
    return torch.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """Padded (T, B, *) -> list of tensors (L_i, *)."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [seq[: int(n)] for seq, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> Any:
    """List of tensors (L_i, *) -> PackedSequence."""
    lengths = torch.as_tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: Any) -> list[Any]:
    """PackedSequence -> list of tensors (L_i, *)."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
