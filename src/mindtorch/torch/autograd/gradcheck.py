"""``gradcheck`` and ``gradgradcheck``: gradients of the tape against finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch.torch as torch
from mindtorch import log
from mindtorch.core.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient is wrong."""


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _checked_inputs(inputs: tuple[Any, ...]) -> list[int]:
    """Positions of the inputs to be checked."""
    places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not places:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them has requires_grad=True."
        )
    for i in places:
        if inputs[i].dtype not in (torch.float64, torch.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex.",
                stacklevel=3,
            )
        if any(s == 0 and n > 1 for s, n in zip(inputs[i].stride(), inputs[i].shape)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0: gradcheck needs inputs without overlapping memory"
            )
    return places


def _differentiable(outputs: Any) -> list[Tensor]:
    return [o for o in _tuple(outputs) if isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex())]


def _numeric(fn: Callable[..., Any], inputs: tuple[Any, ...], x: Tensor, eps: float) -> list[Tensor]:
    """Finite differences: per output a matrix (elements of x, elements of output); complex x moves along both axes."""
    with torch.no_grad():
        outs = [o.clone() for o in _differentiable(fn(*inputs))]
        data = x.data
        steps = (eps, 1j * eps) if x.is_complex() else (eps,)
        results = [torch.zeros(len(steps), x.numel(), o.numel(), dtype=o.dtype) for o in outs]
        for n in range(x.numel()):
            at = tuple(int(i) for i in torch.unravel_index(torch.tensor(n), x.shape)) if x.dim() else ()
            before = data[at].item()
            for k, step in enumerate(steps):
                data[at] = before + step
                up = [o.clone() for o in _differentiable(fn(*inputs))]
                data[at] = before - step
                down = [o.clone() for o in _differentiable(fn(*inputs))]
                data[at] = before
                for r, u, d in zip(results, up, down):
                    r[k, n] = ((u - d) / (2 * eps)).reshape(-1)
    return results


def _expected(numeric: Tensor, unit: complex, x: Tensor, o: Tensor) -> Tensor:
    """The gradient that finite differences predict for cotangent ``unit`` at each output element."""
    if o.is_complex():
        along = [(p * unit.conjugate()).real for p in numeric]
    else:
        along = [p * unit.real for p in numeric]
    if x.is_complex():
        return torch.complex(along[0], along[1])
    return along[0]


def _analytic(
    fn: Callable[..., Any], inputs: tuple[Any, ...], x: Tensor, index: int, unit: complex
) -> tuple[Tensor, Any]:
    """Gradients of the tape for cotangent ``unit`` at each element of output ``index``: (elements of x, of output)."""
    with torch.enable_grad():
        out = _differentiable(fn(*inputs))[index]
    grads = torch.zeros(x.numel(), out.numel(), dtype=x.dtype)
    dtype = None
    if not out.requires_grad:
        return grads, dtype
    for j in range(out.numel()):
        cot = torch.zeros(out.numel(), dtype=out.dtype)
        cot[j] = unit if out.is_complex() else unit.real
        (g,) = torch.autograd.grad(out, x, cot.reshape(out.shape), retain_graph=True, allow_unused=True)
        if g is not None:
            if g.shape != x.shape:
                raise GradcheckError(f"grad has shape {tuple(g.shape)} for an input of shape {tuple(x.shape)}")
            dtype = g.dtype
            grads[:, j] = g.reshape(-1).to(x.dtype)
    return grads, dtype


def _check_one(fn: Any, inputs: tuple[Any, ...], i: int, o: dict[str, Any]) -> None:
    x = inputs[i]
    numeric = _numeric(fn, inputs, x, o["eps"])
    outs = _differentiable(fn(*inputs))
    for j, out in enumerate(outs):
        for unit in (1 + 0j, 1j) if out.is_complex() else (1 + 0j,):
            analytic, dtype = _analytic(fn, inputs, x, j, unit)
            again, _ = _analytic(fn, inputs, x, j, unit)
            if not torch.allclose(analytic, again, rtol=0, atol=o["nondet_tol"], equal_nan=True):
                raise GradcheckError(
                    f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    f"gives different values (output {j}, input {i}); the tolerance is nondet_tol={o['nondet_tol']}"
                )
            if o["check_grad_dtypes"] and dtype is not None and dtype != x.dtype:
                raise GradcheckError(f"the gradient of input {i} has dtype {dtype}, the input {x.dtype}")
            expected = _expected(numeric[j], unit, x, out).to(analytic.dtype)
            if not torch.allclose(analytic, expected, rtol=o["rtol"], atol=o["atol"], equal_nan=True):
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {i},\n"
                    f"numerical:{expected}\nanalytical:{analytic}\n"
                )


def _check_undefined(fn: Any, inputs: tuple[Any, ...], places: Sequence[int]) -> None:
    """Backward must accept outputs without gradient."""
    with torch.enable_grad():
        outs = [o for o in _differentiable(fn(*inputs)) if o.requires_grad]
    if len(outs) < 2:
        return
    for keep in outs:
        try:
            torch.autograd.grad(
                [keep], [inputs[i] for i in places], [torch.zeros_like(keep)], retain_graph=True, allow_unused=True
            )
        except Exception as e:
            raise GradcheckError(f"Expected backward function to handle undefined output grads: {e}") from e


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """True when the gradients of ``func`` at ``inputs`` (float64) agree with finite differences.

    GradcheckError otherwise (False with ``raise_exception=False``). The whole Jacobian is compared, also in fast mode.
    """
    if check_forward_ad or check_batched_forward_grad:
        raise RuntimeError("gradcheck: there is no forward-mode autograd here; leave check_forward_ad=False")
    if check_batched_grad:
        log.ignored(
            "gradcheck", "check_batched_grad", "vmap runs samples one by one, so batched gradients cannot differ"
        )
    log.without_effect("gradcheck", "the whole Jacobian is compared", quietly=True, fast_mode=(fast_mode, False))
    if masked:
        log.ignored("gradcheck", "masked", "it concerns sparse inputs")
    args = _tuple(inputs)
    options = {"eps": eps, "atol": atol, "rtol": rtol, "nondet_tol": nondet_tol, "check_grad_dtypes": check_grad_dtypes}
    try:
        places = _checked_inputs(args)
        outs = _differentiable(func(*args))
        if not outs or not any(o.requires_grad for o in outs):
            _no_graph(func, args, places, eps)
            return True
        if check_backward_ad:
            for i in places:
                _check_one(func, args, i, options)
        if check_undefined_grad:
            _check_undefined(func, args, places)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _no_graph(fn: Any, args: tuple[Any, ...], places: Sequence[int], eps: float) -> None:
    for i in places:
        for n in _numeric(fn, args, args[i], eps):
            if bool((n != 0).any()):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradient of ``func``: checks second derivatives."""
    args = _tuple(inputs)
    places = _checked_inputs(args)
    outs = [o for o in _differentiable(func(*args)) if o.requires_grad]
    if grad_outputs is None:
        made = []
        for o in outs:
            g = torch.testing.make_tensor(
                tuple(o.shape), dtype=o.dtype, device="cpu", low=-1, high=1, noncontiguous=gen_non_contig_grad_outputs
            )
            made.append(g.requires_grad_(True))
    else:
        made = [g for g in _tuple(grad_outputs) if g is not None]

    def gradient(*both: Any) -> Any:
        xs, gs = both[: len(args)], both[len(args) :]
        xs = tuple(
            x.requires_grad_() if i in places and isinstance(x, Tensor) and x.is_leaf else x for i, x in enumerate(xs)
        )
        with torch.enable_grad():
            ys = [o for o in _differentiable(func(*xs)) if o.requires_grad]
            grads = torch.autograd.grad(ys, [xs[i] for i in places], list(gs), create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        gradient,
        (*args, *made),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )
