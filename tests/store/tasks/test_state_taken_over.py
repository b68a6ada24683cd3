"""Rows that a store takes over from a peer: what the peer has removed does not come back."""

from __future__ import annotations

from tests.store.state import TOPIC, A, B, Maker, Message

from quorate.protocol.identity import SourceName

OLD, DELETION = Message(b"k", b"old", 1), Message(b"k", b"", 2, deleted=True)
OTHER = Message(b"other", b"x", 3)


def both(*makers: Maker) -> None:
    """Both sources begin at these stores."""
    for maker in makers:
        for source in (A, B):
            maker.begins(source, 1)


def sent(maker: Maker, source: SourceName, *messages: Message) -> None:
    """A source sends messages to a store, which are stable."""
    first = maker.streams[source].expected
    maker.sends(source, 1, first, messages)
    maker.stable(source, first + len(messages) - 1)


async def swept(maker: Maker, *sources: SourceName) -> None:
    """A store lets all messages of these sources go, and removes what is of no more use."""
    await maker.all()
    for source in sources:
        maker.lets_go(source, maker.streams[source].expected)
    await maker.all()
    await maker.all()


def missed(maker: Maker, source: SourceName, upto: int) -> None:
    """A store comes back, and messages up to there have left the journals of all others."""
    maker.stable(source, upto)
    maker.lets_go(source, upto + 1)


async def test_a_row_that_was_deleted_does_not_come_back_at_a_store_that_was_away() -> None:
    whole = Maker()
    away = Maker(peers={"1": whole})
    both(whole, away)
    for maker in (whole, away):
        sent(maker, A, OLD)
        await maker.all()
    sent(whole, A, DELETION, OTHER)
    await swept(whole, A)
    missed(away, A, 2)
    await away.all()
    assert away.rows() == whole.rows() == {b"kother": b"x"}


async def test_a_row_that_another_source_deleted_does_not_come_back() -> None:
    whole = Maker()
    away, wiped = Maker(peers={"1": whole}), Maker(peers={"1": whole})
    both(whole, away, wiped)
    for maker in (whole, away):
        sent(maker, A, OLD)
        await maker.all()
    sent(whole, B, DELETION, OTHER)
    await swept(whole, B)
    assert len(whole.stored()) == 1
    sent(wiped, A, OLD)  # This message is still in the journals.
    for maker in (away, wiped):
        missed(maker, B, 1)
        await maker.all()
        assert maker.rows() == whole.rows() == {b"kother": b"x"}
        assert maker.making.position(TOPIC) == whole.making.position(TOPIC)


async def test_a_row_that_another_source_deleted_does_not_come_back_from_the_journal() -> None:
    whole = Maker()
    wiped = Maker(peers={"1": whole})
    both(whole, wiped)
    sent(whole, A, OLD)
    sent(whole, B, DELETION, OTHER)
    await swept(whole, B)
    missed(wiped, B, 1)
    while await wiped.step(B):
        pass
    sent(wiped, A, OLD)
    await wiped.all()
    assert wiped.rows() == whole.rows() == {b"kother": b"x"}


async def test_a_deletion_stays_until_its_store_has_read_what_it_hides() -> None:
    maker = Maker()
    both(maker)
    sent(maker, A, OLD)
    sent(maker, B, DELETION, OTHER)
    while await maker.step(B):
        pass
    maker.lets_go(B, 2)
    for _ in range(3):
        await maker.making._look()
    await maker.all()
    assert maker.rows() == {b"kother": b"x"}


async def test_what_is_newer_than_the_rows_of_the_peer_stays() -> None:
    whole = Maker()
    away = Maker(peers={"1": whole})
    both(whole, away)
    sent(whole, A, OLD)
    sent(whole, B, DELETION, OTHER)
    await swept(whole, B)
    newer = Message(b"k", b"newer", 4), Message(b"other", b"newer", 5)
    sent(away, A, OLD, *newer)
    await away.all()
    missed(away, B, 1)
    await away.all()
    assert away.rows() == {b"kk": b"newer", b"kother": b"newer"}
    sent(whole, A, *newer)
    await whole.all()
    assert away.in_force() == whole.in_force()
    assert away.making.position(TOPIC) == whole.making.position(TOPIC)
