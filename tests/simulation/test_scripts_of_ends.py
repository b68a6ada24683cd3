"""Streams that have ended, while somebody still works on them, or a store was away.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests import seams
from tests.simulation.endings import Mortality
from tests.simulation.guards import Guard
from tests.simulation.script import Free, Script, play
from tests.simulation.source_actor import SourceInstance
from tests.simulation.test_scripts import ALL, A, B, C, _begin

from quorate.protocol.begin import end_in
from quorate.protocol.errors import Deregistered, SourceDeleted
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.recovery import Decision, Promise
from quorate.source.protocol.core import SourceCore
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.lifetimes import Lifetimes

MORTAL = {"mortality": Mortality(Lifetimes(0.0, 20.0))}
LASTING: dict[str, Any] = {"lets_go": False, "mortality": Mortality(Lifetimes(0.0, 2000.0))}


def _has_ended(script: Script, store: str) -> bool:
    known = script.stores[store].core.identities.ended.get(script.checker.source)
    return known is not None and known.epoch > 0


def _until_ended(script: Script) -> None:
    """Every store has begun the end, and knows that it stands."""
    source = script.checker.source

    def stands(store: str) -> bool:
        known = script.stores[store].core.identities.ended.get(source)
        return known is not None and known.durable

    script.until(lambda: all(map(stands, ALL)))


def _until_told(script: Script, source: SourceInstance) -> None:
    """Its application hears that there is nothing any more to go on with, and begins anew."""
    script.until(lambda: isinstance(source.core.error, SourceDeleted | Deregistered))
    script.restart_source()


def _older_generations_count(to: pytest.MonkeyPatch) -> None:
    """Let the facts about an ended stream count for the next one."""
    seams.RECOVERY_OF_GENERATION.replace(to, dict)
    seams.OF_GENERATION_IN_SOURCE_REGISTRATION.replace(to, dict)


def _deregistered_while_one_was_away(script: Script) -> None:
    """1 is stable on B and C, and A, which was told so of 0, is away while the source is
    deregistered. The next source reaches A and B, and A hears of no other store."""
    _begin(script)
    script.until(lambda: script.state(A).held.stable_upto == 0)
    script.cut(A, B, C, script.source.process.name)
    assert script.send_stable() == 1
    script.source.deregister()
    script.until(lambda: _has_ended(script, B) and _has_ended(script, C))
    script.source.kill()
    script.start_source(C)
    script.until_complete()


def _ends_do_not_win(to: pytest.MonkeyPatch) -> None:
    """The newest begin that is no end names the stream."""

    def newest_begun(promises: Iterable[Promise]) -> Promise:
        known = list(promises)
        going_on = [each for each in known if not each.begun.ended]
        return max(going_on or known, key=lambda each: each.begun.newness, default=Promise())

    seams.RECOVERY_NEWEST_BEGUN.replace(to, newest_begun)
    seams.NEWEST_BEGUN_IN_SOURCE_REGISTRATION.replace(to, newest_begun)


def _every_end_is_durable(to: pytest.MonkeyPatch) -> None:
    """A store removes what an end voids as soon as it has begun the end itself."""
    seams.IS_DURABLE_IN_LIFECYCLE.replace(to, lambda *_: True)


def _ended_at_one_store_alone(script: Script) -> None:
    """0 and 1 are stable on A and B. The end begins at A alone, as its owner dies. The next source
    goes on by B and C, and dies when both have begun, before C has the messages. B is wiped: only A
    has them."""
    _begin(script)
    script.cut(C, A, B, "source1")
    assert script.send_stable() == 1
    first = script.source
    script.cut(A, B)
    first.on_end = lambda: script.cut("source1", B)
    first.deregister()
    script.until(lambda: _has_ended(script, A))
    first.kill()
    assert not _has_ended(script, B)
    script.run(1.0)
    for each in (B, C):
        script.withhold("source1", each)
        script.withhold(A, each)
        script.withhold(each, A)
    script.network.heal()
    script.cut(A, B, C)
    script.cut(C, B)
    second = script.start_source(A)
    begun, ways = second.core.registration.has_begun, list[Free]()
    script.until_decided(second, lambda: ways.append(script.cut("source2", B)))
    script.until(lambda: begun(C))
    script.cut("source2", C)
    ways[0]()
    script.until(lambda: begun(B))
    second.kill()
    assert script.has(B, 1)
    assert not script.has(C, 1)
    script.network.heal()
    script.cut(C, B)
    script.run(0.5)
    script.wipe(B)
    script.until(lambda: script.knows(A) and script.begun(A) == script.begun(C) > 0)
    script.start_source()
    script.until_complete()


def _who_was_fenced_may_end_it(to: pytest.MonkeyPatch) -> None:
    """A store ends a source though it has promised a later epoch to another instance."""

    def promise_end(self: StoreCore, source: SourceName, epoch: int, by: bytes, *_: Any) -> Any:
        state = self.known(source)
        assert state is not None
        return self._promise(state, epoch, by, False, lambda: Deregistered("Source"))

    def begin_end(self: StoreCore, source: SourceName, epoch: int, named: Any, *_: Any) -> Any:
        state = self.known(source)
        assert state is not None
        return self._end(source, state.registration, end_in(epoch, named))

    seams.STORE_CORE_PROMISE_END.replace(to, lambda *asked, **_: promise_end(*asked))
    seams.STORE_CORE_BEGIN_END.replace(to, begin_end)


def _fenced_by_b_and_c(script: Script) -> None:
    """The next source is promised its epoch by B and C, and is not heard from then on. Then the
    first one is deregistered, which has not heard of that."""
    _begin(script)
    first = script.source
    assert script.send(*ALL) == 1
    script.until(lambda: first.core.stable_upto == 1)
    script.cut("source1", *ALL)
    second = script.start_source(A)
    asked = second.core.registration
    script.until(lambda: script.promised(B) == script.promised(C) == asked.epoch > first.core.epoch)
    script.cut("source2", *ALL)
    script.run(0.5)
    for store in ALL:
        script.withhold(store, "source2")
        script.withhold(store, "source1")
    script.network.heal()
    script.cut("source2", *ALL)
    first.deregister()
    script.run(3.0)
    script.network.heal()
    script.until_complete()


def _new_streams_begin_with_nothing(to: pytest.MonkeyPatch) -> None:
    """Where stores know of no stream, what a publish store kept of one is not sent again."""
    real = seams.SOURCE_CORE_BEGIN.real()

    def begin(self: SourceCore, decision: Decision) -> None:
        if decision.kept_upto == NOTHING:
            self._unstable = []
        real(self, decision)

    seams.SOURCE_CORE_BEGIN.replace(to, begin)


def _found_stable_by_others_and_ended(script: Script) -> None:
    """The source ends before it hears that 0 is stable. A proxy finds that out, and then the stores
    let the stream expire. The next source has 0 in its publish store, and sends it again."""
    script.until_complete()
    for store in ALL:
        script.mute(store, "source1")
    assert script.send(*ALL) == 0
    script.source.kill()
    script.until(lambda: script.checker.stable_contents)
    _until_ended(script)
    script.start_source()
    script.until_complete()


GUARDS = (
    Guard(_older_generations_count, _deregistered_while_one_was_away, "I6", LASTING),
    Guard(_ends_do_not_win, _deregistered_while_one_was_away, "I1", LASTING),
    Guard(_every_end_is_durable, _ended_at_one_store_alone, "I1", LASTING),
    Guard(_who_was_fenced_may_end_it, _fenced_by_b_and_c, "I5", LASTING),
    Guard(
        _new_streams_begin_with_nothing,
        _found_stable_by_others_and_ended,
        "I1",
        {"mortality": Mortality(Lifetimes(0.0, 80.0)), "outlives": True, "proxies": True},
    ),
)


def test_a_source_that_was_cut_off_until_its_stream_ended_is_told() -> None:
    """The source lives, and reaches no store until its state lifetime is over."""

    def end(script: Script) -> None:
        _begin(script)
        free = script.cut("source1", *ALL)
        _until_ended(script)
        free()
        _until_told(script, script.source)

    play(end, 0, **MORTAL)


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
        _until_ended(script)
        script.restart_source()
        script.until(lambda: all(receiver.plan.attached for receiver in both))

    play(end, 0, **MORTAL)
