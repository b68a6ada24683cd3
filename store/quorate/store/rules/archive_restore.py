"""The store's rules for a history that comes back from an archive: what is taken, and what is not.

A state machine without I/O, like quorate.store.rules.acceptor. All of an archive is stable, so
that what is
here may lack parts of it, but must not differ from it. A store that learns from an archive of
numbers that it did not know to be stable says from the first commit on how far the stream is
stable, and is in limbo for the source until it has all of that: nobody can take what is still to
come for something that never was, and no number of it can be given to another message.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors import (
    BeingDeleted,
    InvalidArgument,
    OtherHistory,
    RestoreRefused,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, diverges_at
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
from quorate.store.rules.source_state import (
    Change,
    SourceState,
)
from quorate.store.rules.state_only import kept_here
from quorate.store.storage.interface import Write
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

RESTORING = "it is being restored from an archive, and not all of that is here yet"
"""Durable, as the reason of a limbo that ends with the last message; must never change."""


@dataclass(frozen=True, slots=True)
class History:
    """What an archive has of one source."""

    source: SourceName
    lineage: Lineage
    """In force up to `last`; none of its terms begins above that."""
    membership: v1.Membership
    first: int
    last: int
    losses: tuple[HeldRange, ...] = ()
    """Parts of [first, last] that an operator accepted as lost."""
    information: v1.SourceInformation | None = None
    promised_epoch: int = 0
    """The highest that was known when it was archived."""
    reg_id: int = 0
    markers: tuple[Marker, ...] = ()
    """The newest that was committed below `first`, which nobody has."""


def history_from_wire(wire: store_v1.RestoreOpen) -> History:
    """Raises InvalidArgument if it can not be one."""
    lineage, last = lineage_from_wire(wire.lineage), wire.last
    if not 0 <= wire.first <= last <= SEQUENCE_MAX:
        raise InvalidArgument("restore", f"[{wire.first}, {last}] is no range")
    if not lineage.terms or not 0 <= lineage.terms[0].first <= wire.first:
        raise InvalidArgument("lineage", f"names no epoch for {wire.first}")
    if lineage.terms[-1].first > last:
        raise InvalidArgument("lineage", f"has an epoch of which nothing up to {last} is")
    if not membership_from_wire(wire.membership).policies:
        raise InvalidArgument("membership", "names no policy, so that nobody could go on")
    source = source_from_wire(wire.source)
    information = wire.information if wire.HasField("information") else None
    if information is not None and source_from_wire(information.source) != source:
        raise InvalidArgument("information", f"is not of {source}")
    return History(
        source,
        lineage,
        wire.membership,
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
    """A source that is open for what an archive has of it."""

    state: SourceState
    upto: int
    """What is above is not taken: the source streams, and sends that itself."""
    losses: tuple[HeldRange, ...]
    """What nobody has to have."""


def open_refill(core: StoreCore, history: History) -> Change[Refill]:
    """Begin to take a history, or go on with it.

    Unless the source streams, every write of it so far must be readable. Raises TopicRefused,
    BeingDeleted, RestoreRefused, OtherHistory.
    """
    source, last = history.source, history.last
    core.check_topic(source.topic)
    state = core.sources.get(source)
    _check_vouches(core, source, state)
    losses, writes = history.losses, tuple[Write, ...]()
    if state is None or not _follows(core, state, history):
        change = core.take_up(
            source,
            Archived(
                history.lineage,
                history.membership,
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
    """Whether the lineage here is that of the archive as far as that goes.

    False if the store only missed what came later; raises OtherHistory if it is another one.
    """
    record = state.registration
    if not record.begun_epoch:
        return False
    parts_at = diverges_at(record.lineage, history.lineage)
    if parts_at > history.last:
        return True
    missed = record.begun_epoch < history.lineage.epoch and parts_at > state.held.stable_upto
    if missed and not state.live:
        return False
    raise OtherHistory(
        str(state.name),
        parts_at,
        record.lineage.epoch_at(parts_at),
        history.lineage.epoch_at(parts_at),
        core.store,
    )


def lacking(state: SourceState, losses: tuple[HeldRange, ...] = ()) -> RangeSet:
    """What is stable and should be here, or can not be read; losses: what nobody has to have."""
    stable_upto = state.held.stable_upto
    begins = max(state.lineage.terms[0].first, state.held.retained_from)
    if stable_upto < begins:
        return RangeSet()
    holes = kept_here(state, RangeSet(state.readable().holes(begins, stable_upto)))
    return holes.minus(state.losses).minus(state.lineage.belonging(losses))


def take(core: StoreCore, refill: Refill, frame: bytes, first: int, last: int) -> Change[Range]:
    """Take of a batch [first, last] what is lacking of it, and compare the rest.

    Unless all of its numbers are lacking, every write of this source that concerns them must be
    readable. Raises CorruptBatch, InvalidArgument, ContentConflict; BeingDeleted and RestoreRefused
    if the source was deleted, or lost what it had, since it was opened.
    """
    state = refill.state
    if core.sources.get(state.name) is not state:
        raise BeingDeleted(str(state.name), core.store)
    _check_vouches(core, state.name, state)
    change = core.streams.fill(state, frame, Range(first, last))
    if change.answer is None:
        raise InvalidArgument(
            "batch", f"[{first}, {last}] does not belong to the lineage of {state.name} here"
        )
    return Change(change.answer, change.writes)


def close_refill(core: StoreCore, refill: Refill) -> Change[bool]:
    """End the limbo if all is here that is stable; answers whether the store vouches."""
    state = refill.state
    if state.limbo == RESTORING and not lacking(state):
        state.limbo = ""
        return Change(not core.limbo_of(state), (state.held_row(), state.limbo_row()))
    return Change(not core.limbo_of(state))
