"""Who may leave limbo, and who is found out, where chance finds it missing too seldom.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests import seams
from tests.simulation.guards import Guard
from tests.simulation.script import LOOK_SECONDS, STEP_SECONDS, Script
from tests.simulation.test_scripts import FIVE, A, B, C, D, E, _begin

from quorate.source.protocol.registration import Phase
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.rules.store_identity import (
    Standing,
)
from quorate.v1.store_pb2 import Greeting


def _limbo_ends_by_anyone(to: pytest.MonkeyPatch) -> None:
    """A store leaves limbo whoever has answered."""
    real = seams.LEAVE_IN_READMISSION.real()

    def leave(*arguments: Any) -> Any:
        with (
            seams.POLICY_STABLE.replaced(lambda *_: True),
            seams.POLICY_BLOCKS.replaced(lambda *_: True),
        ):
            return real(*arguments)

    seams.LEAVE_IN_READMISSION.replace(to, leave)


def _only_one_that_lags_is_heard(script: Script) -> None:
    """1 is stable on A and C, and B lags. A is wiped, and hears B alone; so does the next
    source."""
    _begin(script)
    script.cut("source1", B)
    assert script.send(A, C) == 1
    script.until(lambda: script.source.core.stable_upto == 1)
    script.source.kill()
    script.cut(C, A, B)
    script.wipe(A)
    script.start_source(C)
    script.run(5.0)
    assert script.source.core.registration.phase is Phase.PROMISING


# Stores that were wiped, and vouch again.


def _until_it_vouches(script: Script, store: str) -> None:
    """It was wiped, and is believed again."""
    script.until(lambda: script.knows(store) and store not in script.checker.failed)


def _replaced_stores_go_unnoticed(to: pytest.MonkeyPatch) -> None:
    """G3: nobody tells a source that a store came back with another incarnation."""
    seams.SOURCE_CORE_KNOWN.replace(to, lambda *_: [])


def _wiped_after_acknowledging(script: Script) -> None:
    """A alone has 1, and has said so. It is wiped, and vouches again, while B has not got 1 yet."""
    _begin(script)
    script.cut("source1", C)
    ask_b = script.mute("source1", B)
    assert script.send(A) == 1
    script.run(0.05)
    script.cut("source1", A)
    script.wipe(A)
    _until_it_vouches(script, A)
    ask_b()
    script.run(LOOK_SECONDS)


def _answers_of_who_has_not_noted_count(to: pytest.MonkeyPatch) -> None:
    """A wiped store leaves limbo by the word of peers that do not know yet that it was."""
    seams.KNOWS_IN_PEER_ANSWERS.replace(to, lambda *_: True)


def _wiped_and_greets_once(script: Script) -> None:
    """The same, but B has not noted that A is another one: it hears of its first greeting alone, in
    which A did not know yet what it was before."""
    _begin(script)
    script.cut("source1", C)
    script.cut(B, C)
    ask_b = script.mute("source1", B)
    assert script.send(A) == 1
    script.run(0.05)
    script.cut("source1", A)
    script.wipe(A)
    script.run(STEP_SECONDS)
    script.mute(A, B)
    script.run(1.5)
    ask_b()
    script.run(LOOK_SECONDS)


def _late_greetings_are_news(to: pytest.MonkeyPatch) -> None:
    """Whoever greets under another incarnation is the newer one."""
    real = seams.STANDING_MET.real()

    def met(self: Standing, greeting: Greeting, _: int | None = None) -> Any:
        return real(self, greeting, self.moment)

    seams.STANDING_MET.replace(to, met)


def _wiped_twice_and_greets_late(script: Script) -> None:
    """C is wiped, greets B, and is wiped again before that arrives. It vouches when B hears what
    the former one said. Then A is wiped, and needs C."""
    _begin(script)
    away = script.mute(C, A, B)
    script.wipe(C)
    script.run(0.05)
    script.withhold(C, A)
    greet_b = script.withhold(C, B)
    away()
    script.wipe(C)
    _until_it_vouches(script, C)
    greet_b()
    script.run(0.3)
    script.wipe(A)
    script.until(lambda: script.knows(A) and not script.state(A).limbo)


def _any_of_two_begins(to: pytest.MonkeyPatch) -> None:
    """A store begins, and takes data, of whoever dealt with a copy of it before."""
    seams.STANDING_CHECK_NAMED.replace(to, lambda *_: None)


def _begins_of_forgotten_promises(to: pytest.MonkeyPatch) -> None:
    """G1: a store begins what it does not remember having promised.

    A source that hears of the replaced store takes what that had promised for void by itself, and
    one that does not names the former store, so that this matters where neither is so: all are
    taken out together.
    """
    _replaced_stores_go_unnoticed(to)
    _any_of_two_begins(to)
    seams.STORE_CORE_WAS_PROMISED.replace(to, staticmethod(lambda *_: True))


def _wiped_after_promising(script: Script) -> None:
    """Of five stores A and B alone have 1. The next source, of A, B and D, keeps it. A is wiped,
    and vouches again, without 1, before it is asked to begin. Then D is sent 1."""
    _begin(script)
    script.cut("source1", C, D, E)
    assert script.send(A, B) == 1
    script.source.kill()
    ask_a: list[Callable[[], None]] = []
    second = script.start_source(C, E)
    script.until_decided(second, lambda: ask_a.append(script.mute("source2", A)))
    script.wipe(A)
    _until_it_vouches(script, A)
    ask_a[0]()
    script.until(lambda: script.begun(A) == 2)
    script.mute("source2", A)
    script.run(LOOK_SECONDS)


def _one_of_two_promises_the_other_begins(script: Script) -> None:
    """A copy of C runs beside it, and C does not hear of that. The next source is promised its
    epoch by C, and hears from A that C is not what it was; then by the copy. What begins is C, and
    is sent 1. It ends, and the source after that needs the copy."""
    _begin(script)
    a, c = script.stores[A], script.stores[C]
    copy = script.copy(C)
    c.process.start(c.commits_anew(5))
    script.until(lambda: a.core.standing.peers[C].commits > copy.acknowledged)
    script.cut(C, A, B)
    copied = script.double(C, copy, A)
    script.network.lead(C, copied.label)
    script.until(lambda: copied.core.standing.record.former and not copied.core.in_limbo)
    script.cut("source1", B, copied.label)
    assert script.send(A) == 1
    script.source.kill()
    script.network.lead(C, C)
    source = script.start_source(B)
    script.until(lambda: script.promised(C) == 2)
    script.network.lead(C, copied.label)
    script.until_decided(source, lambda: script.network.lead(C, C))
    script.cut(A, B, copied.label)
    script.run(5.0)
    source.kill()
    script.take_its_place(copied)
    script.start_source(A)
    script.until_complete()


def _wiped_stores_found(to: pytest.MonkeyPatch) -> None:
    """Some blank stores found a group, though not every peer has answered."""
    real = seams.STANDING_FOUNDERS.real()

    def founders(self: Standing, _: Any, heard: Mapping[str, Heard]) -> Any:
        blank = {address: item for address, item in heard.items() if item.answer.blank}
        return real(self, blank.keys(), blank) if blank else ()

    seams.STANDING_FOUNDERS.replace(to, founders)


def _two_of_three_are_wiped(script: Script) -> None:
    """B and C come back blank, and do not reach A. Nobody may start the stream over with them."""
    _begin(script)
    script.source.kill()
    script.cut(A, B, C)
    script.checker.beyond = True
    script.wipe(B)
    script.wipe(C)
    script.start_source(A)
    script.run(8.0)


def _filled_stores_found(to: pytest.MonkeyPatch) -> None:
    """A store that has a part of what its peers had takes part in founding a new group."""
    seams.STANDING_FILL.replace(to, lambda _: ())


def _all_but_a_filled_one_are_wiped(script: Script) -> None:
    """C comes back blank and takes over what is stable; of E it hears nothing, so that it does not
    vouch as a whole. A, B and D make 1 stable, and come back blank, with E."""
    _begin(script)
    heal = [script.cut(E, C)]
    script.wipe(C)
    script.until(lambda: script.knows(C) and not script.state(C).limbo)
    heal += [script.cut("source1", C, E), script.cut(C, A, B, D)]
    assert script.send(A, B, D) == 1
    script.until(lambda: script.source.core.stable_upto == 1)
    script.source.kill()
    script.checker.beyond = True
    for store in (A, B, D, E):
        script.wipe(store)
    for free in heal:
        free()
    script.run(2.0)
    script.start_source()
    script.run(8.0)


GUARDS = (
    Guard(_limbo_ends_by_anyone, _only_one_that_lags_is_heard, "I1"),
    Guard(_replaced_stores_go_unnoticed, _wiped_after_acknowledging, "I1"),
    Guard(_answers_of_who_has_not_noted_count, _wiped_and_greets_once, "I1"),
    # C asks B once more before A is wiped, or after.
    Guard(_late_greetings_are_news, _wiped_twice_and_greets_late, "I6", seeds=10),
    Guard(
        _begins_of_forgotten_promises,
        _wiped_after_promising,
        "I1",
        {"setups": (FIVE,)},
        seeds=10,
    ),
    Guard(_any_of_two_begins, _one_of_two_promises_the_other_begins, "I1"),
    Guard(_wiped_stores_found, _two_of_three_are_wiped, "I1"),
    Guard(_filled_stores_found, _all_but_a_filled_one_are_wiped, "I1", {"setups": (FIVE,)}),
)
