"""A subscriber with an archive: what the store has let go comes from there, and no seam is seen."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import pytest
from tests.pipeline.archive.support import here
from tests.store.support import running

from quorate.archive.reading import Archive
from quorate.client import Client, connect, connect_blocking
from quorate.client.replay import (
    NOW,
    ArchiveEntered,
    Bookmark,
    Completed,
    Event,
    Gap,
    GapCause,
    Item,
    MemoryBookmarkStore,
    Place,
    Position,
    ReplayedBatch,
    ReplayedMessage,
    StoreLeft,
    Subscribed,
)
from quorate.errors import ArchiveInvalid, ArchiveUnusable, InvalidArgument, UnknownBookmark
from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.stores.client import Stores
from quorate.protocol.bookmarks import NO_PLACE
from quorate.protocol.identity import SourceName
from quorate.protocol.times import moment_of
from quorate.source import SourceOptions
from quorate.store.node import StoreNode
from quorate.subscriber import Subscriber

QUICK = SourceOptions(registration_interval=0.3)
KEPT: dict[str, Any] = {"retention_messages": 100, "retain_until": ["archived"]}
ONE, TWO = SourceName("orders", 1), SourceName("orders", 2)


async def send(client: Client, source: SourceName, first: int, last: int) -> None:
    """In batches of at most 50 messages."""
    opening = client.source(source.topic, session_id=source.session_id, options=QUICK)
    async with opening as opened:
        for begin in range(first, last + 1, 50):
            for number in range(begin, min(begin + 50, last + 1)):
                await opened.send(b"%d" % number, key=b"k%d" % (number % 7))
            await opened.flush()


async def archived(node: StoreNode, path: Path) -> None:
    report = await asyncio.to_thread(archive, here, Stores([node.address]), str(path))
    assert report.failures == {}


async def let_go(node: StoreNode, **least: int) -> dict[SourceName, int]:
    """Where what is left begins, once so many messages of each source have left the store."""
    stores = Stores([node.address])
    wanted = {SourceName("orders", int(name[1:])): least[name] for name in least}
    async with asyncio.timeout(60):
        while True:
            known = (await asyncio.to_thread(stores.sources)).sources
            left = {name: known[name].retained_from for name in wanted}
            if all(left[name] >= wanted[name] for name in wanted):
                return left
            await asyncio.sleep(0.05)


@dataclass
class World:
    """A store that has let go of what is archived, and a client of it."""

    node: StoreNode
    client: Client
    path: Path
    left: dict[SourceName, int] = field(default_factory=dict)
    """The first message of each source that is still there."""

    def subscriber(self, **options: Any) -> Any:
        return self.client.subscriber("orders", archive=self.path, **options)


@asynccontextmanager
async def store(directory: Path, **settings: Any) -> AsyncIterator[World]:
    async with (
        running(directory / "s1", **settings) as node,
        connect(f"s1={node.address}") as client,
    ):
        yield World(node, client, directory / "archive")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The archive has 500 of ONE, 300 of TWO. The store has less of them, and more behind them."""
    async with store(tmp_path, **KEPT) as made:
        await send(made.client, ONE, 0, 249)
        await send(made.client, TWO, 0, 299)
        await send(made.client, ONE, 250, 499)
        await archived(made.node, made.path)
        made.left = await let_go(made.node, s1=300, s2=150)
        await send(made.client, ONE, 500, 549)
        await send(made.client, TWO, 300, 319)
        yield made


async def until_completed(subscriber: Subscriber) -> list[Item]:
    found: list[Item] = []
    async with asyncio.timeout(30):
        async for item in subscriber:
            found.append(item)
            if isinstance(item, Completed):
                return found
    raise AssertionError("it ended")


async def take(subscriber: Subscriber, count: int) -> list[Item]:
    async with asyncio.timeout(30):
        return [await anext(subscriber) for _ in range(count)]


def numbers(items: list[Item], source: SourceName = ONE) -> list[int]:
    """The messages of a source, each of which has its own content."""
    messages = [each for each in items if isinstance(each, ReplayedMessage)]
    mine = [each for each in messages if each.source == source]
    assert all(each.payload == b"%d" % each.sequence for each in mine)
    assert all(each.key == b"k%d" % (each.sequence % 7) for each in mine)
    return [each.sequence for each in mine]


def others(items: list[Item]) -> list[Item]:
    return [each for each in items if not isinstance(each, ReplayedMessage)]


def damage(world: World) -> Path:
    """Damage the first file of ONE."""
    run = Archive(str(world.path)).run_from(ONE, 0)
    assert run is not None
    path = world.path / run.file.path
    path.write_bytes(path.read_bytes()[:-1])
    return path


async def test_there_is_no_seam(world: World) -> None:
    async with world.client.subscriber("orders") as without:
        found = await until_completed(without)
        left = numbers(found)[0]  # the store may have let go of more since
        assert left >= world.left[ONE] > 0, "the store alone has less"
        assert numbers(found) == list(range(left, 550))
    events: list[Event] = []
    async with world.subscriber(on_event=events.append) as subscriber:
        found = await until_completed(subscriber)
        assert numbers(found) == list(range(550))
        assert numbers(found, TWO) == list(range(320))
        # Completed comes after both.
        (completed,) = others(found)
        assert completed == Completed(subscriber.position)
        # As they were sent.
        sources = [each.source for each in found[:800] if isinstance(each, ReplayedMessage)]
        assert sources == [ONE] * 250 + [TWO] * 300 + [ONE] * 250
        await send(world.client, ONE, 550, 559)
        assert numbers(await take(subscriber, 10)) == list(range(550, 560))
    assert [type(event) for event in events] == [ArchiveEntered, Subscribed, Completed]
    assert events[0] == ArchiveEntered(str(world.path), Position({ONE: NO_PLACE, TWO: NO_PLACE}))
    assert {name: place.sequence for name, place in events[1].position.items()} == {  # type: ignore[union-attr]
        ONE: 499,
        TWO: 299,
    }


async def test_whole_batches(world: World) -> None:
    async with world.subscriber() as subscriber:
        seen: dict[SourceName, list[int]] = {ONE: [], TWO: []}
        async for given in subscriber.batches():
            if isinstance(given, Completed):
                break
            assert isinstance(given, ReplayedBatch)
            assert given.payloads == [b"%d" % number for number in given.numbers]
            seen[given.source] += given.numbers
        assert seen == {ONE: list(range(550)), TWO: list(range(320))}


async def test_a_filter_holds_for_archived_messages_too(world: World) -> None:
    async with world.subscriber(where="$key = 'k3' AND $sequence BETWEEN 20 AND 520") as subscriber:
        found = await until_completed(subscriber)
        wanted = [number for number in range(20, 521) if number % 7 == 3]
        assert numbers(found) == wanted
        assert numbers(found, TWO) == [number for number in wanted if number < 320]
        # What does not pass counts as given.
        assert {name: place.sequence for name, place in subscriber.position.items()} == {
            ONE: 549,
            TWO: 319,
        }
        assert isinstance(found[-1], Completed)


def as_json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


@pytest.mark.parametrize(("form", "encode"), [("json", as_json), ("msgpack", msgpack.packb)])
async def test_selected_fields_of_archived_messages(
    tmp_path: Path, form: str, encode: Callable[[Mapping[str, object]], bytes]
) -> None:
    topics = ({"pattern": "orders", "payload": form},)
    async with store(tmp_path, **KEPT, topic=topics) as world:
        async with world.client.source("orders", session_id=1, options=QUICK) as orders:
            for begin in range(0, 500, 50):
                await orders.send_many(
                    [encode({"id": number, "note": "x"}) for number in range(begin, begin + 50)]
                )
                await orders.flush()
        await archived(world.node, world.path)
        await let_go(world.node, s1=300)
        events: list[Event] = []
        async with world.subscriber(
            select="id", where="id >= 7 AND note = 'x'", payload=form, on_event=events.append
        ) as subscriber:
            found = await until_completed(subscriber)
    assert [type(each) for each in events] == [ArchiveEntered, Subscribed, Completed]
    messages = [each for each in found if isinstance(each, ReplayedMessage)]
    assert [each.sequence for each in messages] == list(range(7, 500))
    assert [each.payload for each in messages] == [encode({"id": n}) for n in range(7, 500)]


async def test_a_position_that_only_the_archive_has(world: World) -> None:
    async with world.subscriber() as subscriber:
        some = await take(subscriber, 400)
        text = str(subscriber.position)
    async with world.subscriber(begin=text) as subscriber:
        rest = await until_completed(subscriber)
    assert numbers(some + rest) == list(range(550))
    assert numbers(some + rest, TWO) == list(range(320))
    assert len(others(rest)) == 1


async def test_a_position_behind_the_archive_is_the_stores(world: World) -> None:
    events: list[Event] = []
    async with world.client.subscriber("orders", begin=NOW) as subscriber:
        position = subscriber.position
    await send(world.client, ONE, 550, 559)
    async with world.subscriber(begin=position, on_event=events.append) as subscriber:
        assert numbers(await take(subscriber, 10)) == list(range(550, 560))
    assert [type(event) for event in events] == [Subscribed]


async def test_from_now_on_nothing_is_read_from_the_archive(world: World) -> None:
    async with world.subscriber(begin=NOW) as subscriber:
        assert len(await until_completed(subscriber)) == 1


async def test_a_bookmark_that_only_the_archive_has(world: World) -> None:
    bookmark = Bookmark(ONE, 1, 29)
    async with world.subscriber(begin=bookmark) as subscriber:
        found = await until_completed(subscriber)
        assert numbers(found) == list(range(30, 550))
        assert numbers(found, TWO) == list(range(320)), "all of it was sent after that"
    # The earliest counts, whoever has it.
    at_store = Bookmark(TWO, 2, 310)
    async with world.subscriber(begin=[at_store, Bookmark(TWO, 1, 99), bookmark]) as subscriber:
        found = await until_completed(subscriber)
        assert numbers(found) == list(range(30, 550))
        assert numbers(found, TWO) == list(range(320))
    async with world.subscriber(begin=[Bookmark(TWO, 1, 99)]) as subscriber:
        found = await until_completed(subscriber)
        assert numbers(found, TWO) == list(range(100, 320))
        begins = numbers(found)[0]
        assert begins == 250, "the messages of ONE that were sent after that"
    for unknown in (Bookmark(ONE, 1, 5000), Bookmark(ONE, 9, 29)):
        with pytest.raises(UnknownBookmark):
            await world.subscriber(begin=[bookmark, unknown], timeout=5)


async def test_a_bookmark_that_the_store_has(world: World) -> None:
    async with world.subscriber(begin=Bookmark(ONE, 3, 519)) as subscriber:
        found = await until_completed(subscriber)
        assert numbers(found) == list(range(520, 550))
        assert numbers(found, TWO) == list(range(300, 320))


async def test_a_time_that_only_the_archive_has(world: World) -> None:
    async with world.subscriber(where="$sequence = 120 AND $session = 2") as subscriber:
        (message, _) = await until_completed(subscriber)
        assert isinstance(message, ReplayedMessage)
    async with world.subscriber(begin=moment_of(message.timestamp_ns)) as subscriber:
        found = await until_completed(subscriber)
        assert numbers(found, TWO) == list(range(120, 320)), "inside a batch, too"
        assert numbers(found) == list(range(250, 550))
    async with world.subscriber(begin="-1h") as subscriber:
        found = await until_completed(subscriber)
        assert numbers(found) == list(range(550))
    async with world.subscriber(begin="2100-01-01") as subscriber:
        assert len(await until_completed(subscriber)) == 1


async def whole(world: World, **options: Any) -> tuple[list[Item], list[type[Event]]]:
    """All items of a range, and what was told of it before its end."""
    events: list[Event] = []
    async with asyncio.timeout(30), world.subscriber(on_event=events.append, **options) as opened:
        items = [item async for item in opened]
    *told, completed = events
    assert completed is items[-1]
    return items, [type(each) for each in told]


async def test_a_range_inside_the_archive_asks_no_store_for_it(world: World) -> None:
    end = Position({ONE: Place(1, 99), TWO: Place(1, 120)})
    found, told = await whole(world, end=end)
    assert told == [ArchiveEntered]
    assert numbers(found) == list(range(100))
    assert numbers(found, TWO) == list(range(121))
    assert [type(each) for each in others(found)] == [Completed]


@pytest.mark.parametrize(("end", "last"), [("{}", 29), ("at {}", 29), ("before {}", 28)])
async def test_an_end_at_a_bookmark_that_only_the_archive_has(
    world: World, end: str, last: int
) -> None:
    found, told = await whole(world, end=end.format(Bookmark(ONE, 1, 29)))
    assert numbers(found) == list(range(last + 1))
    assert numbers(found, TWO) == [], "all of it was sent after that"
    assert told[-1] is ArchiveEntered
    found, _ = await whole(world, begin="at orders/0x1@1:10", end=Bookmark(TWO, 1, 99))
    assert numbers(found) == list(range(10, 250))
    assert numbers(found, TWO) == list(range(100))


async def test_an_end_at_a_bookmark_that_the_store_has(world: World) -> None:
    found, _ = await whole(world, begin=Bookmark(ONE, 1, 29), end=Bookmark(ONE, 3, 519))
    assert numbers(found) == list(range(30, 520))
    assert numbers(found, TWO) == list(range(300))
    assert len(others(found)) == 1


async def test_of_several_bookmarks_to_end_at_the_latest_counts(world: World) -> None:
    archived = [Bookmark(ONE, 1, 29), Bookmark(TWO, 1, 99)]
    for end in (archived, archived[::-1]):
        found, told = await whole(world, end=end)
        assert numbers(found) == list(range(250))
        assert numbers(found, TWO) == list(range(100))
        assert told[-1] is ArchiveEntered
    found, _ = await whole(world, end=[Bookmark(ONE, 3, 519), *archived])
    assert numbers(found) == list(range(520))
    assert numbers(found, TWO) == list(range(300))


async def test_an_end_at_a_time(world: World) -> None:
    async with world.subscriber(where="$session = 2") as subscriber:
        found = await until_completed(subscriber)
    of_two = [each for each in found if isinstance(each, ReplayedMessage)]
    end = of_two[120].time
    found, told = await whole(world, end=end)
    assert numbers(found) == list(range(250))
    assert numbers(found, TWO) == [each.sequence for each in of_two if each.time < end]
    assert told == [ArchiveEntered]
    found, _ = await whole(world, end="+1s")
    assert numbers(found) == list(range(550))
    assert numbers(found, TWO) == list(range(320))


async def test_an_end_now_is_behind_the_stores_messages(world: World) -> None:
    found, told = await whole(world, end=NOW)
    assert numbers(found) == list(range(550))
    assert numbers(found, TWO) == list(range(320))
    assert told == [ArchiveEntered, Subscribed]


@pytest.mark.parametrize(("word", "last"), [("at", 250), ("before", 249)])
async def test_an_end_at_a_bookmark_before_all_that_the_store_has_of_a_source(
    world: World, word: str, last: int
) -> None:
    found, _ = await whole(world, end=f"{word} {Bookmark(TWO, 1, 250)}")
    assert numbers(found) == list(range(250))
    assert numbers(found, TWO) == list(range(last + 1))


@pytest.mark.expects_log("is deregistered")
async def test_an_end_now_is_behind_a_source_that_the_archive_alone_has(world: World) -> None:
    async with world.client.source("orders", session_id=2, options=QUICK) as source:
        await source.deregister()
    found, _ = await whole(world, end=NOW)
    assert numbers(found) == list(range(550))
    assert numbers(found, TWO) == list(range(300))


async def test_an_unknown_end_is_unknown_to_the_archive_too(world: World) -> None:
    with pytest.raises(UnknownBookmark):
        await world.subscriber(end=Bookmark(ONE, 1, 5000), timeout=5)
    with pytest.raises(InvalidArgument, match="is before the beginning"):
        await world.subscriber(begin=Bookmark(ONE, 1, 30), end=Bookmark(ONE, 1, 29), timeout=5)


async def test_a_bookmark_store_keeps_a_place_in_the_archive(world: World) -> None:
    bookmarks = MemoryBookmarkStore()
    found: list[Item] = []
    for _ in range(2):
        async with world.subscriber(
            begin="most_recent", bookmarks=bookmarks, name="risk"
        ) as subscriber:
            found += await take(subscriber, 120)
            for item in found:
                assert isinstance(item, ReplayedMessage)
                item.consumed()
    assert numbers(found) == list(range(240))


async def test_what_was_archived_and_let_go_meanwhile_is_no_gap(tmp_path: Path) -> None:
    events: list[Event] = []
    async with store(tmp_path, **KEPT) as world:
        await send(world.client, ONE, 0, 99)
        await archived(world.node, world.path)
        listen = world.node.address
    async with connect(f"s1={listen}") as client:
        async with running(tmp_path / "s1", **KEPT, listen=listen):
            subscriber = await client.subscriber(
                "orders", archive=world.path, on_event=events.append
            )
            found = await until_completed(subscriber)
        # The subscription asks the store for more only once it has let go of what came since.
        async with store(tmp_path, **KEPT, listen=listen) as world:
            await send(world.client, ONE, 100, 499)
            await archived(world.node, world.path)
            left = (await let_go(world.node, s1=300))[ONE]
            await send(world.client, ONE, 500, 509)
            found += await take(subscriber, 410)
            assert numbers(found) == list(range(510))
            assert others(found[101:]) == []
        kinds = [type(event) for event in events]
        assert kinds[:5] == [ArchiveEntered, Subscribed, Completed, StoreLeft, Subscribed]
        (_, first, _, _, again, *_) = events
        assert isinstance(first, Subscribed)
        assert isinstance(again, Subscribed)
        assert first.position == again.position
        assert again.position[ONE].sequence == 99 < left


async def test_what_neither_has_is_a_gap(tmp_path: Path) -> None:
    async with store(tmp_path) as world:
        await send(world.client, ONE, 0, 199)
        await archived(world.node, world.path)
        await send(world.client, ONE, 200, 499)
    async with store(tmp_path, retention_messages=50) as world:
        left = (await let_go(world.node, s1=400))[ONE]
        async with world.subscriber() as subscriber:
            found = await until_completed(subscriber)
        assert numbers(found) == [*range(200), *range(left, 500)]
        assert others(found)[:-1] == [Gap(ONE, 200, left - 1, GapCause.RELEASED)]
        # The archive goes on behind its gap.
        report = await asyncio.to_thread(
            archive, here, Stores([world.node.address]), str(world.path)
        )
        assert report.failures.keys() == {ONE}
        async with world.subscriber(begin=Position({ONE: Bookmark(ONE, 1, 99).place})) as again:
            found = await until_completed(again)
        assert numbers(found) == [*range(100, 200), *range(left, 500)]
        assert others(found)[:-1] == [Gap(ONE, 200, left - 1, GapCause.NOT_ARCHIVED)]


async def test_a_source_that_no_store_knows(tmp_path: Path) -> None:
    async with store(tmp_path) as world:
        await send(world.client, ONE, 0, 199)
        await archived(world.node, world.path)
    async with store(tmp_path / "new") as other:
        await send(other.client, TWO, 0, 9)
        async with other.client.subscriber("orders", archive=world.path) as subscriber:
            found = await until_completed(subscriber)
        assert numbers(found) == list(range(200))
        assert numbers(found, TWO) == list(range(10))
        topics = other.client.subscriber(topic_pattern="trades.*", archive=world.path)
        async with topics as subscriber:
            assert len(await until_completed(subscriber)) == 1
        from_now = other.client.subscriber("orders", archive=world.path, begin=NOW)
        async with from_now as subscriber:
            assert len(await until_completed(subscriber)) == 1
        # No store has what a damaged archive can not give, so it stays an error.
        damage(world)
        async with other.client.subscriber("orders", archive=world.path) as subscriber:
            for _ in range(2):
                with pytest.raises(ArchiveInvalid):
                    await until_completed(subscriber)


async def test_a_damaged_file_is_an_error_and_no_silent_gap(world: World) -> None:
    path = damage(world)
    async with world.subscriber() as subscriber:
        for _ in range(2):
            with pytest.raises(ArchiveInvalid, match=path.name):
                await until_completed(subscriber)
        assert subscriber.position[ONE] == NO_PLACE
    with pytest.raises(ArchiveUnusable, match="no archive is there"):
        await world.client.subscriber("orders", archive=world.path / "none")
    with pytest.raises(InvalidArgument, match="archive"):
        await world.client.subscriber("orders", archive="")


async def test_without_asyncio(world: World) -> None:
    def found() -> list[int]:
        items: list[Item] = []
        with (
            connect_blocking(f"s1={world.node.address}") as client,
            client.subscriber("orders", archive=world.path) as subscriber,
        ):
            for item in subscriber:
                if isinstance(item, Completed):
                    return numbers(items)
                items.append(item)
        raise AssertionError("it ended")

    assert await asyncio.to_thread(found) == list(range(550))


@pytest.mark.processes
async def test_the_command(world: World) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "replay", "orders"),
        *("--stores", f"s1={world.node.address}", "--archive", str(world.path)),
        *("--where", "$sequence < 3", "--events"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = (each.decode() for each in await process.communicate())
    assert (process.returncode, out.split()) == (0, ["0", "1", "2"] * 2), error
    assert f"ArchiveEntered(archive='{world.path}'" in error.replace("\n", "")
