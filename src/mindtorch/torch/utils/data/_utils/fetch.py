"""From indices to a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MapFetcher:
    """Samples of a map-style dataset, collated when ``auto`` (the index is a list then)."""

    def __init__(self, dataset: Any, auto: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset, self.auto, self.collate_fn = dataset, auto, collate_fn
        self.many = auto and callable(getattr(dataset, "__getitems__", None))

    def fetch(self, index: Any) -> Any:
        """The batch at ``index``."""
        if self.many:
            data = self.dataset.__getitems__(index)
        elif self.auto:
            data = [self.dataset[i] for i in index]
        else:
            data = self.dataset[index]
        return self.collate_fn(data)


class IterableFetcher:
    """The next samples of an iterable dataset; the index only tells how many. StopIteration at the end."""

    def __init__(self, dataset: Any, auto: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.source = iter(dataset)
        self.auto, self.collate_fn, self.drop_last = auto, collate_fn, drop_last
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """The next batch."""
        if self.ended:
            raise StopIteration
        if not self.auto:
            return self.collate_fn(next(self.source))
        data = []
        for _ in index:
            try:
                data.append(next(self.source))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.drop_last and len(data) < len(index)):
            raise StopIteration
        return self.collate_fn(data)


def make_fetcher(iterable: bool, dataset: Any, auto: bool, collate_fn: Callable, drop_last: bool) -> Any:
    """The fetcher for the dataset's kind."""
    return (IterableFetcher if iterable else MapFetcher)(dataset, auto, collate_fn, drop_last)
