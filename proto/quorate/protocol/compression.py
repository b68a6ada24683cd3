"""Compression of the bodies of batches: Zstandard, in one call for each body.

The reader of a batch names the size that it expects, and never makes more memory than that. The
meaning of a body, and when compressing it is worth it, are not known here.
"""

from __future__ import annotations

import enum

import zstandard

from quorate.protocol.errors import CorruptBatch

_LEVEL = 1


class Compression(enum.Enum):
    """The ways in which a source compresses its batches."""

    ZSTD = "zstd"
    """Zstandard at its fastest level."""


def compress(body: bytes) -> bytes:
    """Return the body, compressed."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(body)


def decompress(body: bytes, size: int) -> bytes:
    """Return a body of so many bytes, decompressed. Raises CorruptBatch if it has any other size.

    The size that the body itself names is looked at first: memory is made for no other one.
    """
    try:
        if zstandard.frame_content_size(body) != size:
            raise CorruptBatch("in memory", "its compressed body has another size than it says")
        return zstandard.ZstdDecompressor().decompress(body, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptBatch("in memory", f"its body does not decompress: {error}") from None
