"""Rows of large messages: their payloads are kept in parts, and go with the row."""

from __future__ import annotations

from typing import Any

import pytest
from tests import seams
from tests.store.state import TOPIC, A, B, Maker, Message, keyed

from quorate.protocol.errors import StorageUnreadable
from quorate.store.rpc.state_reading import Asked, Watched
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.state_records import unpack_candidate
from quorate.v1 import store_pb2 as store_v1

ALL = Asked((), None, None, None, 0, counts_only=False)
LARGE, OTHER = bytes(range(256)) * 4, b"other" * 100


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of over 256 bytes, or so, is large here, and has parts of 100 bytes."""
    seams.STATE_CANDIDATES_BYTES_MAX.replace(monkeypatch, 256)
    seams.STATE_PEERS_BYTES_MAX.replace(monkeypatch, 256)
    seams.STATE_LARGE_PART_BYTES.replace(monkeypatch, 100)


def begun() -> Maker:
    maker = Maker()
    maker.begins(A, 1)
    return maker


async def sent(maker: Maker, first: int, *messages: Message) -> None:
    maker.sends(A, 1, first, messages)
    maker.stable(A, first + len(messages) - 1)
    await maker.all()


async def rows(maker: Maker) -> list[bytes]:
    """The rows as a query gives them: batches of one message."""
    keyed_topic = maker.making.keyed(TOPIC)
    assert keyed_topic is not None
    view = await maker.queries.view(TOPIC, keyed_topic)
    return [row for step in view.steps(ALL) for row in step]


def kinds(maker: Maker) -> str:
    """The kind of each row on the disk: parts l, notes n, places p, rows r."""
    return "".join(chr(key[0]) for key in maker.table())


async def asked(maker: Maker, **fields: Any) -> list[bytes]:
    """The rows of a query, as a caller gets them, but the parts of large ones."""
    request = store_v1.QueryStateRequest(topic=TOPIC, wait_seconds=1.0, **fields)
    answers = [each async for each in maker.queries.query(request, lambda: None)]
    parts = b"".join(each.part.data for each in answers)
    found = [row for each in answers for row in each.rows]
    return [*found, parts] if parts else found


def key_of(key: bytes) -> list[store_v1.StateKey]:
    return [store_v1.StateKey(raw=key)]


async def test_the_row_of_one_key_is_read_on_the_event_loop_unless_it_is_large() -> None:
    maker = begun()
    await sent(maker, 0, Message(b"a", LARGE, 1), Message(b"b", b"small", 1))
    (small,) = await asked(maker, keys=key_of(b"b"))
    assert small.endswith(b"small")
    assert await asked(maker, keys=key_of(b"c")) == []
    assert maker.read_apart == 0
    (large,) = await asked(maker, keys=key_of(b"a"))
    assert large.endswith(LARGE)
    assert maker.read_apart == 1


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"where": "n = 1"},
        {"keys": key_of(b"b"), "where": "$size > 1"},
        {"keys": key_of(b"b"), "select": "n"},
        {"keys": key_of(b"b"), "order_by": ["n"]},
        {"keys": [*key_of(b"b"), *key_of(b"c")]},
    ],
    ids=str,
)
async def test_what_may_take_long_is_read_apart(fields: dict[str, Any]) -> None:
    maker = begun()
    await sent(maker, 0, Message(b"b", b'{"n": 1}', 1))
    assert len(await asked(maker, **fields)) == 1
    assert maker.read_apart


async def test_a_large_row_is_given_whole() -> None:
    maker = begun()
    await sent(maker, 0, Message(b"a", LARGE, 1), Message(b"b", b"small", 1))
    assert kinds(maker) == "l" * 11 + "n" + "p" + "rr"
    one, two = await rows(maker)
    assert one.endswith(LARGE)
    assert two.endswith(b"small")
    assert max(len(value) for _, value in maker.stored()) < 256


async def test_a_large_row_that_a_large_one_replaces_goes_with_it() -> None:
    maker = begun()
    await sent(maker, 0, Message(b"a", LARGE, 1))
    await sent(maker, 1, Message(b"a", OTHER, 2))
    (row,) = await rows(maker)
    assert row.endswith(OTHER)
    assert kinds(maker) == "l" * 5 + "npr"


@pytest.mark.parametrize("after", [Message(b"a", b"small", 2), Message(b"a", LARGE, 2, True)])
async def test_a_large_row_that_is_no_more_goes_with_the_next_look(after: Message) -> None:
    maker = begun()
    await sent(maker, 0, Message(b"a", LARGE, 1))
    await sent(maker, 1, after)
    assert kinds(maker) == "pr"


async def test_a_crash_between_the_parts_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = begun()
    await sent(maker, 0, Message(b"b", b"small", 1))
    maker.sends(A, 1, 1, [Message(b"a", LARGE, 2)])
    maker.stable(A, 1)
    commit, left = maker.making._large._commit, [4]

    async def breaks(rows: list[Write]) -> None:
        if not left[0]:
            raise ConnectionError
        left[0] -= 1
        await commit(rows)

    monkeypatch.setattr(maker.making._large, "_commit", breaks)
    with pytest.raises(ConnectionError):
        await maker.step(A)
    assert kinds(maker) == "lllnpr"
    again = Maker(maker.world.storage)
    await again.making._look()
    assert kinds(again) == "pr", "no row has them"
    await again.all()
    _, row = sorted(await rows(again), key=len)
    assert row.endswith(LARGE)


async def test_rows_of_a_peer_may_be_large() -> None:
    peers: dict[str, Maker] = {}
    whole, late = begun(), Maker(peers=peers)
    await sent(whole, 0, Message(b"a", LARGE, 1), Message(b"b", b"small", 1))
    late.begins(A, 1)
    late.stable(A, 1)
    late.lets_go(A, 2)
    peers["1"] = whole
    await late.all()
    assert await rows(late) == await rows(whole)
    assert late.in_force() == whole.in_force()
    assert kinds(late) == "h" + kinds(whole), "and what it does not know of the past"


async def test_other_keys_of_the_topic_leave_no_parts() -> None:
    maker = begun()
    await sent(maker, 0, Message(b"a", LARGE, 1))
    again = Maker(maker.world.storage, keyed("$properties.other"))
    await again.making._look()
    assert kinds(again) == ""


async def test_a_source_that_ends_leaves_no_parts() -> None:
    maker = begun()
    maker.begins(B, 1)
    await sent(maker, 0, Message(b"a", LARGE, 1))
    maker.ends(A)
    await maker.all()
    assert kinds(maker) == ""


async def test_a_part_that_is_not_there_or_another_one_is_an_error() -> None:
    maker = begun()
    await sent(maker, 0, Message(b"a", LARGE, 1))
    part = maker.table()[3]
    for value in (b"x" * 100, None):
        maker.world.write([Write(Table.STATE, part, value)])
        request = store_v1.QueryStateRequest(topic=TOPIC, wait_seconds=1)
        with pytest.raises(StorageUnreadable, match="payload of a row"):
            async for _ in maker.queries.query(request, lambda: None):
                pass


async def test_a_row_that_is_replaced_while_it_is_read() -> None:
    """A watch reads rows as they are: the payload of one may go before it is read."""
    maker = begun()
    await sent(maker, 0, Message(b"a", LARGE, 1))
    keyed_topic = maker.making.keyed(TOPIC)
    assert keyed_topic is not None
    view = maker.queries.view_of_now(TOPIC, keyed_topic)
    stored = [unpack_candidate(*each) for each in maker.stored()]
    await sent(maker, 1, Message(b"a", OTHER, 2))
    change = view._change_now(b"ka", stored, Watched(None, None))
    assert change.row.endswith(OTHER)
