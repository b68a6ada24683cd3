"""Messages of the topics as a dispatcher keeps them, and the frames in which it hands them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from quorate.protocol.attributes import Attributes, has_any
from quorate.protocol.bookmarks import NO_PLACE, Place
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import FRAGMENT_BYTES
from quorate.protocol.times import times_of
from quorate.queue.protocol.track import Entry
from quorate.subscriber.items import ReplayedBatch
from quorate.v1 import queue_pb2 as v1


class Lot:
    """Messages of one source in one epoch."""

    __slots__ = ("attributes", "before", "epoch", "numbers", "payloads", "source", "times")

    def __init__(
        self,
        source: SourceName,
        epoch: int,
        numbers: Sequence[int],
        before: Place,
        payloads: Sequence[bytes],
        attributes: Sequence[Attributes],
        times: Sequence[int],
    ) -> None:
        """Keep these messages.

        - before: the place in the source's stream before them.
        - attributes: those of each, or empty if none has any.
        """
        self.source = source
        self.epoch = epoch
        self.numbers = numbers
        self.before = before
        self.payloads = payloads
        self.attributes = attributes
        self.times = times

    @classmethod
    def of(cls, batch: ReplayedBatch) -> Lot:
        """Return the messages of a batch."""
        attributes = batch.attributes if has_any(batch.attributes) else ()
        return cls(
            batch.source, batch.epoch, batch.numbers, batch.before, batch.payloads, attributes,
            batch.times,
        )  # fmt: skip

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each message; None: it has none."""
        if not self.attributes:
            return [None] * len(self.numbers)
        return [each.key for each in self.attributes]

    def alone(self, row: int) -> Lot:
        """Return one of the messages without the others."""
        return Lot(
            self.source, self.epoch, [self.numbers[row]], NO_PLACE, [self.payloads[row]],
            self.attributes[row : row + 1], [self.times[row]],
        )  # fmt: skip

    def frame(self, rows: Sequence[int]) -> bytes:
        """Return messages as a batch of their own, with consecutive numbers."""
        timestamp_ns, later = times_of([self.times[row] for row in rows])
        return encode_batch(
            self.source,
            self.epoch,
            self.numbers[rows[0]],
            [self.payloads[row] for row in rows],
            timestamp_ns,
            b"",
            [self.attributes[row] for row in rows] if self.attributes else (),
            later,
        )


def jobs_of(entries: Iterable[Entry]) -> Iterator[v1.Jobs]:
    """Yield the jobs of these messages for the wire, those of one batch together."""
    for _, together in groupby(entries, lambda entry: id(entry.batch)):
        # The order within a batch is that of the source.
        rows = sorted(together, key=_row)
        lot = rows[0].batch
        assert isinstance(lot, Lot)
        numbers = [entry.sequence for entry in rows]
        jobs = v1.Jobs()
        if numbers[-1] - numbers[0] >= len(numbers):
            jobs.offsets.extend(number - numbers[0] for number in numbers)
        if any(entry.tried.count for entry in rows):
            jobs.tries.extend(entry.tried.count for entry in rows)
        yield from _in_parts(jobs, lot.frame([entry.row for entry in rows]))


def _row(entry: Entry) -> int:
    return entry.row


def _in_parts(jobs: v1.Jobs, frame: bytes) -> Iterator[v1.Jobs]:
    """Yield the jobs, with a batch that is too large for one response in parts."""
    if len(frame) <= 4 * FRAGMENT_BYTES:
        jobs.batch = frame
        yield jobs
        return
    for at in range(0, len(frame), FRAGMENT_BYTES):
        part = v1.Jobs(batch=frame[at : at + FRAGMENT_BYTES], more=at + FRAGMENT_BYTES < len(frame))
        if not part.more:
            part.MergeFrom(jobs)
        yield part
