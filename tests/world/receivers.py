"""The receivers of a simulated world, written as users write them.

As in `applications`, one is started again after it was killed, and two instances may run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tests.world.applications import ACTIVITY_SECONDS
from tests.world.group import Opening
from tests.world.seen import Handed, Live, Seen, Stream, Taken

from quorate.client import Client, ReceiverOptions, connect
from quorate.client.opening import ReceiverOpening
from quorate.client.receiver_events import Gap, Withdrawn
from quorate.errors import Deregistered, Fenced, QuorateError
from quorate.receiver.protocol.fetch_plan import Answer
from quorate.receiver.receiver import Receiver

LIFETIME_SECONDS = 3600.0


async def receive(opening: Opening, topic: str, session_id: int, seen: Seen) -> None:
    """Take messages as they become stable, and acknowledge each by taking the next."""
    seen.receivers[topic] += 1
    instance = seen.receivers[topic]
    while True:
        taken: dict[int, Taken] = {}
        try:
            async with (
                connect(opening.layout) as client,
                _opening(
                    client, topic, session_id, "stable", _noting_gaps(topic, taken, seen)
                ) as receiver,
            ):
                async for message in receiver:
                    stream = seen.stream(topic, message.source.session_id)
                    handed = Handed(message.sequence, message.payload, message.epoch)
                    stream.note_taken(_place(taken, stream), handed)
                    if topic in seen.receivers_to_end:
                        await _end(receiver, topic, seen, instance)
                        break
        except QuorateError as error:
            if instance < seen.receivers[topic]:
                return  # Its successor has its place.
            _note_failure(f"the receiver of {topic}", topic, error, seen)
            await asyncio.sleep(0.5)


async def _end(receiver: Receiver, topic: str, seen: Seen, instance: int) -> None:
    """Deregister a receiver. The next instance begins anew, unless it has done so already."""
    seen.receivers_to_end.discard(topic)
    seen.ended_receivers.add(topic)
    streams = [stream for stream in seen.streams if stream.topic == topic]
    for stream in streams:
        stream.ask_receiver_to_end()
    await receiver.deregister()
    seen.reached["receivers that ended"] += 1
    if instance == seen.receivers[topic]:
        for stream in streams:
            stream.end_receiver()


async def receive_live(opening: Opening, topic: str, session_id: int, seen: Seen) -> None:
    """Take messages as they come, and note those that are taken back."""
    instances = f"live {topic}"
    seen.receivers[instances] += 1
    instance = seen.receivers[instances]
    while True:
        live: dict[int, Live] = {}

        def note(event: object, live: dict[int, Live] = live) -> None:
            seen.note(event)
            if isinstance(event, Gap | Withdrawn) and event.source.topic == topic:
                stream = seen.stream(topic, event.source.session_id)
                if isinstance(event, Withdrawn):
                    _live_place(live, stream).items.append(event)
                elif event.cause is Answer.LOST:
                    seen.note_lost(stream, event.first, event.last)
                elif event.cause is Answer.RELEASED:
                    _live_place(live, stream).gaps.append(stream.let_go(event.first, event.last))

        try:
            async with (
                connect(opening.layout) as client,
                _opening(client, topic, session_id, "live", note) as receiver,
            ):
                async for message in receiver:
                    stream = seen.stream(topic, message.source.session_id)
                    handed = Handed(message.sequence, message.payload, message.epoch)
                    stream.note_live(_live_place(live, stream), handed)
        except QuorateError as error:
            if instance < seen.receivers[instances]:
                return  # Its successor has its place.
            _note_failure(f"the live receiver of {topic}", topic, error, seen)
            await asyncio.sleep(0.5)


def _opening(
    client: Client,
    topic: str,
    session_id: int,
    delivery: str,
    on_event: Callable[[object], None],
) -> ReceiverOpening:
    options = ReceiverOptions(activity_timeout=ACTIVITY_SECONDS, state_lifetime=LIFETIME_SECONDS)
    return client.receiver(
        topic,
        session_id=session_id,
        start="earliest",
        delivery=delivery,
        take_over=True,
        options=options,
        on_event=on_event,
    )


def _noting_gaps(topic: str, taken: dict[int, Taken], seen: Seen) -> Callable[[object], None]:
    """Return what takes the events of a receiver."""

    def note(event: object) -> None:
        seen.note(event)
        if isinstance(event, Gap):
            stream = seen.stream(topic, event.source.session_id)
            if event.cause is Answer.RELEASED:
                _place(taken, stream).gaps.append(stream.let_go(event.first, event.last))
            elif event.cause is Answer.LOST:
                seen.note_lost(stream, event.first, event.last)
            else:
                told = f"[{event.first}, {event.last}] of {topic}: {event.cause}"
                seen.failures.append(f"a receiver was told of a gap in what is stable, {told}")

    return note


def _note_failure(who: str, topic: str, error: QuorateError, seen: Seen) -> None:
    """Note an error that no application should get."""
    expected = isinstance(error, Fenced) and topic in seen.contested
    expected |= isinstance(error, Deregistered) and topic in seen.ended_receivers
    if not error.retryable and not expected:
        seen.failures.append(f"{who} got {error!r}")


def _place(taken: dict[int, Taken], stream: Stream) -> Taken:
    """Return the place for the messages of a source that one instance of a receiver is handed."""
    if stream.session_id not in taken:
        taken[stream.session_id] = stream.begin_to_take()
    return taken[stream.session_id]


def _live_place(live: dict[int, Live], stream: Stream) -> Live:
    if stream.session_id not in live:
        live[stream.session_id] = stream.begin_live()
    return live[stream.session_id]


async def read_all(opening: Opening, topic: str, streams: Sequence[Stream]) -> None:
    """Read all messages of a topic, as a receiver that nobody knows yet gets them."""
    lacking = {stream.session_id: stream for stream in streams}

    def note(event: object) -> None:
        if isinstance(event, Gap) and event.cause is Answer.RELEASED:
            stream = next(each for each in streams if each.session_id == event.source.session_id)
            stream.read_gaps.append(stream.let_go(event.first, event.last))

    async with (
        connect(opening.layout) as client,
        client.receiver(
            topic, session_id=9, start="earliest", delivery="stable", on_event=note
        ) as receiver,
    ):
        async for message in receiver:
            stream = lacking.get(message.source.session_id)
            if stream is None:
                continue
            stream.note_read(
                Handed(message.sequence, message.payload, message.epoch, message.timestamp_ns)
            )
            if message.sequence >= stream.life.last:
                del lacking[stream.session_id]
            if not lacking:
                return
