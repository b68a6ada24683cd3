"""Digests of the messages that a store holds of a stream, block by block, for quick comparison.

A digest covers index rows (first, last, epoch, checksum), each clipped to its block. No message is
read. Equal digests mean equal content. Different digests may only mean that the batches begin and
end elsewhere. quorate.store.tasks.comparison reads the messages then.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quorate.protocol.ranges import Range
from quorate.store.storage.index import entries
from quorate.store.storage.interface import Reads
from quorate.store.storage.records import IndexEntry

BLOCK = 1 << 16
"""The sequence numbers in a block of the first comparison."""
CLOSE_BLOCK = 1 << 12
"""The sequence numbers in a block of the closer comparison, where the first one differed."""
BLOCKS_MAX = 1 << 14
"""The most blocks that one request may ask for."""

_ROWS_AT_ONCE = 4096
_PART = struct.Struct("<qqQI")


@dataclass(frozen=True, slots=True)
class Block:
    """The part of one block that was asked for, and the digest of what a store holds of it."""

    first: int
    last: int
    held: int
    """The count of numbers in [first, last] that the store holds."""
    digest: int


def blocks(reads: Reads, reg_id: int, wanted: Range, block: int) -> list[Block]:
    """Return the digest of each block with a wanted number. Block n begins at n times the size.

    Call it off the event loop, since it reads the index. Raises StorageFailed, CorruptBatch.
    """
    return digests(entries(reads, reg_id, wanted.first, wanted.last, _ROWS_AT_ONCE), wanted, block)


def digests(rows: Iterable[IndexEntry], wanted: Range, block: int) -> list[Block]:
    """Return the digests of the blocks, computed from rows that ascend and do not overlap."""
    found: list[Block] = []
    parts = _parts(rows, wanted, block)
    part = next(parts, None)
    first = wanted.first
    while first <= wanted.last:
        last = min(first - first % block + block - 1, wanted.last)
        hasher = hashlib.blake2b(digest_size=8)
        held = 0
        while part is not None and part[0] <= last:
            hasher.update(_PART.pack(*part))
            held += part[1] - part[0] + 1
            part = next(parts, None)
        found.append(Block(first, last, held, int.from_bytes(hasher.digest(), "little")))
        first = last + 1
    return found


def _parts(
    rows: Iterable[IndexEntry], wanted: Range, block: int
) -> Iterator[tuple[int, int, int, int]]:
    """Return first, last, epoch and checksum of each row, cut at the borders of blocks."""
    for row in rows:
        first, upto = max(row.first, wanted.first), min(row.last, wanted.last)
        while first <= upto:
            last = min(first - first % block + block - 1, upto)
            yield first, last, row.epoch, row.checksum
            first = last + 1


def differing(ours: Iterable[Block], theirs: Iterable[Block]) -> list[Range]:
    """Return the blocks of which both stores hold messages, with different digests."""
    by_first = {block.first: block for block in theirs}
    return [
        Range(block.first, min(block.last, other.last))
        for block in ours
        if (other := by_first.get(block.first)) is not None
        and block.held
        and other.held
        and (block.digest, block.last) != (other.digest, other.last)
    ]
