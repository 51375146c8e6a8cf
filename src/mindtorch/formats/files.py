"""Files on disk: opened for reading wherever they come from, replaced as a whole or not at all."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def opened(f: Any) -> Iterator[tuple[Any, str | None]]:
    """``(file, path)`` for a path or an open seekable binary file (then without a path)."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file, os.fspath(f)
        return
    try:
        f.seek(f.tell())
        f.read  # noqa: B018 - asks whether it is there
    except (io.UnsupportedOperation, AttributeError) as e:
        raise type(e)(
            f"{e}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like "
            "io.BytesIO and try to load from it instead."
        ) from e
    if isinstance(f.read(0), str):
        raise TypeError("a checkpoint is read from a binary file: open it with mode 'rb'")
    yield f, None


@contextmanager
def atomic_write(path: str) -> Iterator[Any]:
    """A binary file that becomes ``path`` when the block ends well; on failure ``path`` is as before, nothing is left.

    Where the system can, the file has no name until it is complete, so that even a killed process leaves nothing.
    Special files (pipes, devices) and folders without write permission are written in place.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.path.dirname(path) or '.'} does not exist.")
    if os.path.isdir(target):
        raise IsADirectoryError(f"cannot save to {path!r}: it is a folder")
    mode = os.stat(target).st_mode if os.path.exists(target) else None
    if (mode is not None and not stat.S_ISREG(mode)) or not os.access(folder, os.W_OK):
        with open(target, "wb") as file:
            yield file
        return
    temporary = os.path.join(folder, f".{os.path.basename(target)[:100]}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    nameless = _nameless(folder)
    if mode is not None:
        _forget(target)
    try:
        with open(temporary, "xb") if nameless is None else open(nameless, "wb") as file:
            if mode is not None:
                os.chmod(file.fileno(), stat.S_IMODE(mode))
            yield file
            file.flush()
            if nameless is not None:
                # The folder argument only makes Python use the call that follows the link in /proc.
                os.link(f"/proc/self/fd/{nameless}", temporary, src_dir_fd=nameless, follow_symlinks=True)
        os.replace(temporary, target)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def _forget(path: str) -> None:
    """Let the system drop its copy in memory of a file that is about to be replaced; what is on disk stays.

    The new contents then take the memory of the old ones, as they would if the file were overwritten: without this a
    large file is in memory twice, and the second time in pages that cost far more than the copying.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    try:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:  # no permission to read it: it is only written slower
        return


def _nameless(folder: str) -> int | None:
    """A new file in ``folder`` without a name, where the file system has such files."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        fd = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError:
        return None
    if os.path.exists(f"/proc/self/fd/{fd}"):
        return fd
    os.close(fd)
    return None
