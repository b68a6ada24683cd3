"""Deleting sources and receivers: what goes, what is remembered, and when it may be forgotten."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests import seams
from tests.store.deleted import (
    DEREGISTERED,
    EXPIRED,
    MEMBERSHIP,
    POLICY,
    Heardsay,
    answer,
    bury,
    bury_for_good,
    filled,
    keeping,
    keeping_with,
    knowledge,
    promised_only,
    rows,
    tombstone,
    view,
)
from tests.store.support import FIRST_LINEAGE, INCARNATION, ORDERS, TRADES, World

from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    DELETED_HERE,
    Closed,
    ContentConflict,
    Deregistered,
    EpochTooFar,
    Fenced,
    InLimbo,
    NotRegistered,
    RegIdInUse,
    SourceActive,
)
from quorate.protocol.limits import EPOCH_STEP_MAX
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Decision, Marker, NeedMore, Promise, decide
from quorate.store.rules import receiver_positions
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.acceptor import Missed
from quorate.store.rules.deregistration import (
    Verdict,
    deregistered_elsewhere,
    judge_source,
    judge_unused,
)
from quorate.store.rules.identity_records import (
    pack_tombstone,
    unpack_tombstone,
)
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Who,
)
from quorate.store.rules.readmission import Adoption
from quorate.store.rules.source_tombstones import (
    GIVEN_BACK,
    brought_back,
    ended_epoch,
    lives_on,
)
from quorate.store.storage.interface import Table
from quorate.store.storage.records import Malformed
from quorate.v1 import store_pb2 as store_v1


def end_receivers(world: World, *session_ids: int) -> None:
    """They are deregistered up to epoch 1."""
    core = world.core
    for session_id in session_ids:
        state = core.sources[ORDERS]
        world.write(core.identities.end_receiver(state, session_id, 1, core.reg_ids))


# What goes and what stays.


def test_state_and_receivers_go_at_once_and_messages_stay_aside() -> None:
    world = World()
    filled(world)
    filled(world, TRADES)
    bury(world)
    assert set(world.core.sources) == {TRADES}
    assert rows(world, Table.REGISTRATIONS) == rows(world, Table.RECEIVERS) == 1
    assert rows(world, Table.HELD) == rows(world, Table.MARKERS) == 1
    assert rows(world, Table.INDEX) == 6


def test_a_restart_remembers_the_deletion_and_the_lives() -> None:
    world = World()
    filled(world)
    filled(world, TRADES)
    bury(world)
    before = tombstone(world)
    world = world.restarted()
    assert set(world.core.sources) == {TRADES}
    assert tombstone(world) == before
    lives = world.core.identities.lives
    assert lives.lifetimes(Who(TRADES)) == Lifetimes(5, 50)
    assert lives.lifetimes(Who(TRADES, 0x20)) == Lifetimes(5, 50)
    with pytest.raises(RegIdInUse):
        world.core.reg_ids.claim(before.reg_id, "another")


def test_messages_go_in_bounded_parts_and_then_the_reg_id_is_free() -> None:
    world = World()
    reg_id = filled(world).reg_id
    bury(world)
    identities = world.core.identities
    for left in (2, 1, 0):
        world.write(identities.purge(ORDERS, world.storage, 1, world.core.reg_ids))
        assert rows(world, Table.INDEX) == left
        world = world.restarted()
        identities = world.core.identities
        assert tombstone(world).dropped
    assert not tombstone(world).emptied
    world.write(identities.purge(ORDERS, world.storage, 1, world.core.reg_ids))
    assert tombstone(world).emptied
    assert world.core.reg_ids.claim(reg_id, "another") == reg_id
    assert World(world.storage).core.reg_ids.claim(reg_id, "another") == reg_id
    assert rows(world, Table.JOURNAL) == 3, "retention takes whole partitions of it"


def test_a_receiver_goes_without_a_trace() -> None:
    world = World()
    state = filled(world)
    reg_id = state.receivers[0x20].reg_id
    world.write(world.core.identities.forget_receiver(state, 0x20, world.core.reg_ids))
    assert rows(world, Table.RECEIVERS) == 0
    assert world.core.reg_ids.claim(reg_id, "another") == reg_id
    registered = world.restarted().receivers.register(ORDERS, 0x20, 0, 1).answer
    assert (registered.known, registered.acknowledged_upto) == (False, -1)


def test_what_never_began_leaves_nothing() -> None:
    world = World()
    world.promise(1)
    state = world.core.sources[ORDERS]
    world.core.remove(ORDERS, Closed("x"))
    world.write(world.core.identities.forget(state, world.core.reg_ids))
    assert all(rows(world, table) == 0 for table in Table if table is not Table.META)
    assert world.restarted().core.identities.tombstones == {}
    assert world.promise(1, instance=b"b").limbo == ""


def test_tombstones_survive_as_they_were() -> None:
    world = World()
    filled(world)
    world.done(world.receivers.register(ORDERS, 0x22, 0, 1, b"x"))
    end_receivers(world, 0x20, 0x21)
    bury(world)
    packed = pack_tombstone(tombstone(world))
    assert unpack_tombstone(packed) == tombstone(world)
    assert tombstone(world).markers == (Marker(29, 1, b"marker"),)
    assert set(tombstone(world).ended) == {0x20, 0x21}
    assert set(tombstone(world).receivers) == {0x22}
    for broken in (b"", packed[:-1], packed + b"x", b"\x07" + packed[1:]):
        with pytest.raises(Malformed):
            unpack_tombstone(broken)


# A deleted source that comes back.


def test_a_deleted_source_is_answered_for_as_if_in_limbo() -> None:
    world = World()
    filled(world)
    bury(world)
    promised = world.promise(2, instance=b"b")
    assert promised.limbo == DELETED_HERE
    assert (promised.held, promised.registration.begun_epoch) == ((), 0), "as if it were silent"
    assert ORDERS not in world.core.sources, "nothing was promised"
    with pytest.raises(InLimbo):
        world.begin(FIRST_LINEAGE)
    with pytest.raises(InLimbo):
        world.open()


@pytest.mark.parametrize("settled_too_early", [False, True])
def test_without_that_a_stable_number_would_be_given_away(settled_too_early: bool) -> None:
    world = World()
    filled(world)
    bury(world)  # [0, 29] was stable on s1 and s2; s2 is silent, and s3 never had any of it
    if settled_too_early:
        world.core.identities.settled.add(ORDERS)
    promised = world.promise(2, instance=b"b")
    lacking = Promise(1, FIRST_LINEAGE, Membership((POLICY,), (POLICY,)), (), -1)
    answers = {
        "s1": Promise(0, promised.registration.lineage, None, (), -1, bool(promised.limbo)),
        "s3": lacking,
    }
    decided = decide(POLICY, answers, Behaviour.HIGHEST)
    if settled_too_early:
        assert isinstance(decided, Decision)
        assert decided.kept_upto == -1
    else:
        assert isinstance(decided, NeedMore)


def test_its_epochs_stay_fenced_all_the_while() -> None:
    world = World()
    filled(world)
    bury(world)
    with pytest.raises(Fenced):
        world.promise(1, instance=b"b")


def test_once_it_is_settled_the_source_is_unknown_but_old_epochs_stay_fenced() -> None:
    world = World()
    filled(world)
    bury(world)
    world.core.identities.settled.add(ORDERS)
    with pytest.raises(Fenced):
        world.promise(1, instance=b"b")
    with pytest.raises(NotRegistered):
        world.begin(FIRST_LINEAGE)
    promised = world.promise(2, instance=b"b")
    assert (promised.limbo, promised.held, promised.registration.begun_epoch) == ("", (), 0)
    assert world.restarted().core.identities.tombstones == {}


def test_what_a_peer_said_before_it_deleted_it_too_brings_nothing_back() -> None:
    world = World()
    filled(world)
    bury_for_good(world)
    with pytest.raises(Fenced):
        world.core.adopt(ORDERS, Missed(FIRST_LINEAGE, MEMBERSHIP, b"a", None))
    assert ORDERS not in world.core.sources
    assert ORDERS in world.core.identities.tombstones
    world.done(world.core.adopt(ORDERS, Missed(Lineage((Term(2, 0),)), MEMBERSHIP, b"b", None)))
    assert world.core.sources[ORDERS].registration.begun_epoch == 2


def test_the_instance_that_was_deregistered_stays_out() -> None:
    world = World()
    filled(world)
    bury(world, DEREGISTERED)
    with pytest.raises(Deregistered):
        world.promise(2, instance=b"a")
    assert world.promise(2, instance=b"b").limbo


@pytest.mark.parametrize(("blind", "limbo"), [(False, ""), (True, GIVEN_BACK)])
def test_a_source_that_lives_on_elsewhere_is_back_as_it_was(blind: bool, limbo: str) -> None:
    """It promised nothing meanwhile, and took nothing: it can vouch if it could before."""
    world = World()
    filled(world)
    bury(world, blind=blind)
    state, writes = world.core.identities.bring_back(ORDERS, world.core.reg_ids)
    world.write(writes)
    back = world.restarted().core.sources[ORDERS]
    assert (back.reg_id, back.limbo) == (state.reg_id, limbo)
    assert list(back.held.ranges) == list(state.held.ranges)
    assert back.markers == (Marker(29, 1, b"marker"),)


def test_who_was_deregistered_is_over_also_when_the_source_is_back() -> None:
    """Others that were told may have lost that since: they rely on this store's word."""
    world = World()
    filled(world)
    end_receivers(world, 0x20)
    bury(world)
    world = world.restarted()
    _, writes = world.core.identities.bring_back(ORDERS, world.core.reg_ids)
    world.write(writes)
    world = world.restarted()
    assert world.core.sources[ORDERS].ended_upto(0x20) == 1
    with pytest.raises(Fenced):
        world.receivers.register(ORDERS, 0x20, 0, 1)
    registered = world.receivers.register(ORDERS, 0x20, 0, 2).answer
    assert (registered.known, registered.ended_epoch) == (False, 1)


def test_who_is_registered_is_so_also_when_the_source_is_back() -> None:
    """What it has not acknowledged is not let go. Another may have taken its RegID meanwhile."""
    world = World()
    filled(world)
    world.done(world.receivers.register(ORDERS, 0x21, 0, 4, waited_for=False))
    world.write(world.receivers.acknowledge(ORDERS, 0x21, 4, 17))
    before = dict(world.core.sources[ORDERS].receivers)
    bury(world)
    world = world.restarted()
    world.core.reg_ids.claim(before[0x20].reg_id, "another")
    _, writes = world.core.identities.bring_back(ORDERS, world.core.reg_ids)
    world.write(writes)
    world = world.restarted()
    state = world.core.sources[ORDERS]
    assert state.receivers[0x21] == before[0x21]
    assert state.receivers[0x20].reg_id not in {0, *(each.reg_id for each in before.values())}
    registered = world.receivers.register(ORDERS, 0x21, 0, 5).answer
    assert (registered.known, registered.acknowledged_upto) == (True, 17)
    # Of what lives on as another stream they are not receivers.
    bury(world)
    state, _ = world.core.identities.bring_back(ORDERS, world.core.reg_ids, anew=True)
    assert state.receivers == {}


def test_in_limbo_its_peers_say_who_is_over() -> None:
    """As after any restart: what it was told since may have been forgotten everywhere."""
    world = World()
    filled(world)
    end_receivers(world, 0x20)
    bury(world, blind=True)
    core = world.core
    state, _ = core.identities.bring_back(ORDERS, core.reg_ids)
    assert state.limbo
    receiver_positions.take_over(state, {}, {}, core.identities, core.reg_ids)
    assert state.ended == {}


@pytest.mark.expects_log("is deregistered")
async def test_what_a_store_can_not_read_it_does_not_lack() -> None:
    """It may be in doubt for that, but vouches for the rest when it is given back."""
    world = World()
    world.write(filled(world).found_unreadable(10, 19))
    await keeping(world).deregister(ORDERS, 0, 1, b"")
    assert not tombstone(world).blind
    state, writes = world.core.identities.bring_back(ORDERS, world.core.reg_ids)
    world.write(writes)
    assert (state.limbo, list(state.held.ranges)) == ("", [Range(0, 29)])


def test_a_source_that_never_began_comes_back_as_it_was_whatever_was_removed() -> None:
    world = World()
    promised_only(world)
    world.write(world.core.identities.purge(ORDERS, world.storage, 9, world.core.reg_ids))
    assert tombstone(world).emptied
    state, _ = world.core.identities.bring_back(ORDERS, world.core.reg_ids)
    assert (state.limbo, state.registration.promised_epoch) == ("", 3)


@pytest.mark.expects_log("lives on elsewhere")
async def test_it_comes_back_for_a_stream_that_its_promise_may_be_for() -> None:
    world = World()
    promised_only(world)
    began = Lineage((Term(3, 0),))
    living = answer("s2", knowledge(promised_epoch=3, begun_epoch=3, lineage=began))
    await keeping(world, living, answer("s3")).look(0.0)
    missed = Missed(began, MEMBERSHIP, b"a", None, 0)
    assert world.done(world.core.adopt(ORDERS, missed)) == 0
    assert world.core.sources[ORDERS].registration.begun_epoch == 3


@pytest.mark.expects_log("lives on elsewhere")
async def test_it_comes_back_with_what_was_accepted_as_lost() -> None:
    """Whoever hears only of the gap takes what is behind it for what was never stable."""
    world = World()
    losses = Losses("s1", world.core.sources, world.storage)
    world.write(losses.learn(filled(world), [HeldRange(30, 34, 1)], "an operator", 0))
    bury(world)
    living = Heardsay(answer("s2", knowledge(begun_epoch=2, live=True)), answer("s3"))
    await keeping_with(world, living, records=losses.records).look(0.0)
    assert world.core.sources[ORDERS].losses == RangeSet([Range(30, 34)])


def test_without_its_messages_it_comes_back_empty_and_under_another_reg_id() -> None:
    world = World()
    filled(world, reg_id=7)
    bury(world)
    for _ in range(2):
        world.write(world.core.identities.purge(ORDERS, world.storage, 9, world.core.reg_ids))
    world.core.reg_ids.claim(7, "another")
    state, _ = world.core.identities.bring_back(ORDERS, world.core.reg_ids)
    assert state.reg_id != 7
    assert (list(state.held.ranges), state.markers, state.limbo) == ([], (), GIVEN_BACK)


@pytest.mark.expects_log("lives on elsewhere")
async def test_what_was_half_removed_does_not_come_up_between_what_is_taken_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    filled(world)
    bury(world)
    world.write(world.core.identities.purge(ORDERS, world.storage, 1, world.core.reg_ids))
    assert rows(world, Table.INDEX) == 2
    # It lives on at a peer, where another epoch has other messages from 5 on.
    lineage = Lineage((Term(1, 0), Term(2, 5)))
    living = answer("s2", knowledge(begun_epoch=2, lineage=lineage, live=True))
    seams.LIFECYCLE_PURGE_ROWS.replace(monkeypatch, 1)
    await keeping(world, living, answer("s3")).look(0.0)
    back = world.core.sources[ORDERS]
    assert (back.limbo, list(back.held.ranges)) == (GIVEN_BACK, [])
    assert rows(world, Table.INDEX) == 0


def test_what_is_deleted_meanwhile_is_not_taken_over() -> None:
    world = World()
    filled(world)
    bury(world)
    with pytest.raises(NotRegistered):
        world.core.take_over(ORDERS, Adoption(1, b"a"))
    assert ORDERS in world.core.identities.tombstones


# Deregistration.


def test_only_the_newest_epoch_may_end_a_source() -> None:
    world = World()
    state = filled(world)
    world.promise(2, instance=b"b", take_over=True)
    with pytest.raises(Fenced):
        judge_source(state, 1)
    assert judge_source(state, 2) is Verdict.BURY
    assert judge_source(state, 3) is Verdict.BURY


def test_a_late_deregistration_does_not_end_who_registered_since_in_the_same_epoch() -> None:
    """The former one left nothing here that would fence its epoch: it had not begun here."""
    world = World()
    state = filled(world)
    with pytest.raises(Fenced):
        judge_source(state, 1, b"one before")
    assert judge_source(state, 1, b"a") is Verdict.BURY
    assert judge_source(state, 1) is Verdict.BURY


def test_a_promise_is_taken_back_only_by_whom_it_was_given_to_and_where_nothing_began() -> None:
    world = World()
    world.promise(3)
    state = world.core.sources[ORDERS]
    assert judge_unused(state, 3, b"a") is Verdict.FORGET
    assert judge_unused(state, 2, b"a") is Verdict.LEAVE
    assert judge_unused(state, 3, b"b") is Verdict.LEAVE
    state.registration = replace(state.registration, fences=True)
    assert judge_unused(state, 3, b"a") is Verdict.LEAVE
    state.registration = replace(state.registration, fences=False)
    state.limbo = "for some reason"
    assert judge_unused(state, 3, b"a") is Verdict.LEAVE
    assert judge_source(state, 3) is Verdict.BURY
    state = filled(world, TRADES)
    assert judge_unused(state, 1, b"a") is Verdict.LEAVE


def test_who_takes_a_promise_back_does_not_take_that_of_another_one_back() -> None:
    """That one may have decided, and begun at other stores."""
    world = World()
    world.promise(2)
    world.promise(3, instance=b"b", take_over=True)
    state = world.restarted().core.sources[ORDERS]
    assert judge_unused(state, 3, b"b") is Verdict.LEAVE


def test_who_takes_a_promise_back_that_it_asked_for_twice_leaves_nothing() -> None:
    world = World()
    world.promise(2)
    world.promise(3)
    assert judge_unused(world.core.sources[ORDERS], 3, b"a") is Verdict.FORGET


def test_who_gives_a_promise_back_keeps_nobody_out() -> None:
    world = World()
    state = filled(world)
    lives = world.core.identities.lives
    lives.came(Who(ORDERS), Lifetimes(5, 50))
    world.promise(2, instance=b"b", take_over=True)
    assert world.core.identities.protected_for(state, b"c") > 0
    world.core.identities.gave_up(state, 2, b"a")
    assert world.core.identities.protected_for(state, b"c") > 0
    world.core.identities.gave_up(state, 2, b"b")
    assert not world.core.identities.protected_for(state, b"c")


def test_who_takes_a_promise_back_that_followed_a_deletion_lets_nobody_in_that_was_fenced() -> None:
    world = World()
    filled(world)
    bury(world, DEREGISTERED)
    world.core.identities.settled.add(ORDERS)
    world.promise(2, instance=b"b")
    state = world.restarted().core.sources[ORDERS]
    assert judge_unused(state, 2, b"b") is Verdict.LEAVE
    assert judge_source(state, 2) is Verdict.BURY


@pytest.mark.parametrize("cause", [DEREGISTERED, EXPIRED])
def test_who_registers_anew_is_told_what_was_ended(cause: store_v1.Deletion) -> None:
    world = World()
    filled(world)
    bury(world, cause)
    world.core.identities.settled.add(ORDERS)
    assert world.promise(2, instance=b"b").registration.ended_epoch == 1
    world.core.begin(ORDERS, 2, Lineage((Term(2, 0),)), MEMBERSHIP, b"b", INCARNATION)
    assert world.core.sources[ORDERS].registration.ended_epoch == 1


def test_who_was_away_when_a_stream_went_on_knows_up_to_which_epoch_it_was_ended() -> None:
    """Others that were not told may have begun the last ones: none of that counts any more."""
    world = World()
    filled(world)
    bury(world, DEREGISTERED, upto=5)
    world = world.restarted()
    one = tombstone(world)
    assert (one.registration.begun_epoch, ended_epoch(one)) == (1, 5)
    assert not lives_on(one, view(answer("s2", knowledge(begun_epoch=5))))
    assert lives_on(one, view(answer("s2", knowledge(begun_epoch=6))))
    assert brought_back(one)[0].registration.ended_epoch == 0, "it was not ended then"
    world.core.identities.settled.add(ORDERS)
    assert world.promise(6, instance=b"b").registration.ended_epoch == 5


def test_a_store_at_which_nothing_began_says_nothing_of_an_end_that_it_was_told_of() -> None:
    world = World()
    world.promise(1)
    world.promise(2, instance=b"b", take_over=True)
    bury(world, DEREGISTERED, upto=2)
    assert ended_epoch(tombstone(world)) == 0
    world = world.restarted()
    world.core.identities.settled.add(ORDERS)
    assert world.promise(3, instance=b"c").registration.ended_epoch == 0
    world.core.sources[ORDERS].registration = replace(
        world.core.sources[ORDERS].registration, ended_epoch=1
    )
    bury(world, DEREGISTERED, upto=3)
    assert ended_epoch(tombstone(world)) == 1, "another stream was ended before"


@pytest.mark.parametrize("ended", [0, 1])
def test_a_store_that_was_away_when_a_stream_was_ended_follows_the_next_one(ended: int) -> None:
    world = World()
    state = filled(world)
    state.held.stable_upto = 29
    world.promise(2, instance=b"b", take_over=True)
    lineage = Lineage((Term(2, 0),))
    begin = partial(world.core.begin, ORDERS, 2, lineage, MEMBERSHIP, b"b", INCARNATION, ended)
    if not ended:
        with pytest.raises(ContentConflict):
            begin()
        return
    assert world.done(begin()) == 30
    # Who still works on what there was must not speak of what is there now.
    assert world.core.sources[ORDERS] is not state
    assert world.core.streams.learn_stable(state, 29) == ()
    back = world.restarted().core.sources[ORDERS]
    assert (list(back.held.ranges), back.held.stable_upto, back.lineage) == ([], -1, lineage)
    assert back.registration.ended_epoch == 1


@pytest.mark.parametrize("told", [False, True])
def test_nobody_goes_on_with_what_was_deleted_who_was_not_told(told: bool) -> None:
    """A decision may rest on promises that were given before; one that knows of the end stands."""
    old = Lineage((Term(1, 0), Term(2, 30)))
    for anew in (False, True):
        world = World()
        filled(world)
        bury_for_good(world)
        if anew:
            world.promise(2, instance=b"b")
            step = partial(
                world.core.begin, ORDERS, 2, old, MEMBERSHIP, b"b", INCARNATION, int(told)
            )
        else:
            missed = Missed(old, MEMBERSHIP, b"b", None, ended_epoch=int(told))
            step = partial(world.core.adopt, ORDERS, missed)
        if told:
            world.done(step())
            continue
        with pytest.raises(NotRegistered, match="deleted it up to epoch 1"):
            step()
        assert (ORDERS in world.core.identities.tombstones) is not anew


def test_a_begin_that_is_taken_over_does_not_make_forget_what_was_ended() -> None:
    world = World()
    filled(world)
    bury_for_good(world)
    world.done(world.core.adopt(ORDERS, Missed(Lineage((Term(2, 0),)), MEMBERSHIP, b"b", None)))
    assert world.core.sources[ORDERS].registration.ended_epoch == 1


def test_whose_state_was_deleted_while_it_was_away_may_ask_once_more() -> None:
    """It is fenced by nobody, and hears that there is nothing any more."""
    world = World()
    filled(world)
    bury(world)
    assert world.promise(1, instance=b"a").limbo == DELETED_HERE
    world.core.identities.settled.add(ORDERS)
    with pytest.raises(Fenced):
        world.promise(1, instance=b"b")
    again = world.promise(1, instance=b"a")
    assert (again.limbo, again.held, again.registration.ended_epoch) == ("", (), 1)
    with pytest.raises(NotRegistered):
        world.core.begin(ORDERS, 1, FIRST_LINEAGE, MEMBERSHIP, b"a", INCARNATION)


def test_what_is_taken_over_begins_to_live_then() -> None:
    """How long nobody was heard before is not known here."""
    world = World()
    observed = world.core.identities.lives.observed
    for now in range(100):
        observed.look(float(now))
    filled(world)
    bury(world)
    world.core.identities.bring_back(ORDERS, world.core.reg_ids)
    lives = world.core.identities.lives
    lives.of(Who(ORDERS)).asked = Lifetimes(0, 50)
    assert lives.silent(Who(ORDERS)) == 99.0
    assert not lives.overdue(Who(ORDERS))
    for now in range(100, 151):
        observed.look(float(now))
    assert lives.overdue(Who(ORDERS))


def test_a_store_that_was_away_follows_a_deregistration_and_nothing_less() -> None:
    world = World()
    state = filled(world)
    assert deregistered_elsewhere(state, knowledge(deletion=DEREGISTERED), ())
    assert not deregistered_elsewhere(state, knowledge(deletion=EXPIRED), ())
    assert not deregistered_elsewhere(state, knowledge(), ())
    anew = knowledge(promised_epoch=2, begun_epoch=2)
    assert not deregistered_elsewhere(state, knowledge(deletion=DEREGISTERED), (anew,))
    gone = replace(anew, deletion=EXPIRED)
    assert deregistered_elsewhere(state, knowledge(deletion=DEREGISTERED), (gone,))
    world.promise(2, instance=b"b", take_over=True)
    assert not deregistered_elsewhere(state, knowledge(deletion=DEREGISTERED), ())


async def test_that_a_receiver_is_over_no_store_says_it_heard_that_will_not_remember() -> None:
    """It may give the source back, and then others count on it."""
    world = World()
    filled(world)
    bury(world)
    with pytest.raises(InLimbo):
        await keeping(world).deregister(ORDERS, 0x20, 1, b"")
    world.core.identities.settled.add(ORDERS)
    assert (await keeping(world).deregister(ORDERS, 0x20, 1, b"")).last_sequence == -1


async def test_no_deregistration_leaves_the_next_instance_without_an_epoch() -> None:
    world = World()
    filled(world)
    far = 1 + EPOCH_STEP_MAX + 1
    for receiver in (0, 0x20):
        with pytest.raises(EpochTooFar):
            await keeping(world).deregister(ORDERS, receiver, far, b"")
    bury(world)
    with pytest.raises(EpochTooFar):
        await keeping(world).deregister(ORDERS, 0, far, b"")


def test_a_deletion_becomes_a_deregistration_when_its_owner_says_so() -> None:
    world = World()
    filled(world)
    bury(world)
    with pytest.raises(Fenced):
        world.core.identities.deregistered(ORDERS, 0, 2.0)
    world.write(world.core.identities.deregistered(ORDERS, 4, 2.0))
    after = tombstone(world.restarted())
    assert (after.cause, after.registration.promised_epoch) == (DEREGISTERED, 4)


# Strong RegIDs.


def test_another_instance_is_refused_while_the_one_before_is_protected() -> None:
    world = World()
    state = filled(world)
    lives = world.core.identities.lives
    lives.came(Who(ORDERS), Lifetimes(30, 0))
    assert not world.core.identities.protected_for(state, b"a")
    assert world.core.identities.protected_for(state, b"b") > 0
    lives.left(Who(ORDERS), willingly=True)
    assert not world.core.identities.protected_for(state, b"b")


def test_its_own_signs_of_life_keep_nobody_out_who_was_fenced_by_one_that_came_to_nothing() -> None:
    world = World()
    world.stream()
    world.core.sources[ORDERS].stream = None
    world.promise(2, b"b")
    world.core.identities.lives.came(Who(ORDERS), Lifetimes(30, 0))
    with pytest.raises(SourceActive):
        world.promise(3, b"c")
    assert world.promise(3, b"a", decided_epoch=1).registration.promised_to == b"a"
