"""softmax, log_softmax, softmin, gumbel_softmax: torch functions, Tensor methods and ``nn.functional`` forms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import softmax as K
from mindtorch.engine.host.softmax import F32
from mindtorch.ops.activation import floating
from mindtorch.ops.table import composite, op


def implicit_dim(name: str, ndim: int) -> int:
    """The dim PyTorch picks when none is given (0 for 0, 1 and 3 dims, else 1), with its warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=4,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _dim(name: str, dim: int | None, ndim: int) -> int:
    if dim is None:
        return 0 if ndim in (0, 1, 3) else 1
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        n = max(ndim, 1)
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim


def _forward(name: str, kernel: Any, a: np.ndarray, dim: int, dtype: Any) -> Any:
    """float16/bfloat16 compute in float32 and round once, to the target dtype."""
    if dtype is not None:
        target = dtype.np
        if a.dtype != target:
            a = a.astype(target)
    elif a.dtype.kind not in "fV":
        floating(f"{name}_lastdim_kernel_impl", a)
    else:
        target = a.dtype
    if a.dtype.itemsize < 4:
        a = a.astype(np.float32)
    r = kernel(a, dim)
    return r if r.dtype is target else r.astype(target)


def _to_input(grad: Tensor, dtype: Any) -> Tensor:
    """Gradient in the input's dtype (``dtype=`` may have made the result wider)."""
    return grad if grad.k.dtype is dtype else grad.to(dtype)


def _softmax_out(g: Tensor, grad: Tensor, out: Tensor, dim: int) -> Tensor:
    s = (grad * out).sum(dim, True)
    return g * (grad - s) - grad * (g * out).sum(dim, True)


@op(
    "softmax_backward(T grad, T out_, int dim)",
    ns="_C",
    half="f32",
    node="SoftmaxBackwardDataBackward0",
    grad={
        "grad": lambda g, out_, dim: softmax_backward(g, out_, dim),
        "out_": lambda g, grad, out_, dim: _softmax_out(g, grad, out_, dim),
    },
)
def softmax_backward(g: np.ndarray, y: np.ndarray, dim: int) -> Any:
    """Gradient of softmax's input from the gradient and value of its result."""
    return K.softmax_backward(g, y, dim)


@op(
    "log_softmax_backward(T grad, T out_, int dim)",
    ns="_C",
    half="f32",
    node="LogSoftmaxBackwardDataBackward0",
    grad={
        "grad": lambda g, out_, dim: g - (g * out_.exp()).sum(dim, True),
        "out_": lambda g, grad, out_, dim: -(g * out_.exp()) * grad.sum(dim, True),
    },
)
def log_softmax_backward(g: np.ndarray, y: np.ndarray, dim: int) -> Any:
    """Gradient of log_softmax's input from the gradient and value of its result."""
    return K.log_softmax_backward(g, y, dim)


def _forms(name: str, kernel: Any, backward: Any, log: bool, formula: str) -> Any:
    """The rows of ``name``: the torch function and Tensor method, and the nn.functional form whose dim may be left
    out (``_stacklevel`` is part of torch's signature). Returns the first."""

    def plain(a: np.ndarray, dim: int, dtype: Any) -> Any:
        if dtype is None and a.dtype is F32 and -a.ndim <= dim < a.ndim:
            return K.run(a, dim, log)
        return _forward(name, kernel, a, _dim(name, dim, a.ndim), dtype)

    def functional(a: np.ndarray, dim: int | None, _stacklevel: int, dtype: Any) -> Any:
        if dtype is None and a.dtype is F32 and dim is not None and -a.ndim <= dim < a.ndim:
            return K.run(a, dim, log)
        if dim is None:
            implicit_dim(name, a.ndim)
        return _forward(name, kernel, a, _dim(name, dim, a.ndim), dtype)

    def rule(g: Tensor, out: Tensor, dim: int | None, input_dtype: Any) -> Tensor:
        return _to_input(backward(g, out, _dim(name, dim, out.ndim)), input_dtype)

    plain.__doc__ = f"{formula} over dim, in dtype when given."
    functional.__doc__ = f"{name} over dim; without dim PyTorch's choice, with its warning."
    sig = f"{name}(T input, int dim, any dtype=None)"
    first = op(sig, ns="torch Tensor", half="native", out=True, grad={"input": rule})(plain)
    sig = f"{name}(T input, int? dim=None, int _stacklevel=3, any dtype=None)"
    op(sig, ns="F", half="native", grad={"input": rule})(functional)
    return first


softmax = _forms("softmax", K.softmax, softmax_backward, False, "exp(x) / sum(exp(x))")
log_softmax = _forms("log_softmax", K.log_softmax, log_softmax_backward, True, "x - log(sum(exp(x)))")


@composite("softmin(T input, int? dim=None, int _stacklevel=3, any dtype=None)", ns="F")
def softmin(input: Tensor, dim: int | None, _stacklevel: int, dtype: Any) -> Tensor:
    """softmax of -x (``_stacklevel`` is part of torch's signature)."""
    if dim is None:
        dim = implicit_dim("softmin", input.ndim)
    return softmax(-input, dim, dtype)


@composite("gumbel_softmax(T logits, N tau=1, bool hard=False, N eps=1e-10, int dim=-1)", ns="F")
def gumbel_softmax(logits: Tensor, tau: float, hard: bool, eps: float, dim: int) -> Tensor:
    """Sample of the Gumbel-softmax distribution; ``hard`` gives one-hot values with the soft gradient."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    noise = -logits.new_empty(logits.shape).exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = logits.new_zeros(logits.shape).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
