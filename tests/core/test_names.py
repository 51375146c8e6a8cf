"""``grad_fn`` has PyTorch's name, whichever way the result was computed here; several views after a write to their base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both import agree

import mindtorch.torch as mt
import torch

Make = Callable[[Any, Any], Any]
NAMES: dict[str, Make] = {
    "sum": lambda t, a: a.sum(),
    "sum dim": lambda t, a: a.sum(0),
    "mean": lambda t, a: a.mean(),
    "mean dim": lambda t, a: a.mean((0, 1), keepdim=True),
    "prod": lambda t, a: a.prod(),
    "prod dim": lambda t, a: a.prod(1),
    "squeeze": lambda t, a: a[None].squeeze(),
    "squeeze dim": lambda t, a: a[None].squeeze(0),
    "squeeze dims": lambda t, a: a[None, :, None].squeeze((0, 2)),
    "select": lambda t, a: a.select(1, 0),
    "median dim": lambda t, a: a.median(0).values,
    "sort": lambda t, a: a.sort().values,
    "sort stable": lambda t, a: a.sort(stable=True).values,
    "pow number": lambda t, a: a**2,
    "pow tensor": lambda t, a: a**a,
    "number pow": lambda t, a: 2**a,
    "rsub": lambda t, a: 1 - a,
    "square": lambda t, a: a.square(),
    "log1p": lambda t, a: a.log1p(),
    "rad2deg": lambda t, a: a.rad2deg(),
    "remainder": lambda t, a: a % a,
    "remainder number": lambda t, a: a % 2,
    "fmod": lambda t, a: a.fmod(a),
    "div trunc": lambda t, a: t.div(a, a, rounding_mode="trunc"),
    "clamp": lambda t, a: a.clamp(0, 1),
    "clamp tensors": lambda t, a: a.clamp(a, a),
    "clamp_min": lambda t, a: a.clamp_min(1),
    "clamp_min tensor": lambda t, a: a.clamp_min(a),
    "lerp": lambda t, a: a.lerp(a, 0.5),
    "lerp tensor": lambda t, a: a.lerp(a, a),
    "masked_fill": lambda t, a: a.masked_fill(a > 1, 0),
    "masked_fill tensor": lambda t, a: a.masked_fill(a > 1, t.tensor(1.0, dtype=t.float64)),
    "addr": lambda t, a: t.addr(a, a[0], a[0]),
    "trace": lambda t, a: a.trace(),
    "dist": lambda t, a: a.dist(a + 1),
    "cdist": lambda t, a: t.cdist(a, a),
    "cross": lambda t, a: t.linalg.cross(a, a),
    "renorm": lambda t, a: a.renorm(2, 0, 1.0),
    "rot90": lambda t, a: a.rot90(),
    "multi_dot": lambda t, a: t.linalg.multi_dot([a, a, a]),
    "solve": lambda t, a: t.linalg.solve(a, a[0]),
    "lu": lambda t, a: t.linalg.lu(a)[1],
    "einsum": lambda t, a: t.einsum("ij,jk->ik", a, a),
    "einsum outer": lambda t, a: t.einsum("i,j->ij", a[0], a[1]),
    "rfft": lambda t, a: t.fft.rfft(a),
    "irfft": lambda t, a: t.fft.irfft(t.fft.rfft(a)),
    "fft2": lambda t, a: t.fft.fft2(t.complex(a, a)),
    "i0e": lambda t, a: t.special.i0e(a),
    "entr": lambda t, a: t.special.entr(a),
    "glu": lambda t, a: t.nn.functional.glu(a[:, :2]),
    "smooth_l1": lambda t, a: t.nn.functional.smooth_l1_loss(a, a + 1),
    "huber": lambda t, a: t.nn.functional.huber_loss(a, a + 1, reduction="sum"),
    "bce": lambda t, a: t.nn.functional.binary_cross_entropy(a.sigmoid(), a.detach().sigmoid()),
    "bce logits": lambda t, a: t.nn.functional.binary_cross_entropy_with_logits(a, a.detach().sigmoid()),
    "soft margin": lambda t, a: t.nn.functional.soft_margin_loss(a, a.detach().sign()),
    "cross entropy 2d": lambda t, a: t.nn.functional.cross_entropy(a[None], t.tensor([[0, 1, 2]])),
    "attention": lambda t, a: t.nn.functional.scaled_dot_product_attention(a[None, None], a[None, None], a[None, None]),
    "pixel_shuffle": lambda t, a: t.nn.functional.pixel_shuffle(a.repeat(2, 2)[None, :4, :, None], 2),
    "alias_copy": lambda t, a: t.alias_copy(a),
    "permute_copy": lambda t, a: t.permute_copy(a, (1, 0)),
}


def _matrix(t: Any) -> Any:
    x = np.random.RandomState(0).rand(3, 3) + np.eye(3)
    return t.tensor(x, requires_grad=True)


@pytest.mark.parametrize("name", NAMES)
def test_name(name: str) -> None:
    make = NAMES[name]
    assert type(make(mt, _matrix(mt)).grad_fn).__name__ == type(make(torch, _matrix(torch)).grad_fn).__name__


@pytest.mark.parametrize("parts", ["chunk", "split", "unbind"])
@pytest.mark.parametrize("where", ["base", "part", "in place of the base"])
@pytest.mark.parametrize("alone", [False, True])
def test_several_views_after_an_unrecorded_write(parts: str, where: str, alone: bool) -> None:
    """``alone``: what is used then is not one of the views, so that nothing is wrong."""

    def scenario(t: Any) -> Any:
        a = _matrix(t)
        b = a * 1
        got = {"chunk": lambda: b.chunk(3), "split": lambda: b.split(1), "unbind": lambda: b.unbind()}[parts]()
        with t.no_grad():
            (b if where == "base" else got[1] if where == "part" else b[0:1]).add_(1)
        (b if alone else got[0]).sum().backward()
        return a.grad

    err = agree(scenario)
    assert (err is None) == alone


def test_views_of_a_parameter_updated_between_steps() -> None:
    def scenario(t: Any) -> Any:
        w = _matrix(t)
        for _ in range(6):
            i, f, o = w.chunk(3)
            (i * f * o).sum().backward()
            with t.no_grad():
                w -= 0.1 * w.grad
                w.grad = None
        return w

    assert agree(scenario) is None
