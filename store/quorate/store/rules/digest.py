"""Digests of what a store holds of a stream, block by block, in a form that is quick to compare.

A digest is over index rows (first, last, epoch, checksum), each clipped to its block: no message is
read. Equal digests mean equal content; different ones may only mean that the batches begin and end
elsewhere, which is found out by reading (see quorate.store.tasks.comparison). Reads only.
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
"""How many sequence numbers a block has, unless it is looked at more closely."""
CLOSE_BLOCK = 1 << 12
"""The same for a closer look."""
BLOCKS_MAX = 1 << 14
"""The most blocks that one request may ask for."""

_ROWS_AT_ONCE = 4096
_PART = struct.Struct("<qqQI")


@dataclass(frozen=True, slots=True)
class Block:
    """What a store holds of the numbers of one block."""

    first: int
    """As far as it was asked for."""
    last: int
    held: int
    """How many of the numbers are held."""
    digest: int


def blocks(reads: Reads, reg_id: int, wanted: Range, block: int) -> list[Block]:
    """The digest of each block that has a wanted number; a block begins at a multiple of its size.

    To be called off the event loop: it reads the index. Raises StorageFailed, CorruptBatch.
    """
    return digests(entries(reads, reg_id, wanted.first, wanted.last, _ROWS_AT_ONCE), wanted, block)


def digests(rows: Iterable[IndexEntry], wanted: Range, block: int) -> list[Block]:
    """The same, of rows that are at hand; they ascend and do not overlap."""
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
    """First, last, epoch and checksum of each row, cut at the borders of blocks."""
    for row in rows:
        first, upto = max(row.first, wanted.first), min(row.last, wanted.last)
        while first <= upto:
            last = min(first - first % block + block - 1, upto)
            yield first, last, row.epoch, row.checksum
            first = last + 1


def differing(ours: Iterable[Block], theirs: Iterable[Block]) -> list[Range]:
    """The blocks of which both hold something, but not the same."""
    by_first = {block.first: block for block in theirs}
    return [
        Range(block.first, min(block.last, other.last))
        for block in ours
        if (other := by_first.get(block.first)) is not None
        and block.held
        and other.held
        and (block.digest, block.last) != (other.digest, other.last)
    ]
