"""The positions of receivers: what the stores know together, and how a store takes them over.

A receiver registers with a stable set of stores, and acknowledges to all. A store in limbo may
still have a receiver that was deregistered since. So it reports no positions, and replaces its own
by those that its peers report. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from quorate.protocol.ends import counted_upto
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.policy import Policy
from quorate.store.rules.identities import Identities
from quorate.store.rules.identity_records import End
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.peer_knowledge import SourceKnowledge
from quorate.store.rules.receiver_tombstones import merged
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import Write
from quorate.store.storage.records import ReceiverRecord


@dataclass(frozen=True, slots=True)
class ReceiverKnowledge:
    """The highest epoch and position that any store knows of a receiver."""

    epoch: int
    acknowledged_upto: int
    reg_id: int = 0
    """The RegID that it has at a peer. An application that chose it wants it here as well."""
    waited_for: bool = True
    """Whether it is waited for, by its last registration."""
    confirmed_epoch: int = 0
    """The epoch of the registration that acknowledged up to that position."""
    instance: bytes = b""
    """The instance that registered in that epoch; the greatest of those that any store knows."""

    @property
    def ballot(self) -> tuple[int, bytes]:
        return self.epoch, self.instance


def positions(known: Iterable[SourceKnowledge], lineage: Lineage) -> dict[int, ReceiverKnowledge]:
    """Return what the stores know of each receiver together, by session ID.

    A position counts only as far as the acknowledged numbers belong to the lineage. A receiver that
    any store reports as deregistered is left out.
    """
    told = list(known)
    ended = merged(told)
    highest: dict[int, ReceiverKnowledge] = {}
    for each in told:
        belongs_upto = diverges_at(each.begun.lineage, lineage) - 1
        for receiver in each.receivers:
            end = ended.get(receiver.session_id)
            ended_upto = end.epoch if end is not None else 0
            if receiver.epoch <= ended_upto:
                continue
            so_far = highest.get(receiver.session_id, ReceiverKnowledge(0, NOTHING))
            upto = min(
                counted_upto(receiver.acknowledged_upto, receiver.confirmed_epoch, ended_upto),
                belongs_upto,
            )
            ballot = receiver.epoch, receiver.instance
            is_newer = ballot > so_far.ballot
            is_further = upto > so_far.acknowledged_upto or not so_far.epoch
            epoch, instance = max(so_far.ballot, ballot)
            highest[receiver.session_id] = ReceiverKnowledge(
                epoch,
                max(so_far.acknowledged_upto, upto),
                so_far.reg_id or receiver.reg_id,
                not receiver.not_waited_for if is_newer else so_far.waited_for,
                receiver.confirmed_epoch if is_further else so_far.confirmed_epoch,
                instance,
            )
    return highest


def take_over(
    state: SourceState,
    receivers: Mapping[int, ReceiverKnowledge],
    ended: Mapping[int, End],
    identities: Identities,
    reg_ids: RegIds,
) -> list[Write]:
    """Replace the receivers and tombstones from the disk by those that peers outside limbo know.

    Registrations and ends that came while the store was in limbo stay.
    """
    writes = _take_over_ends(state, ended)
    for session_id, record in list(state.receivers.items()):
        if record.registered_here:
            continue  # it registered while in limbo, and its position counts from then on
        if session_id not in receivers:
            writes += identities.forget_receiver(state, session_id, reg_ids)
        else:
            record.acknowledged_upto = NOTHING
    for session_id, known in receivers.items():
        if known.epoch > state.ended_upto(session_id):
            _take_over_one(state, session_id, known, identities, reg_ids)
    for session_id, record in list(state.receivers.items()):
        writes += identities.judged_by_end(state, session_id, reg_ids)
        if session_id in state.receivers:
            writes.append(state.receiver_row(session_id, record))
    return writes


def learn(
    state: SourceState,
    policies: Iterable[Policy],
    told: Mapping[str, SourceKnowledge],
    identities: Identities,
    reg_ids: RegIds,
) -> list[Write]:
    """Add the receivers that peers know, once enough peers have answered to name them all.

    An operator may order a store out of limbo before it knows all receivers. Then it learns them
    here.

    policies: the policies in force.

    told: the knowledge of the peers that vouch, by the names that the policies use.
    """
    sure = {store: each for store, each in told.items() if not each.may_miss_receivers}
    in_force = tuple(policies)
    # A stable set knows each registered receiver, so a store of every blocking set does as well.
    if not in_force or not all(policy.blocks(policy.stores & sure.keys()) for policy in in_force):
        return []
    writes: list[Write] = []
    for session_id, end in merged(sure.values()).items():
        if not end.settled:
            writes += identities.end_receiver(state, session_id, end.epoch, reg_ids)
    for session_id, known in positions(sure.values(), state.lineage).items():
        if session_id not in state.receivers and known.epoch > state.ended_upto(session_id):
            _take_over_one(state, session_id, known, identities, reg_ids)
            writes.append(state.receiver_row(session_id, state.receivers[session_id]))
    state.registration = replace(state.registration, may_miss_receivers=False)
    return [*writes, state.registration_row()]


def _take_over_ends(state: SourceState, ended: Mapping[int, End]) -> list[Write]:
    before = dict(state.ended)
    mine = {session_id: end for session_id, end in before.items() if not end.reread}
    state.ended.clear()
    state.ended |= {**ended, **mine}
    for session_id in ended.keys() & mine.keys():
        higher = max(ended[session_id], mine[session_id], key=lambda end: end.epoch)
        state.ended[session_id] = replace(higher, settled=False)
    return [state.ended_row(each) for each in before.keys() | ended.keys()]


def _take_over_one(
    state: SourceState,
    session_id: int,
    known: ReceiverKnowledge,
    identities: Identities,
    reg_ids: RegIds,
) -> None:
    record = state.receivers.get(session_id)
    if record is None:
        wanted = known.reg_id if reg_ids.is_free(known.reg_id) else 0
        reg_id = reg_ids.claim(wanted, f"receiver {session_id:#x} of {state.name}")
        record = state.receivers[session_id] = ReceiverRecord(reg_id, 0)
        identities.lives.begins(Who(state.name, session_id))
    if known.ballot > record.ballot:
        record.epoch, record.instance = known.ballot
        record.waited_for = known.waited_for
    if known.acknowledged_upto >= record.acknowledged_upto:
        record.acknowledged_upto = known.acknowledged_upto
        record.confirmed_epoch = known.confirmed_epoch
