"""The store's rules for a source's history that comes back from an archive.

A state machine without I/O, like quorate.store.rules.acceptor. Everything in an archive is stable.
So the store may lack parts of a history, but must not differ from it.

An archive may have stable numbers that the store did not know. Then the first commit already notes
how far the stream is stable, and puts the source in limbo until all of it is here. So no one can
take a message that is still to come for one that never was, or use its number again.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import (
    BeingDeleted,
    InvalidArgument,
    OtherHistory,
    RestoreRefused,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import diverges_at
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import (
    held_from_wire,
    lineage_from_wire,
    markers_from_wire,
    membership_from_wire,
    source_from_wire,
)
from quorate.store.rules.acceptor import Archived, StoreCore
from quorate.store.rules.arrivals import Arrival
from quorate.store.rules.epochs import check_step
from quorate.store.rules.source_state import (
    Change,
    SourceState,
)
from quorate.store.rules.state_only import kept_here
from quorate.store.storage.index import Compared
from quorate.store.storage.interface import Write
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

RESTORING = "it is being restored from an archive, and not all of that is here yet"
"""The reason of the limbo during a restore. It is durable, so the text must never change."""


@dataclass(frozen=True, slots=True)
class History:
    """One source, as an archive has it."""

    source: SourceName
    begun: BeginRecord
    """The lineage in force up to `last`; none of its terms begins above that. The source goes on
    with the policies if the store knows no others."""
    first: int
    last: int
    losses: tuple[HeldRange, ...] = ()
    """Parts of [first, last] that an operator accepted as lost."""
    information: v1.SourceInformation | None = None
    promised_epoch: int = 0
    """The highest promised epoch that was known when the source was archived."""
    reg_id: int = 0
    markers: tuple[Marker, ...] = ()
    """The newest marker below `first`, where no store has messages; empty: there is none."""


def history_from_wire(wire: store_v1.RestoreOpen) -> History:
    """Return the history in a request. Raises InvalidArgument if the request contradicts itself."""
    lineage, last = lineage_from_wire(wire.lineage), wire.last
    if not 0 <= wire.first <= last <= SEQUENCE_MAX:
        raise InvalidArgument("restore", f"[{wire.first}, {last}] is no range")
    if not lineage.terms or not 0 <= lineage.terms[0].first <= wire.first:
        raise InvalidArgument("lineage", f"names no epoch for {wire.first}")
    if lineage.terms[-1].first > last:
        raise InvalidArgument("lineage", f"names an epoch that begins above {last}")
    begun = BeginRecord(lineage, membership_from_wire(wire.membership))
    if not begun.policies:
        raise InvalidArgument("membership", "names no policy, so that no source could go on")
    source = source_from_wire(wire.source)
    information = wire.information if wire.HasField("information") else None
    if information is not None and source_from_wire(information.source) != source:
        raise InvalidArgument("information", f"is not of {source}")
    return History(
        source,
        begun,
        wire.first,
        last,
        held_from_wire(wire.accepted_losses),
        information,
        wire.promised_epoch,
        wire.reg_id,
        markers_from_wire(wire.markers),
    )


@dataclass(frozen=True, slots=True)
class Refill:
    """A source that is open for its history from an archive."""

    state: SourceState
    upto: int
    """The highest number to take. While the source streams, it sends the higher numbers."""
    losses: tuple[HeldRange, ...]
    """The archive's accepted losses, which no store has to have."""


def open_refill(core: StoreCore, history: History) -> Change[Refill]:
    """Begin to take a history, or go on with it.

    A store that missed the history's begin follows its lineage from now on. If the source is not
    streaming, the caller waits first until all its writes are durable. Raises TopicRefused,
    BeingDeleted, RestoreRefused, OtherHistory, EpochTooFar.
    """
    source, last = history.source, history.last
    core.check_topic(source.topic)
    state = core.sources.get(source)
    _check_vouches(core, source, state)
    losses, writes = history.losses, tuple[Write, ...]()
    if state is None or not _follows(core, state, history):
        promised = state.registration.promised_epoch if state is not None else 0
        known = max(promised, core.identities.known_epoch(source))
        epoch = max(history.begun.epoch, history.promised_epoch)
        check_step(str(source), core.store, epoch, known)
        change = core.take_up(
            source,
            Archived(
                history.begun,
                history.promised_epoch,
                history.information,
                history.reg_id,
                history.first,
                history.markers,
            ),
        )
        state, writes = change.answer, change.writes
    held = state.held
    if state.live:
        upto = min(last, held.stable_upto, held.next_sequence - 1)
        return Change(Refill(state, upto, losses), writes)
    if last > held.stable_upto:
        held.stable_upto = last
        state.goes_on_at(last + 1)
        if not state.limbo and lacking(state, losses):
            writes += state.enter_limbo(RESTORING)
        writes += (state.held_row(),)
    return Change(Refill(state, last, losses), writes)


def _check_vouches(core: StoreCore, source: SourceName, state: SourceState | None) -> None:
    if state is None and core.deleting(source):
        raise BeingDeleted(str(source), core.store)
    reason = core.limbo_of(state) if state is not None else core.limbo_without(source)
    if reason and reason != RESTORING:
        raise RestoreRefused(str(source), core.store, reason)


def _follows(core: StoreCore, state: SourceState, history: History) -> bool:
    """Return whether the store's lineage is that of the archive, up to the archive's last number.

    False if the store only missed later epochs. Raises OtherHistory if the lineages contradict.
    """
    record = state.registration
    if not record.begun.epoch:
        return False
    parts_at = diverges_at(record.begun.lineage, history.begun.lineage)
    if parts_at > history.last:
        return True
    missed = record.begun.epoch < history.begun.epoch and parts_at > state.held.stable_upto
    if missed and not state.live:
        return False
    raise OtherHistory(
        str(state.name),
        parts_at,
        record.begun.lineage.epoch_at(parts_at),
        history.begun.lineage.epoch_at(parts_at),
        core.store,
    )


def lacking(state: SourceState, losses: tuple[HeldRange, ...] = ()) -> RangeSet:
    """Return the stable numbers that the store should have, and lacks or cannot read.

    losses: numbers that no store has to have, besides the losses accepted here.
    """
    stable_upto = state.held.stable_upto
    begins = max(state.lineage.terms[0].first, state.held.retained_from)
    if stable_upto < begins:
        return RangeSet()
    holes = kept_here(state, RangeSet(state.readable().holes(begins, stable_upto)))
    return holes.minus(state.losses).minus(state.lineage.belonging(losses))


def take(core: StoreCore, refill: Refill, frame: bytes, first: int, last: int) -> Change[Range]:
    """Take from a batch the lacking numbers of [first, last], and compare the others.

    Unless the store lacks all of them, every write that concerns them must be readable. Raises
    CorruptBatch, InvalidArgument, ContentConflict. Raises BeingDeleted or RestoreRefused if the
    source was deleted, or entered limbo, since it was opened.
    """
    _check_open(core, refill)
    part = Range(first, last)
    return _belonging(refill, part, core.streams.fill(refill.state, frame, part))


def take_large(
    core: StoreCore, refill: Refill, arrival: Arrival, compared: Compared | None
) -> Change[Range]:
    """Take a large batch, all of which has come, as `take` takes any other.

    compared: how it compares with what is held of its number; None: nothing is.
    """
    _check_open(core, refill)
    part = Range(arrival.header.first, arrival.header.last)
    change = core.streams.fill_large(refill.state, arrival, part, compared)
    return _belonging(refill, part, change)


def _check_open(core: StoreCore, refill: Refill) -> None:
    state = refill.state
    if core.sources.get(state.name) is not state:
        raise BeingDeleted(str(state.name), core.store)
    _check_vouches(core, state.name, state)


def _belonging(refill: Refill, part: Range, change: Change[Range | None]) -> Change[Range]:
    if change.answer is None:
        raise InvalidArgument(
            "batch",
            f"[{part.first}, {part.last}] does not belong to the lineage of {refill.state.name} "
            "here",
        )
    return Change(change.answer, change.writes)


def close_refill(core: StoreCore, refill: Refill) -> Change[bool]:
    """End the limbo once every stable message is here; answers whether the store vouches."""
    state = refill.state
    if state.limbo == RESTORING and not lacking(state):
        state.limbo = ""
        return Change(not core.limbo_of(state), (state.held_row(), state.limbo_row()))
    return Change(not core.limbo_of(state))
