"""Subscriptions for tests that do not listen to a directory."""

from __future__ import annotations

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.receiver.protocol.subscription import Seen, Subscription


def to_all_of(source: SourceName) -> Subscription:
    """Return a subscription for which everything that a store has was there before."""
    return to_what_was_there(source, SEQUENCE_MAX)


def to_what_was_there(
    source: SourceName, newest: int, begun_epoch: int = 2**64 - 1
) -> Subscription:
    """Return a subscription made when this was the newest message, in the lineage of that epoch."""
    subscription = Subscription()
    subscription.heard(source, Seen(begun_epoch, newest + 1))
    subscription.made()
    return subscription
