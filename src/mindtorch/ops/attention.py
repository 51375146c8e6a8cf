"""``scaled_dot_product_attention`` and ``multi_head_attention_forward``, written with public ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core import observe
from mindtorch.core.cells import STAMP
from mindtorch.core.errors import check
from mindtorch.core.observe import whole
from mindtorch.core.snapshot import watch
from mindtorch.core.tape import relabel
from mindtorch.core.tensor import Tensor, cell_of, constant, wrap
from mindtorch.ops import notes, softmax
from mindtorch.ops.linear import linear
from mindtorch.ops.table import SPACES, composite, put

_causal: dict[tuple[int, int], np.ndarray] = {}


def _torch(name: str) -> Any:
    return SPACES["torch"][name]


def _dropout(x: Tensor, p: float) -> Tensor:
    return SPACES["F"]["dropout"](x, p)


def causal_block(rows: int, columns: int) -> Tensor:
    """Bool (rows, columns): True where a position may not be attended to (column > row)."""
    key = (rows, columns)
    got = _causal.get(key)
    if got is None:
        if len(_causal) > 32:
            _causal.clear()
        got = _causal[key] = np.triu(np.ones(key, np.bool_), 1)
    return constant(got)


def _attend(scores: Tensor, may_be_empty: bool) -> Tensor:
    """Softmax over the last dimension; rows in which everything is masked give 0 instead of nan."""
    weights = softmax.softmax(scores, -1)
    if may_be_empty and observe.OBSERVERS and scores.k.device.type == "cpu":
        # A recorded program decides in every run anew: the same numbers by operations.
        weights = weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)
    elif may_be_empty:
        empty = np.isneginf(scores.a.astype(np.float32) if scores.a.dtype.itemsize < 4 else scores.a).all(
            -1, keepdims=True
        )
        if empty.any():
            weights = weights.masked_fill(constant(empty), 0)
    return weights


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool) -> None:
    for t in (query, key, value):
        check(
            t.dtype is query.dtype,
            RuntimeError,
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead.",
        )
        check(
            t.ndim >= 2,
            RuntimeError,
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim}, key.dim: {key.ndim} and value.dim: {value.ndim} instead.",
        )
    if mask is not None:
        check(
            mask.k.cat == 0 or mask.dtype is query.dtype or mask.dtype.is_floating_point,
            RuntimeError,
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype} and  query.dtype: {query.dtype} instead.",
        )
        check(
            not is_causal,
            RuntimeError,
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
        )


@composite(
    "scaled_dot_product_attention(T query, T key, T value, T? attn_mask=None, float dropout_p=0.0, bool "
    "is_causal=False, "
    "*, float? scale=None, bool enable_gqa=False)",
    ns="F",
    note=notes.HALF,
)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value over (..., L, E), (..., S, E), (..., S, Ev)."""
    _check(query, key, value, attn_mask, is_causal)
    if enable_gqa and query.ndim > 2:
        for n, t in (("key", key), ("value", value)):
            check(
                query.shape[-3] % t.shape[-3] == 0,
                RuntimeError,
                f"enable_gqa: the heads of query ({query.shape[-3]}) must be a multiple of those of {n} "
                f"({t.shape[-3]})",
            )
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    flash = query.ndim == 4 and dropout_p == 0.0 and value.shape[-1] == query.shape[-1]
    flash = flash and (attn_mask is None or attn_mask.n is None)
    start = STAMP()
    scores = (query * factor) @ key.transpose(-2, -1)
    if scores.n is not None and not flash:
        watch(scores.grad_fn, key)  # PyTorch multiplies the key too, and saves the product
    if is_causal:
        scores = scores.masked_fill(causal_block(query.shape[-2], key.shape[-2]), -math.inf)
    elif attn_mask is not None:
        if attn_mask.k.cat == 0:
            scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
        else:
            scores = scores + (attn_mask if attn_mask.dtype is scores.dtype else attn_mask.to(scores.dtype))
    weights = _attend(scores, attn_mask is not None)
    if dropout_p > 0.0:
        weights = _dropout(weights, dropout_p)
    out = weights @ value
    if flash and out.n is not None:
        _name_flash(out, start, [query, key, value])
    return out


def _name_flash(out: Tensor, start: int, kept: list[Tensor]) -> None:
    """Make the last node pass for PyTorch's fused one: its name, and the tensors (result included) that it saves."""
    seen = wrap(out.a)  # not the result itself, which holds the node
    seen.v = cell_of(out)
    relabel(out, start, "ScaledDotProductFlashAttentionForCpuBackward0", [*kept, seen])


# ---------------------------------------------------------------------- multi-head attention
def _shape_check(query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int) -> bool:
    """Whether the input is batched. AssertionError for inputs and masks that do not fit together."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    batched = query.ndim == 3
    want = "3-D" if batched else "2-D"
    word = "batched" if batched else "unbatched"
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {word} ({want}) `query`, expected `key` and `value` to be {want} but found {key.ndim}-D "
            f"and {value.ndim}-D "
            "tensors respectively"
        )
    if padding is not None and padding.ndim != query.ndim - 1:
        raise AssertionError(
            f"For {word} ({want}) `query`, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D but found "
            f"{padding.ndim}-D tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(
            f"For {word} ({want}) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{mask.ndim}-D tensor instead"
        )
    if mask is not None and not batched and mask.ndim == 3:
        expected = (heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(mask.shape)}")
    return batched


def canonical_mask(mask: Any, name: str, dtype: Any) -> Any:
    """A bool mask as one with -inf where True, in ``dtype``; a float mask unchanged. AssertionError for other types."""
    if mask is None:
        return None
    if mask.k.cat != 0 and not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if mask.k.cat == 0:
        return constant(np.zeros(mask.shape, dtype.np)).masked_fill(mask, -math.inf)
    return mask


def _projections(
    query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Any, separate: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value projected; one product when all three are the same tensor."""
    e = query.shape[-1]
    if separate is not None:
        b = (None, None, None) if bias is None else bias.chunk(3)
        for name, w in zip(("q", "k", "v"), separate):
            if w is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        q, k, v = (linear(t, w, c) for t, w, c in zip((query, key, value), separate, b))
        return q, k, v
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    if query is key and key is value:
        q, k, v = linear(query, weight, bias).chunk(3, -1)
        return q, k, v
    if key is value:
        wq, wkv = weight.split([e, 2 * e])
        bq, bkv = (None, None) if bias is None else bias.split([e, 2 * e])
        k, v = linear(key, wkv, bkv).chunk(2, -1)
        return linear(query, wq, bq), k, v
    ws = weight.chunk(3)
    bs = (None, None, None) if bias is None else bias.chunk(3)
    q, k, v = (linear(t, w, c) for t, w, c in zip((query, key, value), ws, bs))
    return q, k, v


def _pad_one(mask: Any) -> Any:
    return None if mask is None else SPACES["F"]["pad"](mask, (0, 1))


def _extended(k: Tensor, v: Tensor, more: tuple[Tensor, Tensor], dim: int, mask: Any, padding: Any) -> tuple[Any, ...]:
    """Key and value with one more source position, and masks that leave it visible."""
    k, v = _torch("cat")([k, more[0]], dim), _torch("cat")([v, more[1]], dim)
    return k, v, _pad_one(mask), _pad_one(padding)


def _with_biases(k: Tensor, v: Tensor, biases: tuple[Any, Any], mask: Any, padding: Any) -> tuple[Any, ...]:
    """bias_k and bias_v (1, 1, E) appended to the sequence (S, N, E) of every sample, when given."""
    if biases[0] is None and biases[1] is None:
        return k, v, mask, padding
    if biases[0] is None or biases[1] is None:
        raise AssertionError("bias_k and bias_v must be given together")
    more = (biases[0].repeat(1, k.shape[1], 1), biases[1].repeat(1, k.shape[1], 1))
    return _extended(k, v, more, 0, mask, padding)


def _merge_padding(mask: Any, padding: Tensor, dims: tuple[int, int], heads: int) -> Tensor:
    """attn_mask plus key_padding_mask (N, S) spread over heads. AssertionError for a padding of another shape."""
    batch, source = dims
    if tuple(padding.shape) != dims:
        raise AssertionError(f"expecting key_padding_mask shape of {dims}, but got {padding.shape}")
    wide = padding.reshape(batch, 1, 1, source).expand(-1, heads, -1, -1).reshape(batch * heads, 1, source)
    return wide if mask is None else mask + wide


def _mask_shape(mask: Any, batch: int, heads: int, length: int, source: int) -> Any:
    """attn_mask as (1 or batch * heads, L, S). RuntimeError for another shape."""
    if mask is None:
        return None
    if mask.ndim == 2:
        check(
            tuple(mask.shape) == (length, source),
            RuntimeError,
            f"The shape of the 2D attn_mask is {mask.shape}, but should be {(length, source)}.",
        )
        return mask.unsqueeze(0)
    check(
        tuple(mask.shape) == (batch * heads, length, source),
        RuntimeError,
        f"The shape of the 3D attn_mask is {mask.shape}, but should be {(batch * heads, length, source)}.",
    )
    return mask


def _heads(t: Tensor, batch: int, heads: int) -> Tensor:
    """(L, N, E) as (N * heads, L, E / heads)."""
    return t.reshape(t.shape[0], batch * heads, -1).transpose(0, 1)


def _weighted(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any,
    dropout_p: float,
    need_weights: bool,
    causal: bool,
    dims: tuple[int, int],
) -> tuple[Tensor, Any]:
    """(heads' result (N * heads, L, E / heads), attention (N, heads, L, S) or None)."""
    batch, heads = dims
    length, source = q.shape[1], k.shape[1]
    if need_weights:
        scores = (q * math.sqrt(1.0 / q.shape[-1])) @ k.transpose(-2, -1)
        weights = softmax.softmax(scores if mask is None else scores + mask, -1)
        if dropout_p > 0.0:
            weights = _dropout(weights, dropout_p)
        return weights @ v, weights.reshape(batch, heads, length, source)
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.shape[0] == 1 else mask.reshape(batch, heads, -1, source)
    q, k, v = (t.reshape(batch, heads, t.shape[1], -1) for t in (q, k, v))
    out = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
    return out.reshape(batch * heads, length, -1), None


@whole
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention over (L, N, E) or (L, E): (result, attention weights or None)."""
    batched = _shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _unsqueezed(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, e = query.shape
    _sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    padding = canonical_mask(key_padding_mask, "key_padding_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding is None and not need_weights:
        attn_mask = None
    else:
        attn_mask, is_causal = canonical_mask(attn_mask, "attn_mask", query.dtype), False
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projections(query, key, value, in_proj_weight, in_proj_bias, separate)
    if attn_mask is not None:
        attn_mask = _mask_shape(attn_mask, batch, num_heads, length, key.shape[0])
    k, v, attn_mask, padding = _with_biases(k, v, (bias_k, bias_v), attn_mask, padding)
    q = _heads(q, batch, num_heads)
    k = _heads(k, batch, num_heads) if static_k is None else static_k
    v = _heads(v, batch, num_heads) if static_v is None else static_v
    if add_zero_attn:
        zero = k.new_zeros((batch * num_heads, 1, k.shape[2]))
        k, v, attn_mask, padding = _extended(k, v, (zero, zero), 1, attn_mask, padding)
    if padding is not None:
        attn_mask = _merge_padding(attn_mask, padding, (batch, k.shape[1]), num_heads)
    if not training:
        dropout_p = 0.0
    out, weights = _weighted(q, k, v, attn_mask, dropout_p, need_weights, is_causal, (batch, num_heads))
    out = out.transpose(0, 1).reshape(length, batch, e)
    out = linear(out, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if not batched:
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    return out, weights


def _unsqueezed(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A batch dimension of 1 in each, keeping equal tensors the same object (they share one projection)."""
    q = query.unsqueeze(1)
    k = q if key is query else key.unsqueeze(1)
    v = k if value is key else value.unsqueeze(1)
    return q, k, v


def _sizes(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, heads: int, separate: bool) -> None:
    e = query.shape[2]
    if e != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {e}")
    if (e // heads) * heads != e:
        raise AssertionError(f"embed_dim {e} not divisible by num_heads {heads}")
    if separate:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


put("F", multi_head_attention_forward=multi_head_attention_forward)
