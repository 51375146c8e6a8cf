"""ChannelShuffle."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Interleaves the channels of ``groups`` groups: (N, C, *) -> (N, C, *)."""

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        """Same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Settings."""
        return f"groups={self.groups}"
