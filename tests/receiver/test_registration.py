"""Registering with stores that know other epochs, and where that makes a receiver start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count

import pytest
from tests.receiver.fakes import NAME, FakeStore, Group

from quorate.protocol.errors import Fenced, StoreStopping
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group as PolicyGroup
from quorate.protocol.policy import IntergroupRule, IntragroupRule, Policy
from quorate.receiver.directory import SourceRecord, record_from_wire
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.peers import Peers
from quorate.receiver.registration import Registrar, StoreAnswer, decide_start, is_replaced

ONE = Lineage((Term(1, 0),))
POLICY = Policy.majority_of("abc")


def answer(acknowledged_upto: int, high: int, lineage: Lineage = ONE) -> StoreAnswer:
    return StoreAnswer(1, True, acknowledged_upto, high, high, lineage)


def test_a_new_receiver_starts_at_the_beginning() -> None:
    start = decide_start(NAME, POLICY, {"a": answer(NOTHING, 9)}, ReceiverOptions())
    assert (start.first, start.point.high) == (0, 9)


def test_an_outdated_lineage_counts_as_far_as_it_agrees() -> None:
    newest = ONE.extended(4, 2)
    answers = {"a": answer(8, 9), "b": answer(8, 9), "c": answer(2, 6, newest)}
    start = decide_start(NAME, POLICY, answers, ReceiverOptions())
    assert (start.first, start.point.high, start.stable_upto) == (5, 6, 6)
    assert start.lineage is newest


def test_a_position_ahead_of_the_stores_that_answer_holds() -> None:
    start = decide_start(NAME, POLICY, {"a": answer(9, 3), "b": answer(9, 3)}, ReceiverOptions())
    assert start.first == 10


class Registering:
    def __init__(self, group: Group, peers: Peers) -> None:
        self.group = group
        self.unresponsive: list[str] = []
        self.registrar = Registrar(
            peers,
            NAME,
            0x20,
            {},
            options=ReceiverOptions(),
            take_over=False,
            refused=lambda name, _: self.unresponsive.append(name),
        )

    @property
    def record(self) -> SourceRecord:
        return record_from_wire(self.group.source.served.information, live=True)

    def epochs(self) -> list[int]:
        known = [store.receivers.get((NAME, 0x20), [0, 0]) for store in self.group.stores]
        return [epoch for epoch, _ in known]


@pytest.fixture
async def registering() -> AsyncIterator[Registering]:
    group, peers = Group(), Peers()
    await group.start()
    await group.announce()
    yield Registering(group, peers)
    await peers.close()
    await group.stop()


async def test_all_stores_get_one_epoch_above_any_they_knew(registering: Registering) -> None:
    for store, epoch in zip(registering.group.stores, (0, 4, 2), strict=True):
        if epoch:
            store.receivers[NAME, 0x20] = [epoch, 5]
    await registering.registrar.register(registering.record, 1.0)
    assert registering.epochs() == [5, 5, 5]
    assert sorted(registering.registrar.answers) == ["a", "b", "c"]


async def test_no_epoch_is_used_in_which_a_receiver_was_over(registering: Registering) -> None:
    """An instance of this one may be frozen; and every store has to know of it."""
    stores = registering.group.stores
    stores[1].spent = 7
    await registering.registrar.register(registering.record, 1.0)
    assert registering.epochs() == [8, 8, 8]
    assert [store.spent for store in stores] == [7, 7, 7]
    assert [len(store.registrations) for store in stores] == [2, 2, 2]


async def test_one_whose_epoch_is_higher_anyway_asks_no_more_than_that(
    registering: Registering,
) -> None:
    stores = registering.group.stores
    await registering.registrar.register(registering.record, 1.0)
    assert [len(store.registrations) for store in stores] == [1, 1, 1]
    for store in stores:
        store.spent, store.receivers[NAME, 0x20] = 7, [9, 5]
    registering.registrar.answers.clear()
    await registering.registrar.register(registering.record, 1.0)
    assert registering.epochs() == [10, 10, 10]


async def test_others_that_end_all_the_time_do_not_keep_it_from_registering(
    registering: Registering, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = count(1)
    counting = property(lambda _: next(spent), lambda *_: None)
    monkeypatch.setattr(FakeStore, "spent", counting, raising=False)
    await registering.registrar.register(registering.record, 1.0)
    assert sorted(registering.registrar.answers) == ["a", "b", "c"]
    assert all(len(store.registrations) == 2 for store in registering.group.stores)


async def test_one_that_refuses_is_named_once_and_joins_later(registering: Registering) -> None:
    away = registering.group.stores[2]
    away.registrations_fail = StoreStopping("c")
    for _ in range(2):
        await registering.registrar.register(registering.record, 1.0)
    assert registering.unresponsive == ["c"]
    away.registrations_fail = None
    assert await registering.registrar.join("c", away.address) is not None
    assert registering.epochs() == [1, 1, 1]


async def test_a_lost_answer_is_asked_for_again(registering: Registering) -> None:
    away = registering.group.stores[2]
    await registering.registrar.register(registering.record, 1.0)
    away.receivers[NAME, 0x20][1] = 8
    registering.registrar.forget("c")
    answer = await registering.registrar.join("c", away.address)
    assert answer is not None
    assert (answer.acknowledged_upto, answer.known) == (8, True)
    assert registering.epochs() == [1, 1, 1]


async def test_another_instance_of_the_same_epoch_is_fenced(registering: Registering) -> None:
    """Two that reached different stores chose one epoch: whoever notices first goes above it."""
    away = registering.group.stores[2]
    away.registrations_fail = StoreStopping("c")
    await registering.registrar.register(registering.record, 1.0)
    away.registrations_fail = None
    away.receivers[NAME, 0x20] = [1, 5]
    with pytest.raises(Fenced):
        await registering.registrar.join("c", away.address)
    await registering.registrar.contest(registering.record, 1.0)
    assert registering.epochs() == [2, 2, 2]
    away.receivers[NAME, 0x20] = [7, 5]
    with pytest.raises(Fenced):
        await registering.registrar.contest(registering.record, 1.0)


@pytest.mark.expects_log("has a newer instance")
async def test_joining_never_fences_a_newer_instance(registering: Registering) -> None:
    away = registering.group.stores[2]
    away.registrations_fail = StoreStopping("c")
    await registering.registrar.register(registering.record, 1.0)
    away.registrations_fail = None
    away.receivers[NAME, 0x20] = [7, 5]
    assert await registering.registrar.join("c", away.address) is None
    assert registering.epochs() == [1, 1, 7]
    registering.registrar.check_not_replaced(POLICY)


@pytest.mark.expects_log("has a newer instance")
async def test_one_that_is_newer_at_enough_stores_has_replaced_it(registering: Registering) -> None:
    """A source that moved to other stores: none of those that knew the older one says so."""
    registrar, stores = registering.registrar, registering.group.stores
    await registrar.register(registering.record, 1.0)
    for store in stores[:2]:
        registrar.forget(store.name)
        store.receivers[NAME, 0x20] = [7, 5]
        registrar.check_not_replaced(POLICY)
        assert await registrar.join(store.name, store.address) is None
    with pytest.raises(Fenced):
        registrar.check_not_replaced(POLICY)


@pytest.mark.expects_log("has a newer instance")
@pytest.mark.parametrize("successor", [False, True])
async def test_nothing_is_acknowledged_where_too_few_others_still_take_it(
    registering: Registering, *, successor: bool
) -> None:
    """It was frozen, and may be over: C alone, which it reaches, does not know it any more."""
    registrar, (a, b, c) = registering.registrar, registering.group.stores
    await registrar.register(registering.record, 1.0)
    assert registrar.joined == {"a", "b", "c"}
    registrar.forget("c")
    del c.receivers[NAME, 0x20]
    for away in (a, b):
        away.registrations_fail = StoreStopping(away.name)
    for _ in range(2):
        assert await registrar.join("c", c.address) is not None
        assert not await registrar.confirm(["c"], registering.record, 1.0)
    assert registrar.joined == {"a", "b"}
    a.registrations_fail = b.registrations_fail = None
    if successor:
        a.receivers[NAME, 0x20] = b.receivers[NAME, 0x20] = [2, NOTHING]
        assert not await registrar.confirm(["c"], registering.record, 1.0)
        with pytest.raises(Fenced):
            registrar.check_not_replaced(POLICY)
    else:
        assert await registrar.confirm(["c"], registering.record, 1.0)
        assert registrar.joined == {"a", "b", "c"}


def test_of_two_that_each_have_too_few_the_older_one_gives_way() -> None:
    every = Policy((PolicyGroup("g", tuple("abc"), IntragroupRule.ALL),))
    joined, nowhere = frozenset("abc"), frozenset[str]()
    assert is_replaced(every, nowhere, {"a"}), "it would need a"
    assert not is_replaced(every, joined, {"a"}), "it has what it needs, until a tells it"
    assert not is_replaced(every, nowhere, nowhere)
    assert not is_replaced(POLICY, nowhere, {"a"}), "b and c are enough"
    assert is_replaced(POLICY, nowhere, {"a", "b"})
    assert is_replaced(POLICY, joined, {"a", "b"})


async def test_a_silent_store_does_not_keep_another_from_joining(registering: Registering) -> None:
    registrar, (_, b, c) = registering.registrar, registering.group.stores
    await registrar.register(registering.record, 1.0)
    registrar.forget("c")
    b.registrations_hang = True
    assert await registrar.join("c", c.address) is not None
    assert await registrar.confirm(["c"], registering.record, 0.05)
    assert registrar.joined == {"a", "b", "c"}


async def test_who_contests_gives_way_to_one_that_has_the_next_epoch_at_enough_stores(
    registering: Registering,
) -> None:
    """It was deregistered while it was frozen, and a new one has begun in the next epoch."""
    registrar, stores = registering.registrar, registering.group.stores
    await registrar.register(registering.record, 1.0)
    for store in stores:
        del store.receivers[NAME, 0x20]
        store.ended[NAME, 0x20] = 1
    for store in stores[:2]:
        store.receivers[NAME, 0x20] = [2, NOTHING]
    registrar.forget("c")
    with pytest.raises(Fenced):
        await registrar.join("c", stores[2].address)
    with pytest.raises(Fenced):
        await registrar.contest(registering.record, 1.0)
    assert not registrar.joined
    assert registering.epochs()[:2] == [2, 2]


async def test_who_contests_goes_on_where_enough_take_it(registering: Registering) -> None:
    registrar, stores = registering.registrar, registering.group.stores
    await registrar.register(registering.record, 1.0)
    for store in stores[:2]:
        store.registrations_fail = StoreStopping(store.name)
    await registrar.contest(registering.record, 1.0)
    assert not registrar.joined, "one store is not enough"
    stores[0].registrations_fail = None
    await registrar.contest(registering.record, 1.0)
    assert registrar.joined == {"a", "c"}


async def test_one_that_leaves_an_epoch_unused_ends_it(registering: Registering) -> None:
    """A frozen one may have had it before, and acknowledge in it just now."""
    stores = registering.group.stores
    for store in stores:
        store.spent = 4
    await registering.registrar.register(registering.record, 1.0)
    assert registering.epochs() == [5, 5, 5]
    assert {store.ended[NAME, 0x20] for store in stores} == {1}


async def test_one_that_goes_on_ends_nothing(registering: Registering) -> None:
    stores = registering.group.stores
    for store in stores:
        store.spent = 4
    stores[0].receivers[NAME, 0x20] = [2, 7]
    await registering.registrar.register(registering.record, 1.0)
    assert registering.epochs() == [5, 5, 5]
    assert not any(store.ended for store in stores)
    assert registering.registrar.answers["a"].acknowledged_upto == 7


def test_a_receiver_that_nobody_knew_starts_at_what_is_still_there() -> None:
    """A store that keeps more than the others counts; one that has nothing does not."""
    kept = StoreAnswer(1, True, -1, 99, 99, ONE, low=70, retained_from=70, is_new=True)
    policy = Policy.majority_of("abc")
    options = ReceiverOptions()

    def start(*answers: StoreAnswer) -> tuple[int, bool]:
        decided = decide_start(NAME, policy, dict(zip("abc", answers, strict=False)), options)
        return decided.first, decided.is_new

    assert start(kept, kept) == (70, True)
    assert start(kept, replace(kept, low=40)) == (40, True)
    assert start(kept, replace(kept, low=0)) == (0, False), "nothing was let go that it could have"
    assert start(kept, replace(kept, low=-1, high=-1, retained_from=0)) == (70, True)
    assert start(kept, replace(kept, low=-1)) == (70, True)
    # One that was registered is owed everything: it is told of the gap.
    assert start(kept, replace(kept, is_new=False)) == (0, False)
    # Without retention a hole at the beginning is no reason to leave anything out.
    assert start(replace(kept, retained_from=0), replace(kept, retained_from=0)) == (0, False)


def test_a_receiver_is_new_only_if_no_group_that_is_away_may_know_it() -> None:
    """What it never acknowledged may have been let go here: that is no beginning, but a gap."""
    policy = Policy(
        (PolicyGroup("g", tuple("abc")), PolicyGroup("h", tuple("xyz"))), IntergroupRule.ANY
    )
    kept = StoreAnswer(1, True, -1, 99, 99, ONE, low=70, retained_from=70, is_new=True)

    def start(stores: str, limbo: str = "") -> tuple[int, bool]:
        answers = {store: replace(kept, limbo=store in limbo) for store in stores}
        decided = decide_start(NAME, policy, answers, ReceiverOptions())
        return decided.first, decided.is_new

    assert start("abc") == (0, False)
    assert start("abcx") == (0, False)
    assert start("abxy", limbo="x") == (0, False)
    assert start("abxy") == (70, True)


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
    await registering.registrar.register(registering.record, 1.0)
    answers = registering.registrar.answers
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
    await registering.registrar.register(registering.record, 1.0)
    away.registrations_fail = None
    answer = await registering.registrar.join("c", away.address)
    assert answer is not None
    assert answer.acknowledged_upto == NOTHING


async def test_one_that_is_ended_while_it_runs_takes_a_higher_epoch(
    registering: Registering,
) -> None:
    registrar = registering.registrar
    await registrar.register(registering.record, 1.0)
    for store in registering.group.stores[:2]:
        del store.receivers[NAME, 0x20]
        store.ended[NAME, 0x20] = 1
        registrar.forget(store.name)
    away = registering.group.stores[0]
    with pytest.raises(Fenced):
        await registrar.join("a", away.address)
    await registrar.contest(registering.record, 1.0)
    assert registering.epochs() == [2, 2, 2]
    assert {store.ended[NAME, 0x20] for store in registering.group.stores} == {1}
