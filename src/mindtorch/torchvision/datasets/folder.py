"""Images (or other files) in one folder a class."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .vision import VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Whether ``filename`` ends in one of ``extensions``, whatever the case."""
    return filename.lower().endswith(extensions)


def is_image_file(filename: str) -> bool:
    """Whether ``filename`` has the extension of an image."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: Any) -> tuple[list[str], dict[str, int]]:
    """The folders in ``directory`` in order, and their numbers. FileNotFoundError when there are none."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(
    directory: Any,
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """(path, class) of all files below the class folders, in order of class and path.

    ValueError unless exactly one of ``extensions`` and ``is_valid_file`` is given; FileNotFoundError for a class
    without files.
    """
    directory = os.path.expanduser(directory)
    if class_to_idx is None:
        class_to_idx = find_classes(directory)[1]
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    valid = is_valid_file or (lambda path: has_file_allowed_extension(path, extensions))  # type: ignore[arg-type]
    samples, empty = [], []
    for name in sorted(class_to_idx):
        before = len(samples)
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            paths = (os.path.join(folder, f) for f in sorted(files))
            samples += [(path, class_to_idx[name]) for path in paths if valid(path)]
        if len(samples) == before:
            empty.append(name)
    if empty and not allow_empty:
        message = f"Found no valid file for the classes {', '.join(empty)}. "
        if extensions is not None:
            known = extensions if isinstance(extensions, str) else ", ".join(extensions)
            message += f"Supported extensions are: {known}"
        raise FileNotFoundError(message)
    return samples


def pil_loader(path: str) -> Any:
    """The image as RGB. OSError that names the file when it is cut off or damaged."""
    from PIL import Image, UnidentifiedImageError

    with open(path, "rb") as f:
        try:
            return Image.open(f).convert("RGB")
        except UnidentifiedImageError:  # Pillow names the file in this one
            raise
        except OSError as e:
            raise OSError(f"{path}: {e}; copy the image again or leave it out") from e


def default_loader(path: str) -> Any:
    """`pil_loader`."""
    return pil_loader(path)


class DatasetFolder(VisionDataset):
    """Files ``root/class/.../name.ext``, read by ``loader``. ``samples`` are (path, class) pairs."""

    def __init__(
        self,
        root: Any,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        classes, class_to_idx = self.find_classes(self.root)
        samples = self.make_dataset(
            self.root,
            class_to_idx=class_to_idx,
            extensions=extensions,
            is_valid_file=is_valid_file,
            allow_empty=allow_empty,
        )
        self.loader = loader
        self.extensions = extensions
        self.classes = classes
        self.class_to_idx = class_to_idx
        self.samples = samples
        self.targets = [s[1] for s in samples]

    @staticmethod
    def make_dataset(
        directory: Any,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """(path, class) pairs; may be overridden."""
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: Any) -> tuple[list[str], dict[str, int]]:
        """Class names and numbers; may be overridden."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._apply(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Images ``root/class/.../name.png``."""

    def __init__(
        self,
        root: Any,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(
            root,
            loader,
            IMG_EXTENSIONS if is_valid_file is None else None,
            transform=transform,
            target_transform=target_transform,
            is_valid_file=is_valid_file,
            allow_empty=allow_empty,
        )
        self.imgs = self.samples
