"""The merge of one source's stream: live and fetched batches become one stream, in order.

No I/O, no clock. quorate.receiver.protocol.fetch_plan decides what to fetch and what is proven
lost. quorate.receiver.protocol.consumed counts what was consumed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from quorate.protocol.fragments import Batch, LargeBatch
from quorate.protocol.framing import BatchHeader
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.ranges import HeldRange, Range, RangeSet


class BatchOutcome(enum.Enum):
    """The result of giving a batch to the stream."""

    TAKEN = enum.auto()
    DUPLICATE = enum.auto()
    NO_ROOM = enum.auto()
    """The batch would have to wait, and there is no room. It is fetched when its turn comes."""
    VOID = enum.auto()
    """The lineage names another epoch for its numbers: it does not belong to the stream."""
    NEWER_EPOCH = enum.auto()
    """The batch is of an epoch that the lineage lacks: the lineage must be learned first."""


@dataclass(slots=True)
class BatchPart:
    """The part [first, last] of a batch that belongs to the stream and is not handed on yet."""

    first: int
    last: int
    header: BatchHeader
    frame: Batch
    retransmitted: bool

    @property
    def size(self) -> int:
        """The part's share of the frame's bytes."""
        whole = self.header.last - self.header.first + 1
        return len(self.frame) * (self.last - self.first + 1) // whole


@dataclass(slots=True)
class Room:
    """The bytes that wait for earlier messages or for stability, over all sources of a receiver."""

    live_bytes_max: int
    """The bound for live batches: they may wait only while no more bytes than this wait."""
    fetched_bytes_max: int
    """The bound for fetched batches: fetching ahead of the first missing message stops at it."""
    waiting_bytes: int = 0


class Stream:
    """The merge: takes batches in any order and gives each message once, in order, without
    holes."""

    def __init__(
        self,
        lineage: Lineage,
        start: int,
        *,
        known_upto: int = NOTHING,
        stable_upto: int = NOTHING,
        hold_back: bool = False,
        room: Room,
    ) -> None:
        """Begin at `start`. hold_back: hand on nothing above stable_upto."""
        self.lineage = lineage
        self.next = start
        """The first sequence number that is not handed on yet."""
        self.known_upto = known_upto
        """The highest sequence number known to exist in this lineage."""
        self.stable_upto = stable_upto
        self.newest_epoch = lineage.epoch
        """The highest epoch heard of. If it is above the lineage's, the lineage is outdated."""
        self.message_bytes = 1024.0
        """The average size, in bytes, of a message, framing included; a guess until the first
        batch."""
        self._hold_back = hold_back
        self._room = room
        self._waiting: dict[int, BatchPart] = {}
        self._covered = RangeSet()
        self._ready: list[BatchPart] = []
        self._arriving: tuple[int, int] | None = None

    # Inputs.

    def live(self, header: BatchHeader, frame: bytes) -> BatchOutcome:
        """Take a checked batch of the live stream."""
        if header.epoch > self.lineage.epoch:
            self.heard_of_epoch(header.epoch)
            return BatchOutcome.NEWER_EPOCH
        valid = self._valid(header, header.first, header.last)
        if valid is None:
            return BatchOutcome.VOID
        self.known_upto = max(self.known_upto, valid.last)
        if valid.last < self.next:
            return BatchOutcome.DUPLICATE
        at_once = valid.first <= self.next <= self._limit()
        if not at_once and self._room.waiting_bytes + len(frame) > self._room.live_bytes_max:
            return BatchOutcome.NO_ROOM
        return self._take(valid, header, frame, retransmitted=False)

    def arrives(self, header: BatchHeader, size: int) -> bool:
        """Return whether a large batch of the live stream is to be put together as it comes in.

        If so, call `arrived` or `broke_off` next. Its number is fetched from nobody until then. The
        lineage must have its epoch. size: the bytes of the batch.

        The next message always has room. Another one has it within the bound, or if nothing waits.
        """
        assert self._arriving is None, self._arriving
        valid = self._valid(header, header.first, header.last)
        if valid is None or valid.last < self.next or valid.first in self._covered:
            return False
        waiting = self._room.waiting_bytes
        if valid.first > self.next and waiting and waiting + size > self._room.live_bytes_max:
            self.known_upto = max(self.known_upto, valid.last)
            return False
        self._arriving = valid.first, size
        self._room.waiting_bytes += size
        return True

    def arrived(self, batch: LargeBatch) -> BatchOutcome:
        """Take the large batch that was arriving, checked."""
        self._end_arrival()
        header = batch.header
        valid = self._valid(header, header.first, header.last)
        if valid is None:
            return BatchOutcome.VOID
        self.known_upto = max(self.known_upto, valid.last)
        if valid.last < self.next:
            return BatchOutcome.DUPLICATE
        return self._take(valid, header, batch, retransmitted=False)

    def broke_off(self) -> None:
        """Note that no more comes of the large batch that was arriving, if one was."""
        if self._arriving is not None:
            self.known_upto = max(self.known_upto, self._arriving[0])
            self._end_arrival()

    def _end_arrival(self) -> None:
        assert self._arriving is not None
        self._room.waiting_bytes -= self._arriving[1]
        self._arriving = None

    def fetched(self, header: BatchHeader, frame: Batch, first: int, last: int) -> BatchOutcome:
        """Take a checked batch that was fetched, of which only [first, last] counts."""
        if header.epoch > self.lineage.epoch:
            self.heard_of_epoch(header.epoch)
            return BatchOutcome.NEWER_EPOCH
        valid = self._valid(header, max(first, header.first), min(last, header.last))
        if valid is None:
            return BatchOutcome.VOID
        self.known_upto = max(self.known_upto, valid.last)
        if valid.last < self.next:
            return BatchOutcome.DUPLICATE
        return self._take(valid, header, frame, retransmitted=True)

    def exists(self, upto: int, epoch: int) -> None:
        """Note that the stream reaches up to here, as a peer with the lineage of that epoch
        says."""
        if epoch == self.lineage.epoch:
            self.known_upto = max(self.known_upto, upto)

    def stable(self, upto: int, epoch: int) -> None:
        """Note what is stable, as a peer with the lineage of that epoch says.

        Under another lineage the same number may be another message, so the report does not count.
        """
        if epoch == self.lineage.epoch and upto > self.stable_upto:
            self.stable_upto = upto
            # Messages that a source sends again in a new epoch come from the stores alone. The live
            # stream reports nothing more of them than this number.
            self.known_upto = max(self.known_upto, upto)
            if self._hold_back:
                self._hand_on()

    def heard_of_epoch(self, epoch: int) -> None:
        """Note that the source has begun, or is about to begin, this epoch."""
        self.newest_epoch = max(self.newest_epoch, epoch)

    def adopt(self, lineage: Lineage) -> Range | None:
        """Change to a newer lineage; older ones are ignored.

        Return the numbers that were handed on and no longer belong to the stream. From the first of
        them on the stream begins anew, with other messages.
        """
        if lineage.epoch <= self.lineage.epoch:
            return None
        at = diverges_at(self.lineage, lineage)
        self.lineage = lineage
        self.heard_of_epoch(lineage.epoch)
        self._drop_from(at)
        self.known_upto = min(self.known_upto, at - 1)
        self.stable_upto = min(self.stable_upto, at - 1)
        if at >= self.next:
            return None
        withdrawn = Range(at, self.next - 1)
        self.next = at
        return withdrawn

    def skip(self, upto: int) -> None:
        """Skip the missing messages from `next` to `upto`."""
        assert upto >= self.next
        self.next = upto + 1
        self._hand_on()

    # Results.

    def take_ready(self) -> list[BatchPart]:
        """Return what came in order since the last call."""
        ready = self._ready
        if ready:
            self._ready = []
        return ready

    @property
    def behind(self) -> bool:
        """Whether the next message exists, could be handed on, and is missing."""
        arrives = self._arriving is not None and self._arriving[0] == self.next
        return self.next <= self._target() and not arrives

    @property
    def outdated(self) -> bool:
        """Whether an epoch is known that the lineage lacks."""
        return self.newest_epoch > self.lineage.epoch

    @property
    def holds_back(self) -> bool:
        """Whether only what is stable is handed on."""
        return self._hold_back

    def missing(self) -> list[Range]:
        """Return the ranges to be fetched, ascending."""
        target = self._target()
        if self.next > target:
            return []
        covered = self._covered
        if self._arriving is not None:
            covered = covered.union(RangeSet([Range(self._arriving[0], self._arriving[0])]))
        return covered.holes(self.next, target)

    # Inside.

    def _target(self) -> int:
        """Return the last number to fetch: later ones do not exist, or could not be handed on."""
        return min(self.known_upto, self.stable_upto) if self._hold_back else self.known_upto

    def _limit(self) -> int:
        return self.stable_upto if self._hold_back else SEQUENCE_MAX

    def _valid(self, header: BatchHeader, first: int, last: int) -> Range | None:
        newest = self.lineage.terms[-1] if self.lineage.terms else None
        if newest is not None and header.epoch == newest.epoch and first >= newest.first:
            return Range(first, last) if first <= last else None
        if first > last:
            return None
        return self.lineage.valid(HeldRange(first, last, header.epoch))

    def _take(
        self, valid: Range, header: BatchHeader, frame: Batch, *, retransmitted: bool
    ) -> BatchOutcome:
        count = header.last - header.first + 1
        self.message_bytes += (len(frame) / count - self.message_bytes) / 8
        first = max(valid.first, self.next)
        if first == self.next and not self._waiting and valid.last <= self._limit():
            self._ready.append(BatchPart(first, valid.last, header, frame, retransmitted))
            self.next = valid.last + 1
            return BatchOutcome.TAKEN
        parts = self._covered.holes(first, valid.last)
        for part in parts:
            self._wait(BatchPart(part.first, part.last, header, frame, retransmitted))
        self._hand_on()
        return BatchOutcome.TAKEN if parts else BatchOutcome.DUPLICATE

    def _wait(self, piece: BatchPart) -> None:
        self._waiting[piece.first] = piece
        self._covered.add(piece.first, piece.last)
        self._room.waiting_bytes += piece.size

    def _hand_on(self) -> None:
        before, limit = self.next, self._limit()
        while self.next <= limit:
            piece = self._waiting.pop(self.next, None)
            if piece is None:
                break
            self._room.waiting_bytes -= piece.size
            if piece.last > limit:
                rest = BatchPart(
                    limit + 1, piece.last, piece.header, piece.frame, piece.retransmitted
                )
                piece = BatchPart(
                    piece.first, limit, piece.header, piece.frame, piece.retransmitted
                )
                self._wait(rest)
            self._ready.append(piece)
            self.next = piece.last + 1
        if self.next > before:
            self._covered.remove(before, self.next - 1)

    def _drop_from(self, at: int) -> None:
        kept = [piece for piece in self._waiting.values() if piece.first < at]
        self.release()
        for piece in kept:
            self._wait(
                BatchPart(
                    piece.first,
                    min(piece.last, at - 1),
                    piece.header,
                    piece.frame,
                    piece.retransmitted,
                )
            )

    def release(self) -> None:
        """Drop everything that waits."""
        for piece in self._waiting.values():
            self._room.waiting_bytes -= piece.size
        self._waiting.clear()
        self._covered = RangeSet()
