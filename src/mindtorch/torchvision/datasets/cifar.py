"""CIFAR-10 and CIFAR-100 from local files."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np

from .vision import VisionDataset


class _Unpickler(pickle.Unpickler):
    """Reads dicts, lists, bytes, numbers and NumPy arrays; refuses everything a pickle could run."""

    _ALLOWED = {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("_codecs", "encode"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a CIFAR file has no use for")
        return super().find_class(module.replace("numpy._core", "numpy.core"), name)


def read_pickle(path: str) -> dict:
    """The dict in a CIFAR file. ValueError that names the file when it holds something else or is damaged."""
    with open(path, "rb") as f:
        content = f.read()
    try:
        value = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except Exception as e:
        raise ValueError(f"{path}: not a readable CIFAR file: {e}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a dict, found {type(value).__name__}")
    return value


class CIFAR10(VisionDataset):
    """Colour images, 32 x 32, from ``root/cifar-10-batches-py`` (the folder in the archive for Python).

    ``download=True`` unpacks the archive when it lies in ``root``; nothing is downloaded. ``data`` is ``(N, 32, 32,
    3)`` of bytes, ``targets`` a list. RuntimeError when files are missing; ValueError that names a damaged one.
    """

    base_folder = "cifar-10-batches-py"
    filename = "cifar-10-python.tar.gz"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    _train_files = [f"data_batch_{i}" for i in range(1, 6)]
    _test_files = ["test_batch"]
    _meta, _names_key = "batches.meta", "label_names"

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
        if not self._check_integrity():
            raise RuntimeError(
                "Dataset not found or corrupted. You can use download=True to download it"
                f" - mindtorch does not download: put the folder {self.base_folder} (or {self.filename} from "
                f"{self.url}, with download=True) into {self.root}"
            )
        parts = [self._load(name) for name in (self._train_files if train else self._test_files)]
        self.data = np.concatenate([data for data, _ in parts])
        self.targets: list[int] = [label for _, labels in parts for label in labels]
        self._load_meta()

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _check_integrity(self) -> bool:
        names = [*(self._train_files if self.train else self._test_files), self._meta]
        return all(os.path.isfile(self._path(name)) for name in names)

    def download(self) -> None:
        """Unpack the archive in ``root``, if the files are not there yet. RuntimeError when there is no archive."""
        if self._check_integrity():
            return
        archive = os.path.join(self.root, self.filename)
        if not os.path.isfile(archive):
            raise RuntimeError(
                f"{type(self).__name__} cannot be downloaded by mindtorch: fetch {self.url} yourself and put "
                f"it into {self.root}"
            )
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(self.root, filter="data")
        except (tarfile.TarError, OSError, EOFError) as e:
            raise ValueError(f"{archive}: the archive is damaged ({e}); copy it again") from None

    def _load(self, name: str) -> tuple[np.ndarray, list[int]]:
        path = self._path(name)
        entry = read_pickle(path)
        labels = entry.get("labels", entry.get("fine_labels"))
        data = entry.get("data")
        if labels is None or not isinstance(data, np.ndarray):
            raise ValueError(f"{path}: expected entries 'data' and 'labels', found {sorted(map(str, entry))}")
        if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072 or len(data) != len(labels):
            raise ValueError(
                f"{path}: expected N rows of 3072 bytes and N labels, found "
                f"{data.dtype} {data.shape} and {len(labels)} labels"
            )
        return data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), list(labels)

    def _load_meta(self) -> None:
        path = self._path(self._meta)
        names = read_pickle(path).get(self._names_key)
        if names is None:
            raise ValueError(f"{path}: there is no entry {self._names_key!r}")
        self.classes: list[str] = names
        self.class_to_idx = {name: i for i, name in enumerate(names)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        from PIL import Image

        return self._apply(Image.fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """The half."""
        return f"Split: {'Train' if self.train is True else 'Test'}"


class CIFAR100(CIFAR10):
    """CIFAR-100, with its 100 fine classes, from ``root/cifar-100-python``."""

    base_folder = "cifar-100-python"
    filename = "cifar-100-python.tar.gz"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    _train_files = ["train"]
    _test_files = ["test"]
    _meta, _names_key = "meta", "fine_label_names"
