"""The requests to end a receiver, and to take back a promise that led to nothing. Pure.

A source ends by a begin (quorate.store.rules.acceptor).
"""

from __future__ import annotations

from quorate.protocol.errors import Fenced
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.records import ReceiverRecord


def is_unused(state: SourceState, epoch: int, instance: bytes) -> bool:
    """Return whether a source may be forgotten because its promise led to nothing.

    Only the instance with the promise may give it back, and only where nothing was ever begun. That
    instance decided from this store's answer that there was nothing, and the answer stays true.
    """
    record = state.registration
    is_promised = (record.promised_epoch, record.promised_to) == (epoch, instance)
    return is_promised and not _may_matter(state)


def _may_matter(state: SourceState) -> bool:
    """Whether others may have to know that something was here, now or before."""
    record = state.registration
    return bool(record.begun.epoch or record.fences or state.held.ranges or state.limbo)


def check_receiver(who: Who, record: ReceiverRecord, epoch: int, instance: bytes = b"") -> None:
    """Raises Fenced if another instance of the receiver has registered since."""
    if (epoch, instance or record.instance) < record.ballot:
        raise Fenced(f"receiver {who.receiver:#x} of {who.source}", epoch, record.epoch)
