"""Convolutions and transposed convolutions, and their lazy forms."""

from __future__ import annotations

import math
from typing import Any

import mindtorch.torch as torch

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single, _triple

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]
_MODES = {"zeros", "reflect", "replicate", "circular"}
_TUPLE = {1: _single, 2: _pair, 3: _triple}


def _check_conv(
    in_channels: int, out_channels: int, kernel: Any, stride: Any, padding: Any, groups: int, padding_mode: str
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _MODES:
        raise ValueError(f"padding_mode must be one of {_MODES}, but got padding_mode='{padding_mode}'")


class _ConvNd(Module):
    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_conv(in_channels, out_channels, kernel_size, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._edges()
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(torch.empty((first, second // groups, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _edges(self) -> list[int] | tuple[int, ...]:
        """Padding of each side in the order ``F.pad`` wants, for the non-zero padding modes."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        edges = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            for i, (d, k) in enumerate(zip(self.dilation, self.kernel_size)):
                total = d * (k - 1)
                at = 2 * (len(self.kernel_size) - 1 - i)
                edges[at] = total // 2
                edges[at + 1] = total - total // 2
        return edges

    def reset_parameters(self) -> None:
        """Draw weight, then bias, uniform in +-1/sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and what differs from the defaults."""
        s = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        n = len(self.kernel_size)
        if self.padding != (0,) * n:
            s += f", padding={self.padding}"
        if self.dilation != (1,) * n:
            s += f", dilation={self.dilation}"
        if self.output_padding != (0,) * n:
            s += f", output_padding={self.output_padding}"
        if self.groups != 1:
            s += f", groups={self.groups}"
        if self.bias is None:
            s += ", bias=False"
        if self.padding_mode != "zeros":
            s += f", padding_mode={self.padding_mode}"
        return s

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")

    def forward(self, input: Any) -> Any:
        """(N, C_in, ...) or (C_in, ...) -> (N, C_out, ...)."""
        params = self._parameters
        try:
            return self._conv_forward(input, params["weight"], params["bias"])
        except KeyError:
            return self._conv_forward(input, self.weight, self.bias)


class _Plain(_ConvNd):
    """Convolution of ``_nd`` dimensions."""

    _nd = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        tup = _TUPLE[self._nd]
        edges = padding if isinstance(padding, str) else tup(padding)
        geometry = (tup(kernel_size), tup(stride), edges, tup(dilation), False, tup(0))
        super().__init__(in_channels, out_channels, *geometry, groups, bias, padding_mode, device, dtype)

    def _padded(self, input: Any) -> tuple[Any, Any]:
        if self.padding_mode == "zeros":
            return input, self.padding
        return F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        x, padding = self._padded(input)
        return getattr(F, self._function)(x, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Plain):
    """1-d convolution: (N, C_in, L) -> (N, C_out, L_out). weight (C_out, C_in/groups, k)."""

    _nd = 1
    _function = "conv1d"


class Conv2d(_Plain):
    """2-d convolution: (N, C_in, H, W) -> (N, C_out, H_out, W_out). weight (C_out, C_in/groups, kh, kw)."""

    _nd = 2
    _function = "conv2d"


class Conv3d(_Plain):
    """3-d convolution: (N, C_in, D, H, W) -> (N, C_out, ...). weight (C_out, C_in/groups, kd, kh, kw)."""

    _nd = 3
    _function = "conv3d"


class _ConvTransposeNd(_ConvNd):
    """Transposed convolution of ``_nd`` dimensions."""

    _nd = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        tup = _TUPLE[self._nd]
        geometry = (tup(kernel_size), tup(stride), tup(padding), tup(dilation), True, tup(output_padding))
        super().__init__(in_channels, out_channels, *geometry, groups, bias, padding_mode, device, dtype)

    def _output_padding(self, input: Any, output_size: Any) -> Any:
        """The output padding that gives ``output_size``; ValueError when none does."""
        if output_size is None:
            return self.output_padding
        n = self._nd
        has_batch = input.dim() == n + 2
        skip = 2 if has_batch else 1
        if len(output_size) == n + skip:
            output_size = output_size[skip:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {n + skip} elements (got "
                f"{len(output_size)})"
            )
        low = [
            (input.size(d + skip) - 1) * self.stride[d]
            - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(n)
        ]
        high = [m + s - 1 for m, s in zip(low, self.stride)]
        if any(not a <= size <= b for size, a, b in zip(output_size, low, high)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {low} to {high} "
                f"(for an input of {input.size()[2:]})"
            )
        return [size - a for size, a in zip(output_size, low)]

    def forward(self, input: Any, output_size: Any = None) -> Any:
        """(N, C_in, ...) -> (N, C_out, ...); ``output_size`` picks among the sizes that the stride leaves open."""
        extra = self._output_padding(input, output_size)
        params = self._parameters
        try:
            weight, bias = params["weight"], params["bias"]
        except KeyError:
            weight, bias = self.weight, self.bias
        return getattr(F, self._function)(
            input, weight, bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed 1-d convolution: (N, C_in, L) -> (N, C_out, L_out). weight (C_in, C_out/groups, k)."""

    _nd = 1
    _function = "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed 2-d convolution. weight (C_in, C_out/groups, kh, kw)."""

    _nd = 2
    _function = "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed 3-d convolution. weight (C_in, C_out/groups, kd, kh, kw)."""

    _nd = 3
    _function = "conv_transpose3d"


class _LazyConvXdMixin(LazyModuleMixin):
    """Takes ``in_channels`` from the first input."""

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw once the shape is known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Shape the parameters for ``input`` and draw them."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        pair = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        self.weight.materialize((pair[0], pair[1] // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Any) -> int:
        n = self._nd
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input "
                "of size: "
                f"{input.shape}"
            )
        return input.shape[1] if input.dim() == n + 2 else input.shape[0]


class _LazyPlain(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._make_lazy(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyPlain, Conv1d):
    """Conv1d that takes ``in_channels`` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlain, Conv2d):
    """Conv2d that takes ``in_channels`` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlain, Conv3d):
    """Conv3d that takes ``in_channels`` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """ConvTranspose1d that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """ConvTranspose2d that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """ConvTranspose3d that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose3d
