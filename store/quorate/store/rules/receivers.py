"""The store's rules for receivers: registration and positions (DESIGN 4.4).

A state machine without I/O, like quorate.store.rules.acceptor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.protocol.errors import (
    Fenced,
    InvalidArgument,
    NotRegistered,
    UnknownTopic,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.store.rules.receiver_tombstones import (
    note,
    spend,
)
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import (
    Change,
    SourceState,
)
from quorate.store.storage.interface import Write
from quorate.store.storage.records import ReceiverRecord
from quorate.v1 import store_pb2 as store_v1

TOPICS_MAX = 100
"""How many topics are listed for people who asked for an unknown one."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a receiver's registration."""

    reg_id: int
    state: SourceState
    lineage: Lineage
    acknowledged_upto: int
    low: int
    high: int
    stable_upto: int
    known: bool
    retained_from: int
    ended_epoch: int = 0
    """Up to there registrations of this receiver are over, which others may not have heard."""
    spent_epoch: int = 0
    """The highest in which any receiver of the source was over."""


def statuses(state: SourceState) -> list[store_v1.ReceiverStatus]:
    """Every receiver of a source, as others are told of it."""
    return [
        store_v1.ReceiverStatus(
            session_id=session_id,
            reg_id=receiver.reg_id,
            epoch=receiver.epoch,
            acknowledged_upto=receiver.acknowledged_upto,
            not_waited_for=not receiver.waited_for,
            confirmed_epoch=receiver.confirmed_epoch,
        )
        for session_id, receiver in state.receivers.items()
    ]


def ended_receivers(state: SourceState) -> list[store_v1.EndedReceiver]:
    """Every end of a receiver that the store remembers, as others are told of it."""
    return [
        store_v1.EndedReceiver(session_id=session_id, epoch=end.epoch, settled=end.settled)
        for session_id, end in sorted(state.ended.items())
    ]


def waited_for(state: SourceState) -> store_v1.WaitedFor:
    """Of these those that are waited for, in an order that tells whether anything has changed."""
    receivers = {each.session_id: each for each in statuses(state) if not each.not_waited_for}
    return store_v1.WaitedFor(
        receivers=[receivers[each] for each in sorted(receivers)],
        ended=ended_receivers(state),
        may_miss=state.registration.may_miss_receivers,
    )


class Receivers:
    """All receivers of one store."""

    def __init__(
        self, store: str, sources: Mapping[SourceName, SourceState], reg_ids: RegIds
    ) -> None:
        self._store = store
        self._sources = sources
        self._reg_ids = reg_ids

    def topics(self) -> list[str]:
        """Topics that the store has, for people; at most TOPICS_MAX."""
        began = {n.topic for n, state in self._sources.items() if state.registration.begun_epoch}
        return sorted(began)[:TOPICS_MAX]

    def source(self, source: SourceName) -> SourceState:
        """The state of a source; raises UnknownTopic."""
        state = self._sources.get(source)
        if state is None:
            raise UnknownTopic(source.topic, ", ".join(self.topics()))
        return state

    def register(
        self,
        source: SourceName,
        session_id: int,
        reg_id: int,
        epoch: int,
        instance: bytes = b"",
        *,
        waited_for: bool = True,
        ended_epoch: int = 0,
        spent_epoch: int = 0,
    ) -> Change[Registered]:
        """Fence every lower epoch of the receiver; answers where it was.

        waited_for: sources that are paced by their receivers, and retention, wait for it.
        ended_epoch: up to there its registrations are over, as other stores have answered; this one
        may have been away, and what it has of them is of another receiver. In limbo it says nothing
        of what it has of any (quorate.store.rules.receiver_positions).
        spent_epoch: up to there epochs are not to be used again by any receiver that is new, as
        other stores have answered. Nobody is refused for it: whoever lives may have a lower one.

        The instance that registered it may ask again in the same epoch: its answer was lost, or is
        wanted anew. Another one that chose the same epoch is fenced.
        Raises UnknownTopic, Fenced, RegIdInUse, InvalidArgument.
        """
        if epoch < 1:
            raise InvalidArgument("epoch", "0 is no epoch; the first is 1")
        state = self.source(source)
        who = f"receiver {session_id:#x} of {source}"
        record = state.receivers.get(session_id)
        ended_epoch = max(ended_epoch, state.ended_upto(session_id))
        if epoch <= ended_epoch:
            raise Fenced(who, epoch, ended_epoch)
        if record is None:
            record = ReceiverRecord(self._reg_ids.claim(reg_id, who), epoch, confirmed_epoch=epoch)
            state.receivers[session_id] = record
            known = False
        else:
            self._reg_ids.check_not_of_another(record.reg_id, reg_id)
            again = instance and (record.epoch, record.instance) == (epoch, instance)
            if epoch < record.epoch or (epoch == record.epoch and not again):
                raise Fenced(who, epoch, record.epoch)
            record.epoch = epoch
            known = record.confirmed_epoch > ended_epoch or not ended_epoch
            if state.limbo or not known:
                record.acknowledged_upto, record.confirmed_epoch = NOTHING, epoch
        record.instance, record.waited_for = instance, waited_for
        ended = [*note(state, session_id, ended_epoch), *spend(state, spent_epoch)]
        end = state.ended.get(session_id)
        held = state.held
        answer = Registered(
            record.reg_id,
            state,
            state.lineage,
            record.acknowledged_upto,
            held.ranges.low,
            held.high,
            held.stable_upto,
            known,
            held.retained_from,
            end.epoch if end is not None and not end.settled else 0,
            state.registration.spent_receiver_epoch,
        )
        return Change(answer, (*ended, state.receiver_row(session_id, record)))

    def acknowledge(
        self,
        source: SourceName,
        session_id: int,
        epoch: int,
        upto: int,
        source_epoch: int = 0,
        instance: bytes = b"",
    ) -> tuple[Write, ...]:
        """Move the receiver's position, never back, never past what is held, or is known to exist.

        source_epoch: of the lineage that the receiver counts in. While this store follows an older
        one its own end is no bound, for it may be void: only what it was told is stable is the same
        in both. upto -1 moves nothing, and is refused like any other; so does what was acknowledged
        of a stream that was deregistered before this one began. instance: who registered in that
        epoch, which after a registration was ended may be another one's.
        Raises UnknownTopic, NotRegistered, Fenced.
        """
        state = self.source(source)
        who = f"receiver {session_id:#x} of {source}"
        record = state.receivers.get(session_id)
        if record is None and epoch < state.ended_upto(session_id):
            raise Fenced(who, epoch, state.ended_upto(session_id))
        if record is None or epoch > record.epoch:
            raise NotRegistered(who, f"epoch {epoch} is unknown at store {self._store}")
        if epoch < record.epoch or record.is_of_another(epoch, instance):
            raise Fenced(who, epoch, record.epoch)
        if state.is_of_former_stream(source_epoch):
            return ()
        upto = min(upto, max(state.held.high, state.held.stable_upto))
        if source_epoch > state.registration.begun_epoch:
            upto = min(upto, state.held.stable_upto)
        position = max(upto, record.acknowledged_upto)
        confirmed_epoch = epoch if position > NOTHING else record.confirmed_epoch
        if (position, confirmed_epoch) == (record.acknowledged_upto, record.confirmed_epoch):
            return ()
        record.acknowledged_upto, record.confirmed_epoch = position, confirmed_epoch
        return (state.receiver_row(session_id, record),)
