"""When a store that deleted a source vouches for what it lacks of it, and when it gives it back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.store.deleted import (
    DEREGISTERED,
    EXPIRED,
    POLICY,
    Heardsay,
    answer,
    buried,
    bury,
    bury_for_good,
    filled,
    keeping,
    keeping_with,
    knowledge,
    promised_only,
    tombstone,
    view,
)
from tests.store.support import FIRST_LINEAGE, ORDERS, World

from quorate.protocol.errors import DELETED_HERE, Fenced
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import Range
from quorate.protocol.wire import membership_to_wire
from quorate.store.rules import source_tombstones
from quorate.store.rules.identity_records import Tombstone
from quorate.store.rules.lifetimes import Owner
from quorate.store.rules.peer_knowledge import (
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.source_tombstones import (
    View,
    awaited,
    begun_anew,
    deregistered_since,
    gone_everywhere,
    is_heard_of,
    lives_on,
    may_expire,
)
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


def settled(one: Tombstone, seen: View) -> bool:
    """As far as the answers of one time say."""
    return source_tombstones.settled(one, seen, gone_everywhere(one, seen))


def test_it_is_settled_when_all_others_have_deleted_it_too() -> None:
    one = buried()
    gone = knowledge(deletion=EXPIRED, limbo=True)
    assert settled(one, view(answer("s2"), answer("s3", gone)))
    assert not settled(one, view(answer("s2")))
    assert not settled(one, view(answer("s2"), answer("s3", knowledge())))


def test_it_is_settled_at_once_if_nothing_ever_began_here() -> None:
    """It remembers the promise, and that is all that there was: nobody waits for it in limbo."""
    world = World()
    promised_only(world)
    assert settled(tombstone(world), view(complete=False))
    assert not settled(replace(tombstone(world), blind=True), view(complete=False))
    assert not settled(buried(), view(complete=False))
    with pytest.raises(Fenced):
        world.promise(2, instance=b"b")


def test_it_says_for_whom_it_waits() -> None:
    one = buried()
    gone = knowledge(deletion=EXPIRED, limbo=True)
    assert awaited(one, view()) == "these have not been heard since: s2, s3"
    assert awaited(one, view(answer("s2", gone))) == "these have not been heard since: s3"
    has = awaited(one, view(answer("s2", limbo=True), answer("s3", knowledge())))
    assert has == "these still have it: s3; these are in limbo: s2"
    blind = replace(one, blind=True)
    assert awaited(blind, view(answer("s2"), answer("s3"), answer("s4", knowledge()))) == (
        "these still have it: s4"
    )
    assert awaited(blind, view(answer("s2"), answer("s3"), complete=False)) == (
        "not every peer has been heard since"
    )


async def test_a_store_that_was_put_back_has_to_hear_of_its_deletions_anew() -> None:
    """Another stream may have begun here since, and ended in what the copy lacks."""
    world = World()
    filled(world)
    bury_for_good(world)
    assert not world.core.limbo_without(ORDERS)
    world.done(world.core.enter_limbo("it was put back", b"another"))
    assert world.core.limbo_without(ORDERS) == DELETED_HERE
    assert world.restarted().core.identities.tombstones[ORDERS].blind
    anew = answer("s2", knowledge(begun_epoch=0, promised_epoch=3, ended_epoch=1))
    assert not settled(tombstone(world), view(anew, answer("s3", limbo=True)))
    assert settled(tombstone(world), view(anew, answer("s3")))


@pytest.mark.parametrize(
    "other", [answer("s3", limbo=True), answer("s3", knowledge(limbo=True, begun_epoch=0))]
)
def test_a_store_in_limbo_is_no_evidence_of_absence(other: PeerAnswer) -> None:
    unsure = answer("s2", limbo=True)
    for cause in (EXPIRED, DEREGISTERED):
        assert not gone_everywhere(buried(cause), view(unsure, other))
    assert not settled(buried(), view(unsure, other))


def test_a_store_that_lost_everything_need_not_be_waited_for_if_the_rest_knows_all() -> None:
    wiped = answer("s3", limbo=True)
    assert gone_everywhere(buried(), view(answer("s2"), wiped))
    assert not gone_everywhere(buried(), view(answer("s2", knowledge()), wiped))
    assert not gone_everywhere(replace(buried(), blind=True), view(answer("s2"), wiped))
    still = answer("s3", knowledge(limbo=True), limbo=True)
    assert not gone_everywhere(buried(), view(answer("s2"), still))


HEARD = knowledge(owner=Owner.HEARD)
SILENT = knowledge(owner=Owner.SILENT)
GONE = knowledge(deletion=EXPIRED, limbo=True)


@pytest.mark.parametrize(
    ("said", "complete", "may"),
    [
        ((answer("s2", SILENT),), False, True),
        ((answer("s2", GONE),), False, True),
        ((answer("s2"),), False, True),
        ((answer("s2", knowledge()),), False, False),
        ((answer("s2", limbo=True),), False, False),
        ((), False, False),
        ((answer("s2", SILENT), answer("s3", HEARD)), True, False),
        ((answer("s2", SILENT), answer("s3", knowledge())), True, True),
        ((answer("s2", SILENT), answer("s9", HEARD)), True, True),
        ((answer("s9", SILENT),), True, True),
        ((), True, True),
    ],
)
def test_a_source_expires_once_a_blocking_set_or_all_have_heard_nothing(
    said: tuple[PeerAnswer, ...], complete: bool, may: bool
) -> None:
    """A store that the source does not name has no say in it while the others suffice."""
    assert may_expire(buried().registration, view(*said, complete=complete)) == may


def test_a_deregistration_is_settled_once_nobody_can_miss_it() -> None:
    told = knowledge(deletion=DEREGISTERED, limbo=True)
    still = answer("s3", knowledge())
    assert settled(buried(DEREGISTERED), view(answer("s2", told), still))
    assert not gone_everywhere(buried(DEREGISTERED), view(answer("s2", told), still))
    assert not settled(buried(DEREGISTERED), view(still))
    assert not settled(buried(EXPIRED), view(answer("s2", told), still))
    expired = knowledge(deletion=EXPIRED, limbo=True)
    assert not settled(buried(DEREGISTERED), view(answer("s2", expired), still))
    next_one = replace(buried(DEREGISTERED), deleted_upto=2)
    assert not settled(next_one, view(answer("s2", replace(told, promised_epoch=2)), still))
    assert settled(next_one, view(answer("s2", replace(told, deleted_upto=2)), still))


def test_who_had_no_part_in_what_was_deregistered_tells_nobody_of_the_end() -> None:
    """Its own word vouches for nothing but that: who told it may have been fenced elsewhere."""
    no_part = knowledge(deletion=DEREGISTERED, begun_epoch=0, promised_epoch=1, deleted_upto=1)
    still = answer("s3", knowledge())
    assert not settled(buried(DEREGISTERED), view(answer("s2", no_part), still))
    assert settled(buried(DEREGISTERED), view(answer("s2", no_part), answer("s3")))


def test_who_began_what_this_store_missed_names_the_policies_that_are_in_force() -> None:
    five = Policy.majority_of(["s1", "s2", "s3", "s4", "s5"])
    moved = knowledge(deletion=DEREGISTERED, begun_epoch=2, membership=Membership((five,), (five,)))
    one = replace(buried(DEREGISTERED), deleted_upto=2)
    assert not settled(one, view(answer("s2", moved)))
    assert settled(one, view(answer("s2", moved), answer("s4", moved)))
    kept = replace(moved, membership=Membership((POLICY,), (POLICY,)))
    assert settled(one, view(answer("s2", kept)))
    assert not settled(one, view(answer("s2", replace(moved, membership=None))))


def test_who_was_away_when_the_stores_changed_asks_those_that_have_it_now() -> None:
    """It may be the last to hear of a deletion that others were told of by one alone."""
    new = Policy.majority_of(["s4", "s5", "s6"])
    moved = knowledge(deletion=DEREGISTERED, begun_epoch=2, membership=Membership((new,), (new,)))
    one, left = buried(DEREGISTERED), (answer("s2"), answer("s3"))
    assert settled(one, view(*left))
    assert not settled(one, view(*left, answer("s4", moved)))
    assert awaited(one, view(*left, answer("s4", moved))).endswith("s5, s6")
    assert settled(one, view(*left, answer("s4", moved), answer("s5"), answer("s6")))
    streams = knowledge(live=True)
    assert not lives_on(one, view(*left, answer("s5", streams)))
    assert lives_on(one, view(answer("s4", moved), answer("s5", streams)))


def test_what_is_settled_is_not_so_any_more_once_a_later_epoch_is_over() -> None:
    world = World()
    filled(world)
    bury(world, DEREGISTERED, upto=1)
    identities = world.core.identities
    identities.settled.add(ORDERS)
    identities.unlisted.add(ORDERS)
    world.write(identities.deregistered(ORDERS, 1, 2.0))
    assert ORDERS in identities.settled & identities.unlisted
    world.write(identities.deregistered(ORDERS, 2, 2.0))
    assert ORDERS not in identities.settled | identities.unlisted
    assert world.core.limbo_without(ORDERS) == DELETED_HERE
    earlier = answer("s2", knowledge(begun_epoch=2, promised_epoch=3, ended_epoch=1))
    for each in (world, world.restarted()):
        assert each.core.limbo_without(ORDERS) == DELETED_HERE
        assert not settled(tombstone(each), view(earlier, replace(earlier, store="s3")))


def test_what_expired_stays_settled_when_its_owner_says_that_it_is_over() -> None:
    world = World()
    filled(world)
    bury(world)
    world.core.identities.settled.add(ORDERS)
    world.write(world.core.identities.deregistered(ORDERS, 1, 2.0))
    assert ORDERS in world.core.identities.settled


def test_it_is_settled_if_it_was_so_where_the_source_registered_anew() -> None:
    """A store that restarts has forgotten that; and a peer may be in limbo, and wait for it."""
    anew = answer("s2", knowledge(begun_epoch=0, promised_epoch=3, ended_epoch=1))
    unsure = answer("s3", knowledge(limbo=True))
    assert settled(buried(), view(anew, unsure))
    assert settled(buried(DEREGISTERED), view(anew, unsure))
    assert not settled(replace(buried(), blind=True), view(anew, unsure))
    former = answer("s2", knowledge(begun_epoch=0, promised_epoch=3, ended_epoch=0))
    assert not settled(buried(), view(former, unsure))


@pytest.mark.parametrize("rule", [IntragroupRule.ALL_ACTIVE, IntragroupRule.ALL])
def test_it_is_not_while_the_rest_is_a_blocking_set_too(rule: IntragroupRule) -> None:
    policy = Policy((Group("stores", ("s1", "s2"), rule),))
    assert policy.blocks({"s1"})
    assert policy.blocks({"s2"})
    one = buried(DEREGISTERED)
    membership = membership_to_wire(Membership((policy,), (policy,)))
    one = replace(one, registration=replace(one.registration, membership=membership))
    assert not settled(one, view(answer("s2", knowledge())))
    assert not settled(one, view())
    told = knowledge(deletion=DEREGISTERED, limbo=True)
    assert settled(one, view(answer("s2", told)))


def test_who_was_in_limbo_itself_needs_to_hear_everybody() -> None:
    blind = replace(buried(DEREGISTERED), blind=True)
    others = (answer("s2"), answer("s3"))
    assert settled(blind, view(*others))
    assert not settled(blind, view(*others, complete=False))
    assert not settled(blind, view(*others, answer("s4", knowledge())))


def test_it_lives_on_where_it_streams_or_has_begun_a_newer_epoch() -> None:
    one = buried()
    assert not lives_on(one, view(answer("s2", knowledge())))
    assert lives_on(one, view(answer("s2", knowledge(live=True))))
    assert lives_on(one, view(answer("s2", knowledge(begun_epoch=2))))
    assert not lives_on(one, view(answer("s2", knowledge(begun_epoch=2, deletion=EXPIRED))))


def test_one_that_expired_is_back_where_its_owner_is_heard_of() -> None:
    assert is_heard_of(buried(), view(answer("s2", HEARD)))
    assert not is_heard_of(buried(), view(answer("s2", SILENT), answer("s3", knowledge())))
    for other in (
        replace(HEARD, deletion=EXPIRED),
        replace(HEARD, begun_epoch=0),
        replace(HEARD, ended_epoch=1),
    ):
        assert not is_heard_of(buried(), view(answer("s2", other)))
    assert not is_heard_of(buried(DEREGISTERED), view(answer("s2", HEARD)))


def test_the_word_of_a_store_that_the_source_left_behind_brings_nothing_back() -> None:
    """The others settle it without asking that one: who followed it would go on alone."""
    back = replace(HEARD, live=True)
    left_behind = view(answer("s2"), answer("s3"), answer("s9", back))
    assert gone_everywhere(buried(), left_behind)
    assert not is_heard_of(buried(), left_behind)
    assert not lives_on(buried(), left_behind)
    unsure = replace(buried(), blind=True)
    assert is_heard_of(unsure, left_behind)
    assert lives_on(unsure, left_behind)
    record = replace(buried().registration, membership=v1.Membership())
    assert is_heard_of(replace(buried(), registration=record), left_behind), "who knows?"
    policy = Policy.majority_of(["s1", "s9"])
    for named in (
        membership_to_wire(Membership((policy,), (Policy.majority_of(["s1", "s2"]),))),
        membership_to_wire(Membership((), (policy, Policy.majority_of(["s1", "s2"])))),
    ):
        moving = replace(buried(), registration=replace(buried().registration, membership=named))
        assert not gone_everywhere(moving, left_behind), "it is asked"
        assert is_heard_of(moving, left_behind), "and believed"
        assert lives_on(moving, left_behind)
    moved = answer("s9", replace(back, begun_epoch=2, live=False))
    assert lives_on(buried(), view(moved)), "it has moved there since"


def named(one: Tombstone, policy: Policy | None, *stores: str) -> Tombstone:
    """The same of a source that began with this policy, and named these stores when it was heard
    last."""
    record = replace(
        one.registration,
        membership=membership_to_wire(Membership((policy,), (policy,))) if policy else None,
        information=v1.SourceInformation(
            epoch=1, version=2, stores=[v1.StoreEntry(name=store) for store in stores]
        ),
    )
    return replace(one, registration=record)


def test_nobody_waits_for_a_store_that_only_old_information_of_the_source_names() -> None:
    """It left that one, which may be switched off since, and was not heard any more."""
    gone = knowledge(deletion=EXPIRED, limbo=True)
    deleted = view(answer("s2", gone), answer("s3", gone))
    one = named(buried(), POLICY, "s1", "s2", "s3", "s9")
    assert gone_everywhere(one, deleted)
    assert awaited(one, deleted) == ""
    back = answer("s9", replace(HEARD, live=True))
    left = view(answer("s2", gone), answer("s3", gone), back)
    assert gone_everywhere(one, left)
    assert not lives_on(one, left), "who is not asked is not believed"
    assert not is_heard_of(one, left)


def test_a_member_that_a_backup_stands_in_for_is_waited_for() -> None:
    """It takes the stream, too, and gets its place back; a spare that is not needed has nothing."""
    gone = knowledge(deletion=EXPIRED, limbo=True)
    policy = Policy((Group("stores", ("s1", "s2", "s4"), backups=("s3", "s5")),))
    deleted = view(answer("s2", gone), answer("s4", gone))
    one = named(buried(), policy, "s1", "s2", "s3", "s4")
    assert awaited(one, deleted) == "these have not been heard since: s3"
    has = view(*deleted.peers.values(), answer("s3", knowledge(live=True)))
    assert awaited(one, has) == "these still have it: s3"
    assert lives_on(one, has)


def test_without_a_record_the_stores_that_the_source_named_are_waited_for() -> None:
    one = named(buried(), None, "s1", "s2")
    assert awaited(one, view()) == "these have not been heard since: s2"


@pytest.mark.expects_log("lives on elsewhere")
async def test_one_that_is_heard_of_is_back_unless_all_had_deleted_it_before() -> None:
    world = World()
    filled(world)
    bury(world)
    looking = keeping(world, answer("s2", HEARD), answer("s3", limbo=True))
    await looking.look(0.0)
    back = world.core.sources[ORDERS]
    assert (back.limbo, list(back.held.ranges)) == ("", [Range(0, 29)])
    bury(world)
    world.core.identities.settled.add(ORDERS)
    await looking.look(1.0)
    assert ORDERS in world.core.identities.tombstones


def test_one_that_begins_anew_elsewhere_comes_back_with_nothing() -> None:
    world = World()
    state = filled(world)
    state.held.stable_upto = 29
    world.write(world.core.identities.end_receiver(state, 0x20, 1, world.core.reg_ids))
    bury(world)
    other = answer("s2", knowledge(begun_epoch=2, lineage=Lineage((Term(2, 0),))))
    same = answer("s2", knowledge(begun_epoch=2, lineage=FIRST_LINEAGE.extended(29, 2)))
    assert begun_anew(tombstone(world), view(other))
    assert not begun_anew(tombstone(world), view(same))
    for _ in range(2):
        world.write(world.core.identities.purge(ORDERS, world.storage, 9, world.core.reg_ids))
    back, writes = world.core.identities.bring_back(ORDERS, world.core.reg_ids, anew=True)
    world.write(writes)
    assert (back.registration.begun_epoch, back.held.stable_upto, back.limbo) == (0, -1, "")
    assert back.ended == {}, "a receiver may be there with the same epoch"
    assert world.restarted().core.sources[ORDERS].registration.promised_epoch == 1


@pytest.mark.expects_log("lives on elsewhere")
async def test_what_was_ended_does_not_come_back_when_the_next_one_is_over_too() -> None:
    """The store had no part in that, and was told all the same; a peer still hears its source."""
    world = World()
    filled(world)
    bury(world, DEREGISTERED, upto=1)
    world.write(world.core.identities.deregistered(ORDERS, 2, 2.0))
    lineage = Lineage((Term(2, 0),))
    told = knowledge(promised_epoch=2, begun_epoch=2, lineage=lineage, live=True)
    anew, went_on = replace(told, ended_epoch=1), replace(told, lineage=FIRST_LINEAGE)
    assert begun_anew(tombstone(world), view(answer("s2", anew)))
    gone = replace(anew, deletion=DEREGISTERED)
    assert begun_anew(tombstone(world), view(answer("s2", gone), answer("s3", told)))
    assert not begun_anew(tombstone(world), view(answer("s2", went_on)))
    await keeping(world, answer("s2", anew), answer("s3")).look(3.0)
    back = world.core.sources[ORDERS]
    assert (back.registration.begun_epoch, list(back.held.ranges), back.limbo) == (0, [], "")
    assert back.registration.promised_epoch == 2


async def test_what_peers_said_before_it_was_deregistered_again_brings_nothing_back() -> None:
    """Also if that says of what had expired that it was wanted. To be told twice is no news."""
    world = World()
    filled(world)
    bury(world)
    heard, now = Heardsay(), 10.0
    heard.hear(answer("s2", knowledge(live=True)), 9.0)
    looking = keeping_with(world, heard, lambda: now)
    await looking.deregister(ORDERS, 0, 1, b"")
    now = 11.0
    await looking.look(now)
    assert ORDERS in world.core.identities.tombstones
    await looking.deregister(ORDERS, 0, 1, b"")
    assert world.core.identities.buried_at[ORDERS] == 10.0
    await looking.deregister(ORDERS, 0, 2, b"")
    assert world.core.identities.buried_at[ORDERS] == 11.0


async def test_it_is_settled_only_by_what_all_said_of_one_time() -> None:
    """One may have given the source back since it answered, and another taken it up and deleted
    it."""
    world = World()
    filled(world)
    bury(world)
    gone, heard, now = knowledge(deletion=EXPIRED, limbo=True), Heardsay(), 10.0
    heard.hear(answer("s2", gone), 2.0)
    heard.hear(answer("s3", gone), 8.0)
    looking = keeping_with(world, heard, lambda: now)

    async def is_settled(s2: SourceKnowledge) -> bool:
        nonlocal now
        heard.hear(answer("s2", s2), now + 1.0)
        heard.hear(answer("s3", gone), now + 2.0)
        now += 10.0
        await looking.look(now)
        return ORDERS in world.core.identities.settled

    await looking.look(now)
    assert not world.core.identities.settled, "the answers are of different times"
    assert not await is_settled(knowledge())
    assert not await is_settled(gone), "what was said before counts no more"
    assert await is_settled(gone)


# What came while the store was away.


def test_who_lost_what_it_may_have_had_need_not_be_waited_for() -> None:
    """It is in limbo for the source, of which it knows a promise. The rest knows what counts."""
    unsure = answer("s3", knowledge(begun_epoch=0, limbo=True))
    assert settled(buried(), view(answer("s2"), unsure))
    assert not settled(buried(), view(answer("s2", limbo=True), unsure)), "the rest is not enough"
    assert not settled(replace(buried(), blind=True), view(answer("s2"), unsure))
    held = answer("s3", knowledge(limbo=True))
    assert not settled(buried(), view(answer("s2"), held)), "it still has a part of it"
    both = awaited(buried(), view(answer("s2"), unsure))
    assert both == "these are in limbo: s3"


def later(**changes: Any) -> SourceKnowledge:
    """A peer that began epoch 3, and was told that it is over."""
    told = {"begun_epoch": 3, "promised_epoch": 3, "deleted_upto": 3, "limbo": True}
    return knowledge(**{"deletion": DEREGISTERED, **told, **changes})


def test_that_the_next_stream_was_deregistered_meanwhile_is_told_by_peers() -> None:
    one = buried(DEREGISTERED)
    assert deregistered_since(one, view(answer("s2", later()))) == 3
    assert deregistered_since(buried(), view(answer("s2", later()))) == 3
    known = replace(one, deleted_upto=3)
    assert deregistered_since(known, view(answer("s2", later()))) == 0, "that is no news"
    assert deregistered_since(replace(one, blind=True), view(answer("s2", later()))) == 0


@pytest.mark.parametrize(
    "untrue",
    [
        {"deletion": EXPIRED},
        {"begun_epoch": 0},
        {"deleted_upto": 0},
    ],
)
def test_nobody_else_says_that_a_stream_was_deregistered(untrue: dict[str, Any]) -> None:
    assert deregistered_since(buried(), view(answer("s2", later(**untrue)))) == 0


def test_a_stream_that_goes_on_was_not_deregistered() -> None:
    for known in (knowledge(live=True), knowledge(begun_epoch=4)):
        assert deregistered_since(buried(), view(answer("s2", later()), answer("s3", known))) == 0
    left = answer("s3", knowledge(begun_epoch=3))
    assert deregistered_since(buried(), view(answer("s2", later()), left)) == 3


def test_a_store_that_promised_more_since_takes_no_older_end() -> None:
    one = buried()
    record = replace(one.registration, promised_epoch=4)
    more = replace(one, registration=record)
    assert deregistered_since(more, view(answer("s2", later()))) == 0


@pytest.mark.parametrize("cause", [DEREGISTERED, EXPIRED])
async def test_stores_that_the_source_has_moved_to_may_have_names_that_are_not_known(
    cause: store_v1.Deletion,
) -> None:
    """The stream moved from s1, s2 and s3 to s1, s4 and s5 while this one was away: by the names
    that its addresses are."""
    world = World()
    filled(world)
    bury(world, cause, upto=3 if cause == DEREGISTERED else 0)
    moved = Policy.majority_of(["s1", "four:1", "five:1"])
    addresses = {"s1": "s1:1", "four:1": "s4:1", "five:1": "s5:1"}
    entries = [v1.StoreEntry(name=name, address=each) for name, each in addresses.items()]
    known = later(
        deletion=cause,
        membership=Membership((moved,), (moved,)),
        information=v1.SourceInformation(epoch=3, version=1, stores=entries),
        lineage=FIRST_LINEAGE.extended(29, 3),
    )
    left = later(deletion=cause, begun_epoch=1, promised_epoch=1)
    peers = [answer("s4", known), answer("s5", known), answer("s2", left), answer("s3", left)]
    kept = keeping(world, *peers)
    for now in range(3):
        await kept.look(float(now))
    assert ORDERS in world.core.identities.settled
