"""Streams that were deleted, as their time was over, while somebody still works on them.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import pytest
from tests import seams
from tests.simulation.endings import Mortality
from tests.simulation.guards import Guard
from tests.simulation.rules import Party, Setup, majority_of
from tests.simulation.script import Free, Script, play
from tests.simulation.source_actor import SourceInstance
from tests.simulation.test_scripts import ALL, NEW, A, B, C, D, E, _begin

from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import SourceDeleted
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.recovery import Decision
from quorate.protocol.wire import membership_from_wire
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.registration import (
    Phase,
)
from quorate.store.rules.identity_records import Tombstone
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Who,
)
from quorate.store.rules.readmission import (
    Adoption,
    Ask,
    Stay,
)
from quorate.store.rules.source_tombstones import (
    View,
    gone_everywhere,
)
from quorate.store.storage import records
from quorate.store.tasks.lifecycle import Keeper

MORTAL = {"mortality": Mortality(Lifetimes(0.0, 20.0))}

F = "store6"


def _pair(*stores: str) -> Setup:
    return Setup((Party("stores", stores, "all-active"),))


def _first_settled(script: Script, *stores: str) -> str:
    """The first of these that finds that the source is deleted everywhere."""
    source = script.checker.source

    def settled() -> list[str]:
        return [each for each in stores if source in script.stores[each].core.identities.settled]

    script.until(settled)
    (first,) = settled()
    return first


def _until_deleted(script: Script) -> None:
    """Every store has deleted the source, and vouches for that."""

    def settled(store: str) -> bool:
        return script.checker.source in script.stores[store].core.identities.settled

    script.until(lambda: all(map(settled, ALL)))


def _until_told(script: Script, source: SourceInstance) -> None:
    """Its application hears that there is nothing any more to go on with, and begins anew."""
    script.until(lambda: isinstance(source.core.error, SourceDeleted))
    script.restart_source()


def _ends_are_not_told(to: pytest.MonkeyPatch) -> None:
    """A source takes what was deleted for what is missing, and may be found yet."""
    seams.ENDED_UPTO_IN_SOURCE_REGISTRATION.replace(to, lambda _: 0)


def _cut_off_while_all_is_deleted(script: Script) -> None:
    """The source lives, and reaches no store until its state lifetime is over."""
    _begin(script)
    free = script.cut("source1", *ALL)
    _until_deleted(script)
    free()
    _until_told(script, script.source)


def _begins_go_on_with_what_was_deleted(to: pytest.MonkeyPatch) -> None:
    """A store begins whatever was decided, also before it deleted the stream.

    A source that hears of the end decides anew by itself, so that this matters only for what it has
    sent before: both are taken out together.
    """
    seams.CHECK_NOT_ENDED_IN_ACCEPTOR.replace(to, lambda *_: None)
    seams.SOURCE_REGISTRATION_WAS_DECIDED_WITHOUT.replace(to, lambda *_: False)


def _decided_before_all_is_deleted(script: Script) -> None:
    """The second source has decided by what A and B promised. All three delete the stream before
    they hear of that, and then only C does, which promises as well."""
    _begin(script)
    script.source.kill()
    second = script.start_source(C)
    script.until_decided(second, lambda: script.cut("source2", *ALL))
    _until_deleted(script)
    assert second.core.epoch == 2, "it has not given up yet"
    script.network.heal()
    script.cut("source2", A, B)
    script.until(lambda: script.knows(C) and script.promised(C) == 2)
    script.run(0.1)
    script.network.heal()
    _until_told(script, second)


def _copies_trust_their_tombstones(to: pytest.MonkeyPatch) -> None:
    """A store that was put back vouches for what it lacks of a source that it once deleted."""
    seams.IDENTITIES_ENTER_LIMBO.replace(to, lambda _: [])


def _put_back_to_before_it_began_anew(script: Script) -> None:
    """All delete the stream, and A is copied. The next stream has 0 on A and B, and C lacks all of
    it. A is put back, and the third source reaches A and C alone."""
    _begin(script)
    script.source.kill()
    _until_deleted(script)
    copy = script.copy(A)
    script.start_source(C)
    script.cut(C, A, B)
    script.until_complete()
    assert script.send_stable() == 0
    script.until(lambda: script.stores[B].remembers_more(script.stores[A], copy))
    script.source.kill()
    script.put_back(A, copy, B)
    script.network.heal()
    script.stores[A].start()
    standing = script.stores[A].core.standing
    script.until(lambda: standing.record.limbo)
    script.until(lambda: not standing.limbo)
    script.cut(B, A, C)
    script.start_source(B)
    script.run(0.5)


def _deletions_of_different_times_are_one(to: pytest.MonkeyPatch) -> None:
    """A source is gone everywhere if each store has said so last, whenever that was."""

    def is_gone(_: Keeper, __: SourceName, tombstone: Tombstone, view: View) -> bool:
        return gone_everywhere(tombstone, view)

    seams.KEEPER_IS_GONE_AT_ONCE.replace(to, is_gone)


def _keep_alive(script: Script, stores: set[str]) -> None:
    """As long as they are named these stores hear of the source, and do not let it expire."""
    for name in stores:
        if script.knows(name):
            script.stores[name].core.identities.lives.heard(Who(script.checker.source))
            script.endings.sign(name)
    script.world.later(0.1, lambda: _keep_alive(script, stores))


def _given_back_while_another_deletes_it(script: Script) -> None:
    """1 is stable on A and B, which let the source expire, and C lacks it. A hears that of B; what
    B says later is late. B gives it back for the second source, which goes on with B and C. C knows
    that A has deleted it, and lets that expire as well, and A hears it. Then the third source
    reaches A and C alone."""
    _begin(script)
    source = script.checker.source
    kept = {C}
    _keep_alive(script, kept)
    script.cut("source1", C)
    assert script.send_stable() == 1
    script.source.kill()
    script.cut(C, B)
    script.mute(A, C)
    script.until(lambda: not script.knows(A) and not script.knows(B))
    a = script.stores[A]

    def has_heard_it_of_b() -> bool:
        heard = a.upkeep.peers.answering().get(B)
        is_news = heard and heard.asked > a.core.identities.buried_at[source]
        return bool(is_news and heard and heard.answer.sources[source].deletion)

    script.until(has_heard_it_of_b)
    script.withhold(A, C)
    script.network.heal()
    script.mute(B, A)
    ask_c = script.mute(A, C)
    kept.add(B)
    second = script.start_source(A)
    script.until(lambda: all(map(second.core.registration.has_begun, (B, C))))
    script.cut("source2", C)
    script.cut(C, B)
    kept.remove(C)
    script.until(lambda: not script.knows(C))
    ask_c()
    script.run(1.2)
    script.network.heal()
    script.mute(B, A)
    script.cut(C, A)
    script.cut("source2", A, C)
    script.until(lambda: script.knows(C))
    script.cut(B, A, C)
    second.kill()
    kept.add(C)
    script.network.heal()
    script.cut(B, A, C)
    script.start_source(B)
    script.run(0.6)


def _new_streams_begin_with_nothing(to: pytest.MonkeyPatch) -> None:
    """Where stores know of no stream, what a publish store kept of one is not sent again."""
    real = seams.SOURCE_CORE_BEGIN.real()

    def begin(self: SourceCore, decision: Decision) -> None:
        if decision.kept_upto == NOTHING:
            self._unstable = []
        real(self, decision)

    seams.SOURCE_CORE_BEGIN.replace(to, begin)


def _found_stable_by_others_and_deleted(script: Script) -> None:
    """The source ends before it hears that 0 is stable. A proxy finds that out, and then all stores
    let the stream expire. The next source has 0 in its publish store, and sends it again."""
    script.until_complete()
    for store in ALL:
        script.mute(store, "source1")
    assert script.send(*ALL) == 0
    script.source.kill()
    script.until(lambda: script.checker.stable_contents)
    _until_deleted(script)
    script.start_source()
    script.until_complete()


def _ended_streams_count(to: pytest.MonkeyPatch) -> None:
    """A source goes on with what a store has of a stream that was ended elsewhere."""
    seams.RECOVERY_WITHOUT_ENDED.replace(to, dict)
    seams.WITHOUT_ENDED_IN_SOURCE_REGISTRATION.replace(to, dict)


def _deregistered_while_one_was_away(script: Script) -> None:
    """1 is stable on B and C, and A lacks it. The source is deregistered at B and C. The next one
    reaches A and B, of which one has 0 and the other nothing; A hears of no other store."""
    _begin(script)
    script.cut(A, B, C, script.source.process.name)
    assert script.send_stable() == 1
    script.source.deregister()
    source = script.checker.source
    script.until(lambda: source in script.stores[B].core.identities.settled)
    script.source.kill()
    script.start_source(C)
    script.until_complete()


def _whoever_has_it_is_believed(to: pytest.MonkeyPatch) -> None:
    """A store gives back what it deleted at the word of one that the source has left behind. So the
    deletion is never settled while that one is heard."""
    seams.SOURCE_TOMBSTONES_BELIEVED.replace(to, lambda _, view: view.peers.keys())


def _at_the_word_of_one_left_behind(script: Script) -> None:
    """The source has moved from A and B to B and D. These delete it, and one of them finds that so.
    A is asked for it, and the other one, which hears only A by now, is told so. Then B and D are
    asked."""
    _keep_alive(script, {A})
    script.until_complete()
    assert script.send(A, B) == 0
    script.source.kill()
    script.sources.change_setup(1)
    second = script.start_source()
    script.until(lambda: second.core.registration.final and second.core.complete)
    second.kill()
    third = script.start_source()  # it knows only these
    script.until_complete()
    assert script.send(B, D) == 1
    assert script.send_stable() == 2
    third.kill()
    found = _first_settled(script, B, D)
    free = script.cut(B, D)
    fourth = script.start_source(found)
    script.run(1.0)
    fourth.kill()
    free()
    script.network.heal()
    script.start_source()
    script.until_complete()


def _only_where_it_goes_is_believed(to: pytest.MonkeyPatch) -> None:
    """A store asks all that have a part of what it deleted, and believes only those of the newest
    policy."""

    def believed(tombstone: Tombstone, _: View) -> Set[str]:
        membership = tombstone.registration.membership
        assert membership is not None
        return membership_from_wire(membership).to_policies[-1].stores

    seams.SOURCE_TOMBSTONES_BELIEVED.replace(to, believed)


def _expired_in_the_middle_of_a_move(script: Script) -> None:
    """The source dies while it moves from A, B and C to A, B and D. All but C, which they do not
    hear, let it expire; then it is back."""
    kept = {C}
    _keep_alive(script, kept)
    _begin(script)
    script.source.kill()
    script.sources.change_setup(1)
    second = script.start_source()
    moving = (A, B, C, D)
    script.until(lambda: all(script.knows(each) and script.begun(each) == 2 for each in moving))
    second.kill()
    free = script.cut(C, A, B, D)
    script.until(lambda: not any(map(script.knows, (A, B, D))))
    free()
    script.start_source()
    script.run(1.0)
    kept.clear()
    script.until_complete()


def _whoever_was_named_is_waited_for(to: pytest.MonkeyPatch) -> None:
    """A store waits for all that the source named when it was heard last."""
    real = seams.SOURCE_TOMBSTONES_OTHERS.real()

    def others(record: records.Registration, me: str) -> Any:
        information = record.information
        named = information.stores if information is not None else ()
        return real(record, me) | {store.name for store in named} - {me}

    seams.SOURCE_TOMBSTONES_OTHERS.replace(to, others)


def _switched_off_before_all_know_that_they_were_left(script: Script) -> None:
    """The source has moved from A and B to C and D, and dies before A and B have heard so: what it
    told C and D names these, too. They are switched off. C and D let the source expire; then it is
    back."""
    script.until_complete()
    script.source.kill()
    script.sources.change_setup(1)
    second = script.start_source()
    registration = second.core.registration
    script.until(lambda: registration.final and registration.phase is Phase.CONFIRMING)
    script.cut("source2", A, B)

    def names_all(store: str) -> bool:
        information = script.state(store).registration.information
        assert information is not None
        is_news = information.epoch == second.core.epoch
        return is_news and {each.name for each in information.stores} == {A, B, C, D}

    script.until(lambda: names_all(C) and names_all(D))
    second.kill()
    assert script.checker.retires({A, B}, script.sources.to_come)
    for store in (A, B):
        script.stores[store].crash()
    script.sources.settles()
    script.until(lambda: not script.knows(C) and not script.knows(D))
    script.start_source()
    script.until_complete()


def _what_was_ended_comes_back(to: pytest.MonkeyPatch) -> None:
    """A store gives back what was ended, if it was told since that the next stream is, too."""
    seams.BEGUN_ANEW_IN_LIFECYCLE.replace(to, lambda *_: False)


def _deregistered_again_at_one_store(script: Script) -> None:
    """The source has moved from A, B and C to A and C, which delete it; one of them finds that so,
    and the other one hears nobody. It begins anew with the rest, as somebody runs its old
    configuration, and is deregistered again: only the other one is told; the rest, which takes it
    for alive, is heard there. The next source reaches the other one alone."""
    script.until_complete()
    script.source.kill()
    script.sources.change_setup(1)
    second = script.start_source()
    script.until(lambda: second.core.registration.final and second.core.complete)
    assert script.send(A, C) == 0
    script.until(lambda: script.state(A).held.stable_upto == script.state(C).held.stable_upto == 0)
    script.cut(B, A, C)
    second.deregister()
    source = script.checker.source
    found = _first_settled(script, A, C)
    other = C if found == A else A
    hears = script.cut(other, found)
    script.sources.change_setup(0)
    third = script.start_source()
    script.until_complete()
    script.cut("source3", B, found)
    third.deregister()
    identities = script.stores[other].core.identities
    script.until(lambda: identities.tombstones[source].deleted_upto == third.core.epoch)
    hears()
    script.until(lambda: script.knows(other) or source in identities.settled)
    script.sources.change_setup(1)
    script.start_source(B, found)
    script.run(1.0)


def _nobody_is_asked_what_all_have_deleted(to: pytest.MonkeyPatch) -> None:
    """A store takes a stream over as if who says nothing of it had never had it."""
    real = seams.LEAVE_IN_READMISSION.real()

    def leave(*known: Any) -> Stay | Ask | Adoption:
        outcome: Stay | Ask | Adoption = real(*known)
        return real(*known[:7], outcome.addresses) if isinstance(outcome, Ask) else outcome

    seams.LEAVE_IN_READMISSION.replace(to, leave)


def _all_have_deleted(script: Script, *stores: str) -> None:
    """None of these tells it any more unless it is asked."""
    identities = [script.stores[store].core.identities for store in stores]
    script.until(lambda: all(script.checker.source in each.unlisted for each in identities))
    _look(script, *stores)


def _look(script: Script, *stores: str) -> None:
    """Whoever of these vouches is failed no more."""
    for store in stores:
        script.checker.look_at(script.stores[store])


def _vouches(script: Script, store: str) -> bool:
    return script.knows(store) and not script.state(store).limbo


def _old_disk_of_an_ended_stream(script: Script) -> None:
    """A is copied when it has 0, and then 1 is on all. They delete the stream, and A is put back.
    Then B is wiped, and the next source reaches A and B."""
    _begin(script)
    copy = script.copy(A)
    assert script.send(*ALL) == 1
    script.until(lambda: script.source.core.stable_upto == 1)
    script.source.kill()
    _all_have_deleted(script, *ALL)
    script.until(lambda: script.stores[B].remembers_more(script.stores[A], copy))
    script.put_back(A, copy, B)
    script.stores[A].start()
    script.until(lambda: script.stores[A].core.standing.record.limbo)
    script.until(lambda: _vouches(script, A))
    _look(script, A)
    script.wipe(B)
    script.until(lambda: _vouches(script, B))
    script.cut(C, A, B)
    script.start_source(C)
    script.until_complete()


def _left_ones_are_back_when_the_new_ones_have_deleted_it(script: Script) -> None:
    """The stream moves from A, B and C to D, E and F, of which F misses the last epoch. 1 is on D
    and E, which delete it all when A, B and C are down. Those start again; F, which waited for
    them, gives it back. Then D is wiped, and the next source reaches all but E."""
    script.until_complete()
    assert script.send(*ALL) == 0
    script.until(lambda: script.source.core.stable_upto == 0)
    script.source.kill()
    script.sources.change_setup(1)
    second = script.start_source()
    moving = second.core.registration
    script.until(lambda: second.core.epoch == 3)
    ways: list[Free] = []

    def cut_off() -> None:
        ways.append(script.cut(F, *ALL, D, E))
        script.cut(F, "source2")

    script.until_decided(second, cut_off)
    assert len(moving.membership.to_policies) == 1
    script.until(lambda: moving.final and moving.phase is Phase.CONFIRMING)
    script.cut("source2", *ALL)
    script.until_complete()
    assert script.send_stable() == 1
    second.kill()
    for store in ALL:
        script.stores[store].crash()
    script.until(lambda: not any(map(script.knows, (D, E))))
    ways[0]()
    script.until(lambda: not script.knows(F))
    script.network.heal()
    _all_have_deleted(script, D, E)
    for store in ALL:
        script.stores[store].start()
    script.until(lambda: _vouches(script, F) and script.begun(F) == 3)
    _look(script, F)
    script.wipe(D)
    script.until(lambda: _vouches(script, D))
    script.cut(E, *ALL, D, F)
    script.start_source(E)
    script.until_complete()


GUARDS = (
    Guard(
        _nobody_is_asked_what_all_have_deleted,
        _old_disk_of_an_ended_stream,
        "I1",
        {"mortality": Mortality(Lifetimes(0.0, 40.0))},
    ),
    Guard(
        _nobody_is_asked_what_all_have_deleted,
        _left_ones_are_back_when_the_new_ones_have_deleted_it,
        "I1",
        {
            "mortality": Mortality(Lifetimes(0.0, 80.0)),
            "setups": (majority_of(ALL), NEW),
            "lets_go": False,
        },
    ),
    Guard(
        _what_was_ended_comes_back,
        _deregistered_again_at_one_store,
        "I1",
        {"setups": (majority_of(ALL), majority_of((A, C))), "lets_go": False, "proxies": True},
        seeds=10,
    ),
    Guard(
        _whoever_was_named_is_waited_for,
        _switched_off_before_all_know_that_they_were_left,
        "I6",
        {
            "mortality": Mortality(Lifetimes(0.0, 80.0)),
            "setups": (_pair(A, B), _pair(C, D)),
            "lets_go": False,
        },
    ),
    Guard(
        _only_where_it_goes_is_believed,
        _expired_in_the_middle_of_a_move,
        "I6",
        {
            "mortality": Mortality(Lifetimes(0.0, 80.0)),
            "setups": (majority_of(ALL), majority_of((A, B, D))),
            "lets_go": False,
        },
    ),
    Guard(
        _ended_streams_count,
        _deregistered_while_one_was_away,
        "I1",
        {"lets_go": False, "proxies": True},
    ),
    Guard(_copies_trust_their_tombstones, _put_back_to_before_it_began_anew, "I1", MORTAL),
    Guard(
        _deletions_of_different_times_are_one,
        _given_back_while_another_deletes_it,
        "I1",
        {"mortality": Mortality(Lifetimes(0.0, 10.0))},
        seeds=10,
    ),
    Guard(_ends_are_not_told, _cut_off_while_all_is_deleted, "I6", MORTAL),
    Guard(
        _begins_go_on_with_what_was_deleted,
        _decided_before_all_is_deleted,
        "I6",
        {"mortality": Mortality(Lifetimes(0.0, 5.0)), "outlives": True},
    ),
    Guard(
        _new_streams_begin_with_nothing,
        _found_stable_by_others_and_deleted,
        "I1",
        {"mortality": Mortality(Lifetimes(0.0, 80.0)), "outlives": True, "proxies": True},
    ),
    Guard(
        _whoever_has_it_is_believed,
        _at_the_word_of_one_left_behind,
        "I6",
        {
            "mortality": Mortality(Lifetimes(0.0, 80.0)),
            "setups": (_pair(A, B), _pair(B, D)),
            "lets_go": False,
            "consensus": Behaviour.LOWEST,
        },
        seeds=10,
    ),
)


def test_a_source_that_ends_says_goodbye_to_its_receivers() -> None:
    """Nobody attaches to it again, but to the next one."""

    def end(script: Script) -> None:
        _begin(script)
        both = [script.receiver(number) for number in range(2)]
        script.until(
            lambda: all(receiver.registered and receiver.plan.attached for receiver in both)
        )
        script.source.deregister()
        script.until(lambda: script.world.reached["source says goodbye"] == len(both))
        script.until(lambda: not any(receiver.plan.attached for receiver in both))
        script.run(2.0)
        assert not any(receiver.plan.attached for receiver in both)
        _until_deleted(script)
        script.restart_source()
        script.until(lambda: all(receiver.plan.attached for receiver in both))

    play(end, 0, **MORTAL)
