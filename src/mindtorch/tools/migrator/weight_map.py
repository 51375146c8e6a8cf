"""Weights of a PyTorch network as a checkpoint for a MindSpore network: name maps, conversion, loading.

MindSpore is needed only by `convert_weight_and_load` and where a MindSpore network is given; PyTorch nowhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pprint import pprint
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.engine.mindspore import door
from mindtorch.formats import ckpt, pth_arrays, weights
from mindtorch.formats.files import atomic_write
from mindtorch.tools import frameworks
from mindtorch.tools import rules as _rules
from mindtorch.tools.convert_tensor import _array_of_pytorch
from mindtorch.tools.migrator.tables import conversion_table
from mindtorch.tools.naming import LAYERS, kinds_of
from mindtorch.tools.values import is_tensor

WeightMap = tuple[dict[str, str], dict[str, str]]


def _must_be(value: Any, name: str, *types: type) -> None:
    if value is not None and not isinstance(value, types):
        wanted = " or ".join(t.__name__ for t in types)
        raise TypeError(f"the parameter {name!r} must be {wanted}, got {type(value).__name__}")


def _folder_of(path: Any, name: str) -> None:
    folder = os.path.dirname(os.fspath(path)) if path is not None else ""
    if folder and not os.path.isdir(folder):
        raise ValueError(f"the folder of {name!r} does not exist: {folder}")


def _atomic_text(path: Any, text: str) -> None:
    with atomic_write(os.fspath(path)) as file:
        file.write(text.encode())


# ------------------------------------------------------------------------------------------ the map


def get_weight_map(
    pt_net: Any = None,
    weight_map_save_path: Any = None,
    weight_name_prefix: str | None = None,
    custom_name_func: Callable[[dict[str, str]], dict[str, str]] | None = None,
    print_map: bool = False,
    **kwargs: Any,
) -> WeightMap:
    """``(name_map, value_map)`` from the state dict of a PyTorch or mindtorch network to ``mindspore.nn`` layers.

    ``name_map`` has every name of the state dict, ``value_map`` the weights of Conv1d, which get a dimension more.
    ``weight_name_prefix`` goes before every new name, ``custom_name_func`` gets and returns the name map. The pair is
    saved as JSON at ``weight_map_save_path`` and printed with ``print_map``. TypeError when ``pt_net`` is no Module.
    """
    net = kwargs.pop("pt_model", None)
    if net is not None:
        log.ignored("get_weight_map", "pt_net", "the older name pt_model was given")
    pt_net = net if net is not None else pt_net
    if kwargs:
        raise TypeError(f"get_weight_map got an unexpected keyword argument {next(iter(kwargs))!r}")
    if frameworks.frame_of(pt_net) is None:
        raise TypeError(f"the parameter 'pt_net' must be torch.nn.Module, got {type(pt_net).__name__}")
    if custom_name_func is not None and not callable(custom_name_func):
        raise TypeError("the parameter 'custom_name_func' must be a function")
    _must_be(weight_name_prefix, "weight_name_prefix", str)
    _must_be(print_map, "print_map", bool)
    _folder_of(weight_map_save_path, "weight_map_save_path")
    kinds = kinds_of(pt_net)
    names: dict[str, str] = {}
    values: dict[str, str] = {}
    for name in pt_net.state_dict():
        prefix, _, leaf = name.rpartition(".")
        kind = kinds.get(prefix, "keep")
        new = LAYERS[kind].get(leaf, leaf)
        names[name] = f"{prefix}.{new}" if prefix else new
        if kind == "Conv1d" and leaf == "weight":
            values[name] = _rules.CONV1D
    if weight_name_prefix:
        names = {k: f"{weight_name_prefix}.{v}" for k, v in names.items()}
    if custom_name_func is not None:
        names = custom_name_func(names)
    if print_map:
        pprint(names)
        pprint(values)
    if weight_map_save_path is not None:
        _atomic_text(weight_map_save_path, json.dumps([names, values]))
    return names, values


# ------------------------------------------------------------------------------------------ conversion


def _array(name: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    if not is_tensor(value):
        raise ValueError(
            f"the weights hold {name!r} of type {type(value).__name__}: only state dicts (names and tensors) are "
            "converted, no optimizer states. Pass the inner state dict as 'pt_param_dict'"
        )
    if not type(value).__module__.startswith("mindtorch"):
        return _array_of_pytorch(value)
    from mindtorch.core.tensor import values

    return values(value.detach().resolve_conj().resolve_neg())


def _weights_of_file(path: Any) -> dict[str, Any]:
    try:
        return weights.read(path).values
    except ValueError as e:
        raise ValueError(
            f"{os.fspath(path)}: {e}. Or load it yourself and pass the state dict as 'pt_param_dict'"
        ) from None


def _one_of(path: Any, path_name: str, other: Any, other_name: str) -> None:
    if other is not None and path is not None:
        log.ignored("convert_weight", path_name, f"{other_name} was given too, and is used")
    if other is None:
        if path is None:
            raise ValueError(f"one of {path_name!r} and {other_name!r} must be given")
        if not os.path.isfile(path):
            raise ValueError(f"{path_name!r} is no file: {path}")


def read_map(weight_map_path: Any = None, weight_map: Any = None) -> _rules.Rules:
    """Rules from a map file or a map. ValueError when it is none."""
    if weight_map is not None:
        return _rules.parse(list(weight_map))
    return _rules.load(weight_map_path)


def converted(
    chosen: _rules.Rules, params: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], list[tuple[str, str, str, tuple[int, ...], tuple[int, ...]]]]:
    """The weights under their new names, and the rows of the conversion table. ValueError when map and weights differ."""
    missing = [k for k in params if k not in chosen.names]
    unwanted = [k for k in chosen.names if k not in params]
    if missing or unwanted:
        raise ValueError(
            "the weight map does not belong to these weights; make it with get_weight_map from the same network."
            + (f" It lacks {missing[:20]}." if missing else "")
            + (f" It names {unwanted[:20]}, which the weights do not have." if unwanted else "")
        )
    arrays = {k: _array(k, v) for k, v in params.items()}
    made = _rules.plan(arrays, "keep", chosen)
    result = _rules.apply(arrays, made, chosen)
    rows = []
    for old, array in arrays.items():
        new = made.names[old]
        if new is not None:
            rows.append((old, new, _status(old, new, old in chosen.values), array.shape, result[new].shape))
    return result, rows


def _status(old: str, new: str, value: bool) -> str:
    """How TroubleShooter's table words what became of a weight."""
    if old == new:
        return "Value converted" if value else "Consistent"
    (a, _, x), (b, _, y) = old.rpartition("."), new.rpartition(".")
    text = f"{x}->{y}" if a == b and x != y else "Name converted"
    return f"{text}; Value converted" if value else text


def convert_weight(
    weight_map_path: Any = None,
    pt_file_path: Any = None,
    ms_file_save_path: Any = None,
    *,
    pt_param_dict: Mapping[str, Any] | None = None,
    weight_map: WeightMap | None = None,
    print_conv_info: bool = True,
    print_save_path: bool = True,
) -> None:
    """Write the weights of a PyTorch file as a MindSpore checkpoint, named by a map of `get_weight_map`.

    Instead of the files, ``weight_map`` (the pair) and ``pt_param_dict`` (a state dict of PyTorch or mindtorch) may be
    given. ``print_conv_info`` prints a table of the weights, ``print_save_path`` a line with the path. ValueError when
    map and weights do not have the same names, or the file holds more than a state dict or a module.
    """
    _one_of(weight_map_path, "weight_map_path", weight_map, "weight_map")
    _one_of(pt_file_path, "pt_file_path", pt_param_dict, "pt_param_dict")
    _must_be(print_conv_info, "print_conv_info", bool)
    _must_be(print_save_path, "print_save_path", bool)
    if ms_file_save_path is None:
        raise ValueError("'ms_file_save_path' must be given")
    _folder_of(ms_file_save_path, "ms_file_save_path")
    params = pt_param_dict if pt_param_dict is not None else _weights_of_file(pt_file_path)
    result, rows = converted(read_map(weight_map_path, weight_map), params)
    ckpt.write(ms_file_save_path, result)
    if print_conv_info:
        print(conversion_table(rows))
    if print_save_path:
        print(f"The weights were converted to a MindSpore checkpoint: {os.fspath(ms_file_save_path)}")


def convert_weight_and_load(weight_map_path: Any, pt_file_path: Any, net: Any) -> None:
    """Convert the weights of a PyTorch file by a map and load them into a MindSpore network (``mindspore.nn.Cell``).

    Prints the table of the conversion. Needs MindSpore. TypeError when ``net`` is no Cell; weights that the network
    does not have are named in a warning, as are its parameters that got none.
    """
    ms = door.program()

    if not isinstance(net, ms.nn.Cell):
        raise TypeError(f"the parameter 'net' must be mindspore.nn.Cell, got {type(net).__name__}")
    _one_of(weight_map_path, "weight_map_path", None, "weight_map")
    _one_of(pt_file_path, "pt_file_path", None, "pt_param_dict")
    result, rows = converted(read_map(weight_map_path), _weights_of_file(pt_file_path))
    print(conversion_table(rows))
    ms.load_param_into_net(net, {k: ms.Parameter(_tensor(ms, v), name=k) for k, v in result.items()})


def _tensor(ms: Any, a: np.ndarray) -> Any:
    if a.dtype.name == "bfloat16":
        return ms.Tensor(a.astype(np.float32)).astype(ms.bfloat16)
    return ms.Tensor(np.ascontiguousarray(a))


# ------------------------------------------------------------------------------------------ what a network is


def save_net_and_weight_params(net: Any, path: Any = None, weight_params_filename: str | None = None) -> None:
    """Write a network's weights and its printed structure into a folder (made if need be; the current one by default).

    A PyTorch or mindtorch network gives ``torch_troubleshooter_create.pth``, ``torch_net_map.json`` (see
    `get_weight_map`) and ``torch_net_architecture.txt``; a MindSpore network ``mindspore_troubleshooter_create.ckpt``
    and ``mindspore_net_architecture.txt``. ``weight_params_filename`` replaces the first name. ValueError for others.
    """
    folder = os.fspath(path) if path is not None else os.getcwd()
    frame = frameworks.frame_of(net)
    cell = frame is None and any(
        c.__module__.startswith("mindspore.") and c.__name__ == "Cell" for c in type(net).__mro__
    )
    if frame is None and not cell:
        raise ValueError(
            f"the parameter 'net' must be 'mindspore.nn.Cell' or 'torch.nn.Module', got {type(net).__name__}"
        )
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if cell:
        ms = door.program()

        name = weight_params_filename or "mindspore_troubleshooter_create.ckpt"
        ms.save_checkpoint(net, os.path.join(folder, name))
        _atomic_text(os.path.join(folder, "mindspore_net_architecture.txt"), f"{net}\n")
        return
    state = {k: _array(k, v) for k, v in net.state_dict().items()}
    pth_arrays.write(os.path.join(folder, weight_params_filename or "torch_troubleshooter_create.pth"), state)
    get_weight_map(net, weight_map_save_path=os.path.join(folder, "torch_net_map.json"))
    _atomic_text(os.path.join(folder, "torch_net_architecture.txt"), f"{net}\n")
