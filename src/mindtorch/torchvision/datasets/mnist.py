"""MNIST, Fashion-MNIST and KMNIST from local idx files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import mindtorch.torch as torch

from . import idx
from .vision import VisionDataset

_IMAGES = {True: "train-images-idx3-ubyte", False: "t10k-images-idx3-ubyte"}
_LABELS = {True: "train-labels-idx1-ubyte", False: "t10k-labels-idx1-ubyte"}


class MNIST(VisionDataset):
    """Digits, 28 x 28 bytes, from ``root/MNIST/raw``; the files may be gzipped.

    Args:
        root: the folder that holds ``MNIST/raw``.
        train: the 60,000 training images, or the 10,000 test images.
        transform, target_transform: applied to the PIL image and the label.
        download: nothing is downloaded; RuntimeError when the files are not there.

    Sample ``i`` is (PIL image, int). ValueError that names the file when one is damaged.
    """

    mirrors = ("https://ossci-datasets.s3.amazonaws.com/mnist/",)
    classes = [
        "0 - zero",
        "1 - one",
        "2 - two",
        "3 - three",
        "4 - four",
        "5 - five",
        "6 - six",
        "7 - seven",
        "8 - eight",
        "9 - nine",
    ]

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        if not self._check_exists():
            raise RuntimeError("Dataset not found. You can use download=True to download it" + self._where())
        self.data, self.targets = self._load_data()

    def _where(self) -> str:
        names = ", ".join((*_IMAGES.values(), *_LABELS.values()))
        return (
            f" - mindtorch does not download: put {names} (as they are, or with .gz) from {self.mirrors[0]} "
            f"into {self.raw_folder}"
        )

    @property
    def raw_folder(self) -> str:
        """Where the idx files are."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        """Where old versions kept a cache; not used."""
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Numbers of the classes by name."""
        return {name: i for i, name in enumerate(self.classes)}

    @property
    def train_data(self) -> Any:
        """Old name of ``data``."""
        return self.data

    @property
    def test_data(self) -> Any:
        """Old name of ``data``."""
        return self.data

    @property
    def train_labels(self) -> Any:
        """Old name of ``targets``."""
        return self.targets

    @property
    def test_labels(self) -> Any:
        """Old name of ``targets``."""
        return self.targets

    def _check_exists(self) -> bool:
        names = (*_IMAGES.values(), *_LABELS.values())
        wanted = (_IMAGES[bool(self.train)], _LABELS[bool(self.train)]) if self._part_is_enough else names
        return all(idx.find(self.raw_folder, name) is not None for name in wanted)

    # The files of one half are enough to use that half.
    _part_is_enough = True

    def download(self) -> None:
        """Does nothing when the files are there. RuntimeError that says where to put them when they are not."""
        if not self._check_exists():
            raise RuntimeError(f"{type(self).__name__} is not in {self.raw_folder}" + self._where())

    def _load_data(self) -> tuple[Any, Any]:
        images = self._read(_IMAGES[bool(self.train)], 3)
        labels = self._read(_LABELS[bool(self.train)], 1)
        if len(images) != len(labels):
            raise ValueError(
                f"{self.raw_folder}: {len(images)} images, but {len(labels)} labels: the files do not belong together"
            )
        return torch.from_numpy(images), torch.from_numpy(labels.astype("int64"))

    def _read(self, name: str, dims: int) -> Any:
        path = idx.find(self.raw_folder, name)
        if path is None:
            raise FileNotFoundError(f"{os.path.join(self.raw_folder, name)} is not there")
        array = idx.read(path)
        if array.ndim != dims or array.dtype != "uint8":
            raise ValueError(
                f"{path}: expected bytes in {dims} dimensions, but the file holds {array.dtype} in "
                f"{array.ndim} dimensions"
            )
        return array

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        from PIL import Image

        return self._apply(Image.fromarray(self.data[index].numpy(), mode="L"), int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """The half."""
        return f"Split: {'Train' if self.train is True else 'Test'}"


class FashionMNIST(MNIST):
    """Pictures of clothes in the format of MNIST, from ``root/FashionMNIST/raw``."""

    mirrors = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
    classes = [
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ]


class KMNIST(MNIST):
    """Cursive Japanese characters in the format of MNIST, from ``root/KMNIST/raw``."""

    mirrors = ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",)
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
