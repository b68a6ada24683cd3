"""What tests of the receiver against a scripted group share."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from tests.receiver.fakes import NAME, Group

from quorate.receiver import (
    Event,
    Message,
    Receiver,
    ReceiverOptions,
)

QUICK = {"registration_interval": 3.0, "acknowledge_interval": 0.01, "request_timeout": 0.2}


async def opened(group: Group, topic: str | None = "orders", **arguments: Any) -> Receiver:
    options = ReceiverOptions(**(QUICK | arguments.pop("options", {})))
    arguments.setdefault("session_id", 0x20)
    arguments.setdefault("stores", group.addresses)
    return await Receiver.open(topic, options=options, timeout=30, **arguments)


async def take(receiver: Receiver, count: int) -> list[Message]:
    messages: list[Message] = []
    async with asyncio.timeout(60):
        async for message in receiver:
            messages.append(message)
            if len(messages) == count:
                break
    assert len(messages) == count
    return messages


async def told(receiver: Receiver, kind: type[Event]) -> Any:
    async with asyncio.timeout(60):
        async for event in receiver.events():
            if isinstance(event, kind):
                return event
    raise AssertionError(f"no {kind}")


def numbers(messages: list[Message]) -> list[int]:
    return [message.sequence for message in messages]


async def nothing_above(receiver: Receiver, last: int, seconds: float = 0.1) -> None:
    """Take what comes for a moment, which may be nothing above that number."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for message in receiver:
                assert message.sequence <= last


async def position_is(group: Group, expected: int) -> None:
    for store in group.stores:
        await store.until(lambda store=store: store.receivers[NAME, 0x20][1] == expected)
