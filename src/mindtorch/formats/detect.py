"""Which format a file has, told from its contents alone."""

from __future__ import annotations

import zipfile
from typing import Any

from mindtorch.formats import pth_legacy
from mindtorch.formats.source import Source

KINDS = ("pth", "torchscript", "safetensors", "npz", "ckpt")
"""What `kind_of` can answer. "pth" covers PyTorch's zip, its older stream and its oldest tar."""

SUFFIXES = {
    ".pth": "pth", ".pt": "pth", ".bin": "pth", ".safetensors": "safetensors", ".npz": "npz", ".ckpt": "ckpt"
}  # fmt: skip
"""The format that a file to be written gets from its suffix."""

# The pickled magic number of PyTorch's stream, in any protocol.
_MAGIC = pth_legacy.MAGIC.to_bytes(10, "little")


def _zip_kind(file: Any) -> str:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as e:
        raise RuntimeError(f"the file starts as a zip archive but is broken or truncated: {e}") from None
    if any(n.endswith("/data.pkl") and n.count("/") == 1 for n in names):
        return "torchscript" if any(n.endswith("/constants.pkl") and n.count("/") == 1 for n in names) else "pth"
    if names and all(n.endswith(".npy") for n in names):
        return "npz"
    raise RuntimeError(f"the file is a zip archive but holds neither a checkpoint nor arrays: {names[:5]}")


def _is_ckpt(head: bytes, size: int) -> bool:
    """Whether a value (field 1) starts whose first field is a name."""
    if head[:1] != b"\n":
        return False
    at, length = 1, 0
    while at < len(head) and at < 11:
        length |= (head[at] & 0x7F) << (7 * (at - 1))
        at += 1
        if head[at - 1] < 0x80:
            break
    return 2 <= length <= size - at and head[at : at + 1] == b"\n"


def _kind(file: Any) -> str:
    file.seek(0, 2)
    size = file.tell()
    file.seek(0)
    head = file.read(1024)
    file.seek(0)
    if not head:
        raise RuntimeError("the file is empty")
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _zip_kind(file)
    if head[:1] == b"\x80" and _MAGIC in head[:32]:
        return "pth"
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8:
        return "safetensors"
    if pth_legacy.is_tar(file):
        return "pth"
    if _is_ckpt(head, size):
        return "ckpt"
    if len(head) > 8 and head[8:9] == b"{":
        raise RuntimeError("the file starts as safetensors but is truncated")
    if head[:1] == b"\x80":
        raise RuntimeError(
            "the file is a bare pickle, not a checkpoint; pickles are not opened because they can run code"
        )
    raise RuntimeError(
        "the file is no checkpoint of a known format (PyTorch, TorchScript, safetensors, npz, MindSpore ckpt); "
        "MindSpore checkpoints may be encrypted: decrypt them first"
    )


def kind_of(f: Source) -> str:
    """One of `KINDS` for a path, bytes or a binary file (left at its start). RuntimeError when it is none of them."""
    import io

    if isinstance(f, (bytes, bytearray, memoryview)):
        return _kind(io.BytesIO(f))
    if hasattr(f, "read"):
        kind = _kind(f)
        f.seek(0)
        return kind
    with open(f, "rb") as file:
        return _kind(file)
