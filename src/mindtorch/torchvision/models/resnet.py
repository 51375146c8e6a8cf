"""ResNet, ResNeXt and Wide ResNet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch import nn

from ._api import register, weights_enum


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A 3 x 3 convolution without bias that keeps the size (up to the stride)."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, padding=dilation, groups=groups, bias=False, dilation=dilation)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 1 x 1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut: ``(N, inplanes, H, W)`` to ``(N, planes, H / stride, W / stride)``."""

    expansion: int = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = nn.BatchNorm2d if norm_layer is None else norm_layer
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock: use Bottleneck")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += shortcut
        return self.relu(y)


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride) and 1 x 1 convolutions beside a shortcut; the output has ``4 * planes``
    channels."""

    expansion: int = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = nn.BatchNorm2d if norm_layer is None else norm_layer
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += shortcut
        return self.relu(y)


class ResNet(nn.Module):
    """Input ``(N, 3, H, W)``, output ``(N, num_classes)``; four stages of ``layers[i]`` blocks."""

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: list[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: list[bool] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self._norm_layer = nn.BatchNorm2d if norm_layer is None else norm_layer
        self.inplanes = 64
        self.dilation = 1
        dilate = [False] * 3 if replace_stride_with_dilation is None else replace_stride_with_dilation
        if len(dilate) != 3:
            raise ValueError(f"replace_stride_with_dilation should be None or a 3-element tuple, got {dilate}")
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2, dilate=dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2, dilate=dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2, dilate=dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._initialise(zero_init_residual)

    def _initialise(self, zero_init_residual: bool) -> None:
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)
        if zero_init_residual:
            # Each block starts as the identity (arXiv 1706.02677).
            for m in self.modules():
                last = m.bn3 if isinstance(m, Bottleneck) else m.bn2 if isinstance(m, BasicBlock) else None
                if last is not None and last.weight is not None:
                    nn.init.constant_(last.weight, 0)

    def _make_layer(
        self, block: type[BasicBlock | Bottleneck], planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> nn.Sequential:
        norm, first_dilation, out = self._norm_layer, self.dilation, planes * block.expansion
        if dilate:
            self.dilation *= stride
            stride = 1
        # The shortcut is made before the block: the order of random draws depends on it.
        downsample = None
        if stride != 1 or self.inplanes != out:
            downsample = nn.Sequential(conv1x1(self.inplanes, out, stride), norm(out))
        shared = (self.groups, self.base_width)
        parts = [block(self.inplanes, planes, stride, downsample, *shared, first_dilation, norm)]
        self.inplanes = out
        parts += [block(out, planes, 1, None, *shared, self.dilation, norm) for _ in range(1, blocks)]
        return nn.Sequential(*parts)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


# name: (weights enum, block, blocks a stage, groups, width a group, hashes in the names of the published files)
_TABLE: dict[str, tuple] = {
    "resnet18": ("ResNet18", BasicBlock, [2, 2, 2, 2], 1, 64, "f37072fd"),
    "resnet34": ("ResNet34", BasicBlock, [3, 4, 6, 3], 1, 64, "b627a593"),
    "resnet50": ("ResNet50", Bottleneck, [3, 4, 6, 3], 1, 64, "0676ba61 11ad3fa6"),
    "resnet101": ("ResNet101", Bottleneck, [3, 4, 23, 3], 1, 64, "63fe2227 cd907fc2"),
    "resnet152": ("ResNet152", Bottleneck, [3, 8, 36, 3], 1, 64, "394f9c45 f82ba261"),
    "resnext50_32x4d": ("ResNeXt50_32X4D", Bottleneck, [3, 4, 6, 3], 32, 4, "7cdf4587 1a0047aa"),
    "resnext101_32x8d": ("ResNeXt101_32X8D", Bottleneck, [3, 4, 23, 3], 32, 8, "8ba56ff5 110c445d"),
    "resnext101_64x4d": ("ResNeXt101_64X4D", Bottleneck, [3, 4, 23, 3], 64, 4, "173b62eb"),
    "wide_resnet50_2": ("Wide_ResNet50_2", Bottleneck, [3, 4, 6, 3], 1, 128, "95faca4d 9ba9bcbe"),
    "wide_resnet101_2": ("Wide_ResNet101_2", Bottleneck, [3, 4, 23, 3], 1, 128, "32ee1156 d733dc28"),
}


def _make(name: str) -> None:
    """Define the builder of row ``name`` and its weights enum in this module."""
    enum, block, layers, groups, width, hashes = _TABLE[name]
    members = {f"IMAGENET1K_V{i}": f"{name}-{h}.pth" for i, h in enumerate(hashes.split(), 1)}
    weights = weights_enum(f"{enum}_Weights", **members)

    def build(**kwargs: Any) -> ResNet:
        if groups != 1 or width != 64:
            kwargs.setdefault("groups", groups)
            kwargs.setdefault("width_per_group", width)
        return ResNet(block, layers, **kwargs)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{enum} with {layers} blocks a stage."
    globals()[f"{enum}_Weights"] = weights
    globals()[name] = register(weights)(build)


for _name in _TABLE:
    _make(_name)

__all__ = ["BasicBlock", "Bottleneck", "ResNet", *_TABLE, *(f"{row[0]}_Weights" for row in _TABLE.values())]
