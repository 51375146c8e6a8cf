"""``torch.hub`` for local repositories. Nothing is downloaded: what is not on disk raises and says how to get it."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

from mindtorch import log
from mindtorch.torch.serialization import load as _load

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_dir: str | None = None


def get_dir() -> str:
    """The folder of downloaded files: ``$TORCH_HOME/hub``, by default ``~/.cache/torch/hub``."""
    if _dir is not None:
        return _dir
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Change `get_dir`."""
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


def _module(repo: str, source: str = "local") -> Any:
    if not os.path.isdir(os.path.expanduser(repo)):
        raise RuntimeError(
            f"torch.hub: {repo!r} (source={source!r}) is not a folder, and mindtorch downloads nothing. "
            "Clone the repository and pass its path with source='local'."
        )
    repo = os.path.expanduser(repo)
    path = os.path.join(repo, "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError(f"torch.hub: the repository {repo} has no hubconf.py")
    sys.path.insert(0, repo)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"torch.hub: cannot import {path}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(repo)
    missing = [d for d in getattr(module, "dependencies", []) if importlib.util.find_spec(d) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: Any, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def _unused(function: str, **given: Any) -> None:
    """Say that settings of a download are not needed."""
    defaults = {"force_reload": False, "skip_validation": False, "trust_repo": "check", "verbose": True}
    reason = "nothing is downloaded, so that the folder is read as it is"
    log.without_effect(f"torch.hub.{function}", reason, **{name: (value, defaults[name]) for name, value in given.items()})


def list(  # noqa: A001 - public name
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> Any:
    """Entry points of a local repository."""
    _unused("list", force_reload=force_reload, skip_validation=skip_validation, trust_repo=trust_repo, verbose=verbose)
    module = _module(github)
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(  # noqa: A001 - public name
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check"
) -> Any:
    """The docstring of an entry point of a local repository."""
    _unused("help", force_reload=force_reload, skip_validation=skip_validation, trust_repo=trust_repo)
    return _entry(_module(github), model).__doc__


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call entry point ``model`` of the repository in folder ``repo_or_dir``. RuntimeError when it is no folder."""
    if source.lower() not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    _unused("load", force_reload=force_reload, skip_validation=skip_validation, trust_repo=trust_repo, verbose=verbose)
    return _entry(_module(repo_or_dir, source), model)(*args, **kwargs)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Raises: nothing is downloaded."""
    raise RuntimeError(f"torch.hub: mindtorch downloads nothing; fetch {url} yourself and save it as {dst}")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """The checkpoint of that file name in ``model_dir`` (default ``get_dir()/checkpoints``); it must be there."""
    why = "nothing is downloaded, so that there is no progress to show and no file name to check against"
    log.without_effect("torch.hub.load_state_dict_from_url", why, progress=(progress, True), check_hash=(check_hash, False))
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    path = os.path.join(folder, file_name or os.path.basename(url.partition("?")[0]))
    if not os.path.exists(path):
        download_url_to_file(url, path)
    return _load(path, map_location=map_location, weights_only=weights_only)
