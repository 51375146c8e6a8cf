"""The list of models by name, and the files of their published weights."""

from __future__ import annotations

import fnmatch
import functools
import os
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import mindtorch.torch as torch

MODELS: dict[str, Callable[..., Any]] = {}


class WeightsEnum(Enum):
    """Names of published weights. They are read from files that were fetched before: nothing is downloaded."""

    @property
    def url(self) -> str:
        """Where the weights are published."""
        return f"https://download.pytorch.org/models/{self.value}"

    def get_state_dict(self, progress: bool = True, check_hash: bool = False) -> Any:
        """The weights from the file in ``torch.hub.get_dir()/checkpoints``. RuntimeError when it is not there."""
        path = os.path.join(torch.hub.get_dir(), "checkpoints", self.value)
        if not os.path.exists(path):
            raise RuntimeError(
                f"{self} cannot be downloaded by mindtorch. Fetch {self.url} yourself and save it as {path}; or make the "
                "model with weights=None and load the file: model.load_state_dict(torch.load(file))"
            )
        return torch.hub.load_state_dict_from_url(self.url, progress=progress, check_hash=check_hash, weights_only=True)

    @classmethod
    def verify(cls, obj: Any) -> Any:
        """``obj`` as a member of this enum: a member, its name, or None. TypeError for something else."""
        if obj is None or isinstance(obj, cls):
            return obj
        if isinstance(obj, str):
            return cls[obj.replace(cls.__name__ + ".", "")]
        raise TypeError(f"Invalid Weight class provided; expected {cls.__name__} but received {type(obj).__name__}.")


def weights_enum(name: str, **files: str) -> type[WeightsEnum]:
    """An enum of weights: member name to published file. DEFAULT is the newest for images of ImageNet."""
    best = [file for member, file in files.items() if member.startswith("IMAGENET1K_V")][-1]
    members = {**files, "DEFAULT": best}
    return WeightsEnum(name, members)  # type: ignore[return-value,arg-type]


def register(weights: type[WeightsEnum]) -> Callable[[Callable], Callable]:
    """Put a model builder on the list; its ``weights`` come from a file (the older ``pretrained`` is understood)."""

    def wrap(build: Callable) -> Callable:
        @functools.wraps(build)
        def builder(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> Any:
            if "pretrained" in kwargs:
                warnings.warn(
                    "The parameter 'pretrained' is deprecated, please use 'weights' instead.", UserWarning, stacklevel=2
                )
                weights = kind.DEFAULT if kwargs.pop("pretrained") else weights  # type: ignore[attr-defined]
            chosen = kind.verify(weights)
            if chosen is None:
                return build(**kwargs)
            if kwargs.setdefault("num_classes", 1000) != 1000:
                raise ValueError(
                    f"The parameter 'num_classes' expected value 1000 but got {kwargs['num_classes']} instead."
                )
            state = chosen.get_state_dict(progress=progress, check_hash=True)
            model = build(**kwargs)
            model.load_state_dict(state)
            return model

        kind = weights
        builder.weights = weights  # type: ignore[attr-defined]
        MODELS[build.__name__] = builder
        return builder

    return wrap


def list_models(
    module: Any = None, include: str | Iterable[str] | None = None, exclude: str | Iterable[str] | None = None
) -> list[str]:
    """Names of all models (of one module), by shell patterns."""
    names = [
        name
        for name, build in MODELS.items()
        if module is None or build.__module__.rsplit(".", 1)[0] == module.__name__
    ]

    def matches(name: str, patterns: str | Iterable[str]) -> bool:
        return any(fnmatch.fnmatch(name, p) for p in ([patterns] if isinstance(patterns, str) else patterns))

    if include:
        names = [n for n in names if matches(n, include)]
    if exclude:
        names = [n for n in names if not matches(n, exclude)]
    return sorted(names)


def get_model_builder(name: str) -> Callable[..., Any]:
    """The function that builds model ``name``. ValueError for an unknown name."""
    try:
        return MODELS[name.lower()]
    except KeyError:
        raise ValueError(f"Unknown model {name}") from None


def get_model(name: str, **config: Any) -> Any:
    """Build model ``name``."""
    return get_model_builder(name)(**config)


def get_model_weights(name: Any) -> type[WeightsEnum]:
    """The weights enum of a model, by its name or builder."""
    return (name if callable(name) else get_model_builder(name)).weights


def get_weight(name: str) -> WeightsEnum:
    """A member by its full name, such as "ResNet18_Weights.DEFAULT"."""
    kind, _, member = name.partition(".")
    for build in MODELS.values():
        if build.weights.__name__ == kind:  # type: ignore[attr-defined]
            return build.weights[member]  # type: ignore[attr-defined]
    raise ValueError(f"The weight enum '{kind}' for the specific method couldn't be retrieved.")
