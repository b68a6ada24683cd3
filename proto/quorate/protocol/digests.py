"""Digests of the batches of a stream, block by block, for quick comparison.

A store computes them from the rows of its index, and an audit from those of an archive. A digest
covers first, last, epoch and checksum of each batch, each clipped to its block. Equal digests mean
equal content. Different digests may only mean that the batches begin and end elsewhere. Nothing
here reads an index or a file.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from quorate.protocol.ranges import Range

_PART = struct.Struct("<qqQI")


class Row(Protocol):
    """A batch, or the part [first, last] of one, with the checksum of the whole batch."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def checksum(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Block:
    """The part of one block that was asked for, and the digest of what is held of it."""

    first: int
    last: int
    held: int
    """The count of numbers in [first, last] that are held."""
    digest: int


def digests(rows: Iterable[Row], wanted: Range, block: int) -> list[Block]:
    """Return the digests of the blocks, computed from rows that ascend and do not overlap.

    Block n begins at n times the size.
    """
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


def _parts(rows: Iterable[Row], wanted: Range, block: int) -> Iterator[tuple[int, int, int, int]]:
    """Return first, last, epoch and checksum of each row, cut at the borders of blocks."""
    for row in rows:
        first, upto = max(row.first, wanted.first), min(row.last, wanted.last)
        while first <= upto:
            last = min(first - first % block + block - 1, upto)
            yield first, last, row.epoch, row.checksum
            first = last + 1
