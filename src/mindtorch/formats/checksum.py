"""CRC-32, which zip records and MindSpore's checkpoints carry: zlib-ng sums at the speed of memory, zlib is slower."""

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
