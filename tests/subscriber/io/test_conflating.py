"""The shell of conflation: notices end a window, and come behind what waited."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from quorate.protocol.attributes import Attributes
from quorate.protocol.bookmarks import Bookmark, Place, Position
from quorate.protocol.columns import Body
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.subscriber.io.conflating import Conflating
from quorate.subscriber.items import (
    Completed,
    Gap,
    GapCause,
    Item,
    Notice,
    ReplayedBatch,
    ReplayedMessage,
    Withdrawn,
)
from quorate.subscriber.protocol.conflation_key import ConflationKey

ORDERS = SourceName("orders", 1)
BEGINS = Position({ORDERS: Place(1, 9)})
NOTICES: list[Notice] = [
    Completed(BEGINS),
    Gap(ORDERS, 14, 19, GapCause.RELEASED),
    Withdrawn(ORDERS, 12, 13, Place(2, 11)),
]


class ForgettableBody(Body):
    """Columns to which a weak reference is possible."""


def batch(first: int, *keys: bytes | None) -> ReplayedBatch:
    attributes = [Attributes(key, {"name": b"value"}) for key in keys]
    frame = encode_batch(ORDERS, 1, first, [b"payload"] * len(keys), 7, b"", attributes)
    header = read_header(frame)
    numbers = range(first, first + len(keys))
    body = ForgettableBody(frame, header.body_at, len(keys))
    return ReplayedBatch(header, body, slice(0, len(keys)), numbers)


class Subscription:
    """What is below the conflation of a subscriber."""

    def __init__(self, interval: float = 600.0) -> None:
        self.conflating = Conflating(interval, ConflationKey("key", None))
        self.conflating.begin(BEGINS)
        self.behind = BEGINS
        self._coming: asyncio.Queue[tuple[Item, Position] | Exception] = asyncio.Queue()

    def come(self, given: ReplayedBatch | Notice, behind: int) -> None:
        position = Position({ORDERS: Place(1, behind)})
        items = given.messages() if isinstance(given, ReplayedBatch) else [given]
        for item in items:
            self._coming.put_nowait((item, position))

    def fail(self, error: Exception) -> None:
        self._coming.put_nowait(error)

    async def _take(self) -> Item:
        coming = await self._coming.get()
        if isinstance(coming, Exception):
            raise coming
        item, self.behind = coming
        return item

    async def next(self) -> Item:
        async with asyncio.timeout(10):
            return await self.conflating.next(self._take, lambda: self.behind, self._until_going)

    async def _until_going(self) -> None:
        return None


@pytest.mark.parametrize("notice", NOTICES, ids=lambda notice: type(notice).__name__)
async def test_a_notice_ends_the_window_and_comes_behind_it(notice: Notice) -> None:
    below = Subscription()
    below.come(batch(10, b"a", b"b", b"a", b"b"), 13)
    below.come(notice, 19)
    for number in (12, 13):
        assert below.conflating.position == BEGINS
        item = await below.next()
        assert isinstance(item, ReplayedMessage)
        assert (item.sequence, item.conflated) == (number, 2)
    # Going on there gives the notice again, which was not handed over.
    assert below.conflating.position == {ORDERS: Place(1, 13)}
    assert await below.next() == notice
    assert below.conflating.position == {ORDERS: Place(1, 19)}


async def test_a_message_is_the_newest_with_the_bookmark_of_the_first() -> None:
    below = Subscription(interval=0.001)
    below.come(batch(10, b"a", b"a"), 11)
    item = await below.next()
    assert isinstance(item, ReplayedMessage)
    assert (item.key, item.payload, item.properties) == (b"a", b"payload", {"name": b"value"})
    assert (item.sequence, item.epoch, item.source, item.timestamp_ns) == (11, 1, ORDERS, 7)
    assert item.bookmark == Bookmark(ORDERS, 1, 10)
    item.consumed()  # without a bookmark store it has no effect


async def test_what_waits_keeps_no_other_message_in_memory() -> None:
    below = Subscription(interval=0.05)
    given = batch(10, b"a", b"b")
    forgotten = weakref.ref(given._body)
    below.come(given, 11)
    below.come(batch(12, b"c"), 12)
    del given
    await below.next()
    gc.collect()
    assert forgotten() is None


async def test_an_error_comes_out_and_what_waits_stays() -> None:
    below = Subscription()
    below.come(batch(10, b"a"), 10)
    below.fail(TimeoutError("of what is below"))
    with pytest.raises(TimeoutError, match="below"):
        await below.next()
    assert below.conflating.position == BEGINS
    below.come(NOTICES[0], 10)
    item = await below.next()
    assert isinstance(item, ReplayedMessage)
    assert item.sequence == 10
