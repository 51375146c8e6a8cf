"""Scaled dot product attention and multi-head attention against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from twin import array, fails, same


def f64(*shape: int, seed: int = 0) -> np.ndarray:
    return array(*shape, seed=seed, dtype="float64")


Q, K, V = f64(2, 3, 5, 4), f64(2, 3, 6, 4, seed=1), f64(2, 3, 6, 7, seed=2)
SDPA = lambda lib, *a, **k: lib.nn.functional.scaled_dot_product_attention(*a, **k)


@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float", "scale"])
def test_sdpa(kind: str) -> None:
    mask = np.random.RandomState(0).rand(5, 6) > 0.4
    mask[2] = False  # a row with nothing to attend to gives 0

    def run(lib, q, k, v):  # type: ignore[no-untyped-def]
        kw = {}
        if kind == "causal":
            kw["is_causal"] = True
        elif kind == "bool":
            kw["attn_mask"] = lib.tensor(mask)
        elif kind == "float":
            kw["attn_mask"] = lib.tensor(array(2, 1, 5, 6, dtype=str(q.dtype)[6:]))
        elif kind == "scale":
            kw["scale"] = 0.3
        return SDPA(lib, q, k, v, **kw)

    same(run, Q, K, V, double=kind != "bool")
    same(run, *(t.astype("float32") for t in (Q, K, V)))


def test_sdpa_grouped_heads_and_ranks() -> None:
    same(
        lambda lib, q, k, v: SDPA(lib, q, k, v, enable_gqa=True),
        f64(2, 6, 5, 4),
        f64(2, 3, 6, 4),
        f64(2, 3, 6, 4, seed=1),
    )
    same(lambda lib, q, k, v: SDPA(lib, q, k, v), f64(5, 4), f64(6, 4), f64(6, 4, seed=1))
    same(lambda lib, q, k, v: SDPA(lib, q, k, v), *(array(3, 5, 4, seed=i, dtype="float16") for i in range(3)))
    fails(lambda lib, q, k, v: SDPA(lib, q, k, v), array(5, 4), f64(6, 4), f64(6, 4))
    fails(lambda lib, q, m: SDPA(lib, q, q, q, attn_mask=m, is_causal=True), array(1, 5, 4), array(5, 5), start=0)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("kind", ["self", "cross", "masks", "bias", "separate", "unbatched", "causal"])
def test_multi_head(kind: str, weights: bool) -> None:
    e, heads, n, length = 8, 2, 3, 5
    x, y = f64(length, n, e), f64(6, n, e, seed=5)
    w, b, wo, bo = f64(3 * e, e, seed=1), f64(3 * e, seed=2), f64(e, e, seed=3), f64(e, seed=4)

    def run(lib, x, y, w, b, wo, bo):  # type: ignore[no-untyped-def]
        key = {"self": x, "causal": x, "masks": x, "unbatched": x}.get(kind, y)
        value = y + 1 if kind == "bias" else key
        query = x
        kw = {"need_weights": weights, "average_attn_weights": kind != "cross"}
        bias_k = bias_v = None
        zero = False
        if kind == "masks":
            kw["key_padding_mask"] = lib.tensor(np.arange(length)[None] >= np.array([[5], [3], [4]]))
            kw["attn_mask"] = lib.tensor(array(length, length, dtype="float64"))
        elif kind == "bias":
            bias_k, bias_v, zero = lib.tensor(f64(1, 1, e)), lib.tensor(f64(1, 1, e, seed=7)), True
            kw["attn_mask"] = lib.tensor(f64(n * heads, length, 6))
        elif kind == "causal":
            kw["attn_mask"] = lib.tensor(np.triu(np.ones((length, length), bool), 1))
            kw["is_causal"] = True
        elif kind == "unbatched":
            query = key = value = x[:, 0]
        if kind == "separate":
            q_w, k_w, v_w = w[:e], w[e : 2 * e], w[2 * e :]
            kw.update(use_separate_proj_weight=True, q_proj_weight=q_w, k_proj_weight=k_w, v_proj_weight=v_w)
        out, att = lib.nn.functional.multi_head_attention_forward(
            query, key, value, e, heads, None if kind == "separate" else w, b, bias_k, bias_v, zero, 0.0, wo, bo, **kw
        )
        assert (att is None) == (not weights)
        used = (x * 0).sum() + (y * 0).sum()
        return (out + used,) if att is None else (out + used, att)

    same(run, x, y, w, b, wo, bo)


def test_multi_head_errors() -> None:
    def call(lib, x, w, wo, e=8, heads=2, **kw):  # type: ignore[no-untyped-def]
        return lib.nn.functional.multi_head_attention_forward(
            x, x, x, e, heads, w, None, None, None, False, 0.0, wo, None, **kw
        )

    args = array(5, 3, 8), array(24, 8), array(8, 8)
    fails(lambda lib, *a: call(lib, *a, e=7), *args)
    fails(lambda lib, *a: call(lib, *a, heads=3), *args, start=20)
    fails(lambda lib, *a: call(lib, *a, is_causal=True), *args)
    fails(lambda lib, *a: call(lib, *a, attn_mask=lib.tensor(array(4, 5))), *args, start=20)
    fails(lambda lib, *a: call(lib, *a, key_padding_mask=lib.tensor(array(4, 5)) > 0), *args, start=0)
