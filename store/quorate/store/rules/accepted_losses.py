"""The store's rules for losses that an operator accepts, and for the records of them.

A state machine without I/O, like quorate.store.rules.acceptor. A record is kept for ever. It counts
as long as the lineage names the same epochs for its numbers. Under another epoch these numbers are
other messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quorate.protocol.errors import InvalidArgument, NotLost
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import NO_LINEAGE
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store.rules.source_state import (
    Change,
    SourceState,
)
from quorate.store.storage import index
from quorate.store.storage.interface import (
    Reads,
    Table,
    Write,
)
from quorate.store.storage.maintenance_records import (
    LossRecord,
    Poison,
    loss_key,
    pack_loss,
)

_REASON_BYTES_MAX = 4096
POISON_RECORDS_MAX = 1000
"""The most marks and removals of one source. Stores tell them each other again and again."""


class Losses:
    """The losses that operators accepted on one store, and those that it learnt from peers."""

    def __init__(
        self,
        store: str,
        sources: Mapping[SourceName, SourceState],
        reads: Reads,
        records: Sequence[LossRecord] = (),
    ) -> None:
        """Begin with the records on disk, in the order in which they were recorded."""
        self._store = store
        self._sources = sources
        self._reads = reads
        self.records = list(records)
        for state in sources.values():
            self.count_again(state)

    def count_again(self, state: SourceState) -> None:
        """Apply the records to a source whose state came without them."""
        records = [record for record in self.records if record.source == state.name]
        state.accepted = tuple(each for each in records if not each.kept and not each.poison)
        state.poison = tuple(each for each in records if each.poison)
        state.renew_losses()

    def accept(
        self, source: SourceName, first: int, last: int, reason: str, time_ns: int
    ) -> Change[LossRecord]:
        """Record that an operator accepts these numbers as lost.

        Held numbers among them that are unreadable no longer count as held. Every write of the
        source must be readable. Raises NotLost, InvalidArgument.
        """
        check_reason(reason)
        check_numbers(first, last)
        state = self._sources.get(source)
        if state is None or not state.lineage.terms:
            raise NotLost(str(source), first, last, self._store, "it does not know that source")
        if here := state.readable().both(RangeSet([Range(first, last)])):
            raise NotLost(
                str(source), first, last, self._store, f"it has {', '.join(map(str, here))}"
            )
        known_upto = max(state.held.next_sequence - 1, state.held.stable_upto)
        if last > known_upto:
            raise NotLost(
                str(source),
                first,
                last,
                self._store,
                f"it knows of nothing above {known_upto}; what was never sent is not lost",
            )
        record = LossRecord(source, first, last, reason, time_ns, state.lineage)
        writes = self._give_up(state, record)
        return Change(record, (*writes, *self._record(state, record)))

    def learn(
        self, state: SourceState, losses: Iterable[HeldRange], told_by: str, time_ns: int
    ) -> tuple[Write, ...]:
        """Record the losses accepted on another store that are neither known nor held here."""
        news = state.lineage.belonging(losses).minus(state.losses).minus(state.held.ranges)
        writes: list[Write] = []
        for item in news:
            record = LossRecord(
                state.name,
                item.first,
                item.last,
                f"accepted elsewhere, as {told_by} says",
                time_ns,
                state.lineage,
            )
            writes += self._record(state, record)
        return tuple(writes)

    def mark(
        self,
        source: SourceName,
        part: Range,
        poison: Poison,
        reason: str,
        time_ns: int,
    ) -> Change[LossRecord]:
        """Record that an operator marks messages as poison, or removes a mark.

        The messages stay. time_ns: all stores are told the same. Raises InvalidArgument.
        """
        check_reason(reason)
        check_numbers(part.first, part.last)
        state = self._sources.get(source)
        known_upto = NOTHING
        if state is not None and state.lineage.terms:
            known_upto = max(state.held.next_sequence - 1, state.held.stable_upto)
        if state is None or part.last > known_upto:
            raise InvalidArgument(
                "poison", f"store {self._store} knows of no message of {source} above {known_upto}"
            )
        newest = max((each.time_ns for each in state.poison), default=0)
        if time_ns <= newest:
            raise InvalidArgument("poison", f"{time_ns} is not later than the last mark, {newest}")
        if len(state.poison) >= POISON_RECORDS_MAX:
            raise InvalidArgument(
                "poison", f"{source} has {POISON_RECORDS_MAX} marks and removals, the most"
            )
        record = LossRecord(
            source, part.first, part.last, reason, time_ns, state.lineage, poison=poison
        )
        return Change(record, self._record(state, record))

    def learn_poison(self, state: SourceState, told: Iterable[LossRecord]) -> tuple[Write, ...]:
        """Record the marks and removals that another store has and this one lacks."""
        known = {_decision(each) for each in state.poison}
        writes: list[Write] = []
        for record in told:
            if record.poison and _decision(record) not in known:
                known.add(_decision(record))
                writes += self._record(state, record)
        return tuple(writes)

    def settled(
        self, state: SourceState, part: Range, kept: str, reason: str, time_ns: int
    ) -> Change[LossRecord]:
        """Record that an operator settled a conflict. kept: the store whose content is kept.

        Nothing counts as lost by it. Raises InvalidArgument.
        """
        check_reason(reason)
        record = LossRecord(state.name, part.first, part.last, reason, time_ns, state.lineage, kept)
        return Change(record, self._record(state, record))

    def left_limbo(
        self, state: SourceState | None, reason: str, time_ns: int
    ) -> Change[LossRecord]:
        """Record that the store leaves limbo with what it has. Raises InvalidArgument.

        None as the state stands for all sources.
        """
        check_reason(reason)
        name = state.name if state is not None else None
        lineage = state.lineage if state is not None else NO_LINEAGE
        record = LossRecord(name, NOTHING, NOTHING, reason, time_ns, lineage)
        return Change(record, self._record(state, record))

    def _record(self, state: SourceState | None, record: LossRecord) -> tuple[Write, ...]:
        self.records.append(record)
        if state is not None and not record.kept:
            _note(state, record)
        return (Write(Table.META, loss_key(len(self.records)), pack_loss(record)),)

    def _give_up(self, state: SourceState, record: LossRecord) -> list[Write]:
        """Remove the lost numbers that are unreadable from what is held."""
        writes: list[Write] = []
        gone = state.held.ranges.both(RangeSet([Range(record.first, record.last)]))
        for part in gone:
            for entry in index.entries(self._reads, state.reg_id, part.first, part.last):
                writes += index.cut_out(state.reg_id, entry, part)
        # The reads come first: their failure must leave everything as it was.
        for part in gone:
            state.held.ranges.remove(part.first, part.last)
            writes += state.read_well(part.first, part.last)
        state.held.released_bytes += index.leaving_bytes(writes)
        return [*writes, state.held_row()] if gone else []


def _decision(record: LossRecord) -> tuple[int, int, int, int]:
    """Return the identity of a mark or a removal, which is the same in every store."""
    return record.time_ns, record.poison, record.first, record.last


def _note(state: SourceState, record: LossRecord) -> None:
    if record.poison:
        state.poison = (*state.poison, record)
    else:
        state.accepted = (*state.accepted, record)
    state.renew_losses()


def check_numbers(first: int, last: int) -> None:
    """Raise InvalidArgument unless there can be messages from first to last."""
    if not 0 <= first <= last:
        raise InvalidArgument("loss", f"[{first}, {last}] is no range")


def check_reason(reason: str) -> None:
    if not reason.strip():
        raise InvalidArgument("reason", "is empty; say why, and who says so")
    if len(reason.encode()) > _REASON_BYTES_MAX:
        raise InvalidArgument("reason", f"is longer than {_REASON_BYTES_MAX} bytes; shorten it")
