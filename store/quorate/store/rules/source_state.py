"""The state of one source in a store's memory, and plain questions about it.

The state is ahead of the disk: an accepted change is in it at once. An answer that comes from it
must wait until the change is durable. The decisions are in quorate.store.rules.acceptor and
quorate.store.rules.stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from quorate.protocol.application import UNNAMED, Application
from quorate.protocol.errors import Fenced, QuorateError, TakenOver
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.store.rules.arrivals import Arrival
from quorate.store.rules.identity_records import (
    End,
    ended_key,
    pack_end,
)
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.maintenance_records import (
    LossRecord,
    Poison,
    pack_ranges,
    refusal_key,
    unreadable_key,
)
from quorate.store.storage.records import (
    Held,
    ReceiverRecord,
    Registration,
    limbo_key,
    marker_key,
    pack_held,
    pack_marker,
    pack_receiver,
    pack_registration,
    receiver_key,
    reg_id_key,
)

A = TypeVar("A")


@dataclass(eq=False, slots=True)
class AppendStream:
    """A source's open stream into this store."""

    state: SourceState
    epoch: int
    epoch_from: int
    """The first sequence number of that epoch."""
    instance: bytes
    expected: int
    """The sequence number of the next message. NOTHING: the store takes no messages."""
    arrival: Arrival | None = None
    """The large batch that is coming in."""


class Ending(NamedTuple):
    """A stream that must end now, and the error that its source is told."""

    stream: AppendStream
    error: QuorateError


@dataclass(eq=False, slots=True)
class SourceState:
    """One source as this store knows it."""

    reg_id: int
    registration: Registration
    held: Held
    stream: AppendStream | None = None
    receivers: dict[int, ReceiverRecord] = field(default_factory=dict)
    """The registered receivers, by session ID."""
    ended: dict[int, End] = field(default_factory=dict)
    """The deregistered receivers, by session ID (quorate.store.rules.receiver_tombstones)."""
    markers: tuple[Marker, ...] = ()
    """The newest stable marker and every later one, ascending."""
    limbo: str = ""
    """Why the store cannot vouch for what it lacks of this source; empty: it vouches."""
    unreadable: RangeSet = field(default_factory=RangeSet)
    """The held numbers that were found unreadable. The set is replaced, never changed."""
    refused: RangeSet = field(default_factory=RangeSet)
    """The held numbers for which the source came with other content. The set is replaced, too."""
    refused_instance: bytes = b""
    """The instance whose batch was refused since the store started. It is refused from then on."""
    accepted: tuple[LossRecord, ...] = ()
    """All losses of this source that operators ever accepted."""
    losses: RangeSet = field(default_factory=RangeSet)
    """The numbers that count as lost in this lineage. The set is replaced, never changed."""
    poison: tuple[LossRecord, ...] = ()
    """All records by which operators marked messages as poison, or removed a mark."""
    poisoned: RangeSet = field(default_factory=RangeSet)
    """The numbers that must not be delivered. The set is replaced, never changed."""
    takes_data: bool = True
    """Whether the store keeps messages of this topic (quorate.store.rules.state_only)."""
    application: Application = UNNAMED
    """The application that streamed last since the store started."""

    @property
    def name(self) -> SourceName:
        return self.registration.name

    @property
    def lineage(self) -> Lineage:
        return self.registration.begun.lineage

    @property
    def live(self) -> bool:
        """Whether the source is streaming to this store now."""
        return self.stream is not None

    def is_of_former_stream(self, epoch: int) -> bool:
        """Return whether an epoch is older than the whole stream; False for 0, which is none."""
        terms = self.lineage.terms
        return bool(terms) and 0 < epoch < terms[0].epoch

    def as_it_is(self) -> SourceState:
        """Return a copy whose held ranges no longer change."""
        return replace(self, held=replace(self.held, ranges=RangeSet(self.held.ranges)))

    def held_by_epoch(self) -> tuple[HeldRange, ...]:
        """Return the readable ranges by epoch. Everything held belongs to the lineage."""
        return self.lineage.parted(self.readable())

    def readable(self) -> RangeSet:
        """Return the held numbers that were not found unreadable."""
        return self.held.ranges.minus(self.unreadable) if self.unreadable else self.held.ranges

    def unneeded(self, retained_from: int) -> RangeSet:
        """Return the unreadable numbers below retained_from, which other stores have let go."""
        if not (self.unreadable and retained_from):
            return RangeSet()
        return self.unreadable.both(RangeSet((Range(0, retained_from - 1),)))

    @property
    def journal_bytes(self) -> int:
        """The bytes of all its batches in the journal, including those that were set aside."""
        return self.held.bytes - self.held.released_bytes

    def released(self) -> RangeSet:
        """Return the numbers that were let go on purpose, here or elsewhere, and are not here."""
        below = self.held.retained_from
        return RangeSet((Range(0, below - 1),) if below else ()).minus(self.held.ranges)

    def released_at(self, first: int) -> Range | None:
        """Return the released range from this number on; None if this number was not released.

        An accepted loss does not count as released.
        """
        for item in self.released().minus(self.losses):
            if item.first <= first <= item.last:
                return Range(first, item.last)
        return None

    def lost(self) -> RangeSet:
        """Return the numbers that an operator accepted as lost and that are not here."""
        return self.losses.minus(self.held.ranges)

    def is_lost(self, first: int, last: int) -> bool:
        """Return whether an operator accepted all of [first, last] as lost; False for no range."""
        return 0 <= first <= last <= self.losses.contiguous_upto(first)

    def has_upto(self, first: int) -> int:
        """Return the highest n for which no store has to send a number of [first, n] here.

        Each of them is readable here, was let go, or is an accepted loss.
        """
        has = self.readable()
        if self.losses:
            has = has.union(self.losses)
        return has.contiguous_upto(max(first, self.held.retained_from))

    def goes_on_at(self, sequence: int) -> None:
        """Note that the stream goes on at this number; lacking numbers below become holes.

        A state-only store has no holes.
        """
        if self.takes_data:
            self.held.next_sequence = max(self.held.next_sequence, sequence)

    def holes(self) -> list[Range]:
        """Return the ranges that the store should have and lacks, below the next number."""
        if not self.takes_data:
            return []
        begins = self.lineage.terms[0].first if self.lineage.terms else 0
        begins = max(begins, self.held.retained_from)
        holes = self.held.ranges.holes(begins, self.held.next_sequence - 1)
        return list(RangeSet(holes).minus(self.losses)) if self.losses else holes

    def is_as_readable_as(self, known: SourceState) -> bool:
        """Return whether no number was found unreadable, or was mended, since that copy.

        The copy comes from `as_it_is`.
        """
        return self.unreadable is known.unreadable

    def found_unreadable(self, first: int, last: int) -> tuple[Write, ...]:
        """Note that held numbers of [first, last] are unreadable; no writes if it was known."""
        found = RangeSet([Range(first, last)]).both(self.held.ranges).minus(self.unreadable)
        if not found:
            return ()
        self.unreadable = self.unreadable.union(found)
        return (self.unreadable_row(),)

    def read_well(self, first: int, last: int) -> tuple[Write, ...]:
        """Note that a good copy of [first, last] is here, or is no longer needed."""
        if not self.unreadable:
            return ()
        self.unreadable = self.unreadable.minus((Range(first, last),))
        return (self.unreadable_row(),)

    def met_conflict(self, first: int, last: int) -> tuple[Write, ...]:
        """Note that the source was refused, with other content for [first, last] than held here.

        The note stays until an operator settles it. No writes if it was known.
        """
        found = RangeSet([Range(first, last)]).minus(self.refused)
        if not found:
            return ()
        self.refused = self.refused.union(found)
        return (self._refusal_row(),)

    def refusal_settled(self, first: int, last: int) -> tuple[Write, ...]:
        """Drop the notes of `met_conflict` for [first, last]."""
        if not self.refused:
            return ()
        self.refused = self.refused.minus((Range(first, last),))
        if not self.refused:
            self.refused_instance = b""
        return (self._refusal_row(),)

    def _refusal_row(self) -> Write:
        value = pack_ranges(self.refused) or None
        return Write(Table.META, refusal_key(self.reg_id), value)

    def renew_losses(self) -> None:
        """Compute `losses` and `poisoned` anew, as far as the lineage still names the numbers.

        A number that another epoch has taken over since is another message.
        """
        losses, poisoned = RangeSet(), RangeSet()
        for record in self.accepted:
            losses = losses.union(self._still_named(record))
        for record in sorted(self.poison, key=lambda each: (each.time_ns, each.poison)):
            named = self._still_named(record)
            is_marked = record.poison is Poison.MARKED
            poisoned = poisoned.union(named) if is_marked else poisoned.minus(named)
        self.losses, self.poisoned = losses, poisoned

    def _still_named(self, record: LossRecord) -> RangeSet:
        """Return the numbers of a record that the lineage gives to the same epochs."""
        upto = min(record.last, diverges_at(record.lineage, self.lineage) - 1)
        return RangeSet((Range(record.first, upto),) if 0 <= record.first <= upto else ())

    def without_stream(self) -> SourceState:
        """Return a new state in place of this one, whose stream is deleted.

        Nothing of it counts as stable. Code that still works on the former state can notice, as it
        is another object.
        """
        ranges = RangeSet(self.held.ranges)
        held = replace(self.held, ranges=ranges, stable_upto=NOTHING, retained_from=0)
        return replace(self, held=held, stream=None)

    def lacks_all(self, first: int, last: int) -> bool:
        """Return whether no number of [first, last] is held."""
        return self.held.ranges.holes(first, last) == [Range(first, last)]

    def piece(self, first: int, last: int) -> tuple[Range, bool]:
        """Return the longest range from first on that is all held or all lacking, and which."""
        held_upto = self.held.ranges.contiguous_upto(first)
        if held_upto >= first:
            return Range(first, min(held_upto, last)), True
        return Range(first, self.held.ranges.missing_upto(first, last)), False

    def add_marker(self, marker: Marker) -> tuple[Write, ...]:
        """Keep a marker, and drop the stable markers before the newest stable one."""
        known = [known for known in self.markers if known.sequence != marker.sequence]
        ascending = sorted([*known, marker], key=lambda each: each.sequence)
        stable = sum(each.sequence <= self.held.stable_upto for each in ascending)
        self.markers = tuple(ascending[max(0, stable - 1) :])
        key = marker_key(self.reg_id, marker.sequence)
        return (
            *self._markers_gone(ascending[: max(0, stable - 1)]),
            *([Write(Table.MARKERS, key, pack_marker(marker))] if marker in self.markers else ()),
        )

    def prune_markers(self) -> tuple[Write, ...]:
        """Drop the stable markers before the newest stable one."""
        stable = sum(each.sequence <= self.held.stable_upto for each in self.markers)
        gone = self.markers[: max(0, stable - 1)]
        self.markers = self.markers[len(gone) :]
        return self._markers_gone(gone)

    def drop_markers(self, first: int, last: int = SEQUENCE_MAX) -> tuple[Write, ...]:
        """Drop the markers of [first, last], which no longer belong to the stream."""
        gone = [marker for marker in self.markers if first <= marker.sequence <= last]
        self.markers = tuple(marker for marker in self.markers if marker not in gone)
        return self._markers_gone(gone)

    def _markers_gone(self, markers: Iterable[Marker]) -> tuple[Write, ...]:
        return tuple(
            Write(Table.MARKERS, marker_key(self.reg_id, marker.sequence), None)
            for marker in markers
        )

    def positions_below(self, first: int) -> list[Write]:
        """Move receivers' positions below this number: from it on there are other messages.

        Normally no position moves. Receivers acknowledge only stable messages, and no begin takes
        those back. If something went wrong before, a receiver gets messages twice rather than
        missing the new ones.
        """
        rows = []
        for session_id, record in self.receivers.items():
            if record.acknowledged_upto >= first:
                record.acknowledged_upto = first - 1
                rows.append(self.receiver_row(session_id, record))
        return rows

    def receiver_row(self, session_id: int, record: ReceiverRecord) -> Write:
        key = receiver_key(self.reg_id, session_id)
        return Write(Table.RECEIVERS, key, pack_receiver(record))

    def ended_upto(self, session_id: int) -> int:
        """Return the epoch up to which this receiver is deregistered; 0: no end is known."""
        end = self.ended.get(session_id)
        return end.epoch if end is not None else 0

    def ended_row(self, session_id: int) -> Write:
        end = self.ended.get(session_id)
        key = ended_key(self.reg_id, session_id)
        return Write(Table.META, key, pack_end(end) if end is not None else None)

    def fenced(self, epoch: int) -> Fenced:
        """Return the refusal of an older epoch than the promised one."""
        record = self.registration
        error = TakenOver if record.by_take_over else Fenced
        return error(str(record.name), epoch, record.promised_epoch)

    def is_taken_from(self, instance: bytes) -> bool:
        """Return whether another instance took over, and has the promise."""
        record = self.registration
        return record.by_take_over and record.promised_to != instance

    def end_stream(self, error: QuorateError) -> tuple[Ending, ...]:
        """End the source's stream into this store, if it has one, with this error."""
        stream, self.stream = self.stream, None
        return (Ending(stream, error),) if stream is not None else ()

    def held_row(self) -> Write:
        return Write(Table.HELD, reg_id_key(self.reg_id), pack_held(self.held))

    def unreadable_row(self) -> Write:
        value = pack_ranges(self.unreadable) or None
        return Write(Table.META, unreadable_key(self.reg_id), value)

    def registration_row(self) -> Write:
        return Write(
            Table.REGISTRATIONS, reg_id_key(self.reg_id), pack_registration(self.registration)
        )

    def enter_limbo(self, reason: str) -> tuple[Write, ...]:
        """Put the source in limbo. An instance that was promised an epoch must ask again."""
        self.limbo = reason
        self.registration = replace(self.registration, taken_over=True)
        for record in self.receivers.values():
            record.registered_here = False
        return (self.limbo_row(), self.registration_row())

    def limbo_row(self) -> Write:
        return Write(Table.META, limbo_key(self.reg_id), self.limbo.encode() or None)


@dataclass(frozen=True, slots=True)
class Change(Generic[A]):
    """The outcome of a request. All writes must be durable before its answer may be seen."""

    answer: A
    writes: tuple[Write, ...] = ()
    endings: tuple[Ending, ...] = ()
