"""``torch.jit``: scripted and traced functions and modules run as captured graphs; TorchScript files are refused."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Final

import mindtorch.torch as torch
from mindtorch import log
from mindtorch.torch.nn.modules.module import Module

__all__ = [
    "Final", "ScriptModule", "annotate", "export", "freeze", "fork", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "optimize_for_inference", "save", "script", "script_if_tracing", "script_method", "trace", "trace_module", "unused", "wait",
]  # fmt: skip


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """``obj`` (a function or Module) as a captured graph with its results; a class is returned as it is.

    A scripted module shares parameters, buffers and flags with ``obj`` and is an instance of its class.
    """
    log.without_effect(
        "torch.jit.script", "types are known when it is called", quietly=True, optimize=(optimize, None),
        example_inputs=(example_inputs, None),
    )  # fmt: skip
    if builtins.isinstance(obj, type):
        return obj
    if not callable(obj):
        raise TypeError(f"torch.jit.script: expected a function, class or Module, got {type(obj).__name__}")
    from mindtorch.graph.modules import scripted

    return scripted(obj)


def trace(func: Any, example_inputs: Any = None, **options: Any) -> Any:
    """``func`` as a captured graph, called once on ``example_inputs``. Branches stay alive: other inputs are captured anew.

    TypeError for options that PyTorch does not have.
    """
    unknown = sorted(set(options) - _TRACE_OPTIONS)
    if unknown:
        raise TypeError(f"trace() got an unexpected keyword argument {unknown[0]!r}")
    _say_ignored("trace", options)
    got = script(func)
    kwargs = options.get("example_kwarg_inputs")
    if kwargs is not None:
        got(**kwargs)
    elif example_inputs is not None:
        got(*_arguments(example_inputs))
    if options.get("check_trace", True):
        for args in options.get("check_inputs") or ():
            _check(func, got, _arguments(args), options.get("check_tolerance", 1e-5))
    return got


def _arguments(given: Any) -> tuple[Any, ...]:
    return tuple(given) if type(given) in (tuple, list) else (given,)


def _say_ignored(name: str, options: dict[str, Any]) -> None:
    """Options about the tracer itself, of which there is none: the graph is captured anew where a branch differs."""
    for option in ("strict", "_force_outplace", "_module_class", "_compilation_unit", "_store_inputs", "optimize"):
        if option in options and options[option] is not _TRACE_DEFAULTS.get(option):
            log.ignored(f"torch.jit.{name}", option, "the function is captured as it runs, and captured anew for other branches")


_TRACE_DEFAULTS = {"strict": True, "_force_outplace": False, "_store_inputs": True}


def _check(func: Any, traced: Any, args: tuple[Any, ...], tolerance: float) -> None:
    """RuntimeError when the captured function's results are not the function's within ``tolerance``."""
    from mindtorch.torch.testing import assert_close

    with torch.no_grad():
        traced(*args)  # captures the form, where it is new
        try:
            assert_close(traced(*args), func(*args), rtol=tolerance, atol=tolerance)
        except AssertionError as e:
            raise RuntimeError(f"torch.jit.trace: the traced function differs from the original on check_inputs: {e}") from None


_TRACE_OPTIONS = frozenset(
    "optimize check_trace check_inputs check_tolerance strict _force_outplace _module_class _compilation_unit "
    "example_kwarg_inputs _store_inputs".split()
)


def trace_module(mod: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """``mod`` as a captured graph, after one call of each method named in ``inputs``."""
    unknown = sorted(set(options) - _TRACE_OPTIONS)
    if unknown:
        raise TypeError(f"trace_module() got an unexpected keyword argument {unknown[0]!r}")
    _say_ignored("trace_module", options)
    got = script(mod)
    for name, args in inputs.items():
        call = got if name == "forward" else getattr(got, name)
        call(*_arguments(args))
        for more in (options.get("check_inputs") or ()) if options.get("check_trace", True) else ():
            if name in more:
                own = mod if name == "forward" else getattr(mod, name)
                _check(own, call, _arguments(more[name]), options.get("check_tolerance", 1e-5))
    return got


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` itself: nothing is traced."""
    return fn


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` itself."""
    return fn


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method for compilation: it stays an ordinary method."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a method that the compiler leaves alone; with or without parentheses."""
    return drop if callable(drop) else (lambda fn: fn)


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method that the compiler leaves out: it can still be called eagerly."""
    return fn


def interface(obj: Any) -> Any:
    """Mark a class as an interface: it stays an ordinary class."""
    return obj


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """``mod`` itself. RuntimeError in training mode, as in PyTorch."""
    if getattr(mod, "training", False):
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing.")
    log.without_effect(
        "torch.jit.freeze", "the module stays as it is", preserved_attrs=(preserved_attrs, None),
        optimize_numerics=(optimize_numerics, True),
    )  # fmt: skip
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """``mod`` itself."""
    log.without_effect("torch.jit.optimize_for_inference", "the module stays as it is", other_methods=(other_methods, None))
    return mod


def annotate(the_type: Any, the_value: Any) -> Any:
    """``the_value``: the type is for the compiler."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001 - public name
    """Whether ``obj`` is of ``target_type`` (a class or a tuple of classes; ``typing`` containers by their origin)."""
    import builtins
    import typing

    types = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return builtins.isinstance(obj, tuple(typing.get_origin(t) or t for t in types))


def is_scripting() -> bool:
    """False: code always runs eagerly."""
    return False


def is_tracing() -> bool:
    """False: code always runs eagerly."""
    return False


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``func`` at once and hold its result for ``wait``."""
    from mindtorch.torch.futures import Future

    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """The result of a ``fork``."""
    return future.wait()


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Refused: there is no compiled program to write."""
    raise RuntimeError("torch.jit.save: TorchScript programs cannot be written here; save the weights with torch.save(model.state_dict(), f)")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Refused: compiled programs cannot be run."""
    raise RuntimeError(
        "torch.jit.load: TorchScript programs cannot be run here; take the weights out with "
        "`python -m mindtorch convert IN.pt OUT.pth` (--list shows them) and load those into the model's class"
    )


class ScriptModule(Module):
    """Base class of modules meant for the compiler: an ordinary Module until it is given to ``script``."""


def __getattr__(name: str) -> Any:
    # These live in the room of graphs, which imports this file.
    if name in ("ScriptFunction", "RecursiveScriptModule"):
        from mindtorch.graph import modules

        return getattr(modules, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
