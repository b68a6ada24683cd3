"""The applications of a simulated world, written as users write them.

An application is started again after it was killed. What it saw goes to `seen`, which outlives it.
Two instances of one application may run: one that was paused wakes beside its successor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from tests.world.seen import Messages, Seen, Stream

from quorate.client import Client, ReceiverOptions, SourceOptions, connect
from quorate.client.replay import EPOCH, ReplayedMessage
from quorate.errors import Fenced, QuorateError

ACTIVITY_SECONDS = 5.0
LIFETIME_SECONDS = 3600.0
BURST_MAX = 4
"""The messages that a source has under way at most."""


async def publish_all(
    stores: str, streams: Sequence[Stream], seen: Seen, random: Random, until: asyncio.Event
) -> None:
    """Publish messages to all streams, by one client, as long as the world lasts."""
    async with connect(stores) as client:
        await asyncio.gather(*(_publish(client, each, seen, random, until) for each in streams))


async def _publish(
    client: Client, stream: Stream, seen: Seen, random: Random, until: asyncio.Event
) -> None:
    options = SourceOptions(activity_timeout=ACTIVITY_SECONDS, state_lifetime=LIFETIME_SECONDS)
    stream.instances += 1
    instance = stream.instances
    while not until.is_set():
        try:
            async with client.source(
                stream.topic,
                session_id=stream.session_id,
                take_over=True,
                options=options,
                on_event=seen.note,
            ) as source:
                while not until.is_set():
                    payloads = [stream.payload() for _ in range(random.randint(1, BURST_MAX))]
                    receipts = await asyncio.gather(
                        *(source.publish(payload, wait_quorum=True) for payload in payloads)
                    )
                    for receipt, payload in zip(receipts, payloads, strict=True):
                        stream.note_stable(receipt.sequence, payload)
                    await asyncio.sleep(random.uniform(0.1, 1.0))
        except QuorateError as error:
            if instance < stream.instances:
                return  # Its successor has its place.
            is_contested = stream.topic in seen.contested and isinstance(error, Fenced)
            if not error.retryable and not is_contested:
                seen.failures.append(f"the source of {stream.topic} got {error!r}")
            await asyncio.sleep(0.5)


async def receive(stores: str, topic: str, session_id: int, seen: Seen) -> None:
    """Take messages as they become stable, and acknowledge each by taking the next."""
    options = ReceiverOptions(activity_timeout=ACTIVITY_SECONDS, state_lifetime=LIFETIME_SECONDS)
    seen.receivers[topic] += 1
    instance = seen.receivers[topic]
    while True:
        taken: dict[int, Messages] = {}
        try:
            async with (
                connect(stores) as client,
                client.receiver(
                    topic,
                    session_id=session_id,
                    start="earliest",
                    delivery="stable",
                    take_over=True,
                    options=options,
                    on_event=seen.note,
                ) as receiver,
            ):
                async for message in receiver:
                    stream = seen.stream(topic, message.source.session_id)
                    if stream.session_id not in taken:
                        taken[stream.session_id] = stream.begin_to_take()
                    taken[stream.session_id].append((message.sequence, message.payload))
                    stream.taken_upto = max(stream.taken_upto, message.sequence)
        except QuorateError as error:
            if instance < seen.receivers[topic]:
                return  # Its successor has its place.
            is_contested = topic in seen.contested and isinstance(error, Fenced)
            if not error.retryable and not is_contested:
                seen.failures.append(f"the receiver of {topic} got {error!r}")
            await asyncio.sleep(0.5)


async def subscribe(stores: str, topics: Sequence[str], seen: Seen) -> None:
    """Read the journal of one store after another, and keep the position with each message."""
    while True:
        try:
            async with (
                connect(stores) as client,
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
                        stream.replayed.append((item.sequence, item.payload))
        except QuorateError as error:
            if not error.retryable:
                seen.failures.append(f"the subscriber got {error!r}")
            await asyncio.sleep(0.5)


async def read_all(stores: str, topic: str, streams: Sequence[Stream]) -> None:
    """Read all messages of a topic, as a receiver that nobody knows yet gets them."""
    lacking = {stream.session_id: stream for stream in streams}
    async with (
        connect(stores) as client,
        client.receiver(topic, session_id=9, start="earliest", delivery="stable") as receiver,
    ):
        async for message in receiver:
            stream = lacking.get(message.source.session_id)
            if stream is None:
                continue
            stream.read.append((message.sequence, message.payload))
            if message.sequence >= stream.last:
                del lacking[stream.session_id]
            if not lacking:
                return
