"""The lanes of a call: each carries the stream of one source, and one call carries them all.

What a frame says is not known here, nor how a call is made.
"""

from __future__ import annotations

from quorate.protocol.fields import FIRST, SECOND, varint

BUNDLE_BYTES = 256 * 1024
"""Bytes of frames that travel together at most. A larger frame travels alone."""

LANES_MAX = 32_768
"""Lanes that one call has open at most."""

_LANE_TAG = b"\x08"  # field 1, varint


def lane_frame(lane: int, frame: bytes) -> bytes:
    """Return a frame as a part of AppendFrames. The parts of a bundle are joined as they are.

    They are put together by hand: protobuf would copy each batch several times.
    """
    number, prefix = varint(lane), SECOND.prefix(len(frame))
    inner = 1 + len(number) + len(prefix) + len(frame)
    return b"".join((FIRST.prefix(inner), _LANE_TAG, number, prefix, frame))


def lane_end(lane: int) -> bytes:
    """Return the part of AppendFrames that ends a lane."""
    number = varint(lane)
    return b"".join((FIRST.prefix(1 + len(number)), _LANE_TAG, number))
