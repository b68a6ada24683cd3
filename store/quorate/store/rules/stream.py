"""The store's rules for messages: the streams of batches, and batches from peers (protocol.md 7).

A state machine without I/O. A method takes a batch, and returns the rows that must be durable
before the batch is acknowledged. Reads come through quorate.store.storage.interface.Reads. The
permission to write (promise, begin, limbo) is decided in quorate.store.rules.acceptor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    Fenced,
    InvalidArgument,
    MessageTooLarge,
    NotRegistered,
    OutOfOrder,
)
from quorate.protocol.framing import BatchHeader, check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import MESSAGE_BYTES_MAX, SEQUENCE_MAX
from quorate.protocol.ranges import HeldRange, Range
from quorate.store.rules import state_only
from quorate.store.rules.arrivals import Arrival
from quorate.store.rules.batch_check import BatchCheck, refuse
from quorate.store.rules.batch_rows import BatchRows
from quorate.store.rules.source_state import (
    AppendStream,
    Change,
    SourceState,
)
from quorate.store.rules.store_identity import Standing
from quorate.store.storage.index import Compared
from quorate.store.storage.interface import (
    Reads,
    Write,
)
from quorate.v1 import messages_pb2 as v1

_BODY_TAGS_BYTES = 10
"""Bytes, at most, that the body of a batch has for its only message besides its content."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The answer to the opening of a stream."""

    stream: AppendStream
    next_sequence: int
    """The first number that the store lacks, and that the source sends first."""


class SourceStreams:
    """The streams of all sources into one store, and the journal's next position."""

    def __init__(
        self,
        store: str,
        reads: Reads,
        sources: Mapping[SourceName, SourceState],
        standing: Standing,
        check_vouches: Callable[[SourceName, SourceState | None], None],
        position: int,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        check: BatchCheck | None = None,
    ) -> None:
        """Begin at this position of the journal.

        - check_vouches: raises InLimbo if the store cannot vouch for what it lacks of a source.
        - message_bytes_max: the bytes of the largest message that a source may send.
        - check: what the application of an embedded store allows; None: everything.
        """
        self._check = check
        self.message_bytes_max = message_bytes_max
        self._rows = BatchRows(store, reads, position)
        self._store = store
        self._sources = sources
        self._standing = standing
        self._check_vouches = check_vouches

    @property
    def position(self) -> int:
        """The journal's next position."""
        return self._rows.position

    def open(
        self,
        information: v1.SourceInformation,
        instance: bytes,
        incarnation: bytes,
        retained_from: int,
        stable_upto: int,
    ) -> Change[Opened]:
        """Open a source's stream. An older stream of the same instance ends.

        retained_from: the lowest number that the source still has. The stream goes on at the first
        number from there on that the store lacks.
        Raises NotRegistered, Fenced, InLimbo, OutOfOrder, InvalidArgument, and ContentConflict if
        the instance sent other content before, and no operator has settled that.
        """
        source = SourceName(information.source.topic, information.source.session_id)
        epoch = information.epoch
        state = self._sources.get(source)
        if state is not None and epoch < state.registration.promised_epoch:
            raise state.fenced(epoch)
        self._check_vouches(source, state)
        self._standing.check_named(source, incarnation)
        if state is None:
            raise NotRegistered(str(source), f"store {self._store} does not know it")
        record = state.registration
        if epoch != record.begun.epoch or record.taken_over:
            raise NotRegistered(str(source), f"epoch {epoch} was not begun at store {self._store}")
        if record.promised_to not in (b"", instance):
            raise Fenced(f"{source}, another instance", epoch, record.promised_epoch)
        if state.refused_instance == instance:
            # Its other content must not count as held, wherever the stream would go on.
            where = next(iter(state.refused))
            raise ContentConflict(str(source), where.first, where.last, self._store)
        if not 0 <= retained_from <= SEQUENCE_MAX:
            raise InvalidArgument("retained_from", f"{retained_from} is no sequence number")
        held = state.held
        stable_upto = max(stable_upto, held.stable_upto)
        open_from = max(held.next_sequence, stable_upto + 1)
        if open_from < retained_from and not state.is_lost(open_from, retained_from - 1):
            raise OutOfOrder(str(source), held.next_sequence, retained_from, self._store)

        held.stable_upto = stable_upto
        state.goes_on_at(retained_from)
        state.registration = replace(
            record, promised_to=instance, information=information, clean=False
        )
        endings = state.end_stream(Closed(f"The older stream of {source}"))
        next_sequence = state.has_upto(retained_from) + 1
        term = record.begun.lineage.terms[-1]
        expected = state_only.expected_of(state, next_sequence)
        state.stream = AppendStream(state, epoch, term.first, instance, expected)
        return Change(
            Opened(state.stream, next_sequence),
            (state.registration_row(), state.held_row()),
            endings,
        )

    def append(
        self, stream: AppendStream, frame: bytes, stable_upto: int
    ) -> tuple[Write, ...] | None:
        """Take a batch on the hot path; None if the store holds some of its numbers.

        The caller then makes earlier writes readable, and calls `append_held`.
        Raises CorruptBatch, InvalidArgument, OutOfOrder, BatchRefused, Fenced, Closed.
        """
        header = check_batch(frame)
        size = len(frame)
        if header.first == header.last:
            self._check_size(header)
        state = stream.state
        held = state.held
        first, last = header.first, header.last
        if not (
            first == stream.expected == held.next_sequence
            and header.epoch == stream.epoch
            and first >= stream.epoch_from
            and last <= SEQUENCE_MAX
            and header.source == state.registration.name
            and state.stream is stream
        ):
            self._check_next(stream, header)
            held.stable_upto = max(held.stable_upto, stable_upto)
            if not state.lacks_all(first, last):
                return None
        if self._check is not None:
            refuse(self._check, header, frame, size, self._store)
        if stable_upto > held.stable_upto:
            held.stable_upto = stable_upto
        stream.expected = max(stream.expected, last + 1)
        return self._rows.of_new(state, header, frame, size, last)

    def append_held(self, stream: AppendStream, frame: bytes) -> tuple[Write, ...]:
        """Take a batch of which the store holds some numbers; write nothing if it holds all.

        Every write of this source so far must be readable. Raises what `append` raises, and
        ContentConflict.
        """
        header = check_batch(frame)
        self._check_next(stream, header)
        if self._check is not None:
            refuse(self._check, header, frame, len(frame), self._store)
        writes = self._rows.of_any(stream.state, header, frame, header.last)
        stream.expected = max(stream.expected, header.last + 1)
        return writes

    def fragment(
        self, stream: AppendStream, at: int, size: int, data: bytes, stable_upto: int
    ) -> list[Write]:
        """Take a fragment of a large batch, which is the stream's arrival from then on.

        A fragment at 0 ends an earlier arrival that was not whole. Once the arrival is whole,
        `append_large` takes the batch. Raises CorruptBatch, InvalidArgument, OutOfOrder,
        MessageTooLarge, Fenced, Closed.
        """
        self._check_open(stream)
        held = stream.state.held
        held.stable_upto = max(held.stable_upto, stable_upto)
        writes: list[Write] = []
        if not at:
            writes += self._end_arrival(stream)
            stream.arrival = self._rows.arrival("on the wire")
        if (arrival := stream.arrival) is None:
            raise InvalidArgument("append", f"a fragment at {at} follows no other")
        writes += arrival.take(at, size, data)
        if not at:
            self._check_next(stream, arrival.header)
            self._check_size(arrival.header)
        return writes

    @staticmethod
    def _end_arrival(stream: AppendStream) -> list[Write]:
        arrival, stream.arrival = stream.arrival, None
        return arrival.removed() if arrival is not None else []

    def _check_size(self, header: BatchHeader) -> None:
        """Raise MessageTooLarge if the only message of a batch is too large for this store."""
        message_bytes = header.plain_bytes - _BODY_TAGS_BYTES
        if message_bytes > self.message_bytes_max:
            setting = f"message_bytes_max of store {self._store}"
            refused = f"Message {header.first} of {header.source}"
            raise MessageTooLarge(message_bytes, self.message_bytes_max, setting, refused)

    def append_large(
        self, stream: AppendStream, arrival: Arrival, compared: Compared | None
    ) -> tuple[Write, ...]:
        """Take the arrival of the stream, which is whole.

        compared: how it compares with what is held of its number; None: nothing is. Raises what
        `append_held` raises.
        """
        self._check_next(stream, arrival.header)
        if self._check is not None:
            refuse(self._check, arrival.header, b"", arrival.size, self._store)
        writes = self._rows.of_large(stream.state, arrival, compared)
        stream.arrival = None
        stream.expected = max(stream.expected, arrival.header.last + 1)
        return writes

    def _check_next(self, stream: AppendStream, header: BatchHeader) -> None:
        self._check_open(stream)
        state_only.check_takes_data(self._store, stream.state)
        _check_belongs(stream.state, header)
        if header.first > stream.expected:
            raise OutOfOrder(str(stream.state.name), stream.expected, header.first, self._store)

    @staticmethod
    def _check_open(stream: AppendStream) -> None:
        record = stream.state.registration
        if stream.state.stream is stream:
            return
        if record.promised_epoch > stream.epoch:
            raise stream.state.fenced(stream.epoch)
        raise Closed(f"The stream of {record.name}")

    def keepalive(self, stream: AppendStream, stable_upto: int) -> tuple[Write, ...]:
        """Note that everything up to stable_upto is stable. Raises Fenced, Closed."""
        self._check_open(stream)
        return self.learn_stable(stream.state, stable_upto)

    def skip(self, stream: AppendStream, first: int, last: int) -> tuple[Write, ...]:
        """Note a hole that the source cannot fill.

        Every number of the hole must be stable, or all must be accepted losses.
        Raises OutOfOrder, InvalidArgument, Fenced, Closed.
        """
        self._check_open(stream)
        state_only.check_takes_data(self._store, stream.state)
        held = stream.state.held
        if first != stream.expected:
            raise OutOfOrder(str(stream.state.name), stream.expected, first, self._store)
        if not first <= last <= held.stable_upto and not stream.state.is_lost(first, last):
            raise InvalidArgument(
                "skip", f"[{first}, {last}] is not all stable; that is so up to {held.stable_upto}"
            )
        stream.expected = last + 1
        held.next_sequence = max(held.next_sequence, last + 1)
        return (stream.state.held_row(),)

    def inform(self, stream: AppendStream, information: v1.SourceInformation) -> tuple[Write, ...]:
        """Keep newer information about the source. Raises InvalidArgument, Fenced, Closed."""
        self._check_open(stream)
        state = stream.state
        source = SourceName(information.source.topic, information.source.session_id)
        if source != state.name or information.epoch != stream.epoch:
            raise InvalidArgument("information", f"is not of {state.name}, epoch {stream.epoch}")
        known = state.registration.information
        if known is not None and information.version <= known.version:
            return ()
        state.registration = replace(state.registration, information=information)
        return (state.registration_row(),)

    def goodbye(self, stream: AppendStream) -> tuple[Write, ...]:
        """Note that the source leaves of its own will. Raises Fenced, Closed."""
        self._check_open(stream)
        state = stream.state
        state.registration = replace(state.registration, clean=True)
        return (state.registration_row(),)

    def closed(self, stream: AppendStream) -> tuple[Write, ...]:
        """Note that the stream is over, however it ended."""
        writes = self._end_arrival(stream)
        if stream.state.stream is stream:
            stream.state.stream = None
            writes.append(stream.state.held_row())
        return tuple(writes)

    # Batches from peers.

    def fill(self, state: SourceState, frame: bytes, lacking: Range) -> Change[Range | None]:
        """Take from a peer's batch the part that this store lacks of a stable range.

        Answers the part that was taken. None if no part belongs to the source's lineage here, or if
        the source was deleted meanwhile. Unless the store lacks all numbers of the batch, every
        write of this source so far must be readable. Raises CorruptBatch, InvalidArgument,
        ContentConflict.
        """
        header = check_batch(frame, "from a peer")
        part = self._wanted(state, header, lacking)
        if part is None:
            return Change(None)
        return Change(part, self._rows.of_any(state, header, frame, part.last))

    def arrival(self, where: str) -> Arrival:
        """Return a large batch from elsewhere of which no fragment has come. where: for errors."""
        return self._rows.arrival(where)

    def fill_large(
        self, state: SourceState, arrival: Arrival, lacking: Range, compared: Compared | None
    ) -> Change[Range | None]:
        """Take a large batch from a peer, all of which has come, as `fill` takes any other.

        compared: how it compares with what is held of its number; None: nothing is. Unless the
        batch is taken, the caller removes its fragments.
        """
        part = self._wanted(state, arrival.header, lacking)
        if part is None:
            return Change(None)
        return Change(part, self._rows.of_large(state, arrival, compared))

    def _wanted(self, state: SourceState, header: BatchHeader, lacking: Range) -> Range | None:
        """Return the part of a peer's batch that belongs to the lineage and was asked for."""
        if self._sources.get(state.name) is not state:
            return None
        if header.source != state.name:
            raise InvalidArgument("batch", f"is of {header.source}, not of {state.name}")
        valid = state.lineage.valid(HeldRange(header.first, header.last, header.epoch))
        if valid is None or valid.first != header.first:
            return None
        first, last = max(valid.first, lacking.first), min(valid.last, lacking.last)
        return Range(first, last) if first <= last else None

    def learn_stable(self, state: SourceState, upto: int) -> tuple[Write, ...]:
        """Note that everything up to this number is stable in the lineage of this store."""
        if upto <= state.held.stable_upto or self._sources.get(state.name) is not state:
            return ()
        state.held.stable_upto = upto
        return (state.held_row(),)


def _check_belongs(state: SourceState, header: BatchHeader) -> None:
    if header.source != state.name:
        raise InvalidArgument("batch", f"is of {header.source}, not of {state.name}")
    if header.last > SEQUENCE_MAX:
        raise InvalidArgument("batch", f"ends at {header.last}, past the last sequence number")
    lineage = state.lineage
    for sequence in (header.first, header.last):
        if lineage.epoch_at(sequence) != header.epoch:
            raise InvalidArgument(
                "batch",
                f"{state.name} [{header.first}, {header.last}] has epoch {header.epoch}, where "
                f"the lineage names {lineage.epoch_at(sequence)}",
            )
