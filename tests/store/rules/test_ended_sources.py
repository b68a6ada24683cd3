"""Sources that have ended at a store: what is kept of them, until when, and who hears of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.ended import (
    MEMBERSHIP,
    POLICY,
    answer,
    end,
    end_for_good,
    ended_knowledge,
    filled,
    knowledge,
    rows,
    view,
)
from tests.store.support import FIRST_LINEAGE, INCARNATION, ORDERS, World, batch

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import Deregistered, Fenced, InLimbo, NotRegistered, SourceActive
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange
from quorate.store.rules.acceptor import Missed
from quorate.store.rules.ended_sources import is_durable, is_settled, may_be_unlisted
from quorate.store.rules.expiry import is_first_silent, may_expire
from quorate.store.rules.lifetimes import Owner, Who
from quorate.store.storage.interface import Table

BEGUN_ANEW = Lineage((Term(3, 0),))


def test_an_end_is_a_begin_of_a_new_generation_without_messages() -> None:
    world = World()
    filled(world)
    known = end(world)
    assert ORDERS not in world.core.sources
    promised = world.promise(5)
    assert (promised.registration.begun.epoch, promised.registration.begun.generation) == (2, 2)
    assert promised.registration.begun.lineage == Lineage((Term(2, 0),))
    assert (promised.stable_upto, promised.markers) == (-1, ())
    assert promised.held == (HeldRange(0, 29, 1),), "a newer begin may go on with them"
    assert promised.begun.membership == MEMBERSHIP
    world.write(world.core.identities.became_durable(known, world.core.reg_ids))
    promised = world.promise(6)
    assert (promised.begun.membership, promised.held) == (None, ()), (
        "its policies bind nobody any more"
    )


def test_what_is_older_stays_on_the_disk_until_the_end_is_durable() -> None:
    world = World()
    filled(world)
    known = end(world)
    assert known.former is not None
    counts = {table: rows(world, table) for table in (Table.INDEX, Table.RECEIVERS, Table.MARKERS)}
    assert counts == {Table.INDEX: 3, Table.RECEIVERS: 1, Table.MARKERS: 1}
    world.write(world.core.identities.became_durable(known, world.core.reg_ids))
    for table in (Table.REGISTRATIONS, Table.HELD, Table.RECEIVERS, Table.MARKERS):
        assert rows(world, table) == 0, table
    assert rows(world, Table.INDEX) == 3, "messages stay for the grace"


def test_messages_go_in_bounded_parts_and_then_the_reg_id_is_free() -> None:
    world = World()
    reg_id = filled(world, reg_id=77).reg_id
    known = end(world)
    world.write(world.core.identities.became_durable(known, world.core.reg_ids))
    steps = 0
    while not known.emptied:
        assert not world.core.reg_ids.is_free(reg_id)
        world.write(world.core.identities.purge(known, world.storage, 2, world.core.reg_ids))
        steps += 1
    assert steps == 3
    assert rows(world, Table.INDEX) == 0
    assert world.core.reg_ids.is_free(reg_id)


@pytest.mark.parametrize("for_good", [False, True])
def test_a_restart_remembers_the_end(*, for_good: bool) -> None:
    world = World()
    filled(world)
    if for_good:
        end_for_good(world)
    else:
        end(world)
    after = world.restarted()
    assert ORDERS not in after.core.sources
    known = after.core.identities.ended[ORDERS]
    assert (known.epoch, known.durable, known.emptied) == (2, for_good, for_good)
    assert (known.former is None) == for_good
    assert len(known.row().value or b"") < 250


def test_a_newer_begin_of_the_same_stream_voids_the_end() -> None:
    """Only this store began it; those that registered next had not heard of it."""
    world = World()
    state = filled(world)
    end(world)
    world = world.restarted()
    lineage = Lineage((*FIRST_LINEAGE.terms, Term(3, 30)))
    missed = Missed(BeginRecord(lineage, MEMBERSHIP), b"b", None)
    assert world.done(world.core.adopt(ORDERS, missed)) == 0
    for one in (world, world.restarted()):
        back = one.core.sources[ORDERS]
        assert back.held.ranges == state.held.ranges
        assert (back.registration.begun.epoch, back.registration.begun.generation) == (3, 0)
        assert list(back.receivers) == [0x20]
        assert ORDERS not in one.core.identities.ended


@pytest.mark.parametrize("heard", [False, True])
def test_what_begins_after_the_end_voids_the_stream_before(*, heard: bool) -> None:
    """Also where the store had not heard of the end."""
    world = World()
    filled(world)
    if heard:
        end(world)
    missed = Missed(BeginRecord(BEGUN_ANEW, MEMBERSHIP, 2), b"b", None)
    assert world.done(world.core.adopt(ORDERS, missed)) == 30
    for one in (world, world.restarted()):
        state = one.core.sources[ORDERS]
        assert (state.held.ranges.high, state.held.stable_upto) == (-1, -1)
        assert (state.receivers, state.markers) == ({}, ())
        assert (state.registration.begun.generation, state.registration.information) == (2, None)


def test_a_source_begins_anew_at_once() -> None:
    world = World()
    filled(world)
    end_for_good(world)
    world.promise(3, b"b", reg_id=78)
    change = world.core.begin(ORDERS, BeginRecord(BEGUN_ANEW, MEMBERSHIP, 2), b"b", INCARNATION)
    assert world.done(change) == 0
    stream = world.open(3, b"b")
    assert world.append(stream, batch(0, 9, 3))
    for one in (world, world.restarted()):
        state = one.core.sources[ORDERS]
        assert (state.reg_id, state.held.ranges.high) == (78, 9)
        assert ORDERS not in one.core.identities.ended


def test_nothing_begins_between_messages_that_are_being_removed() -> None:
    world = World()
    filled(world)
    known = end(world)
    world.write(world.core.identities.became_durable(known, world.core.reg_ids))
    missed = Missed(BeginRecord(BEGUN_ANEW, MEMBERSHIP, 2), b"b", None)
    with pytest.raises(NotRegistered, match="removing"):
        world.core.adopt(ORDERS, missed)
    while not known.emptied:
        world.write(world.core.identities.purge(known, world.storage, 9, world.core.reg_ids))
    world.done(world.core.adopt(ORDERS, missed))
    assert world.core.sources[ORDERS].registration.begun.epoch == 3


def test_an_end_is_adopted_like_any_begin() -> None:
    for known_before in (True, False):
        world = World()
        if known_before:
            filled(world)
        lineage = Lineage((Term(2, 0),))
        missed = Missed(BeginRecord(lineage, MEMBERSHIP, 2), b"ends", None)
        assert missed.begun.ended
        world.done(world.core.adopt(ORDERS, missed))
        known = world.core.identities.ended[ORDERS]
        assert (known.epoch, known.former is not None) == (2, known_before)
        assert world.done(world.core.adopt(ORDERS, missed)) == 0, "once is enough"


def test_only_who_was_promised_the_epoch_ends_a_source() -> None:
    world = World()
    filled(world)
    with pytest.raises(NotRegistered):
        world.core.begin_end(ORDERS, 2, MEMBERSHIP, b"ends", INCARNATION)
    world.done(world.core.promise_end(ORDERS, 2, b"ends"))
    world.promise(3, b"b", take_over=True)
    with pytest.raises(Fenced):
        world.core.begin_end(ORDERS, 2, MEMBERSHIP, b"ends", INCARNATION)
    with pytest.raises(Fenced):
        world.core.promise_end(ORDERS, 2, b"other")
    assert ORDERS in world.core.sources


def test_an_owner_that_another_instance_has_followed_ends_nothing() -> None:
    world = World()
    filled(world)
    world.promise(2, b"b", take_over=True)
    world.done(
        world.core.begin(
            ORDERS,
            BeginRecord(Lineage((*FIRST_LINEAGE.terms, Term(2, 30))), MEMBERSHIP),
            b"b",
            INCARNATION,
        )
    )
    with pytest.raises(Fenced):
        world.core.promise_end(ORDERS, 3, b"a", decided_epoch=1)
    assert world.core.promise_end(ORDERS, 3, b"b", decided_epoch=2).answer.limbo == ""


def test_a_running_instance_hears_that_its_stream_has_ended() -> None:
    world = World()
    filled(world)
    stream = world.open()
    change = world.core.promise_end(ORDERS, 2, b"ends")
    ((ended, error),) = change.endings
    assert ended is stream
    assert isinstance(error, Deregistered)
    world.done(change)
    world.done(world.core.begin_end(ORDERS, 2, MEMBERSHIP, b"ends", INCARNATION))
    with pytest.raises(Deregistered):
        world.promise(3, b"a", decided_epoch=1)


def test_a_store_that_has_heard_of_the_owner_lets_nobody_expire_it() -> None:
    world = World()
    filled(world)
    lives = world.core.identities.lives
    lives.heard(Who(ORDERS))
    lives.of(Who(ORDERS)).asked = replace(lives.of(Who(ORDERS)).asked, state_lifetime=50)
    with pytest.raises(SourceActive):
        world.core.promise_end(ORDERS, 2, b"ends", expired=True)
    assert not world.core.promise_end(ORDERS, 2, b"ends").answer.limbo, "an operator may"


def test_a_store_in_limbo_promises_no_end_and_begins_none() -> None:
    world = World()
    filled(world).limbo = "wiped"
    assert world.core.promise_end(ORDERS, 2, b"ends").answer.limbo == "wiped"
    with pytest.raises(InLimbo):
        world.core.begin_end(ORDERS, 2, MEMBERSHIP, b"ends", INCARNATION)


def test_a_store_that_enters_limbo_no_longer_vouches_for_its_ends() -> None:
    world = World()
    filled(world)
    end_for_good(world)
    world.done(world.core.enter_limbo("put back", b"new"))
    for one in (world, world.restarted()):
        assert one.core.known(ORDERS) is not None
        assert one.core.limbo_without(ORDERS) == "put back"
        assert one.promise(5).limbo == "put back"
        assert one.core.in_limbo


def test_an_unknown_source_leaves_only_the_promise_of_its_end() -> None:
    world = World()
    world.done(world.core.promise_end(ORDERS, 2, b"ends"))
    for one in (world, world.restarted()):
        assert one.core.sources == {}
        with pytest.raises(Fenced):
            one.promise(1)
        assert one.promise(3).registration.begun.epoch == 0


def test_the_receivers_of_an_ended_stream_do_not_come_back() -> None:
    world = World()
    filled(world)
    end_for_good(world)
    world.begin(BEGUN_ANEW)
    state = world.core.sources[ORDERS]
    assert (state.receivers, state.registration.spent_receiver_epoch) == ({}, 1)


# The answers of peers.


def test_an_end_is_durable_once_a_stable_set_has_it() -> None:
    world = World()
    filled(world)
    known = end(world)
    assert not is_durable(known, view())
    assert not is_durable(known, view(answer("s2", knowledge()), answer("s3")))
    assert is_durable(known, view(answer("s2", ended_knowledge())))
    later = knowledge(lineage=BEGUN_ANEW, generation=2)
    assert is_durable(known, view(answer("s2", later))), "it began what came after the end"
    without = knowledge(epoch=3)
    assert not is_durable(known, view(answer("s2", without))), "it never heard of the end"


def test_an_end_is_told_until_every_store_that_it_names_has_it() -> None:
    world = World()
    filled(world)
    known = end_for_good(world)
    one, other = answer("s2", ended_knowledge()), answer("s3", ended_knowledge())
    assert not is_settled(known, view(one))
    assert not is_settled(known, view(one, answer("s3", knowledge())))
    assert is_settled(known, view(one, other))
    assert not may_be_unlisted(known, view(one, other)), "not settled here"
    known.settled = True
    assert not may_be_unlisted(known, view(one, other)), "they still wait for some store"
    settled = answer("s2", ended_knowledge(settled=True))
    assert not may_be_unlisted(known, view(settled))
    assert not may_be_unlisted(known, view(settled, answer("s3", limbo=True)))
    assert may_be_unlisted(known, view(settled, answer("s3")))
    later = answer("s3", knowledge(lineage=BEGUN_ANEW, generation=2))
    assert may_be_unlisted(known, view(settled, later))


SILENT = knowledge(owner=Owner.SILENT, membership=Membership((POLICY,), (POLICY,)))
HEARS = replace(SILENT, owner=Owner.HEARD)


def test_a_source_expires_once_a_blocking_set_has_heard_nothing() -> None:
    world = World()
    record = filled(world).registration
    assert not may_expire(record, view())
    assert not may_expire(record, view(answer("s2", replace(SILENT, owner=Owner.UNKNOWN))))
    assert not may_expire(record, view(answer("s2", limbo=True)))
    assert not may_expire(record, view(answer("s2", SILENT), answer("s3", HEARS)))
    assert may_expire(record, view(answer("s2", SILENT)))
    assert may_expire(record, view(answer("s2", ended_knowledge())))
    assert may_expire(record, view(answer("s2")))
    assert may_expire(record, view(answer("s2", SILENT), answer("s9", HEARS))), "it has no part"


def test_the_first_store_that_has_heard_nothing_ends_the_source() -> None:
    assert is_first_silent(ORDERS, view(answer("s2", SILENT)))
    assert is_first_silent(ORDERS, view(answer("s0", HEARS)))
    assert not is_first_silent(ORDERS, view(answer("s0", SILENT)))
