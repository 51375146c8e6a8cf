"""MultiheadAttention."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention with several heads: query (L, N, E), key (S, N, kdim), value (S, N, vdim) -> (L, N, E), weights (N, L, S).

    ``batch_first``: (N, L, E). Parameters: in_proj_weight (3E, E) (or q/k/v_proj_weight when kdim or vdim differ), in_proj_bias
    (3E), out_proj, bias_k and bias_v (1, 1, E) with ``add_bias_kv``.
    """

    __constants__ = ["batch_first"]
    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        where = {"device": device, "dtype": dtype}
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(torch.empty((3 * embed_dim, embed_dim), **where))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = Parameter(torch.empty((embed_dim, embed_dim), **where))
            self.k_proj_weight = Parameter(torch.empty((embed_dim, self.kdim), **where))
            self.v_proj_weight = Parameter(torch.empty((embed_dim, self.vdim), **where))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = Parameter(torch.empty(3 * embed_dim, **where))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **where)
        if add_bias_kv:
            self.bias_k = Parameter(torch.empty((1, 1, embed_dim), **where))
            self.bias_v = Parameter(torch.empty((1, 1, embed_dim), **where))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """Output and (``need_weights``) attention weights: (N, L, S) averaged over heads, or (N, heads, L, S).

        Masks: True (or -inf) hides a key; key_padding_mask (N, S), attn_mask (L, S) or (N * heads, L, S).
        """
        swap = self.batch_first and query.dim() == 3
        if swap:
            same = key is query and value is query
            kv_same = key is value
            query = query.transpose(1, 0)
            key = query if same else key.transpose(1, 0)
            value = key if kv_same else value.transpose(1, 0)
        separate: dict[str, Any] = {}
        if not self._qkv_same_embed_dim:
            separate = {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            **separate,
        )
        return (out.transpose(1, 0) if swap else out), weights

    def merge_masks(self, attn_mask: Any, key_padding_mask: Any, query: Any) -> tuple[Any, int | None]:
        """Both masks as one of shape (N, heads, L, S), and its kind: 0 attention, 1 padding, 2 both, None none."""
        kind: int | None = None
        merged = None
        if key_padding_mask is not None:
            kind, merged = 1, key_padding_mask
        if attn_mask is not None:
            n, length = query.shape[:2]
            kind = 2
            if attn_mask.dim() == 3:
                merged = attn_mask.view(n, -1, length, attn_mask.shape[-1])
            else:
                merged = attn_mask.view(1, 1, *attn_mask.shape).expand(n, self.num_heads, -1, -1)
            if key_padding_mask is not None:
                merged = merged + key_padding_mask.view(n, 1, 1, -1).expand(-1, self.num_heads, -1, -1)
        return merged, kind

# whole-module pickles of PyTorch name this path
MultiheadAttention.__module__ = "mindtorch.torch.nn.modules.activation"
