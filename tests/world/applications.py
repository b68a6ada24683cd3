"""The applications of a simulated world, written as users write them, and what they saw.

An application is started again after it was killed. What it saw outlives it, as a log would.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from quorate.client import SourceOptions, connect
from quorate.errors import QuorateError
from quorate.receiver import ReceiverOptions

TOPIC = "orders"
SOURCE, RECEIVER = 1, 2


@dataclass
class Seen:
    """Everything that the applications of a world saw."""

    stable: dict[int, bytes] = field(default_factory=dict)
    """The payloads that `publish` reported as stable, by sequence number."""
    conflicts: list[str] = field(default_factory=list)
    """Stable numbers that were given to two messages."""
    taken: list[list[tuple[int, bytes]]] = field(default_factory=list)
    """The messages that each instance of the receiver was handed, in order."""
    read: list[tuple[int, bytes]] = field(default_factory=list)
    """The messages that a new receiver was handed once all was calm."""
    sent: int = 0
    """The messages that the source began to publish."""
    failures: list[str] = field(default_factory=list)
    """Errors that no application should get."""


async def publish(stores: str, seen: Seen, until: asyncio.Event) -> None:
    """Publish messages one after the other, as long as the world lasts."""
    options = SourceOptions(activity_timeout=5.0, state_lifetime=3600.0)
    while not until.is_set():
        try:
            async with (
                connect(stores) as client,
                client.source(TOPIC, session_id=SOURCE, take_over=True, options=options) as source,
            ):
                while not until.is_set():
                    payload = b"%d" % seen.sent
                    seen.sent += 1
                    receipt = await source.publish(payload, wait_quorum=True)
                    before = seen.stable.setdefault(receipt.sequence, payload)
                    if before != payload:
                        seen.conflicts.append(f"{receipt.sequence}: {before!r}, then {payload!r}")
                    await asyncio.sleep(0.1)
        except QuorateError as error:
            if not error.retryable:
                seen.failures.append(f"the source got {error!r}")
            await asyncio.sleep(0.5)


async def receive(stores: str, seen: Seen) -> None:
    """Take messages as they become stable, and acknowledge each by taking the next."""
    options = ReceiverOptions(activity_timeout=5.0, state_lifetime=3600.0)
    while True:
        taken: list[tuple[int, bytes]] = []
        seen.taken.append(taken)
        try:
            async with (
                connect(stores) as client,
                client.receiver(
                    TOPIC,
                    session_id=RECEIVER,
                    start="earliest",
                    delivery="stable",
                    take_over=True,
                    options=options,
                ) as receiver,
            ):
                async for message in receiver:
                    taken.append((message.sequence, message.payload))
        except QuorateError as error:
            if not error.retryable:
                seen.failures.append(f"the receiver got {error!r}")
            await asyncio.sleep(0.5)


async def read_all(stores: str, upto: int) -> list[tuple[int, bytes]]:
    """Return all messages up to this number, as a receiver that nobody knows yet gets them."""
    read: list[tuple[int, bytes]] = []
    async with (
        connect(stores) as client,
        client.receiver(TOPIC, session_id=9, start="earliest", delivery="stable") as receiver,
    ):
        async for message in receiver:
            read.append((message.sequence, message.payload))
            if message.sequence >= upto:
                break
    return read
