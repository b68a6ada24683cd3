"""What stores make out by themselves while a source is away, or for ever.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it.
"""

from __future__ import annotations

import pytest
from tests.simulation.disk import CachedDisk
from tests.simulation.guards import Guard
from tests.simulation.script import Script
from tests.simulation.simulation import SOURCE
from tests.simulation.test_scripts import ALL, KEPT_SECONDS, MORTAL, A, B, C, _begin
from tests.simulation.test_scripts_of_limbo import _until_it_vouches

from quorate.protocol.limits import NOTHING
from quorate.store import keeper
from quorate.store.limbo import UNKNOWN
from quorate.store.proxies import Electorate, Gathering, Party, _rank


def _one_look_is_enough_for_a_proxy(to: pytest.MonkeyPatch) -> None:
    """A proxy takes for stable what enough stores have held, each at some time."""
    real = Gathering.look

    def look(self: Gathering, now: float, among: Electorate) -> int:
        confirmed = real(self, now, among)
        return max(confirmed, self._seen.upto if self._seen is not None else NOTHING)

    to.setattr(Gathering, "look", look)


def _in_order(script: Script) -> list[str]:
    """All stores, as they would answer for the source."""

    def rank(store: str) -> bytes:
        incarnation = script.stores[store].core.standing.record.incarnation
        return _rank(SOURCE, script.source.core.epoch, Party(store, incarnation))

    return sorted(ALL, key=rank)


def _wiped_before_another_one_has_it(script: Script) -> None:
    """One store alone has 1, and says so to the one that will answer for the source. It is wiped,
    and vouches again, before that one gets 1 as well, and the source goes away. The proxy begins
    before it hears what the other one has now."""
    _begin(script)
    proxy, holder, third = _in_order(script)
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
    script.until(lambda: SOURCE in script.stores[proxy].engine.proxy_of)
    assert is_told()
    script.run(5.0)
    script.start_source()
    script.network.heal()
    script.until_complete()


def _limbo_is_never_given_up(to: pytest.MonkeyPatch) -> None:
    """A store in limbo waits for somebody who vouches, though nobody will any more."""
    to.setattr(keeper, "given_up", lambda *_: False)


def _in_limbo_while_the_others_delete_it(script: Script) -> None:
    """C may have lost what its host had cached, and A and B delete the source meanwhile: none of
    the three vouches before the others do."""
    _begin(script)
    script.source.kill()
    script.cut(C, A, B)
    actor = script.stores[C]
    assert isinstance(actor.disk, CachedDisk)
    assert script.checker.tolerates(C)
    script.checker.destroys(C)
    actor.crash()
    actor.disk.reboot()
    actor.start()
    assert script.state(C).limbo
    script.run(2 * KEPT_SECONDS)
    assert not script.knows(A)
    assert not script.knows(B)
    script.network.heal()
    script.until(lambda: not script.knows(C))
    script.start_source()
    script.until_complete()


GUARDS = (
    Guard(
        _one_look_is_enough_for_a_proxy,
        _wiped_before_another_one_has_it,
        "I1",
        {"proxies": True},
    ),
    Guard(
        _limbo_is_never_given_up,
        _in_limbo_while_the_others_delete_it,
        "I6",
        {"mortality": MORTAL, "cached": (C,)},
    ),
)
