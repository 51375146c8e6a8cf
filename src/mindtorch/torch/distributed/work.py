"""Handles of operations that may still be running."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..futures import Future

__all__ = ["Work"]


class Work:
    """What ``async_op=True``, ``isend`` and ``irecv`` return.

    ``job`` is the running operation; without one, ``start`` runs it on the first ``wait`` (a receive is read from the stream only
    when somebody wants it). ``finish`` writes the result where the caller asked for it, in the thread that waits.
    """

    def __init__(
        self,
        job: concurrent.futures.Future[Any] | None = None,
        finish: Callable[[Any], Any] | None = None,
        start: Callable[[], Any] | None = None,
        source: int = -1,
    ) -> None:
        self._job = job
        self._finish = finish
        self._start = start
        self._source = source
        self._error: BaseException | None = None
        self._over = False
        self._result: Any = None
        self._future: Future | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Block until the operation is done and its results are written; True. Raises what the operation raised.

        RuntimeError when ``timeout`` passes first; it is not watched while a receive reads the stream.
        """
        if self._error is not None:
            raise self._error
        if self._over:
            return True
        seconds = timeout.total_seconds() if timeout else None
        try:
            if self._job is not None:
                value = self._job.result(seconds)
            else:
                value = self._start() if self._start is not None else None
            self._result = self._finish(value) if self._finish is not None else value
        except concurrent.futures.TimeoutError:
            raise RuntimeError(f"Work.wait: the operation is not done after {seconds} s") from None
        except BaseException as error:
            self._error = error
            raise
        self._over = True
        self._finish = self._start = self._job = None
        return True

    def is_completed(self) -> bool:
        """Whether ``wait`` would return at once. A receive is read here if need be, so a loop that polls this ends."""
        if self._over or self._error is not None:
            return True
        if self._job is not None:
            if not self._job.done():
                return False
            if self._job.exception() is not None:
                self._error = self._job.exception()
                return True
        self.wait()
        return True

    def is_success(self) -> bool:
        """Whether it is done and raised nothing."""
        return self._over and self._error is None

    def exception(self) -> BaseException | None:
        """What it raised."""
        return self._error

    def source_rank(self) -> int:
        """The rank a receive takes its message from."""
        return self._source

    def result(self) -> Any:
        """The tensors it wrote, after waiting."""
        self.wait()
        return self._result

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def come_from(self, source: int) -> None:
        """Note the sender of a receive that takes from anybody."""
        self._source = source

    def get_future(self) -> Future:
        """A future of the list of tensors it wrote; its callbacks run when these are written. A receive is read here."""
        if self._future is None:
            self._future = out = Future()
            if self._job is not None:
                self._job.add_done_callback(lambda f: _settle(out, f.exception(), None if f.exception() else f.result()))
            else:
                try:
                    self.wait()
                except Exception as error:
                    _settle(out, error, None)
                else:
                    _settle(out, None, self._result)
        return self._future


def _settle(out: Future, error: BaseException | None, result: Any) -> None:
    if error is not None:
        out.set_exception(error)
    else:
        out.set_result(result if isinstance(result, list) else [] if result is None else [result])
