"""The store's rules for receivers: registration and positions (protocol.md 9).

A state machine without I/O, like quorate.store.rules.acceptor. Tombstones of receivers are in
quorate.store.rules.receiver_tombstones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from quorate.protocol.errors import (
    Deregistered,
    Fenced,
    InvalidArgument,
    NotRegistered,
    UnknownTopic,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.store.rules.epochs import check_step
from quorate.store.rules.receiver_tombstones import fence, note
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import (
    Change,
    SourceState,
)
from quorate.store.storage.interface import Write
from quorate.store.storage.records import ReceiverRecord
from quorate.v1 import store_pb2 as store_v1

TOPICS_MAX = 100
"""The most topics that an error lists for people who asked for an unknown one."""
SOURCES_NAMED = 1000
"""The sources among which these topics are looked for."""


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
    """The epoch up to which this receiver was deregistered; other stores may not know it."""
    epoch: int = 0
    """The epoch in which this receiver is registered. Without a row: the one of its fence."""


def statuses(state: SourceState) -> list[store_v1.ReceiverStatus]:
    """Return every receiver of a source, as the store reports it to others."""
    return [status_of(*each) for each in state.receivers.items()]


def status_of(session_id: int, receiver: ReceiverRecord) -> store_v1.ReceiverStatus:
    """Return one receiver as the store reports it."""
    return store_v1.ReceiverStatus(
        session_id=session_id,
        reg_id=receiver.reg_id,
        epoch=receiver.epoch,
        acknowledged_upto=receiver.acknowledged_upto,
        not_waited_for=not receiver.waited_for,
        confirmed_epoch=receiver.confirmed_epoch,
        instance=receiver.instance,
    )


def ended_receivers(state: SourceState) -> list[store_v1.EndedReceiver]:
    """Return every deregistered receiver of a source, as the store reports it to others."""
    return [
        store_v1.EndedReceiver(session_id=session_id, epoch=end.epoch, settled=end.settled)
        for session_id, end in sorted(state.ended.items())
    ]


def waited_for(state: SourceState) -> store_v1.WaitedFor:
    """Return the receivers that the source waits for, in a fixed order, fit for comparison."""
    receivers = {each.session_id: each for each in statuses(state) if not each.not_waited_for}
    return store_v1.WaitedFor(
        receivers=[receivers[each] for each in sorted(receivers)],
        ended=ended_receivers(state),
        may_miss=state.registration.may_miss_receivers,
    )


class Receivers:
    """The receivers of all sources of one store."""

    def __init__(
        self, store: str, sources: Mapping[SourceName, SourceState], reg_ids: RegIds
    ) -> None:
        self._store = store
        self._sources = sources
        self._reg_ids = reg_ids

    def topics(self) -> list[str]:
        """Return topics that the store has, for people; at most TOPICS_MAX.

        They are those of the sources that came first: a store may have very many, and any refusal
        may name these.
        """
        first = islice(self._sources.items(), SOURCES_NAMED)
        began = {name.topic for name, state in first if state.registration.begun.epoch}
        return sorted(began)[:TOPICS_MAX]

    def source(self, source: SourceName) -> SourceState:
        """Return the state of a source. Raises UnknownTopic."""
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
        is_open: bool = False,
    ) -> Change[Registered]:
        """Register a receiver's ballot, and fence every lower one; answers its position.

        The same ballot may register again. A store in limbo reports no position of a receiver
        (quorate.store.rules.receiver_positions).

        waited_for: whether retention, and a source that its receivers pace, wait for it.

        ended_epoch: the epoch up to which the receiver was deregistered, as other stores answered.
        A row of such an epoch here belongs to a former receiver.

        is_open: whether the instance runs already, so that no fence holds for it but its own end.

        Raises UnknownTopic, Fenced, Deregistered, RegIdInUse, InvalidArgument, EpochTooFar.
        """
        if epoch < 1:
            raise InvalidArgument("epoch", "0 is no epoch; the first is 1")
        state = self.source(source)
        who = f"receiver {session_id:#x} of {source}"
        record = state.receivers.get(session_id)
        ended_epoch = max(ended_epoch, state.ended_upto(session_id))
        if epoch <= ended_epoch and is_open:
            raise Deregistered(f"Receiver {session_id:#x} of {source}")
        if epoch <= ended_epoch:
            raise Fenced(who, epoch, ended_epoch)
        fenced = fence(state, session_id)
        check_step(who, self._store, epoch, max(fenced, record.epoch if record is not None else 0))
        if record is None:
            if epoch <= fenced and not is_open:
                raise Fenced(who, epoch, fenced)
            record = ReceiverRecord(self._reg_ids.claim(reg_id, who), epoch, confirmed_epoch=epoch)
            state.receivers[session_id] = record
            known = False
        else:
            self._reg_ids.check_not_of_another(record.reg_id, reg_id)
            if (epoch, instance) < record.ballot:
                raise Fenced(who, epoch, record.epoch)
            record.epoch = epoch
            known = _has_position(record, ended_epoch)
            if state.limbo or not known:
                record.acknowledged_upto, record.confirmed_epoch = NOTHING, epoch
        record.instance, record.waited_for, record.registered_here = instance, waited_for, True
        ends = note(state, session_id, ended_epoch)
        answer = _answer(
            state,
            record.reg_id,
            record.acknowledged_upto,
            known,
            _unsettled(state, session_id),
            epoch,
        )
        return Change(answer, (*ends, state.receiver_row(session_id, record)))

    def look_up(
        self, source: SourceName, session_id: int, reg_id: int, *, ended_epoch: int = 0
    ) -> Registered:
        """Return the answer that a registration would get now, and change nothing.

        ended_epoch: as in `register`. Raises UnknownTopic, RegIdInUse.
        """
        state = self.source(source)
        record = state.receivers.get(session_id)
        self._reg_ids.check_not_of_another(record.reg_id if record is not None else 0, reg_id)
        ended_upto = state.ended_upto(session_id)
        unsettled = ended_epoch if ended_epoch > ended_upto else _unsettled(state, session_id)
        ended_epoch = max(ended_epoch, ended_upto)
        if record is None:
            epoch = max(ended_epoch, fence(state, session_id))
            return _answer(state, 0, NOTHING, False, unsettled, epoch)
        known = _has_position(record, ended_epoch)
        position = record.acknowledged_upto if known and not state.limbo else NOTHING
        epoch = max(record.epoch, ended_epoch)
        return _answer(state, record.reg_id, position, known, unsettled, epoch)

    def acknowledge(
        self,
        source: SourceName,
        session_id: int,
        epoch: int,
        upto: int,
        source_epoch: int = 0,
        instance: bytes = b"",
    ) -> tuple[Write, ...]:
        """Move the receiver's position: never back, and never past the messages known to exist.

        upto -1, and the acknowledgement of a deregistered stream, pass the checks and move nothing.

        source_epoch: the epoch of the lineage that the receiver counts in. If it is newer than this
        store's lineage, only stable numbers bound the position. The lineages agree on no others.

        instance: the instance that registered in that epoch.

        Raises UnknownTopic, NotRegistered, Fenced, Deregistered.
        """
        state = self.source(source)
        who = f"receiver {session_id:#x} of {source}"
        record = state.receivers.get(session_id)
        if epoch <= state.ended_upto(session_id):
            raise Deregistered(f"Receiver {session_id:#x} of {source}")
        if record is None or (epoch, instance) > record.ballot:
            raise NotRegistered(who, f"epoch {epoch} is unknown at store {self._store}")
        if (epoch, instance) < record.ballot:
            raise Fenced(who, epoch, record.epoch)
        if state.is_of_former_stream(source_epoch):
            return ()
        upto = min(upto, max(state.held.high, state.held.stable_upto))
        if source_epoch > state.registration.begun.epoch:
            upto = min(upto, state.held.stable_upto)
        position = max(upto, record.acknowledged_upto)
        confirmed_epoch = epoch if position > NOTHING else record.confirmed_epoch
        if (position, confirmed_epoch) == (record.acknowledged_upto, record.confirmed_epoch):
            return ()
        record.acknowledged_upto, record.confirmed_epoch = position, confirmed_epoch
        return (state.receiver_row(session_id, record),)


def _has_position(record: ReceiverRecord, ended_epoch: int) -> bool:
    """Return whether the row's position is of this receiver, not of one that has ended."""
    return record.confirmed_epoch > ended_epoch or not ended_epoch


def _unsettled(state: SourceState, session_id: int) -> int:
    """Return the epoch up to which this receiver ended, if other stores may not know it; else 0."""
    end = state.ended.get(session_id)
    return end.epoch if end is not None and not end.settled else 0


def _answer(
    state: SourceState, reg_id: int, position: int, known: bool, ended_epoch: int, epoch: int
) -> Registered:
    held = state.held
    return Registered(
        reg_id,
        state,
        state.lineage,
        position,
        held.ranges.low,
        held.high,
        held.stable_upto,
        known,
        held.retained_from,
        ended_epoch,
        epoch,
    )
