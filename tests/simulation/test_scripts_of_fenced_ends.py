"""Streams whose owner has been fenced, and has them ended at one store that has not heard of it.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it. Only who was told by so many that nobody can miss it has ended a stream.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests import seams
from tests.simulation.endings import Mortality
from tests.simulation.guards import Guard
from tests.simulation.script import Script
from tests.simulation.source_actor import SourceInstance
from tests.simulation.test_scripts import ALL, FIVE, NEW, OLD, A, B, C, D, E, _begin
from tests.simulation.test_scripts_of_ends import _until_deleted

from quorate.protocol.identity import SourceName
from quorate.store.rules.identities import Identities
from quorate.store.rules.identity_records import Tombstone
from quorate.store.rules.lifetimes import Lifetimes
from quorate.store.rules.peer_knowledge import SourceKnowledge
from quorate.v1.store_pb2 import DELETION_DEREGISTERED

WEATHER: dict[str, Any] = {"lets_go": False, "mortality": Mortality(Lifetimes(0.0, 2000.0))}

F = "store6"
EVERYONE = (*ALL, D, E)


def _what_was_settled_stays_settled(to: pytest.MonkeyPatch) -> None:
    """A store that vouches for an earlier end vouches at once for the next one it is told of."""
    real = seams.IDENTITIES_DEREGISTERED.real()

    def deregistered(self: Identities, source: SourceName, epoch: int, steady: float) -> Any:
        settled, unlisted = set(self.settled), set(self.unlisted)
        writes = real(self, source, epoch, steady)
        self.settled, self.unlisted = settled, unlisted
        return writes

    seams.IDENTITIES_DEREGISTERED.replace(to, deregistered)


def _promised_by_b_and_c(script: Script, first: SourceInstance) -> SourceInstance:
    """The next source is promised its epoch by B and C, and hears nobody from then on."""
    second = script.start_source(A)
    asked = second.core.registration
    script.until(lambda: script.promised(B) == script.promised(C) == asked.epoch > first.core.epoch)
    script.cut(second.process.name, *ALL)
    script.run(0.5)
    for store in (B, C):
        script.withhold(store, second.process.name)
    return second


def _deregisters_at_a_alone(script: Script, fenced: SourceInstance) -> None:
    """A hears nothing else meanwhile, and no other store hears of that."""
    script.withhold(fenced.process.name, A)
    script.network.heal()
    script.cut(A, B, C)
    script.cut(fenced.process.name, B, C)
    script.cut(script.source.process.name, *ALL)
    fenced.deregister()
    script.until(lambda: _ended_upto(script, A) == fenced.core.epoch)
    script.run(1.0)


def _ended_upto(script: Script, store: str) -> int:
    """Up to which epoch a store was told that the source is deregistered."""
    tombstone = script.stores[store].core.identities.tombstones.get(script.checker.source)
    is_told = tombstone is not None and tombstone.cause == DELETION_DEREGISTERED
    return tombstone.deleted_upto if tombstone is not None and is_told else 0


def _goes_on(script: Script, source: SourceInstance, following: int = 2) -> None:
    """It keeps what was stable, all before this number."""
    script.until(lambda: source.core.complete or source.core.error is not None)
    script.checker.require(source.core.error is None, "I1", f"it ends: {source.core.error}")
    given = source.core.window.next_sequence
    what = f"{following - 1} was stable, and {given} is given next"
    script.checker.require(given == following, "I1", what)


def _hears_a_and_b(script: Script, source: SourceInstance) -> None:
    """It begins with these, or waits for C."""
    script.network.heal()
    script.cut(A, B, C)
    script.cut(source.process.name, C)
    script.run(3.0)
    script.network.heal()
    _goes_on(script, source)


def _next_stream(script: Script, *away: str) -> SourceInstance:
    """All stores have ended the first stream, and vouch for that, when the next one begins. 0 and 1
    of that are stable on the others."""
    _begin(script)
    script.source.deregister()
    _until_deleted(script)
    script.source.kill()
    for store in away:
        script.cut(store, *(other for other in ALL if other != store))
    source = script.start_source(A)
    script.until_complete()
    assert script.send(B, C) == 0
    assert script.send_stable() == 1
    return source


def _ended_where_an_earlier_end_is_settled(script: Script) -> None:
    """A misses the second stream, and B and C have promised to go on with that. Its owner ends it
    at A. Then whom they promised it hears A and B."""
    fenced = _next_stream(script, A)
    successor = _promised_by_b_and_c(script, fenced)
    _deregisters_at_a_alone(script, fenced)
    _hears_a_and_b(script, successor)


def _ended_where_an_earlier_end_is_settled_and_peers_are_heard(script: Script) -> None:
    """The same, and the stores hear each other all the time: only sources are cut off."""
    fenced = _next_stream(script)
    successor = _promised_by_b_and_c(script, fenced)
    script.withhold(fenced.process.name, A)
    script.network.heal()
    script.cut(fenced.process.name, B, C)
    script.cut(successor.process.name, *ALL)
    fenced.deregister()
    script.run(1.0)
    script.network.heal()
    script.cut(successor.process.name, C)
    script.run(3.0)
    script.network.heal()
    _goes_on(script, successor)


def _ended_where_an_earlier_end_was_settled_before_a_restart(script: Script) -> None:
    """The same, and A is started again in between: it may hear of B then that the first stream was
    ended, and was told of another end since."""
    fenced = _next_stream(script, A)
    successor = _promised_by_b_and_c(script, fenced)
    _deregisters_at_a_alone(script, fenced)
    script.stores[A].crash()
    script.stores[A].start()
    script.network.heal()
    script.cut(C, A, B)
    script.cut(successor.process.name, *ALL)
    script.run(3.0)
    script.network.heal()
    script.cut(C, A, B)
    script.cut(successor.process.name, C)
    script.run(3.0)
    script.network.heal()
    _goes_on(script, successor)


def _ended_where_it_began(script: Script) -> None:
    """A has begun the stream as well, and misses 1."""
    _begin(script)
    fenced = script.source
    script.cut(fenced.process.name, A)
    script.cut(A, B, C)
    assert script.send_stable() == 1
    successor = _promised_by_b_and_c(script, fenced)
    _deregisters_at_a_alone(script, fenced)
    script.network.heal()
    script.cut(successor.process.name, C)
    script.run(3.0)
    script.network.heal()
    _goes_on(script, successor)


def _one_that_is_told_is_enough(to: pytest.MonkeyPatch) -> None:
    """A store is sure of a deregistration that it alone was told of."""
    seams.SOURCE_TOMBSTONES_KNOW_EVERYTHING.replace(to, lambda *_: True)


def _what_never_began_is_ended(to: pytest.MonkeyPatch) -> None:
    """A store that only promised says up to which epoch it was told that the stream is over."""

    def ended_epoch(tombstone: Tombstone) -> int:
        return max(
            tombstone.registration.begun_epoch,
            tombstone.deleted_upto,
            tombstone.registration.ended_epoch,
        )

    seams.SOURCE_TOMBSTONES_ENDED_EPOCH.replace(to, ended_epoch)


def _promised_only(script: Script, *away: str) -> SourceInstance:
    """There is no other stream: the first source only asks for its epoch, and the second one, which
    all promise the next, begins without these."""
    script.until(lambda: all(script.knows(each) and script.promised(each) == 1 for each in ALL))
    assert not any(map(script.begun, ALL))
    script.source.kill()
    source = script.start_source()
    script.until_decided(source, lambda: script.cut(source.process.name, *away))
    for store in away:
        script.cut(store, *(other for other in ALL if other != store))
    script.until_complete()
    assert all(script.begun(each) == 0 for each in away)
    return source


def _ended_where_it_was_only_promised(script: Script) -> None:
    """B and C begin, and have 0 and 1. They promise the next source more, and A is told by the one
    before that it is over."""
    fenced = _promised_only(script, A)
    assert script.send(B, C) == 0
    assert script.send_stable() == 1
    assert script.promised(A) == fenced.core.epoch
    successor = _promised_by_b_and_c(script, fenced)
    _deregisters_at_a_alone(script, fenced)
    _hears_a_and_b(script, successor)


def _who_had_no_part_tells_of_the_end(to: pytest.MonkeyPatch) -> None:
    """A store is sure of an end if others were told of it that say nothing of that to anybody."""

    def tells_end(known: SourceKnowledge, upto: int) -> bool:
        return max(known.promised_epoch, known.deleted_upto) >= upto

    seams.SOURCE_TOMBSTONES_TELLS_END.replace(to, tells_end)


def _told_who_had_no_part(script: Script) -> None:
    """A and C have 0, and B has only promised. The stream is ended at A and B; C hears nothing of
    that, and the next source goes on with B and C. A hears it of these alone."""
    ended = _promised_only(script, B)
    assert script.send_stable() == 0
    script.until(lambda: script.has(A, 0) and script.has(C, 0))
    for each in (A, C, ended.process.name):
        script.withhold(each, B)
    script.network.heal()
    script.cut(B, A, C)
    script.cut(C, A, ended.process.name)
    ended.deregister()
    script.until(lambda: _ended_upto(script, A) == _ended_upto(script, B) == ended.core.epoch)
    ended.kill()
    for each in (A, B, ended.process.name):
        script.withhold(each, C)
    script.network.heal()
    script.cut(C, A, B)
    script.run(3.0)
    successor = script.start_source(A)
    script.until_complete()
    assert script.send_stable() == 1
    script.network.heal()
    script.cut(successor.process.name, A)
    script.until(lambda: script.knows(A) and script.has(A, 0) and script.has(A, 1))


def _rules_of_then_are_enough(to: pytest.MonkeyPatch) -> None:
    """A store that was away when the stores changed goes by the policy that it has begun under."""
    seams.SOURCE_TOMBSTONES_BEGUN_SINCE.replace(to, lambda *_: ())


def _ended_where_the_new_stores_are_unknown(script: Script) -> None:
    """The stream moves from A, B and C to five stores, and A misses that. 1 and 2 are stable on all
    others, of which C, D and E promise the next source its epoch. The one before ends the stream at
    A and B: of three stores that would be enough."""
    _begin(script)
    script.source.kill()
    script.sources.change_setup(1)
    script.cut(A, B, C, D, E)
    fenced = script.start_source(A)
    script.until(lambda: fenced.core.registration.final and fenced.core.complete)
    assert script.send(B, C, D, E) == 1
    assert script.send_stable() == 2
    successor = script.start_source(A, B)
    asked = successor.core.registration
    script.until(lambda: {script.promised(each) for each in (C, D, E)} == {asked.epoch})
    assert asked.epoch > fenced.core.epoch
    script.cut(successor.process.name, *EVERYONE)
    script.run(0.5)
    for store in (C, D, E):
        script.withhold(store, successor.process.name)
        script.withhold(store, B)
    for each in (B, C, D, E, fenced.process.name):
        script.withhold(each, A)
    script.network.heal()
    hear = script.cut(A, B)
    for each in (A, B, fenced.process.name):
        script.cut(each, C, D, E)
    script.cut(successor.process.name, *EVERYONE)
    assert script.begun(A) < script.begun(B)
    fenced.deregister()
    told = fenced.core.epoch
    script.until(lambda: _ended_upto(script, A) == _ended_upto(script, B) == told)
    hear()
    script.run(10.0)
    for store in (A, B):
        for other in (C, D, E):
            script.withhold(store, other)
    script.network.heal()
    script.cut(B, A, C, D, E)
    script.cut(A, C, D, E)
    script.cut(successor.process.name, B, E)
    hear = script.cut(successor.process.name, C, D)
    script.run(4.0)
    hear()
    script.run(4.0)
    script.network.heal()
    _goes_on(script, successor, 3)


def _ended_where_those_that_were_left_are_all_that_is_known(script: Script) -> None:
    """The stream moves from A, B and C to D, E and F, and A misses that. 1 is stable on these, of
    which D and E promise the next source its epoch. The one before ends the stream at F, and A, B
    and C hear it of F: all that A knows of have deleted it then."""
    _begin(script)
    script.source.kill()
    script.sources.change_setup(1)
    script.cut(A, B, C, D, E, F)
    fenced = script.start_source(A)
    script.until(lambda: fenced.core.registration.final and fenced.core.complete)
    assert script.send(D, E, F) == 1
    script.until(lambda: fenced.core.stable_upto == 1)
    successor = script.start_source(A, B, C, F)
    script.until(lambda: all(script.promised(each) > fenced.core.epoch for each in (D, E)))
    script.cut(successor.process.name, *ALL, D, E, F)
    script.cut(fenced.process.name, *ALL, D, E)
    fenced.deregister()
    script.until(lambda: _ended_upto(script, F) == fenced.core.epoch)
    assert script.begun(A) < script.begun(B)
    for store in (*ALL, D, E, F):
        script.withhold(store, successor.process.name)
        script.withhold(successor.process.name, store)
        script.withhold(fenced.process.name, store)
        script.withhold(store, A)
    script.network.heal()
    for one in (D, E):
        script.cut(one, *ALL, F)
    for each in (successor, fenced):
        script.cut(each.process.name, *ALL, D, E, F)
    script.run(8.0)
    for one in (*ALL, F):
        for other in (D, E):
            script.withhold(one, other)
            script.withhold(other, one)
    script.network.heal()
    for one in (D, E):
        script.cut(one, *ALL, F)
    script.cut(successor.process.name, F)
    hear = script.cut(successor.process.name, D, E)
    script.run(4.0)
    hear()
    script.run(4.0)
    script.network.heal()
    _goes_on(script, successor)


def _nobody_tells_of_a_later_end(to: pytest.MonkeyPatch) -> None:
    """Of what was deregistered while a store was away that deleted the stream before."""
    seams.DEREGISTERED_SINCE_IN_LIFECYCLE.replace(to, lambda *_: 0)


def _away_while_the_next_stream_ended(script: Script) -> None:
    """A misses the second stream and its end, and hears B and C after that. C goes for good, and B
    is started again."""
    ended = _next_stream(script, A)
    ended.deregister()
    script.until(lambda: _ended_upto(script, B) == _ended_upto(script, C) == ended.core.epoch)
    script.run(4.0)
    ended.kill()
    script.withhold(ended.process.name, A)
    script.network.heal()
    script.run(4.0)
    for store in (B, C):
        script.stores[store].crash()
    script.stores[B].start()
    script.start_source()
    script.until_complete()


GUARDS = (
    Guard(_nobody_tells_of_a_later_end, _away_while_the_next_stream_ended, "I6", WEATHER),
    Guard(
        _rules_of_then_are_enough,
        _ended_where_those_that_were_left_are_all_that_is_known,
        "I1",
        {**WEATHER, "setups": (OLD, NEW)},
        seeds=10,
    ),
    Guard(
        _rules_of_then_are_enough,
        _ended_where_the_new_stores_are_unknown,
        "I1",
        {**WEATHER, "setups": (OLD, FIVE)},
        seeds=10,
    ),
    Guard(_what_was_settled_stays_settled, _ended_where_an_earlier_end_is_settled, "I1", WEATHER),
    Guard(
        _what_was_settled_stays_settled,
        _ended_where_an_earlier_end_is_settled_and_peers_are_heard,
        "I1",
        WEATHER,
        seeds=10,
    ),
    Guard(_one_that_is_told_is_enough, _ended_where_it_began, "I1", WEATHER),
    Guard(
        _one_that_is_told_is_enough,
        _ended_where_an_earlier_end_was_settled_before_a_restart,
        "I1",
        WEATHER,
        seeds=10,
    ),
    Guard(_what_never_began_is_ended, _ended_where_it_was_only_promised, "I1", WEATHER),
    Guard(_who_had_no_part_tells_of_the_end, _told_who_had_no_part, "I6", WEATHER),
)
