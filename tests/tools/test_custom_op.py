"""Kernels of the user's, on the host and of MindSpore, with gradients."""

import numpy as np
import pytest

import mindtorch.torch as mt
from mindtorch.tools.custom_op import custom_op


def kernel(x, w, power):
    return w * x**power


def gradient(g, x, w, power, out):
    return g * w * power * x ** (power - 1), (g * x**power), None


def test_host_kernel_and_gradient():
    x, w = (mt.rand(3, 4, dtype=mt.float64) + 0.5 for _ in range(2))
    x.requires_grad_(), w.requires_grad_()
    op = custom_op(kernel, gradient)
    assert mt.allclose(op(x, w, 3), w * x**3, rtol=1e-14)
    assert mt.autograd.gradcheck(lambda a, b: op(a, b, 3), (x, w))
    assert type(op(x, w, 3).grad_fn).__name__ == "kernelBackward"


def test_without_gradient():
    assert not custom_op(lambda x: np.sign(x))(mt.ones(3, requires_grad=True)).requires_grad


def test_mindspore_kernel():
    from mindspore import ops

    op = custom_op(ops.tanh, lambda g, x, out: g * (1 - out * out), engine="mindspore", name="tanh")
    x = mt.linspace(-1, 1, 7).requires_grad_()
    y = op(x)
    y.sum().backward()
    assert mt.allclose(y, mt.tanh(x), atol=1e-3)  # MindSpore's tanh on the CPU is rough
    assert mt.allclose(x.grad, 1 - mt.tanh(x) ** 2, atol=1e-3)


def test_errors():
    with pytest.raises(ValueError, match="engine must be one of host, mindspore"):
        custom_op(kernel, engine="gpu")
    with pytest.raises(TypeError, match="must return an array"):
        custom_op(lambda x: "no")(mt.ones(2))
    x = mt.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="must return 1 gradients"):
        custom_op(lambda x: x * 2, lambda g, x, out: (g, g))(x).sum().backward()
    with pytest.raises(ValueError, match=r"gradient 0 has shape \(1,\)"):
        custom_op(lambda x: x * 2, lambda g, x, out: g[:1])(x).sum().backward()
