"""The bookmark store on a topic: claims, fencing, rows that are something else, and real kills."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores

from quorate.client import Client, connect, connect_blocking
from quorate.client.blocking import Client as BlockingClient
from quorate.client.replay import MOST_RECENT, Place, Position, ReplayedMessage, TopicBookmarkStore
from quorate.protocol.errors import BookmarksTakenOver, BookmarkStoreFailed
from quorate.protocol.identity import SourceName
from quorate.source import SourceOptions

QUICK = SourceOptions(registration_interval=0.3)
KEYED = {"topic": [{"pattern": "bookmarks", "keys": "$key"}]}
PROGRAM = Path(__file__).parent / "programs" / "without_files.py"


def position(sequence: int) -> Position:
    return Position({SourceName("orders", 1): Place(1, sequence)})


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[str]:
    made = RealStores(tmp_path)
    made.settings = {name: dict(KEYED) for name in "abc"}
    await made.start("abc")
    yield made.named("abc")
    await made.stop_all()


@pytest.fixture
def keeper(stores: str) -> Iterator[BlockingClient]:
    with connect_blocking(stores) as client:
        yield client


async def send(client: Client, first: int, last: int) -> None:
    async with client.source("orders", session_id=1, options=QUICK) as source:
        for number in range(first, last + 1):
            await source.send(b"%d" % number)
        await source.flush()


TAKEN = pytest.mark.expects_log("is fenced: another instance took over")


@TAKEN
async def test_a_position_outlives_the_one_who_saved_it(keeper: BlockingClient) -> None:
    def work() -> None:
        marks = TopicBookmarkStore(keeper, "bookmarks")
        assert marks.claim("risk", "one") is None
        marks.save("risk", "one", position(5))
        marks.save("risk", "one", position(7))
        assert marks.claim("audit", "two") is None, "each name has its own"
        later = TopicBookmarkStore(keeper, "bookmarks")
        assert later.claim("risk", "three") == position(7)
        assert later.most_recent("risk") == position(7)
        later.purge("risk")
        assert later.claim("risk", "four") is None

    await asyncio.to_thread(work)


@TAKEN
async def test_who_claims_a_name_fences_the_one_before_wherever_it_is(stores: str) -> None:
    def work() -> None:
        with connect_blocking(stores) as here, connect_blocking(stores) as there:
            one, two = TopicBookmarkStore(here, "bookmarks"), TopicBookmarkStore(there, "bookmarks")
            one.claim("risk", "one")
            one.save("risk", "one", position(5))
            assert two.claim("risk", "two") == position(5)
            two.save("risk", "two", position(6))
            with pytest.raises(BookmarksTakenOver):
                one.save("risk", "one", position(4))
            assert two.most_recent("risk") == position(6)

    await asyncio.to_thread(work)


async def test_a_name_that_is_claimed_again_here_is_lost_to_the_owner_before(
    keeper: BlockingClient,
) -> None:
    def work() -> None:
        marks = TopicBookmarkStore(keeper, "bookmarks")
        marks.claim("risk", "one")
        marks.claim("risk", "two")
        with pytest.raises(BookmarksTakenOver):
            marks.save("risk", "one", position(4))

    await asyncio.to_thread(work)


async def test_a_topic_without_keys_is_refused_with_the_reason(keeper: BlockingClient) -> None:
    marks = TopicBookmarkStore(keeper, "trades")
    with pytest.raises(BookmarkStoreFailed, match=r"trades.*keys"):
        await asyncio.to_thread(marks.claim, "risk", "one")


async def test_a_claim_that_failed_leaves_no_source_that_the_next_one_fences(
    keeper: BlockingClient,
) -> None:
    def work() -> None:
        marks = TopicBookmarkStore(keeper, "trades")
        for owner in ("one", "two"):
            with pytest.raises(BookmarkStoreFailed, match="keys"):
                marks.claim("risk", owner)

    await asyncio.to_thread(work)


async def test_a_row_of_something_else_is_not_taken_for_a_position(
    stores: str, keeper: BlockingClient
) -> None:
    async with (
        connect(stores) as client,
        client.source("bookmarks", session_id=9, options=QUICK) as source,
    ):
        receipt = await source.publish(json.dumps({"position": "nonsense"}).encode(), b"risk")
        state = client.state("bookmarks")
        await state.get(b"risk", at_least=f"bookmarks/0x9@{receipt.epoch}:{receipt.sequence}")
    marks = TopicBookmarkStore(keeper, "bookmarks")
    with pytest.raises(BookmarkStoreFailed, match="none of a bookmark store"):
        await asyncio.to_thread(marks.most_recent, "risk")


@TAKEN
async def test_a_subscriber_goes_on_where_its_row_says(stores: str, keeper: BlockingClient) -> None:
    async with connect(stores) as client:
        await send(client, 0, 19)
        found: list[bytes] = []
        for _ in range(2):
            marks = TopicBookmarkStore(keeper, "bookmarks")
            async with client.subscriber(
                "orders", begin=MOST_RECENT, bookmarks=marks, name="risk"
            ) as replay:
                async for item in replay:
                    if isinstance(item, ReplayedMessage):
                        found.append(item.payload)
                        item.consumed()
                    if len(found) in (10, 20):
                        break
        assert found == [b"%d" % number for number in range(20)]


@pytest.mark.processes
@pytest.mark.long
async def test_a_program_in_an_empty_directory_goes_on_though_it_is_killed_each_time(
    stores: str, tmp_path: Path
) -> None:
    async with connect(stores) as client:
        await send(client, 0, 10_000)

    def run(number: int) -> list[int]:
        """Return what it consumed until it was killed."""
        empty = tmp_path / f"container-{number}"
        empty.mkdir()
        command = [sys.executable, str(PROGRAM), stores]
        consumed: list[int] = []
        with subprocess.Popen(command, cwd=empty, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                consumed.append(int(line))
                if len(consumed) == 400:
                    process.kill()
            process.kill()
        assert list(empty.iterdir()) == []
        return consumed

    reached = -1
    again = 0
    for number in range(10):
        consumed = await asyncio.to_thread(run, number)
        assert consumed == list(range(consumed[0], consumed[-1] + 1)), "in order, without a gap"
        assert consumed[0] <= reached + 1, "nothing is lost"
        assert consumed[-1] > reached, "it comes on"
        again += reached + 1 - consumed[0]
        reached = consumed[-1]
    assert again < reached, "it does not begin anew each time"
