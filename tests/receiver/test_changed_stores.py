"""A source whose stores change while a receiver follows it; several groups of stores."""

from __future__ import annotations

import asyncio

import pytest
from tests import seams
from tests.receiver.fakes import NAME, FakeStore, Group
from tests.receiver.support import numbers, opened, position_is, take, told

from quorate.protocol.delays import Delays
from quorate.protocol.errors import Fenced, StoreStopping
from quorate.protocol.policy import Group as PolicyGroup
from quorate.protocol.policy import IntergroupRule, Policy
from quorate.receiver import (
    Receiver,
    RegistrationChanged,
    RegistrationComplete,
    SourceAttached,
    SourceChanged,
)

GONE = "directory of|does not register the receiver"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.JOINING_REJOIN.replace(monkeypatch, Delays(first=0.1, longest=0.8))
    seams.RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS.replace(monkeypatch, 0.1)


async def test_the_new_one_is_joined_once_the_others_say_that_they_still_take_it(
    group: Group,
) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        await take(receiver, 10)
        a, b, c = group.stores
        d = FakeStore("d")
        await group.move([a, b, d])
        changed = await told(receiver, RegistrationChanged)
        assert changed == RegistrationChanged(NAME, added=("d",), removed=("c",))
        group.send(19)
        group.keepalive()
        assert numbers(await take(receiver, 10)) == list(range(10, 20))
        await position_is(group, 18)
        asked = [store.asked_to_register for store in (a, b, c, d)]
        assert asked == [2, 2, 1, 1]
        assert c.receivers[NAME, 0x20][1] <= 9
    await c.stop()


@pytest.mark.expects_log(GONE)
async def test_moving_to_all_other_stores_and_on(group: Group) -> None:
    """The stores that the receiver was told are switched off; the source is restarted after."""
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        assert numbers(await take(receiver, 10)) == list(range(10))
        old = group.stores
        await group.move([FakeStore(name) for name in "def"])
        for store in group.stores:
            await store.until(lambda store=store: (NAME, 0x20) in store.receivers)
        for store in old:
            await store.stop()
        group.send(19)
        group.keepalive()
        assert numbers(await take(receiver, 10)) == list(range(10, 20))
        await position_is(group, 18)
        await group.restart_source(kept_upto=19)
        await group.source.until_attached()
        group.send(29)
        group.keepalive()
        assert numbers(await take(receiver, 10)) == list(range(20, 30))
        await position_is(group, 28)
        changes = [event for event in receiver._events.kept() if isinstance(event, SourceChanged)]
        assert changes[-1].stores == ("d", "e", "f")
        assert changes[-1].epoch == 3
        assert all(store.asked_to_register == 1 for store in old)
        assert all(store.asked_to_register == 2 for store in group.stores), "the first long before"


@pytest.mark.expects_log(GONE)
async def test_a_receiver_that_comes_back_finds_the_new_stores_by_one_old_one(group: Group) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        await take(receiver, 10)
        old, told_stores = group.stores, group.addresses
        await group.move([FakeStore(name) for name in "def"])
        for store in group.stores:
            await store.until(lambda store=store: (NAME, 0x20) in store.receivers)
    for store in old[1:]:
        await store.stop()
    group.store(14)
    async with await opened(group, stores=told_stores) as receiver:
        complete = await told(receiver, RegistrationComplete)
        assert (complete.stores, complete.first_sequence) == (("d", "e", "f"), 10)
        assert numbers(await take(receiver, 5)) == list(range(10, 15))
    await old[0].stop()


@pytest.mark.expects_log(
    r"receiver of \S+ ends|is fenced|does not register|newer instance|refused an acknowledgement"
)
async def test_two_that_reached_different_groups_find_out(group: Group) -> None:
    """Both registered in one epoch; once they reach each other's stores, one of them ends."""
    policy = Policy(
        (PolicyGroup("g", ("a", "b", "c")), PolicyGroup("h", ("d", "e", "f"))), IntergroupRule.ANY
    )
    g, h = group.stores, [FakeStore(name) for name in "def"]
    await group.announce()
    group.store(19)
    await group.move([*g, *h], policy)

    def away(stores: list[FakeStore]) -> None:
        for store in (*g, *h):
            store.registrations_fail = StoreStopping(store.name) if store in stores else None

    away(h)
    one = await opened(group, stores=g[0].address)
    await take(one, 5)
    # However often it asks, it does not reach these before the other one has registered there.
    for store in h:
        store.refused_instances = {request.instance for request in g[0].registrations}
    away(g)
    other = await opened(group, stores=h[0].address)
    await take(other, 5)
    first: dict[bytes, int] = {}
    for request in (request for store in (*g, *h) for request in store.registrations):
        first.setdefault(request.instance, request.epoch)
    assert list(first.values()) == [1, 1], "neither knew of the other"
    away([])
    for store in h:
        store.refused_instances = set()

    async def ended(receiver: Receiver) -> Fenced | None:
        try:
            async for _ in receiver:
                pass
        except Fenced as error:
            return error
        return None

    ending = {asyncio.create_task(ended(receiver)): receiver for receiver in (one, other)}
    done, _ = await asyncio.wait(ending, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1, "one of them, and only one"
    (fenced,) = done
    assert fenced.result() is not None
    (winner,) = (receiver for task, receiver in ending.items() if task not in done)
    greater = (1, max(first))
    for store in (*g, *h):
        await store.until(lambda store=store: store.receivers[NAME, 0x20][1] == 19)
        await store.until(lambda store=store: store.instances[NAME, 0x20] == greater)
    for receiver in (one, other):
        await receiver.close()
    assert winner.sources == (NAME,)


@pytest.mark.expects_log(GONE + "|waits for more stores")
async def test_groups_one_of_which_is_gone(group: Group) -> None:
    policy = Policy(
        (PolicyGroup("g", ("a", "b", "c")), PolicyGroup("h", ("d", "e", "f"))), IntergroupRule.ANY
    )
    g, h = group.stores, [FakeStore(name) for name in "def"]
    await group.announce()
    group.store(19)
    await group.move([*g, *h], policy)
    async with await opened(group) as receiver:
        complete = await told(receiver, RegistrationComplete)
        assert (complete.stores, complete.missing) == (tuple("abcdef"), ())
        assert numbers(await take(receiver, 10)) == list(range(10))
        await position_is(group, 8)
    for store in g:
        await store.stop()
    addresses = ",".join(store.address for store in h)
    async with await opened(group, stores=addresses) as receiver:
        complete = await told(receiver, RegistrationComplete)
        assert (complete.missing, complete.first_sequence) == (("a", "b", "c"), 10)
        assert numbers(await take(receiver, 10)) == list(range(10, 20))
