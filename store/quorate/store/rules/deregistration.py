"""Ending a registration for good: what a store may delete because it was told to.

Only the owner of the newest epoch may, or an operator who names that epoch. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from quorate.protocol.errors import Fenced
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.peer_knowledge import SourceKnowledge
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.records import ReceiverRecord
from quorate.v1.store_pb2 import DELETION_DEREGISTERED


class Verdict(enum.Enum):
    """The decision about a source that is to be deregistered."""

    BURY = enum.auto()
    """Its state goes, and a tombstone remembers it."""
    FORGET = enum.auto()
    """It never had anything: nothing needs to be remembered."""
    LEAVE = enum.auto()
    """There is nothing to end."""


def judge_source(state: SourceState, epoch: int, instance: bytes = b"") -> Verdict:
    """Whether a deregistration by the owner of this epoch ends the source; raises Fenced.

    instance: the owner; empty: an operator says so.
    """
    record = state.registration
    is_known = bool(instance and record.promised_to) and epoch == record.begun_epoch
    is_of_another = is_known and instance != record.promised_to
    if epoch < record.promised_epoch or is_of_another:
        raise Fenced(str(record.name), epoch, record.promised_epoch)
    return Verdict.BURY if _may_matter(state) else Verdict.FORGET


def judge_unused(state: SourceState, epoch: int, instance: bytes) -> Verdict:
    """Whether a promise is taken back that led to nothing.

    Only the instance with the promise may give it back, and only where nothing was ever begun. That
    instance decided from this store's answer that there was nothing, and the answer stays true.
    """
    record = state.registration
    if (record.promised_epoch, record.promised_to) != (epoch, instance) or _may_matter(state):
        return Verdict.LEAVE
    return Verdict.FORGET


def _may_matter(state: SourceState) -> bool:
    """Whether others may have to know that something was here, now or before it was deleted."""
    record = state.registration
    return bool(record.begun_epoch or record.fences or state.held.ranges or state.limbo)


def check_receiver(who: Who, record: ReceiverRecord, epoch: int, instance: bytes = b"") -> None:
    """Raises Fenced if another instance of the receiver has registered since."""
    if (epoch, instance or record.instance) < record.ballot:
        raise Fenced(f"receiver {who.receiver:#x} of {who.source}", epoch, record.epoch)


def deregistered_elsewhere(
    state: SourceState, known: SourceKnowledge, others: Iterable[SourceKnowledge]
) -> bool:
    """Whether a peer was told to delete this source when this store was away.

    That is evidence, not absence: the owner's word, with an epoch that nothing here is above. But
    another stream may have begun since: the others, what all peers know, say so.
    """
    return (
        known.deletion == DELETION_DEREGISTERED
        and not state.live
        and known.promised_epoch >= state.registration.promised_epoch
        and not any(
            each.begun_epoch > known.promised_epoch and not each.deletion for each in others
        )
    )
