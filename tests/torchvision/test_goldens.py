"""Transforms, box operations, grids and models against what torchvision gave (goldens, see record_goldens.py)."""

import json
import pathlib

import numpy as np
import pytest

import cases
import mindtorch.torch as torch
import mindtorch.torchvision as tv

HERE = pathlib.Path(__file__).parent
FACTS = json.loads((HERE / "goldens.json").read_text())
with np.load(HERE / "goldens.npz") as stored:
    GOLDENS = cases.unpack(json.loads(str(stored["index"])), stored["block"])

pytestmark = pytest.mark.filterwarnings("ignore")


def compare(name, mine):
    """Bytes may differ by one where a tensor is resampled (rounding of a last float bit); floats by 1e-5."""
    golden = GOLDENS[name]
    assert mine.dtype.kind == golden.dtype.kind and mine.shape == golden.shape, (name, mine, golden)
    if golden.dtype.kind in "US":
        assert str(mine) == str(golden), name
        return
    assert mine.dtype == golden.dtype, name
    if golden.dtype == np.uint8:
        off = np.abs(mine.astype(int) - golden.astype(int))
        assert off.max(initial=0) <= 1 and np.count_nonzero(off) <= max(2, golden.size // 50), name
    elif golden.dtype.kind == "f":
        np.testing.assert_allclose(mine, golden, rtol=1e-5, atol=2e-6, err_msg=name)
    else:
        np.testing.assert_array_equal(mine, golden, err_msg=name)


def groups(part):
    """Golden names by their first two dotted parts, so that a failure names the operation."""
    names = {}
    for name, _ in part:
        names.setdefault(".".join(name.split(".")[:2]), []).append(name)
    return names


@pytest.mark.parametrize("i", range(len(cases.FUNCTIONS) + len(cases.BYTE_ONLY)))
def test_functions(i, results):
    mine = results("function_results")
    for name in (n for n in GOLDENS if n.startswith(f"F{i}.")):
        compare(name, mine[name])


@pytest.mark.parametrize("i", range(len(cases.CLASSES) + len(cases.TENSOR_CLASSES)))
def test_classes_and_their_draws(i, results):
    mine = results("class_results")
    for name in (n for n in GOLDENS if n.startswith(f"T{i}.")):
        compare(name, mine[name])


@pytest.mark.parametrize(
    "part,prefix",
    [
        ("function_results", "mode."),
        ("function_results", "turn."),
        ("class_results", "some."),
        ("conversion_results", "to_tensor."),
        ("conversion_results", "pil_to_tensor."),
        ("conversion_results", "to_pil."),
        ("conversion_results", "convert."),
    ],
)
def test_groups(part, prefix, results):
    mine = results(part)
    for name in (n for n in GOLDENS if n.startswith(prefix)):
        compare(name, mine[name])


def test_ops_grids_fake_data(results):
    for name, value in results("other_results").items():
        compare(name, value)


@pytest.fixture(scope="module")
def results():
    made = {}

    def get(part):
        if part not in made:
            made[part] = dict(getattr(cases, part)(torch, tv))
        return made[part]

    return get


def test_reprs():
    mine = dict(cases.reprs(torch, tv))
    assert mine == FACTS["reprs"]


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnext50_32x4d", "vgg11_bn", "alexnet"])
def test_models(name):
    mine, golden = cases.model_facts(torch, tv, name), FACTS["models"][name]
    assert mine["count"] == golden["count"] and mine["keys"] == golden["keys"] and mine["repr"] == golden["repr"]
    assert mine["next"] == golden["next"]
    assert mine["sums"].keys() == golden["sums"].keys()
    for key, value in golden["sums"].items():
        np.testing.assert_allclose(mine["sums"][key], value, rtol=1e-4, atol=1e-2, err_msg=key)
    np.testing.assert_allclose(mine["output"], golden["output"], rtol=2e-3, atol=2e-4)
