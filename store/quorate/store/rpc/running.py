"""The subscriptions that run at a store, as people are shown them. Nothing is changed here."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from quorate.protocol.wire import application_to_wire
from quorate.store.rpc.subscribe import given_upto
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Running, Subscriptions
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1


async def running_of(
    subscriptions: Subscriptions,
    by_topic: Mapping[str, Sequence[SourceState]],
    selects: Callable[[str], bool] | None = None,
) -> list[store_v1.SubscriptionStatus]:
    """Return the subscriptions to these topics. selects: whether a topic is wanted; None: all."""
    now, turn = time.monotonic(), Turn()
    found: list[store_v1.SubscriptionStatus] = []
    for each in list(subscriptions):
        await turn.pause()
        if each.topic is not None:
            topics = [each.topic] if selects is None or selects(each.topic) else []
        else:
            topics = [topic for topic in by_topic if each.selects(topic)]
        if topics or selects is None:
            states = [state for topic in topics for state in by_topic.get(topic, ())]
            found.append(_status(each, states, now))
    return found


def furthest_behind(
    running: Sequence[store_v1.SubscriptionStatus], most: int
) -> list[store_v1.SubscriptionStatus]:
    """Return so many of the subscriptions, those that are furthest behind first. most: 0: all."""
    return heapq.nlargest(most or len(running), running, key=lambda each: each.behind)


def _status(
    running: Running, states: Sequence[SourceState], now: float
) -> store_v1.SubscriptionStatus:
    delivered = cast("store_v1.Delivered", running.delivered)
    walk, behind = running.walk, 0
    if walk is not None:
        for state in states:
            upto = given_upto(state, delivered)
            read = walk.read_upto(state.name, state.lineage)
            behind += max(0, upto - max(read, state.held.ranges.low - 1))
    status = store_v1.SubscriptionStatus(
        client=running.client,
        delivered=delivered,
        where="" if running.where is None else running.where.text,
        seconds=now - running.opened,
        behind=behind,
        undecoded=running.undecoded,
        application=application_to_wire(running.application),
        read=0 if walk is None else walk.count,
        number=running.number,
    )
    if running.topic is not None:
        status.topic = running.topic
    else:
        status.pattern = running.pattern
    return status
