"""What must be missed if the end of a receiver that was deregistered leaves no mark, or half a one.

In scripts, as in quorate's tests.simulation.test_scripts, and in the weather. In every script both
receivers have acknowledged the first message to all stores; A, B and C are store1 to store3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests import seams
from tests.begun import rebegun
from tests.simulation.acknowledging import Acknowledging
from tests.simulation.disk import Snapshot
from tests.simulation.endings import AGES, Mortality
from tests.simulation.guards import Guard, Mutation, missed
from tests.simulation.receiver_actor import REPEAT_SECONDS, ReceiverInstance
from tests.simulation.rules import majority_of
from tests.simulation.script import LOOK_SECONDS, Script, play
from tests.simulation.weather import LASTING

from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import Deregistered
from quorate.store.rules import (
    receiver_tombstones,
)
from quorate.store.rules.identities import Identities
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Lives,
    Who,
)
from quorate.store.rules.receiver_tombstones import (
    Forgetting,
    Step,
)
from quorate.store.rules.receivers import (
    Receivers,
)
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import (
    SourceState,
)
from quorate.store.storage.interface import Write

A, B, C = ALL = ("store1", "store2", "store3")
OLD = majority_of(ALL)
HIGHEST = {
    "consensus_of_receivers": (Behaviour.HIGHEST,) * 2,
    "modes": (Acknowledging.EACH,) * 2,
}
"""What one store has is enough to start too high."""

KEPT: dict[str, Any] = {"proxies": True, "lets_go": False}
EXPIRING = {**KEPT, "mortality": Mortality(receivers=Lifetimes(0.0, 40.0))}
"""A receiver that is not heard is deleted after a while."""
SOURCES_EXPIRE: dict[str, Any] = {**KEPT, "mortality": Mortality(Lifetimes(0.0, 20.0))}
"""So is a source, and no receiver but with it."""


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


def _refill(script: Script, store: str) -> None:
    script.wipe(store)
    script.until(lambda: script.knows(store) and not script.state(store).limbo)
    script.run(LOOK_SECONDS)


# An end is remembered.


def _ends_leave_no_mark(to: pytest.MonkeyPatch) -> None:
    """A store that is told to forget a receiver forgets also that it was told."""

    def end_receiver(
        self: Identities, state: SourceState, session_id: int, _: int, reg_ids: RegIds
    ) -> list[Write]:
        if session_id not in state.receivers:
            return []
        return self.forget_receiver(state, session_id, reg_ids)

    seams.IDENTITIES_END_RECEIVER.replace(to, end_receiver)


def _an_old_row_comes_back(script: Script) -> None:
    """C is down while a receiver is deregistered at A and B. It comes back, and A is wiped and
    refilled. Then the receiver begins anew."""
    receiver = _begin(script)
    _deregister(script, receiver, C)
    _refill(script, A)
    script.until_handed(script.start_receiver(0), 0)


def _over_before_it_started(script: Script, *away: str) -> ReceiverInstance:
    """It is deregistered, while these stores are down, when all have registered its next instance,
    which has not heard that yet, and starts."""
    former = _begin(script)
    former.kill()
    again = script.start_receiver(0)

    def registered() -> list[str]:
        known = {each: script.state(each).receivers[again.session_id] for each in ALL}
        return [each for each, record in known.items() if record.epoch > former.epoch]

    script.until(registered)
    frees = [script.mute(store, again.name) for store in ALL]
    script.until(lambda: len(registered()) == len(ALL))
    assert not again.registered
    for store in away:
        script.stores[store].crash()
    script.deregister_receiver(again)
    script.until(lambda: script.endings.receiver_is_over(again.name, [OLD]))
    for free in frees:
        free()
    script.until(lambda: again.registered)
    return again


def _an_old_row_comes_back_since_it_started(script: Script) -> None:
    """C is down while a receiver is deregistered, which starts, and ends before it notices."""
    _over_before_it_started(script, C).kill()
    script.stores[C].start()
    script.run(1.0)
    _refill(script, A)
    script.until_handed(script.start_receiver(0), 0)


# What was said before a store heard of it does not count.


def _answers_of_before_the_end_count(to: pytest.MonkeyPatch) -> None:
    """A receiver believes a store that has not heard that it had ended."""
    seams.RECEIVER_REGISTRATION_WITHOUT_OUTDATED.replace(
        to, lambda answers, _: (answers, frozenset())
    )


def _only_the_receiver_can_tell(script: Script) -> None:
    """C was down when the receiver was deregistered, and reaches no other store since. The next
    instance had asked before."""
    receiver = _begin(script)
    script.cut(C, A, B)
    _deregister(script, receiver, C)
    again = script.start_receiver(0)
    script.asked_long_ago(again)()
    script.until_handed(again, 0)
    script.until(lambda: script.state(C).ended_upto(receiver.session_id) == receiver.epoch)


def _registering_is_acknowledging(to: pytest.MonkeyPatch) -> None:
    """Whoever registers has acknowledged what was acknowledged before."""
    real = seams.RECEIVERS_REGISTER.real()

    def register(self: Receivers, *asked: Any, **more: Any) -> Any:
        change = real(self, *asked, **more)
        record = change.answer.state.receivers[asked[1]]
        record.confirmed_epoch = record.epoch
        return change

    seams.RECEIVERS_REGISTER.replace(to, register)


def _registered_before_it_was_told(script: Script) -> None:
    """C was down when the receiver was deregistered. The next instance, which had asked before,
    registers, and dies before it can tell C."""
    receiver = _begin(script)
    script.cut(C, A, B)
    _deregister(script, receiver, C)
    again = script.start_receiver(0)
    registers = script.asked_long_ago(again)
    again.registration.epoch = receiver.epoch + 1  # It had heard of the former instance.
    frees = [script.mute(store, receiver.name) for store in (A, B)]
    registers()
    script.until(lambda: script.state(C).receivers[again.session_id].epoch > receiver.epoch)
    again.kill()
    for free in frees:
        free()
    script.until_handed(script.start_receiver(0), 0)


# What a store in limbo has of receivers does not count.


def _disks_that_were_put_back_have_a_say(to: pytest.MonkeyPatch) -> None:
    """A store that leaves limbo keeps the receivers that it has."""
    real = seams.RECEIVER_POSITIONS_TAKE_OVER.real()

    def take_over(state: SourceState, *known: Any) -> Any:
        before = {each: replace(record) for each, record in state.receivers.items()}
        writes = real(state, *known)
        state.receivers.update(before)
        return writes

    seams.RECEIVER_POSITIONS_TAKE_OVER.replace(to, take_over)


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
    seams.RECEIVER_TOMBSTONES_NEXT_STEP.replace(to, lambda *_: Step.FORGET)
    seams.RECEIVER_TOMBSTONES_REMEMBERED_SECONDS.replace(to, 0.0)


def _ends_are_forgotten_before_it_is_known_who_has_to_hear(to: pytest.MonkeyPatch) -> None:
    """A store that was promised an epoch, and heard no more, waits for nobody."""
    real = seams.FORGETTING_LOOK.real()

    def look(self: Forgetting, state: SourceState, *heard: Any) -> Any:
        record = state.registration
        state.registration = rebegun(record, epoch=record.begun.epoch or 1)
        try:
            return real(self, state, *heard)
        finally:
            state.registration = record

    seams.FORGETTING_LOOK.replace(to, look)


def _told_before_it_begins(script: Script) -> None:
    """A has promised, and then hears only of receivers. One is deregistered at A and B while C is
    down; a while later C is back, and B goes. The receiver begins anew with A and C."""
    source = script.source

    def strike() -> None:
        script.cut(A, source.process.name, B, C)

    script.until_decided(source, strike)
    script.until_complete()
    assert script.send(B, C) == 0
    script.until(lambda: all(script.acknowledged(each, 0) == 0 for each in (B, C)))
    script.run(LOOK_SECONDS)
    assert script.begun(A) == 0
    receiver = script.receiver(0)
    script.stores[C].crash()
    script.deregister_receiver(receiver)
    script.until(lambda: script.endings.receiver_is_over(receiver.name, [OLD]))
    receiver.kill()
    script.stores[B].crash()
    script.run(2 * receiver_tombstones.REMEMBERED_SECONDS / AGES)
    script.stores[C].start()
    script.until_handed(script.start_receiver(0), 0)


# Its epochs are never used again.


def _epochs_are_used_again(to: pytest.MonkeyPatch) -> None:
    """A new receiver takes the first epoch that no end refuses."""
    seams.FENCE_IN_RECEIVERS.replace(to, SourceState.ended_upto)


def _frozen(script: Script) -> ReceiverInstance:
    """It has acknowledged two messages, and is frozen."""
    receiver = _begin(script)
    script.send(*ALL)
    script.until(lambda: all(script.acknowledged(each, 0) == 1 for each in ALL))
    receiver.process.pause()
    return receiver


def _wakes_beside_a_new_one(script: Script, frozen: ReceiverInstance) -> None:
    """A new one registers, and dies before it acknowledges anything. The stores start again, and
    know no instance; then the frozen one wakes up, and acknowledges once more."""
    second = script.start_second_receiver(0)
    script.until(lambda: second.registered)
    second.kill()
    for store in ALL:
        script.stores[store].crash()
        script.stores[store].start()
    frozen.process.wake()
    script.run(2 * REPEAT_SECONDS)
    script.until_handed(script.start_receiver(0), 1)


def _frozen_and_forgotten(script: Script) -> ReceiverInstance:
    """It is deregistered meanwhile, and in the end that is forgotten."""
    frozen = _frozen(script)
    script.deregister_receiver(frozen)
    script.until(lambda: script.endings.receiver_is_over(frozen.name, [OLD]))
    script.until(lambda: not any(script.state(each).ended for each in ALL), LOOK_SECONDS)
    return frozen


def _frozen_while_it_ends(script: Script) -> None:
    _wakes_beside_a_new_one(script, _frozen_and_forgotten(script))


def _peers_do_not_tell_what_is_spent(to: pytest.MonkeyPatch) -> None:
    """A store knows only of those that were over at itself."""
    for seam in (seams.SPENT_EPOCH_IN_RECEIVER_TOMBSTONES, seams.SPENT_EPOCH_IN_READMISSION_RULES):
        seam.replace(to, lambda _: 0)


def _all_stores_are_refilled_since(script: Script) -> None:
    """The same, and every store loses its disk meanwhile, one after the other."""
    frozen = _frozen_and_forgotten(script)
    for store in ALL:
        _refill(script, store)
    _wakes_beside_a_new_one(script, frozen)


def _those_that_expire_leave_nothing(to: pytest.MonkeyPatch) -> None:
    """Only who is deregistered counts."""
    seams.IDENTITIES_EXPIRE_RECEIVER.replace(to, Identities.forget_receiver)


def _frozen_until_its_time_is_over(script: Script) -> None:
    """Every store finds by itself that it is gone."""
    frozen = _frozen(script)
    script.until(lambda: all(script.acknowledged(each, 0) is None for each in ALL), LOOK_SECONDS)
    for each in ALL:
        script.endings.receiver_forgotten(frozen.name, each)
    _wakes_beside_a_new_one(script, frozen)


def _those_that_expire_are_over_everywhere(to: pytest.MonkeyPatch) -> None:
    """A store that does not hear a receiver any more has it that it is over, as if somebody had
    said so."""

    def expire(
        self: Identities, state: SourceState, session_id: int, reg_ids: RegIds
    ) -> list[Write]:
        return self.end_receiver(state, session_id, state.receivers[session_id].epoch, reg_ids)

    seams.IDENTITIES_EXPIRE_RECEIVER.replace(to, expire)


def _signs_of_life_do_not_count(to: pytest.MonkeyPatch) -> None:
    """A store deletes a receiver when its own start is long ago, though it heard it since."""
    real = seams.LIVES_SILENT.real()

    def silent(self: Lives, who: Who) -> float:
        return self.observed.now if who.receiver else real(self, who)

    seams.LIVES_SILENT.replace(to, silent)


def _lives_on(script: Script) -> None:
    """For longer than a receiver is kept of which nothing is heard."""
    _begin(script)
    script.run(2 * EXPIRING["mortality"].receivers.kept_for / AGES)
    assert all(script.acknowledged(each, n) == 0 for each in ALL for n in (0, 1))


def _ended_where_the_stream_goes_no_more(script: Script) -> None:
    """The source waits for its receivers, and hears from C that one has ended; then it does not
    reach C any more. All forget the end, and the receiver begins anew. It is waited for again."""
    receiver = _begin(script)
    script.deregister_receiver(receiver)
    script.until(lambda: script.endings.receiver_is_over(receiver.name, [OLD]))
    receiver.kill()
    script.run(1.0)
    script.cut(script.source.process.name, C)
    script.until(lambda: not any(script.state(each).ended for each in ALL), LOOK_SECONDS)
    again = script.start_receiver(0)
    script.until(lambda: again.registered)
    script.run(1.0)
    again.kill()
    script.until(lambda: not script.source.send(), LOOK_SECONDS)
    script.network.heal()
    script.start_receiver(0)


GUARDS = (
    Guard(_ends_leave_no_mark, _an_old_row_comes_back, "I4", {"proxies": True}),
    Guard(_ends_leave_no_mark, _an_old_row_comes_back_since_it_started, "I4", {"proxies": True}),
    Guard(_answers_of_before_the_end_count, _only_the_receiver_can_tell, "I4", HIGHEST),
    Guard(_registering_is_acknowledging, _registered_before_it_was_told, "I4", HIGHEST),
    Guard(
        _disks_that_were_put_back_have_a_say,
        _an_old_disk_is_put_back,
        "I4",
        {"proxies": True, **HIGHEST},
    ),
    Guard(_ends_are_forgotten_at_once, _an_old_row_comes_back, "I4", {"proxies": True}),
    Guard(
        _ends_are_forgotten_before_it_is_known_who_has_to_hear,
        _told_before_it_begins,
        "I4",
        {"proxies": True, **HIGHEST},
    ),
    Guard(_epochs_are_used_again, _frozen_while_it_ends, "I4", KEPT),
    Guard(_peers_do_not_tell_what_is_spent, _all_stores_are_refilled_since, "I4", KEPT),
    Guard(
        _those_that_expire_leave_nothing,
        _frozen_until_its_time_is_over,
        "I4",
        EXPIRING,
    ),
    Guard(
        _those_that_expire_are_over_everywhere,
        _frozen_until_its_time_is_over,
        "I4",
        EXPIRING,
    ),
    Guard(_signs_of_life_do_not_count, _lives_on, "I4", EXPIRING),
    Guard(
        _epochs_are_used_again,
        _ended_where_the_stream_goes_no_more,
        "I6",
        {**KEPT, "receiver_pacing": 5},
    ),
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


def test_an_instance_that_was_over_before_it_started_is_told_so() -> None:
    def is_told(script: Script) -> None:
        again = _over_before_it_started(script)
        script.until(lambda: again.over)
        assert isinstance(again.registration.error, Deregistered)

    play(is_told, 0, **KEPT)


# A store loses its disk after it has registered a receiver that waits for another store still.


def _copy(script: Script) -> Snapshot:
    """Of C's disk; B can tell that C has had another since."""
    copy = script.copy(C)
    script.stores[C].crash()
    script.stores[C].start()
    script.until(lambda: script.stores[B].remembers_more(script.stores[C], copy))
    return copy


def _until_told(script: Script, receiver: ReceiverInstance, *stores: str) -> None:
    """These alone have registered it since it ended, and it has heard of that."""

    def is_told() -> bool:
        answers = receiver.registration.answers
        return answers.keys() == {*stores} and all(each.told_ended for each in answers.values())

    script.until(is_told)


def _starts_after(script: Script, receiver: ReceiverInstance) -> int:
    """Where the next instance starts, once all reach each other."""
    receiver.kill()
    script.stores[C].start()
    script.network.heal()
    again = script.start_receiver(0)
    script.until(lambda: again.registered)
    return again.stream.next


def test_a_receiver_begins_anew_where_who_told_it_so_was_put_back() -> None:
    """A is down while it is deregistered, so that the next instance hears of that from C alone.
    While it waits for B, C gets its disk back as it was before."""

    def begins_anew(script: Script) -> None:
        receiver, copy = _begin(script), _copy(script)
        receiver.kill()
        script.stores[A].crash()
        script.deregister_receiver(receiver)
        script.until(lambda: script.endings.receiver_is_over(receiver.name, [OLD]))
        script.cut(B, A, C, receiver.name)
        script.stores[A].start()
        again = script.start_receiver(0)
        script.until(lambda: script.acknowledged(C, 0) is not None)
        _until_told(script, again, A, C)
        script.put_back(C, copy, B)
        script.until(lambda: script.acknowledged(A, 0) == 0)
        assert _starts_after(script, again) == 1

    play(begins_anew, 0, **KEPT, **HIGHEST)


def test_a_receiver_is_over_before_it_starts_where_its_store_was_put_back() -> None:
    """C alone has told it where it was, and gets its disk back as it was before. Then the receiver
    is deregistered everywhere, and starts with what it was told: it does not begin anew."""

    def goes_on(script: Script) -> None:
        former, copy = _begin(script), _copy(script)
        former.kill()
        again = script.start_receiver(0)
        registers = script.asked_long_ago(again)
        frees = [script.mute(store, again.name) for store in (A, B)]
        registers()
        script.until(lambda: again.registration.answers.keys() == {C})
        script.cut(C, A, again.name)
        script.put_back(C, copy, B)
        script.stores[C].start()
        script.until(lambda: script.stores[C].core.standing.record.limbo)
        script.deregister_receiver(again)
        script.until(lambda: script.endings.receiver_forgotten_at(again.name) == {*ALL})
        for free in frees:
            free()
        script.until(lambda: again.registered)
        assert again.stream.next == 1

    play(goes_on, 0, **KEPT, **HIGHEST)


def test_what_is_spent_at_one_store_is_soon_known_to_all() -> None:
    def is_known(script: Script) -> None:
        script.until_complete()
        receiver_tombstones.spend(script.state(A), 9)
        records = [script.state(each) for each in ALL]
        script.until(lambda: all(each.registration.spent_receiver_epoch == 9 for each in records))

    play(is_known, 0, **KEPT)


@pytest.mark.expects_log("is deregistered, and its messages are deleted")
def test_a_stream_is_gone_when_its_owner_has_left_every_store() -> None:
    script = Script(0, KEPT)
    _begin(script)
    assert not script.checker.is_gone()
    script.stores[C].crash()
    script.source.deregister()
    script.until(lambda: not script.knows(A) and not script.knows(B))
    script.run(LOOK_SECONDS)
    assert not script.checker.is_gone(), "C takes part in it"
    script.stores[C].start()
    script.until(script.checker.is_gone)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_guard_that_is_taken_out_is_missed_in_the_weather(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed(mutation, monkeypatch)
