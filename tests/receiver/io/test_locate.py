"""A receiver that starts at a time asks the stores where that is."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from tests.receiver.fakes import Group
from tests.receiver.support import numbers, opened, take

from quorate.protocol.errors import StoreStopping

START = datetime(2026, 1, 31, tzinfo=UTC)


async def test_one_answer_is_enough(group: Group) -> None:
    """Stores that hang or refuse are not waited for without end."""
    await group.announce()
    group.store(9)
    a, b, c = group.stores
    a.first_since = 4
    b.locate_hangs, c.locate_fails = True, StoreStopping("c")
    options = {"registration_interval": 0.1}
    async with await opened(group, start=START, options=options) as receiver:
        assert numbers(await take(receiver, 6)) == list(range(4, 10))


async def test_the_receiver_waits_until_a_store_answers(group: Group) -> None:
    await group.announce()
    group.store(9)
    for store in group.stores:
        store.first_since, store.locate_fails = 7, StoreStopping(store.name)

    async def answer() -> None:
        await group.stores[0].until(lambda: group.stores[0].questions)
        group.stores[0].locate_fails = None

    answering = asyncio.ensure_future(answer())
    async with await opened(group, start=START) as receiver:
        assert numbers(await take(receiver, 3)) == [7, 8, 9]
    await answering
