"""Compressed batches: the same messages, smaller, and no lie makes more memory than it may."""

from __future__ import annotations

import random
import struct

import google_crc32c
import pytest
import zstandard

from quorate.protocol.attributes import checked_attributes
from quorate.protocol.compression import Compression
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.fragments import split
from quorate.protocol.framing import (
    HEADER_BYTES,
    check_batch,
    compressed,
    cut,
    encode_batch,
    in_epoch,
    plain,
    read_header,
    read_messages,
    read_payloads,
    same_content,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import WHOLE_BATCH_BYTES_MAX

SOURCE = SourceName("orders", 7)
PAYLOADS = [b'{"row": %d, "carrier": "UA", "origin": "EWR"}' % number for number in range(100)]
ATTRIBUTES = [checked_attributes(b"key %d" % number) for number in range(100)]
PLAIN = encode_batch(SOURCE, 3, 40, PAYLOADS, 9, b"mark", ATTRIBUTES)
SMALL = compressed(PLAIN)


def with_body(body: bytes, said: int) -> bytes:
    """The compressed batch with another body, which is said to have so many bytes."""
    header = read_header(SMALL)
    body = struct.pack("<I", said) + body
    head = SMALL[8 : HEADER_BYTES - 4] + struct.pack("<I", len(body) | 1 << 31)
    checked = head + SMALL[HEADER_BYTES : header.body_at] + body
    return SMALL[:4] + struct.pack("<I", google_crc32c.value(checked)) + checked


def test_a_compressed_batch_is_smaller_and_has_the_same_messages() -> None:
    assert len(SMALL) < len(PLAIN) / 2
    header, before = check_batch(SMALL), check_batch(PLAIN)
    assert header.is_compressed
    assert (header.plain_bytes, header.marker) == (before.plain_bytes, b"mark")
    assert (header.source, header.epoch, header.first, header.last) == (SOURCE, 3, 40, 139)
    assert read_messages(SMALL, header) == (PAYLOADS, ATTRIBUTES)
    assert same_content(SMALL, PLAIN)
    assert plain(SMALL, header) == PLAIN
    assert plain(PLAIN, before) is PLAIN
    assert compressed(SMALL) is SMALL


def test_a_batch_that_does_not_become_smaller_stays_as_it_is() -> None:
    frame = encode_batch(SOURCE, 3, 40, [random.Random(1).randbytes(1000)], 9)
    assert compressed(frame) is frame
    assert Compression("zstd") is Compression.ZSTD


def test_another_epoch_leaves_the_body_and_a_part_is_plain() -> None:
    header = read_header(SMALL)
    again = in_epoch(SMALL, 8)
    assert again[header.body_at :] == SMALL[header.body_at :]
    assert cut(SMALL, header, 40, 139, 8) == again
    assert plain(again, check_batch(again)) == cut(PLAIN, read_header(PLAIN), 40, 139, 8)
    part = cut(SMALL, header, 50, 59, 8)
    assert part == cut(PLAIN, read_header(PLAIN), 50, 59, 8)


@pytest.mark.parametrize("said", [0, 1, WHOLE_BATCH_BYTES_MAX, 2**32 - 1])
def test_a_size_that_no_body_has_is_found_before_anything_is_decompressed(said: int) -> None:
    with pytest.raises(CorruptBatch, match="is said to be"):
        read_header(with_body(zstandard.compress(b"x" * 1000), said))


def test_a_body_without_a_size_is_refused() -> None:
    header = read_header(SMALL)
    frame = SMALL[: HEADER_BYTES - 4] + struct.pack("<I", 2 | 1 << 31)
    with pytest.raises(CorruptBatch, match="does not name its size"):
        read_header(frame + SMALL[HEADER_BYTES : header.body_at] + b"ab")


def test_a_body_that_becomes_more_than_it_says_makes_no_memory() -> None:
    bomb = with_body(zstandard.compress(bytes(2**28)), 100_000)
    with pytest.raises(CorruptBatch, match="another size"):
        read_payloads(bomb, check_batch(bomb))
    unknown = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(2**24))
    bomb = with_body(unknown, 100_000)
    with pytest.raises(CorruptBatch, match="another size"):
        read_payloads(bomb, check_batch(bomb))


@pytest.mark.parametrize("body", [b"", b"not compressed", zstandard.compress(bytes(9999))[:-2]])
def test_a_body_that_does_not_decompress_is_corrupt(body: bytes) -> None:
    frame = with_body(body, 9999)
    with pytest.raises(CorruptBatch):
        read_payloads(frame, check_batch(frame))


def test_every_flipped_bit_is_found() -> None:
    for at in range(8 * len(SMALL)):
        broken = bytearray(SMALL)
        broken[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptBatch):
            check_batch(bytes(broken))


def test_a_large_batch_is_not_compressed() -> None:
    frame = encode_batch(SOURCE, 1, 0, [bytes(WHOLE_BATCH_BYTES_MAX)], 0)
    size = struct.unpack_from("<I", frame, HEADER_BYTES - 4)[0]
    flagged = frame[: HEADER_BYTES - 4] + struct.pack("<I", size | 1 << 31) + frame[HEADER_BYTES:]
    with pytest.raises(CorruptBatch):
        split(flagged)
