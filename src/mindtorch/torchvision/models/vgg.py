"""VGG with 11 to 19 layers, with and without batch norm."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
from mindtorch.torch import nn

from ._api import register, weights_enum

# Channels of the convolutions in each of the five stages; every stage ends in a pooling that halves the image.
_STAGES = {
    11: ([64], [128], [256, 256], [512, 512], [512, 512]),
    13: ([64, 64], [128, 128], [256, 256], [512, 512], [512, 512]),
    16: ([64, 64], [128, 128], [256] * 3, [512] * 3, [512] * 3),
    19: ([64, 64], [128, 128], [256] * 4, [512] * 4, [512] * 4),
}
_FILES = {
    "vgg11": "vgg11-8a719046.pth",
    "vgg11_bn": "vgg11_bn-6002323d.pth",
    "vgg13": "vgg13-19584684.pth",
    "vgg13_bn": "vgg13_bn-abd245e5.pth",
    "vgg16": "vgg16-397923af.pth",
    "vgg16_bn": "vgg16_bn-6c64b313.pth",
    "vgg19": "vgg19-dcbb9e9d.pth",
    "vgg19_bn": "vgg19_bn-c79401a0.pth",
}


class VGG(nn.Module):
    """``features`` (a convolutional body ending in 512 channels), pooling to 7 x 7, and three linear layers."""

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            self._initialise()

    def _initialise(self) -> None:
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0)
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.constant_(m.bias, 0)

    def forward(self, x: Any) -> Any:
        x = self.avgpool(self.features(x))
        return self.classifier(torch.flatten(x, 1))


def _body(layers: int, batch_norm: bool) -> nn.Sequential:
    parts: list[nn.Module] = []
    channels = 3
    for stage in _STAGES[layers]:
        for width in stage:
            parts.append(nn.Conv2d(channels, width, kernel_size=3, padding=1))
            if batch_norm:
                parts.append(nn.BatchNorm2d(width))
            parts.append(nn.ReLU(inplace=True))
            channels = width
        parts.append(nn.MaxPool2d(kernel_size=2, stride=2))
    return nn.Sequential(*parts)


def _make(layers: int, batch_norm: bool) -> None:
    """Define ``vggN`` or ``vggN_bn`` and its weights enum in this module."""
    name = f"vgg{layers}{'_bn' if batch_norm else ''}"
    enum_name = f"VGG{layers}{'_BN' if batch_norm else ''}_Weights"
    # VGG16 was published a second time, for detection: the body alone.
    more = {"IMAGENET1K_FEATURES": "vgg16_features-amdegroot-88682ab5.pth"} if name == "vgg16" else {}
    weights = weights_enum(enum_name, IMAGENET1K_V1=_FILES[name], **more)

    def build(**kwargs: Any) -> VGG:
        return VGG(_body(layers, batch_norm), **kwargs)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"VGG with {layers} layers{' and batch norm' if batch_norm else ''}."
    globals()[enum_name] = weights
    globals()[name] = register(weights)(build)


for _layers in _STAGES:
    _make(_layers, False)
    _make(_layers, True)

__all__ = ["VGG", *_FILES, *(f"VGG{n}{bn}_Weights" for n in _STAGES for bn in ("", "_BN"))]
