"""Random images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindtorch.torch as torch

from .. import transforms
from .vision import VisionDataset


class FakeData(VisionDataset):
    """``size`` random PIL images; sample ``i`` is always the same, drawn with seed ``i + random_offset``."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size = size
        self.num_classes = num_classes
        self.image_size = image_size
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        state = torch.get_rng_state()
        torch.manual_seed(index + self.random_offset)
        img = torch.randn(*self.image_size)
        target = torch.randint(0, self.num_classes, size=(1,), dtype=torch.long)[0]
        torch.set_rng_state(state)
        image, target = self._apply(transforms.functional.to_pil_image(img), target)
        return image, target.item() if isinstance(target, torch.Tensor) else target

    def __len__(self) -> int:
        return self.size
