"""torchvision: data sets from local files and how damaged ones are reported, the list of models, saving images, bad
arguments."""

import gzip
import io
import json
import os
import pathlib
import pickle
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

import mindtorch.torch as torch
import mindtorch.torchvision as tv
from mindtorch.torchvision import datasets, models
from mindtorch.torchvision import transforms as T

FACTS = json.loads((pathlib.Path(__file__).parent / "goldens.json").read_text())


def write_idx(path, array, kind=0x08, zipped=False):
    data = struct.pack(">HBB", 0, kind, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    pathlib.Path(path).write_bytes(gzip.compress(data) if zipped else data)


@pytest.fixture
def digits(tmp_path):
    """A small MNIST: 6 training images as they are, 4 test images gzipped."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, n, zipped in (("train", 6, False), ("t10k", 4, True)):
        end = ".gz" if zipped else ""
        write_idx(raw / f"{part}-images-idx3-ubyte{end}", rng.integers(0, 256, (n, 28, 28), np.uint8), zipped=zipped)
        write_idx(raw / f"{part}-labels-idx1-ubyte{end}", (np.arange(n) % 10).astype(np.uint8), zipped=zipped)
    return tmp_path


@pytest.mark.parametrize("train", [True, False])
def test_mnist(digits, train):
    d = datasets.MNIST(
        str(digits), train=train, download=True, transform=T.ToTensor(), target_transform=lambda t: t + 100
    )
    assert len(d) == (6 if train else 4) and d.data.dtype == torch.uint8 and d.targets.dtype == torch.int64
    x, y = d[3]
    assert x.shape == (1, 28, 28) and y == 103 and torch.equal((x[0] * 255).round().to(torch.uint8), d.data[3])
    assert d.classes[3] == "3 - three" and d.class_to_idx["0 - zero"] == 0
    text = repr(d)
    assert f"Number of datapoints: {len(d)}" in text and f"Split: {'Train' if train else 'Test'}" in text
    loader = torch.utils.data.DataLoader(d, batch_size=2, num_workers=1)
    assert [b[1].tolist() for b in loader][0] == [100, 101]


def test_mnist_missing(tmp_path):
    for download in (False, True):
        with pytest.raises(RuntimeError, match="does not download") as caught:
            datasets.FashionMNIST(str(tmp_path), download=download)
        assert os.path.join(str(tmp_path), "FashionMNIST", "raw") in str(caught.value)


DAMAGE = [
    (lambda b: b[:-10], "cut off"),
    (lambda b: b + b"xx", "too long"),
    (lambda b: b[:2], "too few"),
    (lambda b: b"\x00\x00\x08\x03\x00", "header says 3 dimensions"),
    (lambda b: b"<html>not found</html>", "not an idx file"),
    (lambda b: gzip.compress(b)[:-20], "gzip data are damaged"),
    (lambda b: struct.pack(">HBBI", 0, 8, 1, 3) + b"abc", "expected bytes in 3 dimensions"),
    (lambda b: struct.pack(">HBB3I", 0, 8, 3, 2, 28, 28) + bytes(2 * 784), "do not belong together"),
]


@pytest.mark.parametrize("i", range(len(DAMAGE)))
def test_damaged_idx(digits, i):
    damage, text = DAMAGE[i]
    path = digits / "MNIST" / "raw" / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=text) as caught:
        datasets.MNIST(str(digits))
    assert str(path.parent) in str(caught.value)


@pytest.fixture
def cifar(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        entry = {"data": rng.integers(0, 256, (3, 3072), np.uint8), "labels": [1, 0, 2], "batch_label": name}
        (folder / name).write_bytes(pickle.dumps(entry, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["plane", "car", "bird"]}, protocol=2))
    return tmp_path


def test_cifar10(cifar):
    d = datasets.CIFAR10(str(cifar), train=True, transform=T.PILToTensor())
    assert len(d) == 15 and d.data.shape == (15, 32, 32, 3) and d.targets[:3] == [1, 0, 2]
    x, y = d[1]
    assert y == 0 and x.permute(1, 2, 0).numpy().tolist() == d.data[1].tolist()
    assert d.class_to_idx == {"plane": 0, "car": 1, "bird": 2} and "Split: Train" in repr(d)
    assert len(datasets.CIFAR10(str(cifar), train=False)) == 3


def test_cifar_archive(cifar, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    with tarfile.open(other / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(cifar / "cifar-10-batches-py", "cifar-10-batches-py")
    assert len(datasets.CIFAR10(str(other), download=True)) == 15
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(RuntimeError, match="cannot be downloaded"):
        datasets.CIFAR10(str(empty), download=True)
    with pytest.raises(RuntimeError, match="not found or corrupted"):
        datasets.CIFAR100(str(empty))
    (empty / "cifar-100-python.tar.gz").write_bytes(b"garbage")
    with pytest.raises(ValueError, match="archive is damaged"):
        datasets.CIFAR100(str(empty), download=True)


class Evil:
    def __reduce__(self):
        return os.system, ("echo evil",)


@pytest.mark.parametrize(
    "content,text",
    [
        (pickle.dumps(Evil()), "not a readable CIFAR file"),
        (b"garbage", "not a readable CIFAR file"),
        (pickle.dumps([1]), "expected a dict"),
        (pickle.dumps({"data": 1}), "expected entries"),
        (pickle.dumps({"data": np.zeros((2, 5), np.uint8), "labels": [1, 2]}), "3072 bytes"),
    ],
)
def test_damaged_cifar(cifar, content, text):
    path = cifar / "cifar-10-batches-py" / "test_batch"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=text) as caught:
        datasets.CIFAR10(str(cifar), train=False)
    assert str(path) in str(caught.value)


def test_image_folder(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name / "deep").mkdir(parents=True)
        for i in range(2):
            Image.fromarray(np.full((4, 5, 3), i * 50, np.uint8)).save(tmp_path / name / "deep" / f"{i}.png")
    (tmp_path / "cat" / "notes.txt").write_text("x")
    d = datasets.ImageFolder(str(tmp_path), transform=T.ToTensor())
    assert d.classes == ["cat", "dog"] and d.targets == [0, 0, 1, 1] and len(d) == 4 and d.imgs is d.samples
    x, y = d[3]
    assert x.shape == (3, 4, 5) and y == 1 and abs(x[0, 0, 0].item() - 50 / 255) < 1e-6
    texts = datasets.DatasetFolder(str(tmp_path), lambda p: open(p).read(), (".txt",), allow_empty=True)
    assert texts[0] == ("x", 0)
    with pytest.raises(FileNotFoundError, match="classes dog"):
        datasets.DatasetFolder(str(tmp_path), open, (".txt",))
    with pytest.raises(FileNotFoundError, match="class folder"):
        datasets.ImageFolder(str(tmp_path / "cat" / "deep"))
    with pytest.raises(ValueError):
        datasets.VisionDataset(str(tmp_path), transforms=abs, transform=abs)


def test_fake_data_leaves_the_stream_alone():
    d = datasets.FakeData(size=3, image_size=(3, 8, 8), transform=T.ToTensor())
    torch.manual_seed(0)
    expected = torch.rand(1).item()
    torch.manual_seed(0)
    x, y = d[1]
    assert torch.rand(1).item() == expected and x.shape == (3, 8, 8) and isinstance(y, int)
    assert torch.equal(d[1][0], x)
    with pytest.raises(IndexError):
        d[3]


def test_model_list():
    names = models.list_models()
    assert {"resnet18", "resnet152", "vgg11", "vgg19_bn", "alexnet", "wide_resnet50_2"} <= set(names)
    assert models.list_models(include="vgg*", exclude=["*_bn"]) == ["vgg11", "vgg13", "vgg16", "vgg19"]
    assert callable(models.__dict__["resnet18"]) and models.get_model_builder("ResNet18") is models.resnet18
    for name, members in FACTS["weights"].items():
        if name in names:
            assert list(models.get_model_weights(name).__members__) == members, name
    with pytest.raises(ValueError, match="Unknown model"):
        models.get_model("nothing")


@pytest.mark.parametrize("workers", [0, 1])
def test_damaged_image_is_named(tmp_path, workers):
    (tmp_path / "cat").mkdir()
    good, bad = io.BytesIO(), tmp_path / "cat" / "bad.jpg"
    Image.fromarray(np.random.RandomState(0).randint(0, 255, (32, 32, 3), "u1")).save(good, "jpeg")
    for content, error, text in (
        (good.getvalue()[:-300], OSError, r"bad\.jpg: image file is truncated .*; copy the image again"),
        (b"", UnidentifiedImageError, r"cannot identify image file .*bad\.jpg"),
    ):
        bad.write_bytes(content)
        data = datasets.ImageFolder(str(tmp_path), transform=T.ToTensor())
        loader = torch.utils.data.DataLoader(data, num_workers=workers)
        with pytest.raises(error, match=text):
            list(loader)


def test_weights_are_read_from_files_fetched_before(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.manual_seed(3)
    state = models.resnet18().state_dict()
    torch.save(state, str(folder / models.ResNet18_Weights.IMAGENET1K_V1.value))
    for chosen in ("IMAGENET1K_V1", "DEFAULT", models.ResNet18_Weights.DEFAULT):
        got = models.resnet18(weights=chosen).state_dict()
        assert all(torch.equal(got[k], v) for k, v in state.items())
    assert torch.equal(models.ResNet18_Weights.DEFAULT.get_state_dict()["fc.bias"], state["fc.bias"])
    with pytest.raises(ValueError, match="'num_classes' expected value 1000 but got 10"):
        models.resnet18(weights="DEFAULT", num_classes=10)


def test_weights_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for bad in ({"weights": "DEFAULT"}, {"weights": models.ResNet18_Weights.IMAGENET1K_V1}, {"pretrained": True}):
        with (
            pytest.raises(RuntimeError, match="load_state_dict"),
            pytest.warns(UserWarning) if "pretrained" in bad else io.BytesIO(),
        ):
            models.resnet18(**bad)
    with pytest.raises(TypeError):
        models.resnet18(weights=3)
    with pytest.raises(KeyError):
        models.resnet18(weights="NOPE")


def test_zero_init_and_gradients():
    m = models.resnet18(num_classes=3, zero_init_residual=True)
    assert m.layer1[0].bn2.weight.abs().sum().item() == 0
    y = m(torch.randn(2, 3, 32, 32))
    torch.nn.functional.cross_entropy(y, torch.tensor([0, 2])).backward()
    assert m.conv1.weight.grad is not None and m.fc.weight.grad.abs().sum().item() > 0
    with pytest.raises(ValueError):
        models.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], replace_stride_with_dilation=[True])


def test_save_image(tmp_path):
    x = torch.zeros(2, 3, 4, 4)
    x[1] = 1.0
    tv.utils.save_image(x, str(tmp_path / "a.png"), padding=0)
    a = np.asarray(Image.open(tmp_path / "a.png"))
    assert a.shape == (4, 8, 3) and a[:, :4].max() == 0 and a[:, 4:].min() == 255
    f = io.BytesIO()
    tv.utils.save_image(x[0], f, format="jpeg")
    assert f.getvalue()[:2] == b"\xff\xd8"
    with pytest.raises(TypeError):
        tv.utils.make_grid(3)


BAD = [
    (lambda: T.Resize("a" * 3), ValueError),
    (lambda: T.Resize(3.5), TypeError),
    (lambda: T.Resize(3, interpolation="bilinear"), TypeError),
    (lambda: T.CenterCrop((1, 2, 3)), ValueError),
    (lambda: T.RandomCrop(20)(torch.zeros(3, 5, 5)), ValueError),
    (lambda: T.Pad("x"), TypeError),
    (lambda: T.Pad(1, padding_mode="x"), ValueError),
    (lambda: T.Pad((1, 2, 3)), ValueError),
    (lambda: T.Normalize([0.5], [0.0])(torch.zeros(1, 2, 2)), ValueError),
    (lambda: T.Normalize([0.5], [1.0])(torch.zeros(1, 2, 2, dtype=torch.uint8)), TypeError),
    (lambda: T.Normalize([0.5], [1.0])(3), TypeError),
    (lambda: T.ToTensor()(3), TypeError),
    (lambda: T.ToTensor()(np.zeros((1, 2, 3, 4))), ValueError),
    (lambda: T.ToPILImage()(torch.zeros(5, 2, 2)), ValueError),
    (lambda: T.ColorJitter(brightness=-1), ValueError),
    (lambda: T.ColorJitter(hue=0.7), ValueError),
    (lambda: T.RandomRotation(-3), ValueError),
    (lambda: T.RandomErasing(p=2), ValueError),
    (lambda: T.GaussianBlur(4), ValueError),
    (lambda: T.Lambda(3), TypeError),
    (lambda: T.RandomChoice(3), TypeError),
    (lambda: T.ConvertImageDtype(3), TypeError),
    (lambda: T.functional.adjust_hue(torch.zeros(3, 2, 2), 0.6), ValueError),
    (lambda: T.functional.hflip(3), TypeError),
    (lambda: T.functional.convert_image_dtype(torch.zeros(2), torch.int64), RuntimeError),
    (lambda: tv.ops.nms(torch.zeros(3, 5), torch.zeros(3), 0.5), RuntimeError),
    (lambda: tv.ops.box_convert(torch.zeros(3, 4), "x", "xyxy"), ValueError),
    (lambda: tv.set_image_backend("accimage"), ValueError),
]


@pytest.mark.parametrize("i", range(len(BAD)))
def test_bad_arguments(i):
    make, kind = BAD[i]
    with pytest.raises(kind):
        make()
