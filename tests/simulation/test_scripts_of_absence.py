"""What is made out while a source, or a store, is away, or for ever.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests import seams
from tests.simulation.guards import Guard
from tests.simulation.script import LOOK_SECONDS, Script
from tests.simulation.simulation import SOURCE
from tests.simulation.test_scripts import ALL, NEW, OLD, A, B, C, _begin
from tests.simulation.test_scripts_of_limbo import _until_it_vouches

from quorate.protocol.limits import NOTHING
from quorate.source.protocol.catch_up import BringingUp
from quorate.source.protocol.registration import Phase
from quorate.store.rules.peer_knowledge import UNKNOWN
from quorate.store.rules.proxy import Gathering, Party


def _one_look_is_enough_for_a_proxy(to: pytest.MonkeyPatch) -> None:
    """A proxy takes for stable what enough stores have held, each at some time."""
    real = seams.GATHERING_LOOK.real()

    def look(self: Gathering, now: float, among: Sequence[Party]) -> Any:
        confirmed = real(self, now, among)
        return max(confirmed, self._seen.upto if self._seen is not None else NOTHING)

    seams.GATHERING_LOOK.replace(to, look)


def _wiped_before_another_one_has_it(script: Script) -> None:
    """The holder alone has 1, and says so to the proxy. It is wiped, and vouches again, before the
    proxy gets 1 as well, and the source goes away. The proxy announces the source before it hears
    what the holder has now."""
    _begin(script)
    proxy, holder, third = ALL
    # So a round of questions takes the proxy long, and it does not ask the holder again soon.
    script.mute(third, proxy)
    script.cut("source1", third)
    ask = script.mute("source1", proxy)
    assert script.send(holder) == 1
    script.cut("source1", holder)
    script.network.reset("source1", holder)
    peers = script.stores[proxy].upkeep.peers

    def is_told() -> bool:
        heard = peers.answering().get(holder)
        known = heard.answer.knowledge(SOURCE) if heard is not None else UNKNOWN
        return not known.live and any(part.last == 1 for part in known.held)

    script.until(is_told)
    script.wipe(holder)
    _until_it_vouches(script, holder)
    assert not script.has(holder, 1)
    ask()
    script.until(lambda: script.has(proxy, 1))
    script.source.kill()
    script.until(lambda: SOURCE in script.stores[proxy].engine.announced)
    assert is_told()
    script.run(5.0)
    script.start_source()
    script.network.heal()
    script.until_complete()


def _who_can_not_read_says_no(to: pytest.MonkeyPatch) -> None:
    """What a store does not name while the stream moves it never had, readable or not."""
    real = seams.BRINGING_UP_ANSWERED.real()

    def answered(self: BringingUp, *looked: Any, **_: object) -> None:
        real(self, *looked)

    seams.BRINGING_UP_ANSWERED.replace(to, answered)


def _moves_past_what_can_not_be_read(script: Script) -> None:
    """0 is stable on A and B, and the stream moves to stores that do not reach these. Then B is
    away for a while, and A can not read what it has: nobody says that there is a 0."""
    script.source.kill()
    script.cut(C, A, B)
    script.sources.change_setup(0)
    script.start_source(C)
    script.until_complete()
    assert script.send_stable() == 0
    script.until(lambda: all(script.state(each).held.stable_upto == 0 for each in (A, B)))
    script.source.kill()
    for store in NEW.stores:
        script.cut(store, A, B)
    script.sources.change_setup(1)
    script.start_source()
    script.until_complete()
    registration = script.source.core.registration
    script.run(2.0)
    assert not registration.final, "the new stores lack 0"
    script.stores[B].crash()
    script.flip(A)
    script.until(lambda: script.state(A).unreadable)
    script.run(0.7)
    if not registration.final and registration.phase is Phase.STREAMING:
        script.network.heal()
    script.stores[B].start()
    script.until(lambda: registration.final and registration.phase is Phase.STREAMING)
    script.until_complete()
    for store in OLD.stores:
        script.stores[store].crash()
    script.source.kill()
    script.network.heal()
    script.start_source()
    script.until(script.all_done, LOOK_SECONDS)


GUARDS = (
    Guard(
        _who_can_not_read_says_no,
        _moves_past_what_can_not_be_read,
        "I6",
        {"setups": (OLD, NEW), "lets_go": False},
    ),
    Guard(
        _one_look_is_enough_for_a_proxy,
        _wiped_before_another_one_has_it,
        "I1",
        {"proxies": True},
    ),
)
