"""The digests of rows: equal at stores that have the same rows, whatever else they keep."""

from __future__ import annotations

from tests.store.state import NOW, TOPIC, A, B, Maker, Message

from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.v1 import store_pb2 as store_v1


async def digest(maker: Maker, at_ns: int) -> tuple[bytes, int]:
    """Return the digest that a store gives at a time, and how many rows it covers."""
    request = store_v1.DigestStateRequest(
        protocol_version=PROTOCOL_VERSION, topic=TOPIC, at_ns=at_ns
    )
    answer = await maker.queries.digest(request, lambda: None)
    return answer.digest, answer.count


async def made(*messages: Message) -> Maker:
    """Return a store that has rows of these messages of one source, and an older one of another."""
    maker = Maker()
    for source in (A, B):
        maker.begins(source, 1)
    maker.sends(A, 1, 0, [Message(b"k", b"old", 1)])
    maker.sends(B, 1, 0, messages)
    maker.stable(A, 0)
    maker.stable(B, len(messages) - 1)
    await maker.all()
    return maker


async def swept(*messages: Message) -> Maker:
    """Return such a store whose journal has let the messages go."""
    maker = await made(*messages)
    maker.lets_go(B, len(messages))
    await maker.all()
    return maker


async def test_a_store_that_has_removed_a_deletion_has_the_same_digest() -> None:
    messages = Message(b"k", b"", 2, deleted=True), Message(b"l", b"x", 2)
    early, late = await swept(*messages), await made(*messages)
    assert len(early.stored()) < len(late.stored())
    assert await digest(early, NOW) == await digest(late, NOW)
    assert (await digest(early, NOW))[1] == 1


async def test_who_asks_says_at_which_time_rows_have_expired() -> None:
    messages = Message(b"k", b"new", 2, expires=3 * NOW), Message(b"l", b"x", 2)
    early, late = await made(*messages), await made(*messages)
    late.now = 4 * NOW
    assert early.rows() != late.rows()
    before, after = await digest(early, 2 * NOW), await digest(early, 3 * NOW)
    assert (before[1], after[1]) == (2, 1)
    assert before == await digest(late, 2 * NOW)
    assert after == await digest(late, 3 * NOW)
    late.lets_go(B, 2)
    await late.all()
    assert len(late.stored()) < len(early.stored())
    assert after == await digest(late, 3 * NOW)


async def test_another_row_makes_another_digest() -> None:
    found = {
        await digest(await made(*messages), NOW)
        for messages in (
            [Message(b"k", b"x", 2)],
            [Message(b"k", b"y", 2)],
            [Message(b"k", b"x", 3)],
            [Message(b"k", b"x", 2, expires=2 * NOW)],
            [Message(b"l", b"x", 2)],
            [Message(b"k", b"", 2, deleted=True)],
        )
    }
    assert len(found) == 6
