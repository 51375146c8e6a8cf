"""``torch.futures``: a value that arrives later, on top of ``concurrent.futures``."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any


class Future:
    """Holds a result or an exception; callbacks run when it arrives."""

    def __init__(self, *, devices: Any = None) -> None:
        if devices:
            raise ValueError(f"Future: devices must be empty, results live on the host; got {devices!r}")
        self._f: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether the result or exception is there."""
        return self._f.done()

    def wait(self) -> Any:
        """The result; blocks until it is there, and raises the exception if there is one."""
        return self._f.result()

    def value(self) -> Any:
        """The result of a future that is done. RuntimeError otherwise."""
        if not self._f.done():
            raise RuntimeError("Future.value(): the future is not done; call wait()")
        return self._f.result()

    def set_result(self, result: Any) -> None:
        """Deliver the result. RuntimeError the second time."""
        if self._f.done():
            raise RuntimeError("Future.set_result(): the future is already done")
        self._f.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Deliver an exception, raised by ``wait``."""
        if self._f.done():
            raise RuntimeError("Future.set_exception(): the future is already done")
        self._f.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future], None]) -> None:
        """Call ``callback(self)`` once done (at once if it already is)."""
        self._f.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future for ``callback(self)``; RuntimeError when that raises."""
        out = Future()

        def run(_: Any) -> None:
            try:
                out.set_result(callback(self))
            except Exception as e:
                error = RuntimeError(f"Got the following error when running the callback: {type(e).__name__}: {e}")
                error.__cause__ = e
                out.set_exception(error)

        self._f.add_done_callback(run)
        return out


def wait_all(futures: list[Future]) -> list[Any]:
    """The results, in order."""
    return [f.wait() for f in futures]


def collect_all(futures: list[Future]) -> Future:
    """A future of the list of futures, done when all are."""
    out = Future()
    left = [len(futures)]

    def arrived(_: Future) -> None:
        left[0] -= 1
        if left[0] == 0:
            out.set_result(list(futures))

    if not futures:
        out.set_result([])
    for f in futures:
        f.add_done_callback(arrived)
    return out
