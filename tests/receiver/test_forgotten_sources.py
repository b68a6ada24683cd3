"""A receiver of a source that drew its session ID, and that its stores forget once it is over."""

from __future__ import annotations

import asyncio

import pytest
from tests.receiver.fakes import NAME, Group
from tests.receiver.protocol.registering import AWAY, YES, Registering
from tests.receiver.support import opened

from quorate.protocol.errors import UnknownTopic
from quorate.receiver.protocol.registration import Joined, Refused

FORGOTTEN = UnknownTopic("orders", "")


async def announced(group: Group, *, live: bool = False, drawn: bool = True) -> None:
    """Let every store announce the source, as one does that has not heard of its end."""
    await group.announce(live=live)
    group.source.served.information.drawn = drawn
    for store in group.stores:
        await store.tell()


@pytest.mark.expects_log("no store has a source")
async def test_a_receiver_opens_though_the_announced_source_is_forgotten(group: Group) -> None:
    await announced(group)
    for store in group.stores[:2]:
        store.registrations_fail = FORGOTTEN
    async with await opened(group) as receiver:
        assert receiver.sources == ()


async def test_a_store_that_forgot_first_holds_up_nobody(group: Group) -> None:
    await announced(group)
    group.stores[0].registrations_fail = FORGOTTEN
    async with await opened(group) as receiver:
        assert receiver.sources == (NAME,)


@pytest.mark.expects_log("does not register|waits for more stores")
@pytest.mark.parametrize(("live", "drawn"), [(True, True), (False, False)])
async def test_a_source_that_may_go_on_is_waited_for(
    group: Group, *, live: bool, drawn: bool
) -> None:
    await announced(group, live=live, drawn=drawn)
    for store in group.stores[:2]:
        store.registrations_fail = FORGOTTEN
    opening = asyncio.create_task(opened(group))
    first = group.stores[0]
    async with asyncio.timeout(60):
        async with first.changed:
            await first.changed.wait_for(lambda: len(first.questions) > 1)
        for store in group.stores:
            store.registrations_fail = None
        async with await opening as receiver:
            assert receiver.sources == (NAME,)


# The registration.


def is_forgotten(one: Registering) -> bool:
    assert one.is_done()
    return one.core.is_forgotten


def test_it_is_forgotten_once_the_stores_that_are_left_are_too_few() -> None:
    one = Registering(drawn=True)
    one.core.ask()
    one.said(a=FORGOTTEN, b=YES, c=AWAY)
    assert not is_forgotten(one)
    one.core.ask()
    one.said(a=FORGOTTEN, b=FORGOTTEN, c=YES)
    assert is_forgotten(one)
    assert not [each for each in one.told(Refused) if each.error is FORGOTTEN]
    one.core.ask()
    one.said(a=FORGOTTEN, b=YES, c=YES)
    assert not is_forgotten(one), "b knows it after all"


def test_refused_positions_say_so_too() -> None:
    one = Registering(drawn=True)
    one.registered()
    one.core.acknowledgement_refused("a", FORGOTTEN)
    assert not is_forgotten(one)
    one.core.acknowledgement_refused("b", FORGOTTEN)
    assert is_forgotten(one)
    assert one.core.joined == {"c"}
    assert one.told(Joined) == []


def test_a_source_whose_session_id_was_chosen_is_never_forgotten() -> None:
    one = Registering()
    one.core.ask()
    one.said(a=FORGOTTEN, b=FORGOTTEN, c=FORGOTTEN)
    assert not is_forgotten(one)
    assert len(one.told(Refused)) == 3
