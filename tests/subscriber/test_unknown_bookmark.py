"""A subscription whose bookmark the stores do not have."""

from __future__ import annotations

import asyncio

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import client, send, sent, stores, take, until_completed

from quorate.client import Client, connect, connect_blocking
from quorate.protocol.errors import InvalidArgument, UnknownBookmark
from quorate.subscriber import EPOCH, NOW, Completed, OnUnknownBookmark, ReplayedMessage, Subscriber
from quorate.subscriber.events import BeganElsewhere, Event, StoreLeft, Subscribed

__all__ = ["client", "stores"]

UNKNOWN = "orders/0x1@1:1000"
OF_NO_SESSION = "orders/0x77@1:3"
"""The bookmark of a session that no store knows."""
BEGINS = "the subscription begins at"


@pytest.mark.parametrize("choice", ["fail", OnUnknownBookmark.FAIL])
async def test_it_fails_if_it_shall(client: Client, choice: str | OnUnknownBookmark) -> None:
    await send(client, 1, 0, 4)
    told: list[Event] = []
    with pytest.raises(UnknownBookmark, match=UNKNOWN):
        await client.subscriber(
            "orders", begin=UNKNOWN, unknown_bookmark=choice, on_event=told.append
        )
    assert not any(isinstance(each, BeganElsewhere) for each in told)


@pytest.mark.expects_log(f"{BEGINS} epoch: .*{UNKNOWN}")
@pytest.mark.parametrize("choice", ["epoch", OnUnknownBookmark.EPOCH])
async def test_it_begins_with_the_first_message_and_says_so(
    client: Client, choice: str | OnUnknownBookmark
) -> None:
    await send(client, 1, 0, 4)
    told: list[Event] = []
    async with client.subscriber(
        "orders", begin=UNKNOWN, unknown_bookmark=choice, on_event=told.append
    ) as subscriber:
        assert await take(subscriber, 5) == sent(1, 0, 4)
    *others, elsewhere, begun = told
    left = [each for each in others if isinstance(each, StoreLeft)]
    assert len(left) == len(others) == 2
    assert isinstance(elsewhere, BeganElsewhere)
    assert elsewhere.begin == EPOCH
    assert elsewhere.reason.bookmark == UNKNOWN
    assert isinstance(begun, Subscribed)
    assert {*(each.store for each in left), elsewhere.store} == set("abc")


@pytest.mark.expects_log(f"{BEGINS} now: .*{UNKNOWN}")
async def test_it_begins_with_what_comes_and_says_so(client: Client) -> None:
    await send(client, 1, 0, 4)
    told: list[Event] = []
    async with client.subscriber(
        "orders", begin=UNKNOWN, unknown_bookmark="now", on_event=told.append
    ) as subscriber:
        assert len(await until_completed(subscriber)) == 1
        await send(client, 1, 5, 6)
        assert await take(subscriber, 2) == sent(1, 5, 6)
    (elsewhere,) = (each for each in told if isinstance(each, BeganElsewhere))
    assert elsewhere.begin == NOW


async def test_a_session_that_no_store_knows_fails(client: Client) -> None:
    await send(client, 1, 0, 4)
    with pytest.raises(UnknownBookmark, match=OF_NO_SESSION):
        await client.subscriber("orders", begin=OF_NO_SESSION)


@pytest.mark.expects_log(f"{BEGINS} (epoch|now): .*{OF_NO_SESSION}")
@pytest.mark.parametrize(("choice", "history"), [("epoch", sent(1, 0, 4)), ("now", [])])
async def test_a_session_that_no_store_knows_begins_as_asked_for(
    client: Client, choice: str, history: list[tuple[int, int]]
) -> None:
    await send(client, 1, 0, 4)
    async with client.subscriber(
        "orders", begin=OF_NO_SESSION, unknown_bookmark=choice
    ) as subscriber:
        assert len(await until_completed(subscriber)) == len(history) + 1
        await send(client, 1, 5, 6)
        assert await take(subscriber, 2) == sent(1, 5, 6)


@pytest.mark.expects_log(f"{BEGINS} epoch")
async def test_of_several_bookmarks_one_is_enough(client: Client) -> None:
    await send(client, 1, 0, 4)
    begin = f"orders/0x1@1:2, {UNKNOWN}"
    async with client.subscriber("orders", begin=begin, unknown_bookmark="epoch") as subscriber:
        assert await take(subscriber, 5) == sent(1, 0, 4)


@pytest.mark.parametrize("begin", ["orders/0x1@1:2", "now", "-1h"])
async def test_it_changes_nothing_if_the_stores_know_where(client: Client, begin: str) -> None:
    await send(client, 1, 0, 4)
    told: list[Event] = []
    async with client.subscriber(
        "orders", begin=begin, unknown_bookmark="epoch", on_event=told.append
    ) as subscriber:
        await until_completed(subscriber)
        (place,) = subscriber.position.values()
        assert place.sequence == 4
    assert [type(each) for each in told] == [Subscribed, Completed]


@pytest.mark.expects_log(f"lost its quorum|is over|{BEGINS} epoch")
async def test_the_answer_of_one_store_is_not_enough(client: Client, stores: RealStores) -> None:
    """More than half of the stores have to lack it; a store that is away has not said so."""
    await send(client, 1, 0, 4)
    await stores.stop("ab")
    told: list[Event] = []
    last_asked = asyncio.Event()

    def note(event: Event) -> None:
        told.append(event)
        if sum(isinstance(getattr(each, "reason", None), UnknownBookmark) for each in told) == 2:
            last_asked.set()

    async with connect(stores.named("abc")) as other:
        wanted = other.subscriber(
            "orders", begin=UNKNOWN, unknown_bookmark="epoch", on_event=note, timeout=30
        )

        async def opened() -> Subscriber:
            return await wanted

        opening = asyncio.create_task(opened())
        async with asyncio.timeout(20):
            await last_asked.wait()
        assert not any(isinstance(each, BeganElsewhere) for each in told)
        await stores.start("b")
        async with asyncio.timeout(30), await opening as subscriber:
            assert await take(subscriber, 5) == sent(1, 0, 4)


async def test_another_word_is_refused(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="'later' is none of fail, epoch, now"):
        await client.subscriber("orders", unknown_bookmark="later")


@pytest.mark.expects_log(f"{BEGINS} epoch")
async def test_without_asyncio(client: Client, stores: RealStores) -> None:
    await send(client, 1, 0, 4)

    def replayed() -> list[int]:
        with (
            connect_blocking(stores.named("abc")) as blocking,
            blocking.subscriber("orders", begin=UNKNOWN, unknown_bookmark="epoch") as subscriber,
        ):
            found: list[int] = []
            for item in subscriber:
                if isinstance(item, Completed):
                    return found
                assert isinstance(item, ReplayedMessage)
                found.append(item.sequence)
        raise AssertionError("it ended")

    assert await asyncio.to_thread(replayed) == list(range(5))
