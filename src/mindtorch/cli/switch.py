"""What ``import torch`` means in this process: PyTorch, or mindtorch under PyTorch's name.

While the switch is on, a finder that comes first in ``sys.meta_path`` answers for torch, torchvision and torchaudio:
``sys.modules["torch.nn"]`` then *is* ``mindtorch.torch.nn``. Children started with PYTHONPATH and MINDTORCH_SWITCH=1 as
set by `inherit` switch themselves on when they start.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

FAMILY = ("torch", "torchvision", "torchaudio")
VERSIONS = {"torch": "2.13.0", "torchvision": "0.28.0"}
"""Releases whose behaviour is followed; ``importlib.metadata`` answers them while the switch is on."""

_stack: list[bool] = []
_away: dict[bool, dict[str, ModuleType]] = {}


def _top(name: str) -> str:
    return name.partition(".")[0]


def _home(name: str) -> str:
    """Where mindtorch keeps the module that a program imports as ``name``."""
    if name == "troubleshooter":
        return "mindtorch.tools.troubleshooter"
    if _top(name) == "safetensors":
        return f"mindtorch.tools.{name}"
    return f"mindtorch.tools.{name.partition('.')[2]}" if _top(name) == "troubleshooter" else f"mindtorch.{name}"


class _Loader:
    """Gives an import of ``torch.x`` the module ``mindtorch.torch.x``."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The one module of both names."""
        module = importlib.import_module(_home(spec.name))
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already; the import system has replaced its spec, which relative imports inside it rely on."""
        module.__spec__ = self.spec

    def get_code(self, name: str) -> Any:
        """Code of the module, for ``-m torch.utils.bottleneck`` and the like."""
        spec = importlib.util.find_spec(_home(name))
        return None if spec is None else spec.loader.get_code(spec.name)  # type: ignore[union-attr]


class _Distribution(importlib.metadata.Distribution):
    """Metadata of a package that mindtorch stands in for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        """Name and version."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {VERSIONS[self._name]}\n"

    def locate_file(self, path: Any) -> Any:
        """Where a file of the package would be."""
        return os.path.join(os.path.dirname(os.path.dirname(__file__)), self._name, os.fspath(path))


def _asked_by_find_spec() -> bool:
    """Whether ``importlib.util.find_spec`` is asking, which wants None for a missing module, not an error."""
    frame: Any = sys._getframe(2)
    for _ in range(3):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") == "importlib.util":
            return True
        frame = frame.f_back
    return False


def _ours(name: str) -> Any:
    """Spec of ``mindtorch.<name>``, None when there is none. A parent may make its submodules when it is imported."""
    parent = name.rpartition(".")[0]
    try:
        if parent:
            importlib.import_module(f"mindtorch.{parent}")
        return importlib.util.find_spec(f"mindtorch.{name}")
    except ModuleNotFoundError as e:
        if e.name is not None and f"mindtorch.{name}".startswith(e.name):
            return None
        raise


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _remedy(name: str) -> str:
    """What a package says about a part of it that is absent, or about the package that is absent itself."""
    parent, _, last = name.rpartition(".")
    reasons = getattr(sys.modules.get(f"mindtorch.{parent}"), "_ABSENT", {})
    return f": {reasons[last]}" if last in reasons else ""


class _Finder:
    """Answers for the torch family."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A spec for a module that mindtorch has; ModuleNotFoundError with the reason for one that it has not."""
        if _top(name) == "troubleshooter":
            # The package itself cannot run on mindtorch; its functions are in our tools.
            return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True) if _exists(_home(name)) else None
        if _top(name) not in FAMILY:
            return None
        real = _ours(name)
        if real is None:
            if _asked_by_find_spec():
                return None
            raise ModuleNotFoundError(
                f"No module named '{name}': this program runs on mindtorch, which has no {name}{_remedy(name)}", name=name
            )
        spec = importlib.machinery.ModuleSpec(
            name, _Loader(), origin=real.origin, is_package=real.submodule_search_locations is not None
        )
        spec.has_location = real.has_location
        spec.submodule_search_locations = real.submodule_search_locations
        return spec

    def find_distributions(self, context: Any = None) -> Iterator[_Distribution]:
        """Metadata of the packages that are stood in for."""
        wanted = getattr(context, "name", None)
        for name in VERSIONS:
            if wanted == name and importlib.util.find_spec(f"mindtorch.{name}") is not None:
                yield _Distribution(name)

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


class _StandIn:
    """Comes last in ``sys.meta_path``: answers for safetensors when that package is not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A spec for what our tools have of it."""
        if _top(name) != "safetensors" or not _exists(_home(name)):
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(), is_package=name == "safetensors")

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


_finder = _Finder()
_stand_in = _StandIn()


def active() -> bool:
    """Whether ``import torch`` means mindtorch."""
    return _finder in sys.meta_path


def real_torch() -> ModuleType | None:
    """The real PyTorch, when it is loaded under its name."""
    module = sys.modules.get("torch")
    name = getattr(module, "__name__", "")
    return module if module is not None and not name.startswith("mindtorch.") else None


def away_torch() -> ModuleType | None:
    """The real PyTorch when it is loaded but set aside, because ``import torch`` means mindtorch now."""
    return _away.get(False, {}).get("torch")


def _users_of(module: ModuleType) -> list[str]:
    """Modules outside the family that already hold ``module``."""
    found = []
    for name, other in list(sys.modules.items()):
        if (
            _top(name) not in (*FAMILY, "mindtorch", "__main__")
            and getattr(other, "__dict__", {}).get("torch") is module
        ):
            found.append(name)
    return found


def _set(on: bool) -> None:
    """Exchange the family's entries of ``sys.modules`` for those of the other side, and place or remove the finder."""
    if on == active():
        return
    _away[not on] = {n: sys.modules.pop(n) for n in list(sys.modules) if _top(n) in FAMILY}
    sys.modules.update(_away.pop(on, {}))
    if on:
        sys.meta_path.insert(0, _finder)  # type: ignore[arg-type]
        sys.meta_path.append(_stand_in)  # type: ignore[arg-type]
    else:
        sys.meta_path.remove(_finder)  # type: ignore[arg-type]
        sys.meta_path.remove(_stand_in)  # type: ignore[arg-type]
        for name in [n for n, m in sys.modules.items() if _top(n) == "safetensors" and m.__name__.startswith("mindtorch.")]:
            del sys.modules[name]


def torch_disable() -> None:
    """From here on ``import torch`` means mindtorch (PyTorch is "disabled"). `torch_pop` goes back."""
    _stack.append(active())
    real = real_torch()
    if real is not None:
        users = _users_of(real)
        if users:
            from mindtorch import log

            shown = ", ".join(users[:5]) + (", ..." if len(users) > 5 else "")
            log.once(
                logging.WARNING, f"these modules were imported before the switch and keep the real PyTorch: {shown}"
            )
    _set(True)


def torch_enable() -> None:
    """From here on ``import torch`` means the real PyTorch. `torch_pop` goes back."""
    _stack.append(active())
    _set(False)


def torch_pop() -> None:
    """Undo the last `torch_disable` or `torch_enable`. RuntimeError when there is none."""
    if not _stack:
        raise RuntimeError("torch_pop: there is no torch_enable or torch_disable to undo")
    _set(_stack.pop())


def install() -> None:
    """Switch a program on at its start. ImportError when the real PyTorch is loaded already: that is an accident."""
    real = real_torch()
    if real is not None:
        raise ImportError(
            f"the real PyTorch is loaded already (from {getattr(real, '__file__', '?')}), so 'import torch' cannot "
            "mean mindtorch any more. Switch before the first import of torch: put 'from mindtorch.tools import "
            "mstorch_enable' first in the main file, or run 'python -m mindtorch script.py'. To use both in one "
            "process call mindtorch.torch_disable() and mindtorch.torch_pop()."
        )
    _set(True)


def inherit() -> None:
    """Make Python processes started from here on (spawned workers, subprocesses) switch themselves on."""
    os.environ["MINDTORCH_SWITCH"] = "1"
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.environ.get("PYTHONPATH") else []
    if here not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *paths])


def disinherit() -> None:
    """Undo `inherit`."""
    os.environ.pop("MINDTORCH_SWITCH", None)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != here]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)
