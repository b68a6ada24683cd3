"""The sources, subscribers and operators of a simulated world, written as users write them.

An application is started again after it was killed. What it saw goes to `seen`, which outlives it.
Two instances of one application may run: one that was paused wakes beside its successor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from tests.world.group import BACKUP_SECONDS, Opening, StoresOfWorld
from tests.world.seen import (
    BRIEF,
    BRIEF_SECONDS,
    DELETION,
    End,
    Handed,
    Opened,
    Row,
    Rows,
    Seen,
    Stream,
    key_of,
)

from quorate.client import Client, SourceOptions, connect, replay
from quorate.client.replay import EPOCH, GapCause, ReplayedMessage
from quorate.client.source_events import RegistrationComplete
from quorate.console.group.deregistration import deregister, find
from quorate.console.group.repair import accept, prospect_of_loss, repair_all
from quorate.console.group.row_digests import digests_of
from quorate.console.group.rules.row_findings import RowDigest
from quorate.console.group.status import ask_all
from quorate.errors import Deregistered, Fenced, QuorateError, SourceDeleted
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.ranges import Range, RangeSet
from quorate.source.source import Source

ACTIVITY_SECONDS = 2.0
DELETED = 0.2
"""The part of the bursts before which the row of a key is deleted, if topics have rows."""
EXPIRES = 0.2
"""The part of the messages that expire soon, if topics have rows."""
OPERATOR_SECONDS = 3.0
"""The time in seconds that an operator gives each step of a command."""
BURST_MAX = 4
"""The messages that a source has under way at most."""


async def publish_all(
    opening: Opening, streams: Sequence[Stream], seen: Seen, random: Random, until: asyncio.Event
) -> None:
    """Publish messages to all streams, by one client. until: when no more follow."""
    async with connect(opening.layout, previous_policies=opening.previous) as client:
        await asyncio.gather(*(_publish(client, each, seen, random, until) for each in streams))


async def _publish(
    client: Client, stream: Stream, seen: Seen, random: Random, until: asyncio.Event
) -> None:
    options = SourceOptions(
        activity_timeout=ACTIVITY_SECONDS,
        state_lifetime=seen.circumstances.lifetime,
        backup_after=BACKUP_SECONDS,
        consensus=seen.circumstances.consensus,
    )
    stream.instances += 1
    stream.is_publishing = False
    instance = stream.instances
    while True:
        opened = Opened()
        try:
            async with client.source(
                stream.topic,
                session_id=stream.session_id,
                take_over=True,
                options=options,
                on_event=_noting(stream, opened, seen),
            ) as source:
                while not until.is_set():
                    if stream.is_to_end:
                        await _end(source, stream)
                        break
                    stream.is_publishing = True
                    try:
                        await _publish_some(source, stream, opened, seen, random)
                    finally:
                        stream.is_publishing = False
                    await asyncio.sleep(random.uniform(0.1, 1.0))
                else:
                    await asyncio.Event().wait()  # It stays: stores end a source that is silent.
        except QuorateError as error:
            if isinstance(error, Deregistered | SourceDeleted):
                stream.note_told_of_end(opened, now())
                seen.reached["sources that were told of an end"] += 1
                continue
            if instance < stream.instances:
                return  # Its successor has its place.
            is_contested = stream.topic in seen.contested or stream.ends
            if not error.retryable and not (is_contested and isinstance(error, Fenced)):
                seen.failures.append(f"the source of {stream.topic} got {error!r}")
            await asyncio.sleep(0.5)


def _noting(stream: Stream, opened: Opened, seen: Seen) -> Callable[[object], None]:
    """Return what takes the events of a source."""

    def note(event: object) -> None:
        seen.note(event)
        if isinstance(event, RegistrationComplete):
            stream.registered(opened, event.first_sequence, event.epoch, now())

    return note


async def _publish_some(
    source: Source, stream: Stream, opened: Opened, seen: Seen, random: Random
) -> None:
    if seen.circumstances.has_rows and random.random() < DELETED:
        # Nobody hears whether it is stable, but what follows is stable only after it.
        deletion = stream.payload(opened, DELETION)
        await source.delete(key_of(deletion), payload=deletion, wait_quorum=True)
    expiries = [_expiry(seen, random) for _ in range(random.randint(1, BURST_MAX))]
    payloads = [stream.payload(opened, BRIEF if each else b"") for each in expiries]
    published = now()
    receipts = await asyncio.gather(
        *(
            source.publish(payload, key=key_of(payload), expires=expires, wait_quorum=True)
            for payload, expires in zip(payloads, expiries, strict=True)
        )
    )
    for receipt, payload in zip(receipts, payloads, strict=True):
        stream.note_stable(receipt, payload, published)


def _expiry(seen: Seen, random: Random) -> float | None:
    """Return the seconds until a message expires; None: it does not."""
    if seen.circumstances.has_rows and random.random() < EXPIRES:
        return random.uniform(0.1, BRIEF_SECONDS)
    return None


async def _end(source: Source, stream: Stream) -> None:
    """Deregister a source, as its owner."""
    stream.is_to_end = False
    end = stream.ask_to_end("its owner", now())
    try:
        await source.deregister()
    except QuorateError:
        end.has_failed = True
        raise
    _done(end)


async def end_source(stores: Sequence[StoreAddress], stream: Stream, seen: Seen) -> None:
    """Deregister a source, as `quorate deregister` does."""
    end = stream.ask_to_end("an operator", now())
    name = SourceName(stream.topic, stream.session_id)
    try:
        found = await find(stores, name, 0, OPERATOR_SECONDS)
        rows, _ = await deregister(found, name, 0, OPERATOR_SECONDS)
    except QuorateError:
        rows = []
    if any(row["done"] for row in rows):
        _done(end)
        seen.reached["ends by an operator"] += 1
    else:
        end.has_failed = True
        seen.reached["ends by an operator that failed"] += 1


async def accept_losses(group: StoresOfWorld, stream: Stream, seen: Seen) -> None:
    """Accept what every store has lost, as `quorate repair` and `quorate loss accept` do.

    Some of it may be void by now, or let go.
    """
    name = SourceName(stream.topic, stream.session_id)
    left = RangeSet(Range(number, number) for number in stream.lost)
    while left:
        stores = group.addresses()
        await repair_all(stores, name, thorough=True, timeout=60.0, progress=lambda _: None)
        answers = await ask_all(stores, OPERATOR_SECONDS)
        for lost in list(left):
            if prospect_of_loss(answers, name, lost).still_held:
                continue
            rows = await accept(stores, name, lost, "all copies are damaged", OPERATOR_SECONDS)
            # A backup that was not needed does not know the source.
            needed = group.opening.layout.policy.stores
            if all(row["recorded"] for row in rows if row["store"] in needed):
                left.remove(lost.first, lost.last)
                seen.reached["losses that an operator accepted"] += 1
        await asyncio.sleep(0.5)


def _done(end: End) -> None:
    end.is_done, end.over_at = True, now()


def now() -> float:
    """Return the time of the world."""
    return asyncio.get_running_loop().time()


async def subscribe(opening: Opening, topics: Sequence[str], seen: Seen) -> None:
    """Read the journal of one store after another, and keep the position with each message."""
    while True:
        try:
            async with (
                connect(opening.layout) as client,
                client.subscriber(
                    dict.fromkeys(topics),
                    begin=EPOCH if seen.position is None else seen.position,
                    on_event=seen.note,
                ) as subscriber,
            ):
                async for item in subscriber:
                    seen.position = subscriber.position
                    if isinstance(item, ReplayedMessage):
                        stream = seen.stream(item.topic, item.source.session_id)
                        stream.note_replayed(Handed(item.sequence, item.payload, item.epoch))
                    elif isinstance(item, replay.Gap):
                        stream = seen.stream(item.source.topic, item.source.session_id)
                        if item.cause is GapCause.RELEASED:
                            stream.skipped.append(stream.let_go(item.first, item.last))
                        elif item.cause is GapCause.LOST:
                            seen.note_lost(stream, item.first, item.last)
        except QuorateError as error:
            if not error.retryable:
                seen.failures.append(f"the subscriber got {error!r}")
            await asyncio.sleep(0.5)


async def query_all(
    stores: Sequence[StoreAddress], topic: str, streams: Sequence[Stream], seen: Seen
) -> None:
    """Ask each store by itself for the rows of a topic, behind all that was reported as stable."""
    await asyncio.sleep(BRIEF_SECONDS)  # Then all messages that expire have done so.
    digests: dict[str, RowDigest] = {}
    while len(digests) < len(stores):  # A store that has just started makes its rows first.
        digests = await digests_of(stores, topic, OPERATOR_SECONDS)
    at_least = [stream.life.bookmark for stream in streams if stream.life.bookmark is not None]
    for store in stores:
        async with connect([store]) as client:
            rows = await client.state(topic).query(at_least=at_least)
        seen.rows.setdefault(topic, {})[store.name] = Rows(
            digests[store.name].digest,
            {row.key or b"": Row(row.source.session_id, row.sequence, row.payload) for row in rows},
        )
