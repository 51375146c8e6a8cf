"""Public functions travel by name: networks that hold one as an attribute are saved whole and read by both frameworks."""

from __future__ import annotations

import copy
import io
import pickle
import types

import pytest

import mindtorch.torch as mt
import torch

PLACES = ["torch", "nn.functional", "linalg", "special", "fft"]
# Functions that are not the module's own attribute of that name (shared aliases and in-place twins of F only).
SHARED = {"adjoint", "threshold_", "leaky_relu_"}
ACTIVATIONS = ["relu", "gelu", "silu", "softplus", "leaky_relu", "logsigmoid", "hardtanh", "tanh"]


@pytest.mark.parametrize("place", PLACES)
def test_public_functions_pickle_by_name(place):
    module = mt
    for part in place.split(".") if place != "torch" else ():
        module = getattr(module, part)
    functions = {n: f for n, f in vars(module).items() if isinstance(f, types.FunctionType) and n[0] != "_" and n not in SHARED}
    assert len(functions) > 15
    assert [n for n, f in functions.items() if pickle.loads(pickle.dumps(f)) is not f] == []


def layer(lib, name):
    return lib.nn.TransformerEncoderLayer(4, 2, 8, activation=getattr(lib.nn.functional, name), batch_first=True).eval()


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(("writer", "reader"), [(torch, mt), (mt, torch), (mt, mt)], ids=["theirs", "ours", "back"])
def test_whole_network_with_a_function(writer, reader, name):
    net = layer(writer, name)
    file = io.BytesIO()
    writer.save(net, file)
    file.seek(0)
    got = reader.load(file, weights_only=False)
    assert type(got) is reader.nn.TransformerEncoderLayer
    x = [[[0.5, -1.0, 2.0, 0.1], [1.0, 0.3, -0.7, 0.9]]]
    want = net(writer.tensor(x)).detach().numpy()
    assert abs(got(reader.tensor(x)).detach().numpy() - want).max() < 1e-5
    assert copy.deepcopy(got).activation is got.activation
