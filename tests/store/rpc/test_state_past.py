"""Past rows: those of the journal as it was, or an error if retention has let too much go."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from tests import seams
from tests.store.state import TOPIC, A, B, C, Maker, Message, expected

from quorate.protocol.bookmarks import Place
from quorate.protocol.errors import PastUnavailable
from quorate.protocol.framing import read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import Keying, Missing
from quorate.protocol.wire import position_from_wire
from quorate.store.rules.retention import let_go
from quorate.store.storage.index import entries
from quorate.v1 import store_pb2 as store_v1

SOURCES = (A, B, C)
BATCH = 3
"""The messages of one batch."""
LATER = 100
"""The time at which the tests ask."""


async def rows_of(maker: Maker, as_of: int, *keys: bytes, **fields: object) -> dict[bytes, bytes]:
    request = store_v1.QueryStateRequest(topic=TOPIC, as_of_ns=as_of, wait_seconds=1, **fields)  # type: ignore[arg-type]
    request.keys.extend(store_v1.StateKey(raw=key) for key in keys)
    found = {}
    async for response in maker.queries.query(request, lambda: None):
        for row in response.rows:
            header = read_header(row)
            (payload,) = read_payloads(row, header)
            found[payload] = payload
    return found


def payloads(rows: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {payload: payload for payload in rows.values()}


def made(chooser: random.Random) -> dict[SourceName, list[Message]]:
    """The messages of sources. Of each source the times do not go back."""
    sent = {}
    for source in SOURCES:
        time, messages = 0, []
        for number in range(chooser.randint(1, 30)):
            time += chooser.choice([0, 1, 1, 5])
            key = b"k%d" % chooser.randrange(8)
            expires = chooser.choice([None, None, None, time + chooser.randrange(20)])
            name = b"%s %d" % (str(source).encode(), number)
            messages.append(Message(key, name, time, chooser.random() < 0.2, expires))
        sent[source] = messages
    return sent


def sends(maker: Maker, source: SourceName, messages: Sequence[Message]) -> None:
    for first in range(0, len(messages), BATCH):
        maker.sends(source, 1, first, messages[first : first + BATCH])
    maker.stable(source, len(messages) - 1)


def release(maker: Maker, source: SourceName, upto: int) -> None:
    """Retention lets batches go, up to the one with this number."""
    world = maker.world
    state = world.core.sources[source]
    going = list(entries(world.storage, state.reg_id, 0, upto, 1000))
    if going:
        world.write(let_go(world.storage, state, going))


async def play(chooser: random.Random, *, lets_go: bool) -> Counter[str]:
    """One store with retention or without; return how often there was an answer, and an error."""
    sent = made(chooser)
    maker = Maker()
    maker.now = LATER
    for source, messages in sent.items():
        maker.begins(source, 1)
        sends(maker, source, messages)
    await maker.all()
    for _ in range(2 if lets_go else 0):
        source = chooser.choice(SOURCES)
        release(maker, source, chooser.randrange(len(sent[source])))
        await maker.making._look()
    outcomes: Counter[str] = Counter()
    for as_of in range(-1, 80, 4):
        then = (
            (source.session_id, [each for each in messages if each.time <= as_of])
            for source, messages in sent.items()
        )
        wanted = expected(then, as_of)
        keys = [] if chooser.random() < 0.5 else [b"k%d" % chooser.randrange(8)]
        wanted = {key: row for key, row in wanted.items() if not keys or key[1:] in keys}
        try:
            assert await rows_of(maker, as_of, *keys) == payloads(wanted)
            outcomes["answer"] += 1
        except PastUnavailable:
            outcomes["error"] += 1
    return outcomes


async def play_all(*, lets_go: bool) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in range(60):
        outcomes += await play(random.Random(seed), lets_go=lets_go)
    return outcomes


async def test_the_whole_journal_knows_every_past() -> None:
    outcomes = await play_all(lets_go=False)
    assert set(outcomes) == {"answer"}


async def test_with_retention_an_answer_is_right_or_there_is_none() -> None:
    outcomes = await play_all(lets_go=True)
    assert outcomes["answer"] > 200
    assert outcomes["error"] > 200


async def test_the_configuration_bounds_how_far_back_a_query_asks() -> None:
    keying = Keying(["$key"], Missing.DROP, history_seconds=40e-9)
    maker = Maker(keying_of=lambda topic: keying if topic == TOPIC else None)
    maker.now = LATER
    maker.begins(A, 1)
    sends(maker, A, [Message(b"k", b"first", 10), Message(b"k", b"second", 70)])
    await maker.all()
    assert await rows_of(maker, 60) == {b"first": b"first"}
    with pytest.raises(PastUnavailable, match="ask for more than 4e-08 s ago"):
        await rows_of(maker, 59)
    maker.now += 1
    with pytest.raises(PastUnavailable):
        await rows_of(maker, 60)


GUARDS: dict[str, tuple[seams.Seam, Any]] = {
    "the journal is searched": (seams.PAST_SEARCH, lambda *_: iter(())),
    "candidates of later messages do not count": (seams.PAST_COUNTS, lambda *_: True),
    "a later message that was let go is noticed": (seams.PAST_IS_LET_GO, lambda *_: False),
    "what was swept is noticed": (seams.STATE_PAST_UNPACK_HIDDEN, lambda _: -(2**63)),
}


@pytest.mark.parametrize("name", GUARDS)
async def test_each_guard_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seam, instead = GUARDS[name]
    seam.replace(monkeypatch, instead)
    with pytest.raises(AssertionError):
        await play_all(lets_go=True)


async def filled(messages: Iterable[Message]) -> Maker:
    maker, messages = Maker(), list(messages)
    maker.now = LATER
    maker.begins(A, 1)
    sends(maker, A, messages)
    maker.begins(B, 1)  # it has sent nothing
    await maker.all()
    return maker


async def test_order_limit_and_position() -> None:
    maker = await filled(Message(b"%d" % (n % 10), b'{"n": %d}' % n, n) for n in range(40))
    fields = {"order_by": ["-n"], "limit": 3, "where": "n < 19"}
    assert list(await rows_of(maker, 25, **fields)) == [b'{"n": 18}', b'{"n": 17}', b'{"n": 16}']
    request = store_v1.QueryStateRequest(topic=TOPIC, as_of_ns=25, counts_only=True)
    responses = [each async for each in maker.queries.query(request, lambda: None)]
    assert position_from_wire(responses[0].position) == {A: Place(1, 25)}
    assert responses[-1].end.count == 10


async def test_too_many_changes_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.STATE_PAST_CHANGED_MAX.replace(monkeypatch, 5)
    maker = await filled(Message(b"%d" % (n % 10), b"%d" % n, n) for n in range(40))
    with pytest.raises(PastUnavailable, match="more than 5 keys have changed since"):
        await rows_of(maker, 20)
    assert await rows_of(maker, 20, b"3") == {b"13": b"13"}


async def test_a_journal_that_is_too_short_says_so() -> None:
    maker = await filled(Message(b"%d" % (n % 10), b"%d" % n, n) for n in range(40))
    release(maker, A, 13)
    with pytest.raises(PastUnavailable, match=r"messages of orders/0x1 below 15 have been let go"):
        await rows_of(maker, 20)
    assert await rows_of(maker, 20, b"7") == {b"17": b"17"}


async def test_rows_of_a_peer_know_no_past() -> None:
    """The store was wiped, and cannot tell which deletions its peer had let go."""
    peer = await filled(Message(b"%d" % (n % 10), b"%d" % n, n) for n in range(40))
    late = Maker(peers={"peer": peer})
    late.now = LATER
    late.begins(A, 1)
    late.stable(A, 29)
    late.lets_go(A, 30)
    late.sends(A, 1, 30, [Message(b"%d" % (n % 10), b"%d" % n, n) for n in range(30, 40)])
    late.stable(A, 39)
    await late.all()
    assert late.rows() == peer.rows()
    with pytest.raises(PastUnavailable, match="have been let go"):
        await rows_of(late, 39)
