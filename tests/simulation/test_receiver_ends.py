"""What must be missed if the end of a receiver that was deregistered leaves no mark, or half a one.

In scripts, as in quorate's tests.simulation.test_scripts, and in the weather. In every script both
receivers have acknowledged the first message to all stores; A, B and C are store1 to store3.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation import receiver_actor
from tests.simulation.guards import Guard, Mutation, missed
from tests.simulation.receiver_actor import ReceiverInstance
from tests.simulation.rules import majority_of
from tests.simulation.script import LOOK_SECONDS, Script
from tests.simulation.weather import LASTING

from quorate.protocol.consensus import Behaviour
from quorate.receiver.options import AcknowledgeMode
from quorate.store import ends, positions
from quorate.store.ends import Step
from quorate.store.identities import Identities
from quorate.store.receivers import Receivers, Registered
from quorate.store.state import Change, RegIds, SourceState
from quorate.store.storage import Write

A, B, C = ALL = ("store1", "store2", "store3")
OLD = majority_of(ALL)
HIGHEST = {
    "consensus_of_receivers": (Behaviour.HIGHEST,) * 2,
    "modes": (AcknowledgeMode.BATCHED,) * 2,
}
"""What one store has is enough to start too high."""


def _begin(script: Script) -> ReceiverInstance:
    """Both receivers have acknowledged the first message, durably."""
    script.until_complete()
    assert script.send(*ALL) == 0
    script.until(lambda: all(script.acknowledged(each, n) == 0 for each in ALL for n in (0, 1)))
    script.run(LOOK_SECONDS)
    return script.receiver(0)


def _deregister(script: Script, receiver: ReceiverInstance, *away: str) -> None:
    """It is deregistered while these stores are down; a while later they start again."""
    for store in away:
        script.stores[store].crash()
    receiver.deregister()
    script.until(lambda: script.endings.receiver_is_over(receiver.name, [OLD]))
    receiver.kill()
    script.run(1.0)
    for store in away:
        script.stores[store].start()
    script.run(1.0)


# An end is remembered.


def _ends_leave_no_mark(to: pytest.MonkeyPatch) -> None:
    """A store that is told to forget a receiver forgets also that it was told."""

    def end_receiver(
        self: Identities, state: SourceState, session_id: int, _: int, reg_ids: RegIds
    ) -> list[Write]:
        if session_id not in state.receivers:
            return []
        return self.forget_receiver(state, session_id, reg_ids)

    to.setattr(Identities, "end_receiver", end_receiver)


def _an_old_row_comes_back(script: Script) -> None:
    """C is down while a receiver is deregistered at A and B. It comes back, and A is wiped and
    refilled. Then the receiver begins anew."""
    receiver = _begin(script)
    _deregister(script, receiver, C)
    script.wipe(A)
    script.until(lambda: script.knows(A) and not script.state(A).limbo)
    script.until_handed(script.start_receiver(0), 0)


# What was said before a store heard of it does not count.


def _answers_of_before_the_end_count(to: pytest.MonkeyPatch) -> None:
    """A receiver believes a store that has not heard that it had ended."""
    to.setattr(receiver_actor, "without_outdated", lambda answers, _: (answers, frozenset()))


def _only_the_receiver_can_tell(script: Script) -> None:
    """C was down when the receiver was deregistered, and reaches no other store since."""
    receiver = _begin(script)
    script.cut(C, A, B)
    _deregister(script, receiver, C)
    script.until_handed(script.start_receiver(0), 0)
    script.until(lambda: script.state(C).ended_upto(receiver.session_id) == receiver.epoch)


def _registering_is_acknowledging(to: pytest.MonkeyPatch) -> None:
    """Whoever registers has acknowledged what was acknowledged before."""
    real = Receivers.register

    def register(self: Receivers, *asked: Any, **more: Any) -> Change[Registered]:
        change = real(self, *asked, **more)
        record = change.answer.state.receivers[asked[1]]
        record.confirmed_epoch = record.epoch
        return change

    to.setattr(Receivers, "register", register)


def _registered_before_it_was_told(script: Script) -> None:
    """C was down when the receiver was deregistered. The next instance registers, and dies before
    it can tell C."""
    receiver = _begin(script)
    script.cut(C, A, B)
    _deregister(script, receiver, C)
    frees = [script.mute(store, receiver.name) for store in (A, B)]
    again = script.start_receiver(0)
    script.until(lambda: script.state(C).receivers[again.session_id].epoch > receiver.epoch)
    again.kill()
    for free in frees:
        free()
    script.until_handed(script.start_receiver(0), 0)


# What a store in limbo has of receivers does not count.


def _disks_that_were_put_back_have_a_say(to: pytest.MonkeyPatch) -> None:
    """A store that leaves limbo keeps the receivers that it has."""
    real = positions.take_over

    def take_over(state: SourceState, *known: Any) -> list[Write]:
        before = {each: record.acknowledged_upto for each, record in state.receivers.items()}
        for record in state.receivers.values():
            record.instance = b"as if it had registered since"
        writes = real(state, *known)
        for session_id, record in state.receivers.items():
            record.acknowledged_upto = max(record.acknowledged_upto, before.get(session_id, -1))
        return writes

    to.setattr(positions, "take_over", take_over)


def _an_old_disk_is_put_back(script: Script) -> None:
    """The receiver is deregistered everywhere, and in the end that is forgotten. Then C gets its
    disk back as it was before."""
    receiver = _begin(script)
    store = script.stores[C]
    copy = store.disk.snapshot()
    script.send(*ALL)
    script.run(1.0)
    _deregister(script, receiver)
    script.until(lambda: all(receiver.session_id in script.state(each).ended for each in ALL))
    script.until(lambda: not any(script.state(each).ended for each in ALL), LOOK_SECONDS)
    witnesses = [each for each in (A, B) if script.stores[each].remembers_more(store, copy)]
    script.checker.destroys(C)
    store.put_back(copy, witnesses)
    store.start()
    script.until(lambda: not script.stores[C].core.in_limbo and not store.witnesses)
    script.until_handed(script.start_receiver(0), 1)


# An end is forgotten only when nobody needs it any more.


def _ends_are_forgotten_at_once(to: pytest.MonkeyPatch) -> None:
    """Nobody waits for a store that is away."""
    to.setattr(ends, "next_step", lambda *_: Step.FORGET)
    to.setattr(ends, "REMEMBERED_SECONDS", 0.0)


GUARDS = (
    Guard(_ends_leave_no_mark, _an_old_row_comes_back, "I4", {"proxies": True}),
    Guard(_answers_of_before_the_end_count, _only_the_receiver_can_tell, "I4", HIGHEST),
    Guard(_registering_is_acknowledging, _registered_before_it_was_told, "I4", HIGHEST),
    Guard(
        _disks_that_were_put_back_have_a_say,
        _an_old_disk_is_put_back,
        "I4",
        {"proxies": True, **HIGHEST},
    ),
    Guard(_ends_are_forgotten_at_once, _an_old_row_comes_back, "I4", {"proxies": True}),
)
MUTATIONS = (
    Mutation(
        _ends_leave_no_mark,
        {
            "setups": (OLD,),
            "mortality": LASTING[1],
            "kinds": (
                *("deregister_receiver",) * 2,
                "crash_for_long",
                "part_for_long",
                "crash_receiver",
                "wipe_store",
            ),
            "faulty_seconds": 6.0,
            "pause_between_faults": 0.15,
            **HIGHEST,
        },
        ("I4",),
    ),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_guard_that_is_taken_out_is_missed_in_the_weather(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed(mutation, monkeypatch)
