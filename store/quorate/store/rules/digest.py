"""Digests of the messages that a store holds of a stream, from its index and without the messages.

How a digest is computed is in quorate.protocol.digests. Where digests differ,
quorate.store.tasks.comparison reads the messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.protocol.digests import Block, digests
from quorate.protocol.ranges import Range
from quorate.store.storage.index import entries
from quorate.store.storage.interface import Reads

BLOCK = 1 << 16
"""The sequence numbers in a block of the first comparison."""
CLOSE_BLOCK = 1 << 12
"""The sequence numbers in a block of the closer comparison, where the first one differed."""
BLOCKS_MAX = 1 << 14
"""The most blocks that one request may ask for."""

_ROWS_AT_ONCE = 4096


def blocks(reads: Reads, reg_id: int, wanted: Range, block: int) -> list[Block]:
    """Return the digest of each block with a wanted number. Block n begins at n times the size.

    Call it off the event loop, since it reads the index. Raises StorageFailed, CorruptBatch.
    """
    return digests(entries(reads, reg_id, wanted.first, wanted.last, _ROWS_AT_ONCE), wanted, block)


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
