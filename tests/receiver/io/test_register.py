"""Registering, call by call, with stores that know other epochs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.receiver.fakes import NAME, Group

from quorate.protocol.errors import Deregistered, Fenced, StoreStopping
from quorate.protocol.limits import NOTHING
from quorate.receiver.io.channels import Peers
from quorate.receiver.io.register import Registrar
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol.directory import SourceRecord, record_from_wire
from quorate.receiver.protocol.registration import (
    Event,
    NewerFound,
    Refused,
    Registration,
    TooFewTake,
)


class Registering:
    def __init__(self, group: Group, peers: Peers) -> None:
        self.group = group
        self.told: list[Event] = []
        self.registration = Registration(
            NAME, self.record.stores, self.record.policy, 0x20, b"this", interval=1.0
        )
        self.registrar = Registrar(
            self.registration, peers, {}, ReceiverOptions(), self.told.append
        )

    @property
    def record(self) -> SourceRecord:
        return record_from_wire(self.group.source.served.information, live=True)

    def epochs(self) -> list[int]:
        known = [store.receivers.get((NAME, 0x20), [0, 0]) for store in self.group.stores]
        return [epoch for epoch, _ in known]


@pytest.fixture
async def registering() -> AsyncIterator[Registering]:
    group, peers = Group(), Peers(None, lambda *_: None)
    await group.start()
    await group.announce()
    yield Registering(group, peers)
    await peers.close()
    await group.stop()


async def test_all_stores_get_one_epoch_above_any_they_knew(registering: Registering) -> None:
    for store, epoch in zip(registering.group.stores, (0, 4, 2), strict=True):
        if epoch:
            store.receivers[NAME, 0x20] = [epoch, 5]
    await registering.registrar.register()
    assert registering.epochs() == [5, 5, 5]
    assert sorted(registering.registration.answers) == ["a", "b", "c"]


async def test_no_epoch_is_used_in_which_a_receiver_was_over(registering: Registering) -> None:
    """An instance of this one may be frozen."""
    stores = registering.group.stores
    stores[1].spent = 7
    await registering.registrar.register()
    assert registering.epochs() == [8, 8, 8]


async def test_one_that_refuses_is_named_once_and_joins_later(registering: Registering) -> None:
    away = registering.group.stores[2]
    away.registrations_fail = StoreStopping("c")
    for _ in range(2):
        await registering.registrar.register()
    assert [each.store for each in registering.told if isinstance(each, Refused)] == ["c"]
    away.registrations_fail = None
    await registering.registrar.keep_house()
    assert registering.registration.joined == {"a", "b", "c"}
    assert registering.epochs() == [1, 1, 1]


async def test_a_lost_answer_is_asked_for_again(registering: Registering) -> None:
    away = registering.group.stores[2]
    await registering.registrar.register()
    away.receivers[NAME, 0x20][1] = 8
    registering.registration.forget("c")
    await registering.registrar.keep_house()
    answer = registering.registration.answers["c"]
    assert (answer.acknowledged_upto, answer.known) == (8, True)
    assert registering.epochs() == [1, 1, 1]


@pytest.mark.parametrize(("another", "joined"), [(b"another", "abc"), (b"z", "ab")])
async def test_of_two_instances_with_one_epoch_the_greater_one_has_the_store(
    registering: Registering, another: bytes, joined: str
) -> None:
    away = registering.group.stores[2]
    away.registrations_fail = StoreStopping("c")
    await registering.registrar.register()
    away.registrations_fail = None
    away.receivers[NAME, 0x20], away.instances[NAME, 0x20] = [1, 5], (1, another)
    await registering.registrar.keep_house()
    assert registering.registration.joined == {*joined}
    assert away.instances[NAME, 0x20] == (1, max(another, b"this"))
    assert (NewerFound("c") in registering.told) == ("c" not in joined)


async def test_joining_never_fences_a_newer_instance(registering: Registering) -> None:
    away = registering.group.stores[2]
    away.registrations_fail = StoreStopping("c")
    await registering.registrar.register()
    away.registrations_fail = None
    away.receivers[NAME, 0x20] = [7, 5]
    await registering.registrar.keep_house()
    assert registering.epochs() == [1, 1, 7]
    assert registering.told[-1] == NewerFound("c")


async def test_one_that_is_newer_at_enough_stores_has_replaced_it(registering: Registering) -> None:
    """A source that moved to other stores: none of those that knew the older one says so."""
    (a, b, _), registrar = registering.group.stores, registering.registrar
    await registrar.register()
    for store in (a, b):
        registering.registration.forget(store.name)
    a.receivers[NAME, 0x20] = [7, 5]
    b.registrations_fail = StoreStopping("b")
    await registrar.keep_house()
    b.registrations_fail = None
    b.receivers[NAME, 0x20] = [7, 5]
    with pytest.raises(Fenced):
        await registrar.keep_house()


@pytest.mark.parametrize("successor", [False, True])
async def test_nothing_is_acknowledged_where_too_few_others_still_take_it(
    registering: Registering, *, successor: bool
) -> None:
    """It was frozen, and may be over: C alone, which it reaches, does not know it any more."""
    registrar, (a, b, c) = registering.registrar, registering.group.stores
    registration = registering.registration
    await registrar.register()
    assert registration.joined == {"a", "b", "c"}
    registration.forget("c")
    del c.receivers[NAME, 0x20]
    for away in (a, b):
        away.registrations_fail = StoreStopping(away.name)
    for _ in range(2):
        await registrar.keep_house()
        assert registering.told[-1] == TooFewTake()
    assert registration.joined == {"a", "b"}
    a.registrations_fail = b.registrations_fail = None
    if successor:
        a.receivers[NAME, 0x20] = b.receivers[NAME, 0x20] = [2, NOTHING]
        with pytest.raises(Fenced):
            await registrar.keep_house()
        assert registration.joined == {"a", "b"}
    else:
        await registrar.keep_house()
        assert registration.joined == {"a", "b", "c"}


async def test_a_silent_store_does_not_keep_another_from_joining(registering: Registering) -> None:
    registrar, (_, b, _) = registering.registrar, registering.group.stores
    await registrar.register()
    registering.registration.forget("c")
    b.registrations_hang = True
    await registrar.keep_house()
    assert registering.registration.joined == {"a", "b", "c"}


@pytest.mark.parametrize("knowing", ["a", "ab", "b", "bc"])
async def test_who_had_ended_tells_the_stores_that_were_away(
    registering: Registering, knowing: str
) -> None:
    """What they have is of another receiver: they are asked again, and it starts as a new one."""
    for store in registering.group.stores:
        if store.name in knowing:
            store.ended[NAME, 0x20] = 4
        else:
            store.receivers[NAME, 0x20] = [4, 8]
    await registering.registrar.register()
    answers = registering.registration.answers
    assert {name: each.acknowledged_upto for name, each in answers.items()} == dict.fromkeys(
        "abc", NOTHING
    )
    assert registering.epochs() == [5, 5, 5]
    assert {store.ended[NAME, 0x20] for store in registering.group.stores} == {4}


async def test_a_store_that_joins_later_is_told_too(registering: Registering) -> None:
    for store in registering.group.stores[:2]:
        store.ended[NAME, 0x20] = 4
    away = registering.group.stores[2]
    away.receivers[NAME, 0x20] = [4, 8]
    away.registrations_fail = StoreStopping("c")
    await registering.registrar.register()
    away.registrations_fail = None
    await registering.registrar.keep_house()
    assert registering.registration.answers["c"].acknowledged_upto == NOTHING


async def test_one_that_is_deregistered_while_it_runs_ends(registering: Registering) -> None:
    registrar = registering.registrar
    await registrar.register()
    store = registering.group.stores[1]
    del store.receivers[NAME, 0x20]
    store.ended[NAME, 0x20] = 1
    registering.registration.forget(store.name)
    with pytest.raises(Deregistered):
        await registrar.keep_house()
    assert registering.epochs() == [1, 0, 1]
