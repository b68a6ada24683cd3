"""Stories of processes that hang, while nothing is sent: each other end notices, and goes on."""

from __future__ import annotations

import pytest
from tests.end_to_end.world import ReceiverProcess, SourceProcess, World

pytestmark = [pytest.mark.processes, pytest.mark.long]

SILENCE = "it said nothing for 5 s"


async def until_source_says(source: SourceProcess, kind: str, **facts: str) -> None:
    """Wait for an event of the source whose fields contain these texts."""
    await source.progress.until(
        f"{source.name} says {kind} {facts}",
        lambda: any(
            told == kind and all(text in fields[name] for name, text in facts.items())
            for told, fields in source.lines("event")
        ),
    )


async def until_receiver_says(
    receiver: ReceiverProcess, kind: str, *texts: str, times: int = 1
) -> None:
    """Wait until so many events of the receiver contain these texts."""

    def happened() -> bool:
        events = [shown for told, shown in receiver.lines("event") if told == kind]
        return sum(all(text in shown for text in texts) for shown in events) >= times

    await receiver.progress.until(f"{receiver.name} says {kind} {texts} x {times}", happened)


async def until_registered_again(source: SourceProcess) -> None:
    await source.progress.until(
        "the source is registered again",
        lambda: [kind for kind, _ in source.lines("event")].count("RegistrationComplete") >= 2,
    )


async def test_two_of_three_stores_hang_and_go_on(world: World) -> None:
    stores = await world.founded("s1", "s2", "s3")
    source, receiver, last = await world.streaming(10)
    for store in stores[:2]:
        store.pause()
    for store in stores[:2]:
        await until_source_says(source, "StoreUnresponsive", store=store.name, reason=SILENCE)
        await until_receiver_says(receiver, "StoreUnresponsive", f"'{store.name}'", SILENCE)
    await until_source_says(source, "QuorumLost")
    for store in stores[:2]:
        store.resume()
    for store in stores[:2]:
        await until_source_says(source, "StoreReturned", store=store.name)
        await until_receiver_says(receiver, "StoreReturned", f"'{store.name}'")
    await until_registered_again(source)
    await source.send_stable(10)
    await receiver.until_reached(last + 10)


async def test_a_source_hangs_and_goes_on(world: World) -> None:
    stores = await world.founded("s1", "s2", "s3")
    source, receiver, last = await world.streaming(10)
    source.pause()
    await until_receiver_says(receiver, "SourceDetached", SILENCE)
    for store in stores:
        await store.until("the source is gone", lambda facts: not facts["live"])
    source.resume()
    await until_receiver_says(receiver, "SourceAttached", times=2)
    await until_registered_again(source)
    await source.send_stable(10)
    await receiver.until_reached(last + 10)


async def test_a_receiver_hangs_and_goes_on(world: World) -> None:
    await world.founded("s1", "s2", "s3")
    source, receiver, last = await world.streaming(10)
    receiver.pause()
    await until_source_says(source, "ReceiverDetached", reason=SILENCE)
    await source.send_stable(10)
    receiver.resume()
    await until_receiver_says(receiver, "SourceAttached", times=2)
    await source.send_stable(10)
    await receiver.until_reached(last + 20)
