"""AlexNet."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
from mindtorch.torch import nn

from ._api import register, weights_enum

__all__ = ["AlexNet", "AlexNet_Weights", "alexnet"]

AlexNet_Weights = weights_enum("AlexNet_Weights", IMAGENET1K_V1="alexnet-owt-7be5be79.pth")


class AlexNet(nn.Module):
    """Input ``(N, 3, H, W)`` with H, W of 63 and more, output ``(N, num_classes)``."""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: Any) -> Any:
        x = self.avgpool(self.features(x))
        return self.classifier(torch.flatten(x, 1))


@register(AlexNet_Weights)
def alexnet(**kwargs: Any) -> AlexNet:
    """AlexNet of "One weird trick for parallelizing convolutional neural networks"."""
    return AlexNet(**kwargs)
