"""Setting messages aside: they leave the stream, and stay on the disk for inspection.

The caller decides which messages no longer belong to the stream (quorate.store.rules.acceptor,
quorate.store.rules.conflicts).
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules.source_state import SourceState
from quorate.store.storage import index
from quorate.store.storage.interface import Reads, Write


def set_aside(
    reads: Reads, state: SourceState, parts: Sequence[Range]
) -> tuple[int, tuple[Write, ...]]:
    """Take these numbers out of the stream. Return the count of messages, and the rows.

    A part up to SEQUENCE_MAX also ends the stream there: it goes on at the first number of that
    part. The row of what is held is not among the rows. Every write of the source must be readable.
    """
    # The reads come first: their failure must leave everything as it was.
    moves = [
        write
        for part in parts
        for write in index.moves_aside(reads, state.reg_id, part.first, part.last)
    ]
    held = state.held
    count = held.ranges.both(RangeSet(parts)).count()
    held.set_aside += count
    for part in parts:
        held.ranges.remove(part.first, part.last)
        moves += state.drop_markers(part.first, part.last)
        moves += state.read_well(part.first, part.last)
        moves += state.refusal_settled(part.first, part.last)
        if part.last == SEQUENCE_MAX:
            held.next_sequence = min(held.next_sequence, part.first)
            moves += state.positions_below(part.first)
    return count, tuple(moves)
