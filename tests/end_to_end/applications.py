"""A source and a receiver as applications have them, each writing down what it saw.

    python -m tests.end_to_end.applications source|receiver SETTINGS-AS-JSON

The history is a file of JSON lines that are written at once, so that it outlives kill -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from quorate.protocol.errors import NotRegistered, NotYetStable, QuorateError
from quorate.receiver import Gap, Receiver, RegistrationComplete, Withdrawn
from quorate.source import FilePublishStore, Source, SourceOptions

TOPIC = "history"
SESSION = 7


class History:
    """What one application saw."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, kind: str, *facts: Any) -> None:
        os.write(self._file, json.dumps([kind, *facts]).encode() + b"\n")


def message(tag: str, number: int, size: int) -> bytes:
    return f"{tag}:{number}:".encode() + b"." * size


def name_of(payload: bytes) -> str:
    """What `message` was given, if the content is as it was made."""
    tag, number, rest = payload.split(b":", 2)
    assert rest == b"." * len(rest), payload
    return f"{tag.decode()}:{number.decode()}"


async def send(settings: dict[str, Any], history: History) -> None:
    """Send in every way until the file `until` is there; then one message more.

    Close when the file is gone: a store that missed the last epoch needs the source to catch up.
    """
    tag, until = settings["tag"], Path(settings["until"])
    choice = random.Random(tag)
    source = await opened_source(settings)
    sent = 0
    publishing: set[asyncio.Task[None]] = set()

    def is_over() -> bool:
        return until.exists()

    def wait_gone() -> None:
        while until.exists():
            time.sleep(0.05)

    def made() -> bytes:
        nonlocal sent
        sent += 1
        return message(tag, sent, choice.choice((10, 100, 100, 1000, 50_000)))

    def accepted(first: int, numbers: range) -> None:
        history.add("accepted", first, [f"{tag}:{number}" for number in numbers])

    async def publish() -> None:
        payload = made()
        with contextlib.suppress(NotRegistered, NotYetStable):
            receipt = await source.publish(payload)
            history.add("receipt", receipt.sequence, name_of(payload), receipt.epoch)

    while not is_over():
        try:
            match choice.randrange(4):
                case 0:
                    for _ in range(20):
                        payload = made()
                        accepted(await source.send(payload), range(sent, sent + 1))
                case 1:
                    before = sent + 1
                    many = [made() for _ in range(choice.randrange(1, 200))]
                    numbers = await source.send_many(many)
                    accepted(numbers.start, range(before, sent + 1))
                case 2:
                    task = asyncio.create_task(publish())
                    publishing.add(task)
                    task.add_done_callback(publishing.discard)
                case 3:
                    upto = source.next_sequence - 1
                    with contextlib.suppress(NotYetStable):
                        await source.flush(1)
                        history.add("flushed", upto)
        except NotRegistered:
            pass
        await asyncio.sleep(0.02)
    while True:
        try:
            history.add("end", (await source.publish(made())).sequence)
            break
        except NotRegistered:
            await asyncio.sleep(0.05)
    await asyncio.to_thread(wait_gone)
    await source.close()


async def opened_source(settings: dict[str, Any]) -> Source:
    store = FilePublishStore(settings["publish"]) if settings["publish"] else None
    options = SourceOptions(
        listen=settings["listen"],
        advertise=settings["advertise"],
        registration_interval=1.0,
        retention_bytes_max=1 << 20,
        flight_messages=2000,
    )
    while True:
        try:
            return await Source.open(
                TOPIC,
                stores=settings["stores"],
                session_id=SESSION,
                publish_store=store,
                take_over=True,
                options=options,
            )
        except QuorateError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(0.2)


async def receive(settings: dict[str, Any], history: History) -> None:
    """Take everything, now and then slowly, until killed."""
    choice = random.Random(settings["history"])
    receiver = await Receiver.open(
        TOPIC,
        stores=settings["stores"],
        session_id=settings["session"],
        delivery=settings["delivery"],
    )
    watching = asyncio.create_task(watch(receiver, history))
    async for batch in receiver.batches():
        names = [name_of(payload) for payload in batch.payloads]
        history.add("delivered", batch.first, names, batch.epoch)
        if choice.random() < 0.03:
            await asyncio.sleep(choice.uniform(0.1, 1.0))
    await watching


async def watch(receiver: Receiver, history: History) -> None:
    async for event in receiver.events():
        match event:
            case RegistrationComplete():
                history.add("starts", event.first_sequence)
            case Withdrawn():
                history.add("withdrawn", event.first, event.last)
            case Gap():
                history.add("gap", event.first, event.last, repr(event))


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    work = send if sys.argv[1] == "source" else receive
    asyncio.run(work(given, History(given["history"])))
