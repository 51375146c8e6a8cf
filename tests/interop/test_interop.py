"""Tensors, layers and gradients between mindtorch and MindSpore."""

from __future__ import annotations

import numpy as np
import pytest

import mindtorch
import mindtorch.torch as torch
from mindtorch import interop
from mindtorch.torch import nn

ms = pytest.importorskip("mindspore")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool", "complex64"])
def test_tensors_share_their_memory_both_ways(dtype):
    x = torch.ones(2, 3).to(getattr(torch, dtype))
    m = x.to_mindspore()
    x[0, 0] = 0
    assert m.asnumpy()[0, 0] == 0
    y = torch.from_mindspore(m)
    assert y.dtype is x.dtype
    y[0, 1] = 0
    assert x[0, 1] == 0
    assert torch.equal(torch.as_tensor(m), x)


def test_bfloat16_and_strided_tensors_are_copied():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.from_mindspore(x.t().to_mindspore()), x.t())
    b = x.to(torch.bfloat16)
    assert torch.equal(torch.from_mindspore(b.to_mindspore()), b)


def test_refusals_say_what_to_do():
    with pytest.raises(RuntimeError, match="detach"):
        torch.ones(2, requires_grad=True).to_mindspore()
    with pytest.raises(TypeError, match="mindspore.Tensor"):
        torch.from_mindspore(np.ones(2))
    with pytest.raises(TypeError, match=r"not mindspore\.Tensor \(torch\.as_tensor"):
        torch.ones(2) + ms.Tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="grad_position"):
        mindtorch.value_and_grad(lambda x: x, None, None)


def test_a_mindspore_function_takes_our_tensor():
    x = torch.rand(4, 4)
    got = torch.from_mindspore(ms.ops.matmul(x.to_mindspore(), x.to_mindspore()))
    torch.testing.assert_close(got, x @ x, rtol=1e-5, atol=1e-6)


def test_a_cell_inside_our_network_learns():
    torch.manual_seed(0)
    cell = ms.nn.Dense(3, 2)
    net = nn.Sequential(nn.Linear(3, 3), interop.CellModule(cell))
    twin = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    twin[0].load_state_dict(net[0].state_dict())
    twin[1].load_state_dict(dict(net[1].state_dict()))
    x = torch.rand(5, 3, requires_grad=True)
    z = x.detach().clone().requires_grad_()
    for model, inp in ((net, x), (twin, z)):
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            opt.zero_grad()
            model(inp).pow(2).sum().backward()
            opt.step()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-4, atol=1e-5)
    for (_, p), (_, q) in zip(net.named_parameters(), twin.named_parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_our_module_as_a_cell_has_gradients():
    lin = nn.Linear(3, 2)
    cell = interop.ModuleCell(nn.Sequential(lin, nn.Tanh()))
    x = np.random.default_rng(0).random((4, 3), np.float32)
    run = ms.value_and_grad(lambda a: (cell(a) ** 2).sum(), 0, cell.trainable_params())
    value, (gx, gw) = run(ms.Tensor(x))
    t = torch.tensor(x, requires_grad=True)
    loss = nn.Sequential(lin, nn.Tanh())(t).pow(2).sum()
    loss.backward()
    np.testing.assert_allclose(value.asnumpy(), loss.item(), rtol=1e-5)
    for a, b in ((gx, t.grad), (gw[0], lin.weight.grad), (gw[1], lin.bias.grad)):
        np.testing.assert_allclose(a.asnumpy(), b.numpy(), rtol=1e-4, atol=1e-6)


def test_functional_style_trains_as_backward_does():
    torch.manual_seed(1)
    a, b = nn.Linear(3, 1), nn.Linear(3, 1)
    b.load_state_dict(a.state_dict())
    x, y = torch.rand(8, 3), torch.rand(8, 1)
    opt = torch.optim.Adam(a.parameters(), lr=0.1)
    step = mindtorch.value_and_grad(lambda p, q: (nn.functional.mse_loss(a(p), q), p), None, opt.parameters, has_aux=True)
    ref = torch.optim.Adam(b.parameters(), lr=0.1)
    for _ in range(4):
        (loss, _), grads = step(x, y)
        assert not loss.requires_grad
        opt(grads)
        ref.zero_grad()
        nn.functional.mse_loss(b(x), y).backward()
        ref.step()
    assert torch.equal(a.weight, b.weight)
    with pytest.raises(ValueError, match="2 parameters"):
        opt([torch.ones(1)])


def test_shape_of_the_gradients_follows_what_was_asked():
    w = nn.Parameter(torch.ones(2))
    f = lambda x, y: (x * y * w).sum()  # noqa: E731
    x, y = torch.ones(2), torch.full((2,), 3.0)
    assert isinstance(mindtorch.value_and_grad(f)(x, y)[1], torch.Tensor)
    assert len(mindtorch.value_and_grad(f, (0, 1))(x, y)[1]) == 2
    of_inputs, of_weights = mindtorch.value_and_grad(f, 1, [w])(x, y)[1]
    assert torch.equal(of_inputs, torch.ones(2)) and torch.equal(of_weights[0], y)
