"""A watch has the rows, whatever happens: stores that fail and lag, sources that end, expiry.

Two stores see the same sources at different times. The client's code and the stores' are the real
ones, without a network between them.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import grpc.aio
import pytest
from tests import seams
from tests.store.state import NOW, TOPIC, A, B, C, Event, Maker, Message, does, expected, history

from quorate.protocol.bookmarks import Bookmark
from quorate.protocol.delays import Delays
from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.keying import Keying, Missing
from quorate.store.rpc.state_watching import StateWatch
from quorate.subscriber.changes import Left, LeftReason, Updated
from quorate.subscriber.items import Completed
from quorate.subscriber.protocol.chooser import Turns, in_order
from quorate.subscriber.protocol.held_rows import HeldRows
from quorate.subscriber.watching import Watching
from quorate.v1 import store_pb2 as store_v1

AT_ONCE = Delays(first=0.0, longest=0.0)
SOURCES = (A, B, C)
TURNS = 40
"""Turns of the event loop within which all that is there has come."""


class Call:
    """One call of WatchState to a store, without a network."""

    def __init__(self, maker: Maker, request: store_v1.WatchStateRequest) -> None:
        self._maker = maker
        self._request = request
        self._responses: Any = None
        self.is_broken = False

    async def read(self) -> Any:
        try:
            if self._responses is None:
                watch = StateWatch(self._maker.queries, self._request, self._check)
                self._responses = watch.responses()
            return await anext(self._responses)
        except QuorateError:
            # How an error crosses the wire is tested with real stores.
            return grpc.aio.EOF

    def _check(self) -> None:
        if self.is_broken:
            raise InvalidArgument("call", "it is broken")

    def break_off(self) -> None:
        """The store fails: the call ends at its next look."""
        self.is_broken = True
        self._maker.making.wake()

    def cancel(self) -> None:
        """The client has left."""


class Stores:
    """Stores by address, as a client's connections. It counts what has happened."""

    def __init__(self, makers: dict[str, Maker]) -> None:
        self.makers = makers
        self.call: Call | None = None
        self.calls = 0

    def connect(self, address: str) -> Any:
        self._address = address
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    @property
    def store(self) -> Any:
        return self

    def WatchState(self, request: store_v1.WatchStateRequest) -> Call:
        self.calls += 1
        self.call = Call(self.makers[self._address], request)
        return self.call


class Application:
    """An application that keeps a table of the rows."""

    def __init__(self, stores: Stores, where: str = "") -> None:
        self.now = NOW
        self.stores = stores
        self.watching = Watching(
            store_v1.WatchStateRequest(topic=TOPIC, where=where),
            Turns([StoreAddress(each, each) for each in stores.makers], in_order),
            stores,  # type: ignore[arg-type]
            None,
            AT_ONCE,
            lambda: None,
            lambda: self.now,
        )
        self.table: dict[bytes, bytes] = {}
        self.left: list[Left] = []
        self.completed = 0

    async def takes(self, at_most: int = 1_000) -> None:
        """Take what has come, up to so many items."""
        for _ in range(at_most):
            item = asyncio.ensure_future(anext(self.watching))
            for _ in range(TURNS):
                await asyncio.sleep(0)
                if item.done():
                    break
            else:
                item.cancel()
                await asyncio.gather(item, return_exceptions=True)
                return
            match item.result():
                case Updated(bytes(key), row):
                    assert self.table.get(key) != row.payload, "it has this row"
                    self.table[key] = row.payload
                case Left(bytes(key)) as left:
                    del self.table[key]  # it is a row that it has
                    self.left.append(left)
                case Completed():
                    self.completed += 1


@asynccontextmanager
async def application(where: str = "", *names: str) -> AsyncIterator[Application]:
    made = Application(Stores({name: Maker() for name in names or ("a",)}), where)
    try:
        yield made
    finally:
        await made.watching.close()


def passing(rows: dict[bytes, bytes], where: str) -> dict[bytes, bytes]:
    least = 2 if where else 0
    return {key[1:]: row for key, row in rows.items() if json.loads(row)["n"] >= least}


async def play(seed: int, reasons: Counter[LeftReason]) -> int:
    """One world; return how many calls its watch made."""
    chooser = random.Random(seed)
    where = chooser.choice(["", "n >= 2"])
    stories = {source: history(chooser, source) for source in SOURCES}
    async with application(where, "a", "b") as one:
        left: dict[tuple[str, SourceName], list[Event]] = {
            (name, source): list(events)
            for name in one.stores.makers
            for source, (events, _) in stories.items()
        }
        while any(left.values()):
            name, source = chooser.choice([each for each, events in left.items() if events])
            maker = one.stores.makers[name]
            does(maker, source, left[name, source].pop(0))
            for each in one.stores.makers.values():
                if chooser.random() < 0.5:
                    await each.step(chooser.choice(SOURCES))
            if chooser.random() < 0.1:
                await maker.making._look()
            if chooser.random() < 0.5:
                await one.takes(chooser.choice([1, 5, 100]))
            if chooser.random() < 0.15 and one.stores.call is not None:
                one.stores.call.break_off()
            if chooser.random() < 0.02:
                await wait_until(one, 5_000)
        for now in (one.now, 6_000):
            for maker in one.stores.makers.values():
                maker.now = now
                await maker.all()
                maker.making.wake()
            one.now = now
            await one.takes()
            await one.takes()
            rows = expected(
                ((source.session_id, kept) for source, (_, kept) in stories.items()), now
            )
            assert one.table == passing(rows, where)
        assert one.completed == 1
        reasons.update(each.reason for each in one.left)
        return one.stores.calls


async def wait_until(one: Application, now: int) -> None:
    one.now = max(one.now, now)
    for maker in one.stores.makers.values():
        maker.now = one.now


async def play_all() -> tuple[Counter[LeftReason], int]:
    """Return how often rows left for each reason, and how many calls there were."""
    reasons: Counter[LeftReason] = Counter()
    calls = 0
    for seed in range(60):
        calls += await play(seed, reasons)
    return reasons, calls


async def test_an_application_has_the_rows_whatever_happens() -> None:
    reasons, calls = await play_all()
    assert set(reasons) == set(LeftReason), "each reason occurs in these worlds"
    assert calls > 120, "the watches move between the stores"


_is_new = seams.HELD_ROWS_IS_NEW.real()


def _always_new(held: HeldRows, *given: Any) -> bool:
    _is_new(held, *given)
    return True


GUARDS: dict[str, tuple[seams.Seam, Any]] = {
    "a source that has ended makes the rows begin anew": (
        seams.STATE_MAKING_GOES_ON_FROM, lambda *_: True,
    ),
    "keys that have changed since are given": (seams.STATE_READING_HAS_CHANGED, lambda *_: False),
    "keys that change are told": (seams.STATE_WATCHERS_OWE, lambda *_: None),
    "rows that do not come again have left": (seams.HELD_ROWS_COMPLETED, lambda _: ()),
    "rows expire": (seams.HELD_ROWS_EXPIRED, lambda *_: ()),
    "a row is given once": (seams.HELD_ROWS_IS_NEW, _always_new),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
async def test_each_guard_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seam, instead = GUARDS[name]
    seam.replace(monkeypatch, instead)
    with pytest.raises((AssertionError, KeyError)):
        await play_all()


async def sent(maker: Maker, source: SourceName, first: int, *messages: Message) -> None:
    """A source sends messages, which are stable, and rows."""
    maker.sends(source, 1, first, messages)
    maker.stable(source, first + len(messages) - 1)
    while await maker.step(source):
        pass


def row(key: bytes, n: int, time: int, **fields: Any) -> Message:
    return Message(key, b'{"n": %d}' % n, time, **fields)


async def test_the_cause_is_named() -> None:
    async with application("n >= 2") as one:
        maker = one.stores.makers["a"]
        maker.begins(A, 1)
        await sent(maker, A, 0, row(b"a", 2, 1), row(b"b", 2, 1), row(b"c", 2, 1, expires=2_000))
        await one.takes()
        assert set(one.table) == {b"a", b"b", b"c"}
        await sent(maker, A, 3, row(b"a", 1, 2), row(b"b", 2, 2, deleted=True), row(b"d", 1, 2))
        await one.takes()
        one.now = 2_000
        await one.takes()
        assert one.table == {}
        assert one.left == [
            Left(b"a", LeftReason.NO_MATCH, Bookmark(A, 1, 3)),
            Left(b"b", LeftReason.DELETED, Bookmark(A, 1, 4)),
            Left(b"c", LeftReason.EXPIRED, Bookmark(A, 1, 2)),
        ]


async def test_rows_of_a_topic_that_expire() -> None:
    """They expire at the same time at every store, as it counts from the message's own time."""
    keying = Keying(["$key"], Missing.DROP, 500e-9)
    async with application() as one:
        maker = one.stores.makers["a"] = Maker(keying_of=lambda _: keying)
        maker.begins(A, 1)
        await sent(maker, A, 0, row(b"a", 1, 600), row(b"b", 1, 700), row(b"c", 1, 400))
        await sent(maker, A, 3, row(b"d", 1, 100, expires=5_000))
        await one.takes()
        assert set(one.table) == {b"a", b"b", b"d"}, "c had expired before"
        assert set(maker.rows()) == {b"ka", b"kb", b"kd"}
        one.now = maker.now = 1_100
        await one.takes()
        assert set(one.table) == {b"b", b"d"}
        assert set(maker.rows()) == {b"kb", b"kd"}
        assert one.left == [Left(b"a", LeftReason.EXPIRED, Bookmark(A, 1, 0))]


async def test_an_older_message_of_another_source_does_nothing() -> None:
    async with application("n >= 2") as one:
        maker = one.stores.makers["a"]
        maker.begins(A, 1)
        maker.begins(B, 1)
        await sent(maker, A, 0, row(b"a", 3, 10), row(b"b", 1, 10))
        await one.takes()
        await sent(maker, B, 0, row(b"a", 1, 5), row(b"b", 3, 5))
        await one.takes()
        assert one.table == {b"a": b'{"n": 3}'}
        assert one.left == []


async def test_a_source_that_ends_gives_way_to_the_others() -> None:
    async with application() as one:
        maker = one.stores.makers["a"]
        maker.begins(A, 1)
        maker.begins(B, 1)
        await sent(maker, A, 0, row(b"a", 1, 1))
        await sent(maker, B, 0, row(b"a", 2, 2), row(b"b", 2, 2))
        await one.takes()
        assert one.table == {b"a": b'{"n": 2}', b"b": b'{"n": 2}'}
        maker.ends(B)
        maker.making.wake()
        await one.takes()
        assert one.table == {b"a": b'{"n": 1}'}
        assert [(each.key, each.reason) for each in one.left] == [(b"b", LeftReason.ENDED)]


async def test_a_deletion_that_was_swept_is_known_after_a_move() -> None:
    """The store that takes over has let the deletion go, and all that it hid."""
    async with application("", "a", "b") as one:
        for maker in one.stores.makers.values():
            maker.begins(A, 1)
            await sent(maker, A, 0, row(b"a", 1, 1), row(b"b", 1, 1))
        await one.takes()
        assert one.stores.call is not None
        one.stores.call.break_off()
        maker = one.stores.makers["b"]
        await sent(maker, A, 2, row(b"a", 1, 2, deleted=True), row(b"c", 1, 2))
        maker.world.core.sources[A].held.retained_from = 3
        await maker.making._look()
        assert len(maker.stored()) == 2
        await one.takes()
        assert set(one.table) == {b"b", b"c"}
        assert one.left[0].key == b"a"


async def test_a_slow_client_is_given_the_newest_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.STATE_WATCHERS_KEYS_MAX.replace(monkeypatch, 3)
    async with application() as one:
        maker = one.stores.makers["a"]
        maker.begins(A, 1)
        await one.takes()
        for number in range(20):
            key = b"k%d" % (number % 10)
            await sent(maker, A, number, Message(key, b'{"n": %d}' % number, number))
        await one.takes()
        assert one.table == {b"k%d" % n: b'{"n": %d}' % (n + 10) for n in range(10)}
        assert one.stores.calls == 1


async def test_too_many_rows_are_an_error() -> None:
    held = HeldRows(2)
    for key in (b"a", b"b", b"a"):
        held.is_new(key, Bookmark(A, 1, len(key)), None)
    with pytest.raises(InvalidArgument, match="selects more than 2 rows"):
        held.is_new(b"c", Bookmark(A, 1, 2), None)
