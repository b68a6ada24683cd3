"""The events of a group: what changed from one view to the next. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from quorate.protocol.figures import counted
from quorate.store.monitor.group_view import GroupView, QueueView, SourceView, StoreView

BEHIND_MESSAGES = 10_000
"""A receiver that is further behind is an event, and again when it has caught up by half."""


class Level(StrEnum):
    """How much an event matters."""

    GOOD = "good"
    PLAIN = "plain"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """One change."""

    at: float
    """Seconds since 1970 UTC."""
    level: Level
    text: str


def events_between(before: GroupView, after: GroupView) -> list[GroupEvent]:
    """Return the events from one view to the next."""
    at = after.at
    found = []
    earlier = {store.address: store for store in before.stores}
    for store in after.stores:
        if (old := earlier.get(store.address)) is not None:
            found += [GroupEvent(at, *each) for each in _of_store(old, store)]
    known = {(view.topic, view.session): view for view in before.sources}
    for view in after.sources:
        old_view = known.get((view.topic, view.session))
        found += [GroupEvent(at, *each) for each in _of_source(old_view, view)]
    queues = {queue.name: queue for queue in before.queues}
    for queue in after.queues:
        if (old_queue := queues.get(queue.name)) is not None:
            found += [GroupEvent(at, *each) for each in _of_queue(old_queue, queue)]
    return found


def _of_store(before: StoreView, after: StoreView) -> Iterator[tuple[Level, str]]:
    name = after.name
    if after.problem and not before.problem:
        yield Level.BAD, f"Store {name} does not answer: {after.problem}"
    if before.problem and not after.problem:
        yield Level.GOOD, f"Store {name} answers again"
    if before.problem or after.problem:
        return
    if after.limbo and not before.limbo:
        yield Level.BAD, f"Store {name} is in limbo: {after.limbo}"
    if before.limbo and not after.limbo:
        yield Level.GOOD, f"Store {name} has left limbo"
    if after.uptime_seconds < before.uptime_seconds:
        yield Level.PLAIN, f"Store {name} was started again"
    if after.is_disk_low and not before.is_disk_low:
        yield Level.BAD, f"The disk of store {name} is almost full"


def _of_source(before: SourceView | None, after: SourceView) -> Iterator[tuple[Level, str]]:
    name = f"{after.topic}/{after.session}"
    if before is None:
        yield Level.PLAIN, f"Source {name} is new"
        return
    if after.epoch > before.epoch:
        yield Level.PLAIN, f"Source {name} has begun epoch {after.epoch}"
    if after.is_live and not before.is_live:
        yield Level.GOOD, f"Source {name} streams"
    if before.is_live and not after.is_live:
        yield Level.PLAIN, f"Source {name} no longer streams"
    for store, held in after.stores.items():
        old = before.stores.get(store)
        if held.lacking and (old is None or not old.lacking):
            yield Level.BAD, f"Store {store} lacks {counted(held.lacking, 'message')} of {name}"
        if old is not None and old.lacking and not held.lacking:
            yield Level.GOOD, f"Store {store} has all messages of {name} again"
    behind = {receiver.session: receiver.behind for receiver in before.receivers}
    for receiver in after.receivers:
        old_behind = behind.get(receiver.session, 0)
        if receiver.behind > BEHIND_MESSAGES >= old_behind:
            yield Level.BAD, f"Receiver {receiver.session} of {name} is {receiver.behind:,} behind"
        if old_behind > BEHIND_MESSAGES // 2 >= receiver.behind:
            yield Level.GOOD, f"Receiver {receiver.session} of {name} has caught up"


def _of_queue(before: QueueView, after: QueueView) -> Iterator[tuple[Level, str]]:
    name = after.name
    if before.dispatcher and not after.dispatcher:
        why = f": {after.problem}" if after.problem else ""
        yield Level.BAD, f"No store dispatches the queue {name}{why}"
    if after.dispatcher != before.dispatcher and after.dispatcher:
        yield Level.GOOD, f"Store {after.dispatcher} dispatches the queue {name}"
    elif after.dispatcher and after.dead > before.dead:
        yield Level.BAD, f"{after.dead - before.dead:,} messages of the queue {name} were given up"
