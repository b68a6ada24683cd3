"""The messages of batches that pass a subscription's filter, with the fields that it selects.

All of it runs away from the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from quorate.protocol.columns import values_at
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import passing
from quorate.protocol.filters.projection import Projection
from quorate.protocol.fragments import Batch, encode_alone
from quorate.protocol.framing import BatchHeader, body_of, rows_of
from quorate.protocol.identity import SourceName
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_to_wire
from quorate.store.storage.interface import Reads
from quorate.store.storage.large_batches import LargeRow, load_large
from quorate.v1 import store_pb2 as store_v1


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive messages to give: a part of a batch."""

    header: BatchHeader
    frame: bytes
    """The batch; empty if it is a large one."""
    part: Range
    large: LargeRow | None = None
    stable_upto: int | None = None
    """The last number that is stable; None: the subscription is given only what is stable."""

    def times(self) -> Sequence[int]:
        """Return the time of each message, in ns since 1970 UTC."""
        header, part = self.header, self.part
        if self.large is not None:
            return [header.timestamp_ns]
        try:
            times = body_of(self.frame, header).read_times(header.timestamp_ns)
        except CorruptBatch:  # its checksum is right, so its source made it so
            return [header.timestamp_ns] * len(part)
        return times[part.first - header.first : part.last - header.first + 1]


def moved_behind(piece: Piece) -> store_v1.Given:
    """Return what says that nothing of a piece is given."""
    place = store_v1.Place(
        source=source_to_wire(piece.header.source),
        epoch=piece.header.epoch,
        sequence=piece.part.last,
    )
    return store_v1.Given(moved=place)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of each batch that a subscription wants."""

    where: Filter | None
    """Only messages that pass; None: all."""
    select: Projection | None
    """Only these fields of payloads; None: payloads as they are."""
    payload_of: Callable[[str], PayloadFormat]
    """Returns the format of the payloads of a topic."""

    @property
    def is_everything(self) -> bool:
        """Whether batches are given as they are."""
        return self.where is None and self.select is None

    def left_of(
        self, reads: Reads, found: Iterable[store_v1.Given | Piece]
    ) -> list[store_v1.Given | Piece]:
        """Return what is left of pieces. A large one is left as it is, for `large_left`.

        Raises StorageFailed, CorruptBatch.
        """
        left: list[store_v1.Given | Piece] = []
        moved: dict[SourceName, store_v1.Given] = {}
        for each in found:
            if not isinstance(each, Piece):
                left += moved.values()
                moved.clear()
                left.append(each)
                continue
            source = each.header.source
            chosen = self._chosen(reads, each)
            if chosen is each:
                # A batch that is given as a whole has to be the next one.
                if source in moved:
                    left.append(moved.pop(source))
                left.append(each)
            elif isinstance(chosen, store_v1.Selected):
                moved.pop(source, None)
                left.append(store_v1.Given(selected=chosen, stable_upto=each.stable_upto))
            else:
                moved[source] = moved_behind(each)
        return [*left, *moved.values()]

    def _chosen(self, reads: Reads, piece: Piece) -> store_v1.Selected | Piece | None:
        """Return what is left of a piece; None: nothing is."""
        if piece.large is None:
            frame = piece.frame
        elif self.where is None:
            return piece
        else:
            frame = load_large(reads, piece.large).joined()
        try:
            return self._chosen_of(frame, piece)
        except CorruptBatch:
            return None  # its checksum is right, so its source made it so: it has no message

    def _chosen_of(self, frame: bytes, piece: Piece) -> store_v1.Selected | Piece | None:
        header, part = piece.header, piece.part
        form = self.payload_of(header.source.topic)
        body = body_of(frame, header)
        needs_all = self.where is None or self.where.needs_payloads
        every = body.read_payloads() if needs_all else []
        rows = list(range(part.first - header.first, part.last - header.first + 1))
        if self.where is not None:
            rows = passing(self.where, header, every, body, part.first, part.last, form)
        if not rows:
            return None
        payloads = values_at(every, rows) if every else body.read_payloads_of(rows)
        given = payloads
        if self.select is not None and piece.large is None:
            given = [self.select.of(payload, form) for payload in payloads]
        if len(rows) == len(part) and given == payloads:
            return piece
        batch = rows_of(header, body, rows, given)
        return store_v1.Selected(
            batch=batch, offsets=[row - rows[0] for row in rows], upto=part.last
        )


def large_left(
    select: Projection, form: PayloadFormat, reads: Reads, large: LargeRow
) -> Batch | None:
    """Return the message of a large batch with fields of its payload alone; None: it has none.

    form: the format of the payload. Raises StorageFailed, CorruptBatch.
    """
    batch, header = load_large(reads, large), large.header
    try:
        payload, attributes = batch.message()
    except CorruptBatch:
        return None  # its checksum is right, so its source made it so
    return encode_alone(
        header.source,
        header.epoch,
        header.first,
        select.of(payload, form),
        header.timestamp_ns,
        attributes,
    )
