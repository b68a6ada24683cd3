"""The rows of a batch that the store takes, and the journal's next position.

A batch of a source has the same rows as one of a peer or of an archive. Numbers that are held are
compared, and never overwritten. quorate.store.rules.stream decides which batches may be taken.
"""

from __future__ import annotations

from quorate.protocol.errors import ContentConflict
from quorate.protocol.framing import BatchHeader
from quorate.protocol.recovery import Marker
from quorate.store.rules.arrivals import Arrival
from quorate.store.rules.source_state import SourceState
from quorate.store.storage import index
from quorate.store.storage.index import Compared
from quorate.store.storage.interface import (
    Reads,
    Table,
    Write,
)
from quorate.store.storage.records import (
    index_key,
    pack_index,
    position_key,
)


class BatchRows:
    """The rows of batches into one store's journal."""

    def __init__(self, store: str, reads: Reads, position: int) -> None:
        """Begin at this position of the journal."""
        self.position = position
        """The journal's next position. A group of fragments takes one, too, as its number."""
        self._store = store
        self._reads = reads

    def arrival(self, where: str) -> Arrival:
        """Return a large batch of which no fragment has come. where: for errors."""
        group = self.position
        self.position = group + 1
        return Arrival(group, where)

    def of_new(
        self, state: SourceState, header: BatchHeader, row: bytes, size: int, last: int
    ) -> tuple[Write, ...]:
        """Hold a batch up to `last`, of which the store held no number, and return its rows.

        row: the journal's row; size: the bytes of the batch.
        """
        _hold(state, header.first, last)
        own = size if last == header.last else 0
        entry = pack_index(self.position, last, header.epoch, header.checksum, own)
        return (
            self._journal_write(state, row, size),
            Write(Table.INDEX, index_key(state.reg_id, header.first), entry),
            *_marker_writes(state, header, last),
            state.held_row(),
        )

    def of_any(
        self, state: SourceState, header: BatchHeader, frame: bytes, last: int
    ) -> tuple[Write, ...]:
        """Compare a batch with the messages held of its numbers, and hold the rest up to `last`.

        Raises ContentConflict.
        """
        if state.lacks_all(header.first, last):
            return self.of_new(state, header, frame, len(frame), last)
        compared = index.compare(self._reads, state.reg_id, header, frame, last)
        writes, _ = self._of_compared(state, header, frame, len(frame), last, compared)
        return writes

    def of_large(
        self, state: SourceState, arrival: Arrival, compared: Compared | None
    ) -> tuple[Write, ...]:
        """Hold a large batch, all of which has come.

        If the store has its message already, the rows remove the fragments.

        compared: how it compares with what is held of its number; None: nothing is.
        Raises ContentConflict.
        """
        header, row, size = arrival.header, arrival.packed_row(), arrival.size
        if compared is None:
            return (*self.of_new(state, header, row, size, header.last), arrival.taken())
        writes, is_needed = self._of_compared(state, header, row, size, header.last, compared)
        return (*writes, *((arrival.taken(),) if is_needed else arrival.removed()))

    def _of_compared(
        self,
        state: SourceState,
        header: BatchHeader,
        row: bytes,
        size: int,
        last: int,
        compared: Compared,
    ) -> tuple[tuple[Write, ...], bool]:
        """Return the rows of the numbers that did not agree, and whether there are any."""
        if (where := compared.conflict) is not None:
            raise ContentConflict(str(state.name), where.first, where.last, self._store)
        needed = compared.agreed.holes(header.first, last)
        # The read comes first: its failure must leave everything as it was.
        rows = index.serve(self._reads, state.reg_id, needed, self.position, header)
        read_well = state.read_well(header.first, last)
        if not needed:
            return read_well, False
        state.held.released_bytes += index.leaving_bytes(rows)
        _hold(state, header.first, last)
        writes = (
            self._journal_write(state, row, size),
            *rows,
            *_marker_writes(state, header, last),
            *read_well,
            state.held_row(),
        )
        return writes, True

    def _journal_write(self, state: SourceState, row: bytes, size: int) -> Write:
        position = self.position
        self.position = position + 1
        state.held.bytes += size
        return Write(Table.JOURNAL, position_key(position), row)


def _hold(state: SourceState, first: int, last: int) -> None:
    state.held.ranges.add(first, last)
    state.held.next_sequence = max(state.held.next_sequence, last + 1)


def _marker_writes(state: SourceState, header: BatchHeader, last: int) -> tuple[Write, ...]:
    """Return the row of a batch's marker, which belongs to the last message of the batch."""
    if not header.marker or last != header.last:
        return ()
    return state.add_marker(Marker(last, header.epoch, header.marker))
